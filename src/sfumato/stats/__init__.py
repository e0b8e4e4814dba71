"""Pure functions on numpy arrays."""
