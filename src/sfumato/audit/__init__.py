"""Attacks on a release, in numbers: one file for each attack, and `score` beside them, which alone sees the truth."""
