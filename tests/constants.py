"""Numbers that every statistical test shares."""

ALPHA = 1e-9
"""False-alarm probability of one statistical test."""

SEED = 20_061_215
"""Where a test needs a seed and none matters."""
