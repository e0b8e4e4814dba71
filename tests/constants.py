"""Constants of the statistical tests: one place, so that the suite's false-alarm probability can be added up."""

ALPHA = 1e-9  # false-alarm probability of one statistical test
SEED = 20141  # every statistical test derives its generator from it
