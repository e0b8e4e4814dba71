"""Attacks on a release, in numbers, and `score` beside them, which alone sees the truth."""
