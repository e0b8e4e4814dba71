"""P-values that are never 0 but for what has no error.

Far out in a tail a p-value is smaller than any number of 8 bytes, and the large-sample law behind it says nothing so
far out. Such a p is stated as its upper bound `SMALLEST_P`; 0 is left to what is known without error.
docs/explanation/inference.md, section 6.
"""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc, ndtr

from ..model.public import Floats
from ..model.smallest_p import SMALLEST_P


def two_sided(z: Floats) -> Floats:
    """The chance that a standard normal number lies as far from 0 as z; NaN for NaN, 0 for infinite ones."""
    found = 2 * ndtr(-np.abs(z))
    return np.where(np.isfinite(z), np.maximum(found, SMALLEST_P), found)


def chi_square_tail(df: int, statistic: float) -> float:
    """The chance of a chi-square number of so many degrees of freedom above the statistic."""
    found = float(chdtrc(df, statistic))
    return max(found, SMALLEST_P) if np.isfinite(statistic) else found
