"""Engines know shapes of work, not methods."""
