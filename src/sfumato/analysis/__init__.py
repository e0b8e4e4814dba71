"""Models, tests and quantiles from a release, with their errors."""
