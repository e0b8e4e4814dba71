"""Measurements behind the targets: `python -m benchmarks`. Ratios to a baseline of the same run, never bare times."""
