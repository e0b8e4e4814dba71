"""Counts that a channel could not have made: exact binomial tails, with a stated probability of a false alarm.

Every record shows the value y with a chance of at least `floor`, whatever its own value is, or of at most `ceiling`.
Records are independent, so the number that show one of k given values lies, stochastically, above Bin(n, k floor) and
below Bin(n, k ceiling). Each k gets an equal part of the alarm, shared among the sets of k values: a test of all sets
at once, of which only the extreme one is looked at. docs/explanation/threats.md, "What verify can see".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln
from scipy.stats import binom, hypergeom

FALSE_ALARM = 1e-9  # of one run of `verify` on an honest release, for all tests of one kind together

MOST_TILT = 20.0  # of the exponent in a limit on a tail: beyond it the limit hardly moves

Counts = NDArray[np.int64]


def too_few(counts: Counts, floor: float | NDArray[np.float64], alarm: float = FALSE_ALARM) -> int | None:
    """How many values together show too rarely for a channel that shows each with a chance of at least `floor`.

    Values may have floors of their own: those that show most rarely beside theirs are looked at first.
    """
    floors = np.broadcast_to(np.asarray(floor, dtype=np.float64), counts.shape)
    order = np.argsort(counts / np.maximum(floors, np.finfo(float).tiny), kind="stable")
    least = np.cumsum(counts[order])[:-1]  # all values together show as often as there are rows
    sizes = np.arange(1, len(counts))
    tail = np.asarray(binom.cdf(least, int(counts.sum()), np.minimum(np.cumsum(floors[order])[:-1], 1.0)))
    return _first(tail, sizes, len(counts), alarm)


def too_many(counts: Counts, ceiling: float, alarm: float = FALSE_ALARM) -> int | None:
    """How many values together show too often for a channel that shows each with a chance of at most `ceiling`."""
    most = np.cumsum(np.sort(counts)[::-1])[:-1]
    sizes = np.arange(1, len(counts))
    inside = sizes * ceiling < 1
    tail = np.asarray(binom.sf(most[inside] - 1, int(counts.sum()), sizes[inside] * ceiling))
    return _first(tail, sizes[inside], len(counts), alarm)


def log_part(alarm: float, sizes: Counts, values: int, looks: int) -> NDArray[np.float64]:
    """ln of the part of an alarm that each set of so many of the values has, where `looks` sizes are looked at."""
    sets = gammaln(values + 1) - gammaln(sizes + 1) - gammaln(values - sizes + 1)  # ln C(m, k)
    return np.asarray(np.log(alarm) - np.log(max(looks, 1)) - sets)


def _first(tail: NDArray[np.float64], sizes: Counts, values: int, alarm: float) -> int | None:
    """The size of the set with the least tail, if that is below its part of the alarm."""
    part = log_part(alarm, sizes, values, values - 1)
    with np.errstate(divide="ignore"):
        surprise = np.log(tail) - part
    return int(sizes[np.argmin(surprise)]) if len(sizes) and surprise.min() < 0 else None


def crowded(first: Counts, totals: Counts, rows: int, half: int, alarm: float = FALSE_ALARM) -> bool:
    """Whether a random order would hardly put so many, or so few, of the `totals` among the first `half` of the rows.

    In a random order their number is hypergeometric, exactly; the alarm is shared among the entries.
    """
    low = hypergeom.cdf(first, rows, totals, half)
    high = hypergeom.sf(first - 1, rows, totals, half)
    return bool((np.minimum(low, high) < alarm / (2 * max(len(totals), 1))).any())


def low_sum(score: NDArray[np.float64], chances: NDArray[np.float64], rows: int, total: float) -> float:
    """The logarithm of an upper limit on the chance that the scores of all rows add up to `total` or less.

    Row r shows output z with chance `chances[z, x]` for a value x of its own, and scores `score[z]`. Rows are
    independent, so P <= exp(l total) (max_x E[exp(-l score) | x])^rows for every l >= 0; the best l is taken.
    """
    shift = float(score.min())
    own, left = score - shift, total - shift * rows

    def limit(l: float) -> float:
        return float(l * left + rows * np.log((np.exp(-l * own) @ chances).max()))

    found = minimize_scalar(limit, bounds=(0.0, MOST_TILT / max(float(own.max()), 1e-300)), method="bounded")
    return min(0.0, limit(float(found.x)))


def chernoff(count: int, trials: int, mean: float) -> float:
    """An upper limit on the chance that a sum of independent 0/1 trials is as far from `mean` as `count`, on its side.

    P <= exp(-n KL(count / n || mean / n)) for trials of different chances too [Hoeffding 1963, theorem 1].
    """
    x, p = count / trials, min(max(mean / trials, 0.0), 1.0)
    terms = [(x, p), (1 - x, 1 - p)]
    if any(b <= 0 < a for a, b in terms):
        return 0.0
    return float(np.exp(-trials * sum(a * np.log(a / b) for a, b in terms if a > 0)))
