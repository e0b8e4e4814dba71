"""Parameters at a bound for methods that hide a record among others."""

from __future__ import annotations

from fractions import Fraction

from ...errors import SpecError


def group_size(tau: Fraction) -> int:
    """The largest whole l with 1/l >= tau; groups of one hide nothing."""
    whole = int(1 / tau)
    if whole < 2:
        raise SpecError(f"groups of one would meet the bound {tau}; this method needs a bound of 1/2 or less")
    return whole
