"""Intervals and p-values: normal quantiles, Fieller's set for ratios, and counts by inverting a test."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy import special
from scipy.special import chdtrc, ndtr

from ..errors import SpecError
from ..model.names import SMALLEST_P
from ..model.public import Floats


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


# Intervals for counts by inverting a test that knows three cumulants; exact ones for binomial totals; cutting.
#
# Given the true count x, the estimate T of a count is a sum over rows, so its variance v(x) and third cumulant k(x) are
# linear in x. The law used for its tails is that of
#
#     T = x + u (X - lam),   X ~ Poisson(lam),   u = k / v,   lam = v^3 / k^2,
#
# which has the same mean, variance and third cumulant, is exact where a rare hit carries a weight, and becomes the
# normal law as k goes to 0. Why, and how far it holds: docs/explanation/intervals.md sections 2 to 4.


Cumulant = Callable[[Floats], Floats]  # of the estimate, at true counts x

NORMAL = 1e8  # from this lam on the Poisson law is normal to within 1e-4 of its skewness
NEVER = 1e-12  # below this lam no hit is ever seen, and there is no step of one hit to interpolate
OUTSIDE = 1.0  # standard errors that an estimate may lie outside what is possible; farther ones are moved to there
NARROW = 0.7  # of the level's normal quantile: the same for levels below 85 %, whose intervals are that narrow
NEARLY = 1e6  # a linear law of this lam at both ends is taken as normal: its skewness is a thousandth
MARGIN = 0.25  # share of a cut interval's width that is kept inside what is possible


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Line:
    """A cumulant of the estimate as a function of the true count: constant + slope x."""

    constant: Floats | float
    slope: Floats | float = 0.0

    def __call__(self, x: Floats) -> Floats:
        """The cumulant at true counts x."""
        return np.asarray(self.constant + self.slope * x, dtype=np.float64)


def second_cumulant(a: Floats | float) -> Floats:
    """c2 = a (1 - a), the variance of one row that hits with chance a."""
    a = np.asarray(a, dtype=np.float64)
    return np.asarray(a * (1.0 - a))


def third_cumulant(a: Floats | float) -> Floats:
    """c3 = a (1 - a) (1 - 2 a), the third cumulant of one row that hits with chance a."""
    a = np.asarray(a, dtype=np.float64)
    return np.asarray(a * (1.0 - a) * (1.0 - 2.0 * a))


def count_cumulants(rows: Floats | float, p: Floats | float, b: Floats | float) -> tuple[Line, Line]:
    """(v, k) of (hits - b rows) / p, where a row hits with chance p + b if it has the value and b if it has not."""
    rows, p, b = (np.asarray(x, dtype=np.float64) for x in (rows, p, b))
    found = []
    for cumulant, power in ((second_cumulant, 2), (third_cumulant, 3)):
        without, with_value = cumulant(b) / p**power, cumulant(p + b) / p**power
        found.append(Line(constant=rows * without, slope=with_value - without))
    return found[0], found[1]


def lower_tail(t: Floats, x: Floats, v: Floats, k: Floats) -> Floats:
    """P(T <= t) where the true count is x and T has variance v and third cumulant k; mid-p.

    Q(a, lam) for u > 0 and P(a, lam) for u < 0, with a = lam + (t - x) / u + 1/2.
    """
    t, x, v, k = np.broadcast_arrays(*(np.asarray(z, dtype=np.float64) for z in (t, x, v, k)))
    spread = np.sqrt(np.maximum(v, 0.0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lam = v**3 / k**2
        u = k / v
        normal = ~((lam >= NEVER) & (lam <= NORMAL)) | (spread == 0)
        u, lam = np.where(normal, 1.0, u), np.where(normal, 1.0, lam)
        a = lam + (t - x) / u + 0.5
        poisson = np.where(u > 0, 0.0, 1.0)  # where a <= 0
        use = ~normal & (a > 0)  # the functions are nearly all of the work (and scipy's abort under `where=`)
        for tail, some in ((special.gammaincc, use & (u > 0)), (special.gammainc, use & (u < 0))):
            poisson[some] = tail(a[some], lam[some])
        standard = np.where(spread > 0, (t - x) / spread, np.where(t >= x, np.inf, -np.inf))
    return np.asarray(np.where(normal, special.ndtr(standard), poisson))


def upper_tail(t: Floats, x: Floats, v: Floats, k: Floats) -> Floats:
    """P(T >= t): the lower tail of -T, so that small chances keep their digits."""
    return lower_tail(-np.asarray(t), -np.asarray(x), v, -np.asarray(k))


def tail_interval(
    value: Floats,
    v: Cumulant,
    k: Cumulant,
    alpha: float,
    least: Floats | float,
    most: Floats | float,
    unit: Floats | float = 0.0,
) -> tuple[Floats, Floats]:
    """Both ends of the set of counts in [least, most] that a two-sided test of level alpha does not reject.

    `v` and `k` give the variance and third cumulant of the estimate at arrays of true counts; `unit` is 0 for mid-p
    tails and the weight of one hit for full ones. The set holds the estimate moved into [least, most] and is a point
    only where least = most or v is 0: an estimate that lies farther out than one standard error (less at low levels)
    is moved to there first, so that some counts always remain.
    """
    if not 0 < alpha < 1:
        raise SpecError(f"alpha must lie between 0 and 1, got {alpha!r}", field="alpha")
    value, least, most, unit = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (value, least, most, unit)))
    t = moved_inside(value, v, alpha, least, most)
    if isinstance(v, Line) and isinstance(k, Line):
        return _linear(t, v, k, alpha, least, most, unit)
    return _searched(t, v, k, alpha, least, most, unit)


def moved_inside(value: Floats, v: Cumulant, alpha: float, least: Floats | float, most: Floats | float) -> Floats:
    """The estimate, no farther outside [least, most] than the test of level alpha takes it."""
    outside = min(OUTSIDE, NARROW * float(-special.ndtri(alpha / 2)))
    least, most = (np.asarray(end, np.float64) for end in (least, most))
    below, above = (outside * np.sqrt(np.maximum(v(end), 0.0)) for end in (least, most))
    return np.clip(value, least - below, most + above)


def _searched(
    t: Floats, v: Cumulant, k: Cumulant, alpha: float, least: Floats, most: Floats, unit: Floats
) -> tuple[Floats, Floats]:
    """Both ends, searched for from the estimate outwards, side by side: the upper tail is the lower one of -T."""
    start = np.clip(t, least, most)
    sign = np.array([-1.0, 1.0]).reshape(2, *[1] * np.ndim(t))
    shown = np.stack([-(t - unit / 2), t + unit / 2])

    def chance(x: Floats) -> Floats:
        return lower_tail(shown, sign * x, v(x), sign * k(x))

    low, high = farthest_allowed(chance, alpha / 2, np.stack([start, start]), np.stack([least, most]))
    return low, high


def _linear(
    t: Floats, v: Line, k: Line, alpha: float, least: Floats, most: Floats, unit: Floats
) -> tuple[Floats, Floats]:
    """The same for linear cumulants: a normal test's ends in closed form where the law is nearly normal at both."""
    start, z = np.clip(t, least, most), float(-special.ndtri(alpha / 2))
    low = np.array(np.clip(_score(t - unit / 2, v, z)[0], least, start))
    high = np.array(np.clip(_score(t + unit / 2, v, z)[1], start, most))
    skewed = np.zeros(np.shape(t), dtype=bool)
    for end in (low, high):
        skewed |= ~(v(end) ** 3 >= NEARLY * k(end) ** 2)

    def some(x: Floats | float) -> Floats:
        return np.asarray(np.broadcast_to(np.asarray(x, np.float64), t.shape)[skewed])

    numbers = np.stack([some(x) for x in (t, v.constant, v.slope, k.constant, k.slope, least, most, unit)])
    numbers, kind = np.unique(numbers, axis=1, return_inverse=True)  # narrow cells are alike: each is searched once
    t, v0, v1, k0, k1, least, most, unit = numbers
    of_v, of_k = Line(constant=v0, slope=v1), Line(constant=k0, slope=k1)
    ends = _searched(t, of_v, of_k, alpha, least, most, unit)
    low[skewed], high[skewed] = (end[kind.reshape(-1)] for end in ends)
    return low, high


def _score(t: Floats, v: Line, z: float) -> tuple[Floats, Floats]:
    """Both ends of { x : (t - x)^2 <= z^2 v(x) }."""
    centre = t + z**2 * v.slope / 2
    half = np.sqrt(np.maximum(z**2 * v(t) + (z**2 * np.asarray(v.slope) / 2) ** 2, 0.0))
    return centre - half, centre + half


def binomial_total_interval(published: Floats, size: float, alpha: float) -> tuple[Floats, Floats]:
    """Exact ends for totals f of which `published` is Binomial(size f, 1 / size); f is taken as a real number.

    P(X <= o) = I_{1-1/size}(size f - o, o + 1), the regularised incomplete beta function; full tails, so that the level
    is guaranteed. A value that was never published has [0, its upper end].
    """
    if not 0 < alpha < 1:
        raise SpecError(f"alpha must lie between 0 and 1, got {alpha!r}", field="alpha")
    totals, kind = np.unique(np.asarray(published, dtype=np.float64), return_inverse=True)
    chance, loss = 1.0 / size, np.log(2.0 / alpha)
    tiny = np.finfo(float).tiny  # the functions of scipy want positive arguments

    def few(f: Floats) -> Floats:  # P(X <= totals | f); certain when size f = totals
        room = size * f - totals
        return np.where(room <= 0, 1.0, special.betainc(np.maximum(room, tiny), totals + 1.0, 1.0 - chance))

    def many(f: Floats) -> Floats:  # P(X >= totals | f)
        room = np.maximum(size * f - totals, 0.0) + 1.0
        return np.where(totals <= 0, 1.0, special.betainc(np.maximum(totals, tiny), room, chance))

    # P(X <= o) <= exp(-(f - o)^2 / 2 f), so that every total from `far` on is rejected; below o / size no draw gives o
    far = totals + loss + np.sqrt(loss**2 + 2.0 * totals * loss)
    ends = (farthest_allowed(many, alpha / 2, totals, totals * chance), farthest_allowed(few, alpha / 2, totals, far))
    low, high = (end[kind].reshape(np.shape(published)) for end in ends)
    return low, high


def cut(low: Floats, high: Floats, least: Floats | float, most: Floats | float) -> tuple[Floats, Floats]:
    """An interval cut to [least, most] that keeps a quarter of its width there: a point only where least = most.

    A quarter of a normal interval of level 95 % is about one standard error, the room `tail_interval` leaves.
    """
    quarter = MARGIN * (high - low)
    inner_low = np.clip(np.minimum(low, most - quarter), least, most)
    inner_high = np.clip(np.maximum(high, least + quarter), least, most)
    return inner_low, inner_high


# How far a test allows a number to go: the end of an interval, by bisection.


Chance = Callable[[Floats], Floats]  # of a tail, at true counts x

STEPS = 30  # of a bisection: the ends are within 1e-9 of the possible range


def farthest_allowed(chance: Chance, level: float, start: Floats, limit: Floats) -> Floats:
    """The point nearest to `limit`, on the way from `start`, whose chance is at least `level`; `start` is allowed."""
    good, bad = np.array(start, dtype=np.float64), np.array(limit, dtype=np.float64)
    whole = chance(bad) >= level
    for _ in range(STEPS):
        middle = (good + bad) / 2
        fine = chance(middle) >= level
        good, bad = np.where(fine, middle, good), np.where(fine, bad, middle)
    return np.where(whole, limit, good)


# Intervals for counts of a column of which few rows are changed, by the exact law of the rows that show a value.
#
# Of x rows that have it Binomial(x, own) show it, and Binomial(n - x, other) of the others. Where either kind of change
# is rare, their sum has no law with three cumulants: docs/explanation/intervals.md, section 3.


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


# Intervals for a ratio whose denominator is uncertain too: Fieller's set, answered whatever the denominator is.
#
# The set of all R for which A - R B is no farther from 0 than z of its own standard errors,
#
#     { R : (A - R B)^2 <= z^2 (Var A - 2 R Cov + R^2 Var B) },
#
# keeps its level however near to zero the denominator lies, because nothing is selected by looking at it. The price: it
# is unbounded where the denominator may be zero, and then only its part among the possible ratios is told. Why no rule
# can do better: docs/explanation/intervals.md section 6.


AGREE = 1e-9  # a covariance nearer than this to the largest possible one is not believed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratios:
    """Ends of the intervals; where not `bounded` the denominator may be zero and there is no estimate to trust."""

    low: Floats
    high: Floats
    bounded: NDArray[np.bool_]


def fieller(
    top: Floats,
    bottom: Floats,
    top_variance: Floats,
    covariance: Floats,
    bottom_variance: Floats,
    z: float,
    least: Floats | float,
    most: Floats | float,
) -> Ratios:
    """Fieller's set for top / bottom inside [least, most], element by element.

    A bounded set is cut so that it is never a point. Of an unbounded one the hull of its possible part is given, the
    whole range if no ratio in it agrees with the estimates.
    """
    given = (top, bottom, top_variance, covariance, bottom_variance, least, most)
    A, B, VA, C, VB, least, most = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in given))
    # Estimated moments may contradict each other; then the errors are taken as independent. Errors that are opposed, as
    # those of two parts of a known total are, make the ratio less certain and are believed.
    beyond = C**2 >= (1.0 - AGREE) * VA * VB
    C = np.where(beyond, np.where(C * A * B < 0, np.sign(C) * np.sqrt(VA * VB), 0.0), C)
    # qa R^2 - 2 qb R + qc <= 0
    qa, qb, qc = B**2 - z**2 * VB, A * B - z**2 * C, A**2 - z**2 * VA
    root = np.sqrt(np.maximum(qb**2 - qa * qc, 0.0))
    real = qb**2 > qa * qc
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        one, other = (qb - root) / qa, (qb + root) / qa
        line = qc / (2.0 * qb)  # the only root where qa = 0
    first, second = np.minimum(one, other), np.maximum(one, other)
    bounded = (qa > 0) & (B > 0)
    low, high = cut(np.where(bounded, first, 0.0), np.where(bounded, second, 0.0), least, most)
    # qa < 0: everything outside (first, second). qa = 0: what lies on one side of `line`.
    flat = qa == 0
    lower_end = np.where(flat, np.where(qb < 0, line, -np.inf), first)  # the set reaches from -inf to here ...
    upper_end = np.where(flat, np.where(qb > 0, line, np.inf), second)  # ... and from here to inf
    everything = (qa > 0) | ~(real | flat) | (flat & (qb == 0))
    from_low = np.where((least <= lower_end) | everything, least, np.maximum(upper_end, least))
    to_high = np.where((most >= upper_end) | everything, most, np.minimum(lower_end, most))
    empty = (from_low > most) | (to_high < least) | (from_low >= to_high)  # or the set only touches the range
    from_low, to_high = np.where(empty, least, from_low), np.where(empty, most, to_high)
    return Ratios(low=np.where(bounded, low, from_low), high=np.where(bounded, high, to_high), bounded=bounded)
