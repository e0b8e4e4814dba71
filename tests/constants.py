"""Named constants of the statistical tests."""

ALPHA = 1e-9  # false-alarm probability of one statistical assertion
SEED = 20_261_115
