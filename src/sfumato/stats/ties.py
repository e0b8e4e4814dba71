"""Orders and choices that do not hang on last bits.

Sums and products of matrices end in bits that depend on the processor: numbers that are equal in exact arithmetic
come out a little apart, one way here and the other way there. What is sorted, chosen or printed by them is compared
without those bits, and among equals the first wins.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NEAR = 1e-9  # relative: far above what rounding errors reach, far below what anybody would tell apart


def as_printed(numbers: ArrayLike, decimals: int) -> NDArray[np.float64]:
    """The numbers rounded to so many decimals, so that they print alike everywhere; no number is -0.

    Ten decimals first: a number in the middle between two printed ones goes the same way everywhere.
    """
    rounded = np.round(np.round(np.asarray(numbers, dtype=np.float64), 10), decimals)
    return np.add(rounded, 0.0, dtype=np.float64)


def settled(number: float) -> float:
    """The number to ten significant digits: a key to sort by."""
    return float(f"{number:.10g}")


def first_least(costs: NDArray[Any]) -> int:
    """The flat position of the least number; among those equal to it but for their last bits, the first."""
    least = costs.min()
    return int(np.argmax(costs <= least + NEAR * abs(least)))
