"""Numbers as people type them, and as releases and answers state them."""

from __future__ import annotations

import math
from fractions import Fraction

from ..errors import SpecError

Ratio = Fraction | str | int | float  # "1/13", 0.2, Fraction(1, 5)

LONGEST = 400  # characters and powers of ten: 1e-999999999 is a number of a thousand million digits


def _exponent(text: str) -> int:
    """The power of ten at the end of a number such as 1e-9."""
    digits = text.lower().rpartition("e")[2] if "e" in text.lower() else "0"
    return int(digits)


def exact(value: Ratio, field: str) -> Fraction:
    """The fraction a person means by `value`: "1/13" and "0.2" exactly, 0.2 as 1/5."""
    try:
        if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError
        if isinstance(value, str) and (len(value) > LONGEST or abs(_exponent(value)) > LONGEST):
            raise ValueError
        return Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (ValueError, TypeError, ZeroDivisionError):
        raise SpecError(
            f'{field} must be a number or a fraction such as 1/13, got "{str(value)[:80]}"', field=field
        ) from None


SMALLEST_P = 1e-300  # a smaller p-value is stated as this bound
STEPS = (100, 50, 20, 10, 5, 2, 1)  # parts of one that a stated share is rounded to
STEP_ROWS = 10  # rows that a step holds at least, so that no stated share tells a count


def stated_share(count: int, rows: int) -> float:
    """The share of the rows as a release may state it, rounded up: to hundredths, coarser where rows are few."""
    parts = next((parts for parts in STEPS if rows >= STEP_ROWS * parts), 1)
    return -(-count * parts // rows) / parts
