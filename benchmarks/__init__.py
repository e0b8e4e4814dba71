"""Measurements: the budgets of docs/performance.md (`python -m benchmarks`), and tables of other pages."""
