"""Normal quantiles, and p-values that are never 0 but for what has no error.

Far out in a tail a p-value is smaller than any number of 8 bytes, and the large-sample law behind it says nothing so
far out. Such a p is stated as its upper bound `SMALLEST_P`; 0 is left to what is known without error.
docs/explanation/inference.md, section 6.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from scipy.special import chdtrc, ndtr

from ..errors import SpecError
from ..model.public import Floats
from ..model.ratios import SMALLEST_P


def normal_quantile(level: float, comparisons: int = 1) -> float:
    """z such that a two-sided normal interval has the level; Bonferroni over `comparisons`."""
    if not 0 < level < 1:
        raise SpecError(f"level must lie between 0 and 1, got {level!r}", field="level")
    return -NormalDist().inv_cdf((1 - level) / (2 * comparisons))


def two_sided(z: Floats) -> Floats:
    """The chance that a standard normal number lies as far from 0 as z; NaN for NaN, 0 for infinite ones."""
    found = 2 * ndtr(-np.abs(z))
    return np.where(np.isfinite(z), np.maximum(found, SMALLEST_P), found)


def chi_square_tail(df: int, statistic: float) -> float:
    """The chance of a chi-square number of so many degrees of freedom above the statistic."""
    found = float(chdtrc(df, statistic))
    return max(found, SMALLEST_P) if np.isfinite(statistic) else found
