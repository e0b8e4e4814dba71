"""Engines know shapes of work, not methods."""

MEMORY = "2GB"  # before rows are spilled to disk: 100 million rows of nine small columns wait for their order in it
