"""Intervals for counts of a column of which few rows are changed, by the exact law of the rows that show a value.

Of x rows that have it Binomial(x, own) show it, and Binomial(n - x, other) of the others. Where either kind of change
is rare, their sum has no law with three cumulants: docs/explanation/intervals.md, section 3.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

FEW = 4.0  # variance of the shown rows up to which their law is worked out
KEPT = 0.3  # a column that is kept less often has the law of rare hits
FAR = 8.0  # standard deviations within which counts, and changes, are looked for


def few_changes(
    shown: Floats, rows: Floats, keep: float, other: Floats, alpha: float, *, full: bool
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """(low, high, where they are known): ends of the counts that a test of both tails does not reject."""
    low, high, known = (np.zeros(shown.shape) for _ in range(3))
    if keep < KEPT or keep >= 1:
        return low, high, known > 0
    count = np.clip((shown - rows * other) / keep, 0.0, rows)
    own = keep + other
    variance = count * own * (1 - own) + (rows - count) * other * (1 - other)
    few = np.nonzero((variance <= FEW) & (rows > 0) & (other > 0) & (own < 1))
    kinds, place = np.unique(np.stack([x[few] for x in (shown, rows, other)]), axis=1, return_inverse=True)
    ends = [_ends(round(h), round(n), keep, b, alpha, full) for h, n, b in kinds.T.tolist()]
    if ends:
        found = np.array(ends)[place.reshape(-1)]
        low[few], high[few], known[few] = found[:, 0], found[:, 1], found[:, 0] < found[:, 1]
        low, high = np.minimum(low, count), np.maximum(high, count)
    return low, high, known > 0


@lru_cache(maxsize=4096)
def _ends(shown: int, rows: int, keep: float, other: float, alpha: float, full: bool) -> tuple[int, int]:
    """The least and the largest count that both tails allow; equal ones where no two do."""
    lost = 1 - keep - other
    reach = math.ceil(FAR * math.sqrt(FEW) / keep)
    middle = min(max(round((shown - rows * other) / keep), 0), rows)
    x = np.arange(max(0, middle - reach), min(rows, middle + reach) + 1)[:, None]
    mean = float(x[-1, 0]) * lost
    j = np.arange(math.ceil(mean + FAR * math.sqrt(mean) + 2 * FAR) + 1)[
        None, :
    ]  # rows that have it and do not show it
    ways = special.gammaln(x + 1.0) - special.gammaln(j + 1.0) - special.gammaln(np.maximum(x - j, 0) + 1.0)
    chance = np.where(j <= x, np.exp(ways + j * math.log(lost) + np.maximum(x - j, 0) * math.log1p(-lost)), 0.0)

    def at_most(h: int) -> Floats:
        wrong = h - x + j  # at most so many of the others show it
        below = special.bdtr(np.clip(wrong, 0, rows - x).astype(np.float64), rows - x, other)
        return np.asarray((chance * np.where(wrong < 0, 0.0, below)).sum(axis=1))

    upto, under = at_most(shown), at_most(shown - 1)
    few, many = (upto, 1 - under) if full else ((upto + under) / 2, 1 - (upto + under) / 2)
    allowed = x[(few >= alpha / 2) & (many >= alpha / 2), 0]
    return (int(allowed[0]), int(allowed[-1])) if allowed.size else (0, 0)
