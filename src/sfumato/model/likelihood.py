"""What a release tells about one record: where it lies, and how likely what it shows is for every true value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .public import Codes, Floats, Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Likelihood:
    """The public side of the randomisation of one unit, as a reader rebuilds it from the bundle.

    `counts[i, x]` estimates how many records of value x lie in part i (one part where nothing is split).
    `chance(part, shown)[r, x]` is the chance that a record of value x in that part shows that value; 1 everywhere where
    values are withheld. `knowing(part, prior)` is the value that a reader takes for the likeliest of a record there who
    also knows how the method chooses what it publishes of a part; None where no such reader is worked out.
    """

    counts: Floats  # (parts, values)
    chance: Callable[[Integers, Codes], Floats]
    silent: bool = False  # what a record shows does not depend on its value
    exact: bool = False  # the counts are published, not estimated
    knowing: Callable[[int, Floats], int] | None = None
