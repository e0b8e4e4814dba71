"""Counts that a channel could not have made: exact binomial tails, with a stated probability of a false alarm.

Every record shows the value y with a chance of at least `floor`, whatever its own value is, or of at most `ceiling`.
Records are independent, so the number that show one of k given values lies, stochastically, above Bin(n, k floor) and
below Bin(n, k ceiling). Each k gets an equal part of the alarm, shared among the sets of k values: a test of all sets
at once, of which only the extreme one is looked at. docs/explanation/threats.md, "What verify can see".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

FALSE_ALARM = 1e-9  # of one run of `verify` on an honest release, for all tests of one kind together
MOST_TILT = 20.0  # of the exponent in a limit on a tail: beyond it the limit hardly moves
ROUNDS, POINTS = 5, 16  # of a search for it: as fine as 24 thirds

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def too_few(counts: Counts, floor: float | Floats, alarm: float = FALSE_ALARM) -> int | None:
    """How many values together show too rarely for a channel that shows each with a chance of at least `floor`.

    Values may have floors of their own: those that show most rarely beside theirs are looked at first.
    """
    floors = np.broadcast_to(np.asarray(floor, dtype=np.float64), counts.shape)
    order = np.argsort(counts / np.maximum(floors, np.finfo(float).tiny), kind="stable")
    least = np.cumsum(counts[order])[:-1]  # all values together show as often as there are rows
    sizes = np.arange(1, len(counts))
    chance = np.minimum(np.cumsum(floors[order])[:-1], 1.0).astype(np.float64)
    return _first(least, int(counts.sum()), chance, sizes, len(counts), alarm)


def too_many(counts: Counts, ceiling: float, alarm: float = FALSE_ALARM) -> int | None:
    """How many values together show too often for a channel that shows each with a chance of at most `ceiling`."""
    most, rows = np.cumsum(np.sort(counts)[::-1])[:-1], int(counts.sum())
    sizes = np.arange(1, len(counts))
    inside = sizes * ceiling < 1
    chance = (1 - sizes[inside] * ceiling).astype(np.float64)
    return _first(rows - most[inside], rows, chance, sizes[inside], len(counts), alarm)


def log_part(alarm: float, sizes: Counts, values: int, looks: int) -> Floats:
    """ln of the part of an alarm that each set of so many of the values has, where `looks` sizes are looked at."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, values + 1)))])  # ln n!
    sets = logs[values] - logs[sizes] - logs[values - sizes]  # ln C(m, k)
    return np.asarray(np.log(alarm) - np.log(max(looks, 1)) - sets)


def _first(shown: Counts, rows: int, chance: Floats, sizes: Counts, values: int, alarm: float) -> int | None:
    """The size k of the set whose P(Bin(rows, chance) <= shown) is farthest below its part of the alarm, if any is."""
    part = log_part(alarm, sizes, values, values - 1)
    with np.errstate(divide="ignore"):
        surprise = np.log(special.bdtr(shown, rows, chance)) - part
    return int(sizes[np.argmin(surprise)]) if surprise.min(initial=0.0) < 0 else None


def _divergence(x: Floats, p: Floats) -> Floats:
    """KL(x || p) of two coins; infinite where p rules x out."""
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.where(x > 0, x * np.log(x / p), 0.0)
        other = np.where(x < 1, (1 - x) * np.log((1 - x) / (1 - p)), 0.0)
    return one + other


def crowded(found: Counts, totals: Counts, rows: Counts, drawn: Counts, alarm: float = FALSE_ALARM) -> bool:
    """Whether a random choice of `drawn` of the rows would hardly hold so many, or so few, of the `totals`, entrywise.

    Their number is hypergeometric. Its tails are at most exp(-n KL), drawing `drawn` rows or, turned round, `totals` of
    them [Hoeffding 1963, theorem 4]; the alarm is shared among the entries.
    """
    entries = np.stack(np.broadcast_arrays(found, totals, rows, drawn))
    found, totals, rows, drawn = entries[:, (entries[1] > 0) & (entries[3] > 0)]
    far = np.maximum(
        drawn * _divergence(found / drawn, totals / rows),
        totals * _divergence(found / totals, drawn / rows),
    )
    return bool((np.exp(-far) < alarm / (2 * max(len(totals), 1))).any())


def low_sum(score: Floats, chances: Floats, rows: int, total: float) -> float:
    """The logarithm of an upper limit on the chance that the scores of all rows add up to `total` or less.

    Row r shows output z with chance `chances[z, x]` for a value x of its own, and scores `score[z]`. Rows are
    independent, so P <= exp(t total) (max_x E[exp(-t score) | x])^rows for every t >= 0; a good t is searched.
    """
    shift = float(score.min())
    own, left = score - shift, total - shift * rows
    low, high = 0.0, MOST_TILT / max(float(own.max()), 1e-300)
    for _ in range(ROUNDS):  # the limit is convex in t: the least lies beside the least of a few
        t = np.linspace(low, high, POINTS)
        limits = t * left + rows * np.log((np.exp(-t[:, None] * own) @ chances).max(axis=1))
        at = int(limits.argmin())
        low, high = float(t[max(at - 1, 0)]), float(t[min(at + 1, POINTS - 1)])
    return min(0.0, float(limits.min()))


def chernoff(count: int, trials: int, mean: float) -> float:
    """An upper limit on the chance that a sum of independent 0/1 trials is as far from `mean` as `count`, on its side.

    P <= exp(-n KL(count / n || mean / n)) for trials of different chances too [Hoeffding 1963, theorem 1].
    """
    x, p = np.array(count / trials), np.array(min(max(mean / trials, 0.0), 1.0))
    return float(np.exp(-trials * _divergence(x, p)))
