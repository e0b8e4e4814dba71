<<<<<<< HEAD
"""Constants of the statistical tests: one place, so that the suite's false-alarm probability can be added up."""

ALPHA = 1e-9  # false-alarm probability of one statistical test
SEED = 20141  # every statistical test derives its generator from it
=======
"""Numbers that every statistical test shares."""

ALPHA = 1e-9
"""False-alarm probability of one statistical test."""

SEED = 20_061_215
"""Where a test needs a seed and none matters."""
>>>>>>> data
