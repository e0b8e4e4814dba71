"""Parameters at a bound for methods that hide a record among others."""

from __future__ import annotations

from fractions import Fraction


def group_size(tau: Fraction) -> int:
    """The smallest whole l with 1/l <= tau: groups of l hold the bound, smaller ones do not."""
    return -(-tau.denominator // tau.numerator)
