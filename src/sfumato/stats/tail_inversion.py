"""Intervals for counts by inverting a test that knows three cumulants; exact ones for binomial totals; cutting.

Given the true count x, the estimate T of a count is a sum over rows, so its variance v(x) and third cumulant k(x) are
linear in x. The law used for its tails is that of

    T = x + u (X - lam),   X ~ Poisson(lam),   u = k / v,   lam = v^3 / k^2,

which has the same mean, variance and third cumulant, is exact where a rare hit carries a weight, and becomes the
normal law as k goes to 0. Why, and how far it holds: docs/explanation/intervals.md sections 2 to 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sfumato.errors import SpecError

from .farthest_allowed import farthest_allowed

Floats = NDArray[np.float64]
Cumulant = Callable[[Floats], Floats]  # of the estimate, at true counts x

NORMAL = 1e8  # from this lam on the Poisson law is normal to within 1e-4 of its skewness
NEVER = 1e-12  # below this lam no hit is ever seen, and there is no step of one hit to interpolate
OUTSIDE = 1.0  # standard errors that an estimate may lie outside what is possible; farther ones are moved to there
NARROW = 0.7  # of the level's normal quantile: the same for levels below 85 %, whose intervals are that narrow
NEARLY = 1e6  # a linear law of this lam at both ends is taken as normal: its skewness is a thousandth
MANY = 200  # cells among which equal ones are looked for before a search
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

    both = np.stack([start, start])
    guess = both - sign * float(special.ndtri(alpha / 2)) * np.sqrt(np.maximum(v(both), 0.0))
    low, high = farthest_allowed(chance, alpha / 2, both, np.stack([least, most]), guess)
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
    kind = np.arange(numbers.shape[1])
    if len(kind) > MANY:  # narrow cells are alike: each kind is searched once
        numbers, kind = np.unique(numbers, axis=1, return_inverse=True)
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
    shape = np.shape(published)
    totals, kind = np.unique(np.asarray(published, dtype=np.float64), return_inverse=True)
    low, high = _total_ends(totals.tobytes(), size, alpha)
    return low[kind].reshape(shape), high[kind].reshape(shape)


@lru_cache(maxsize=64)  # a total has many output rows, and all grouping sets of a question ask for it
def _total_ends(published: bytes, size: float, alpha: float) -> tuple[Floats, Floats]:
    o = np.frombuffer(published, dtype=np.float64)
    chance, loss = 1.0 / size, np.log(2.0 / alpha)

    tiny = np.finfo(float).tiny  # the functions of scipy want positive arguments

    def few(f: Floats) -> Floats:  # P(X <= o | f); certain when size f = o
        room = size * f - o
        return np.where(room <= 0, 1.0, special.betainc(np.maximum(room, tiny), o + 1.0, 1.0 - chance))

    def many(f: Floats) -> Floats:  # P(X >= o | f)
        room = np.maximum(size * f - o, 0.0) + 1.0
        return np.where(o <= 0, 1.0, special.betainc(np.maximum(o, tiny), room, chance))

    # P(X <= o) <= exp(-(f - o)^2 / 2 f), so that every total from `far` on is rejected; below o / size no draw gives o
    far = o + loss + np.sqrt(loss**2 + 2.0 * o * loss)
    # x - o is about z standard errors where z^2 x (1 - chance) = (x - o)^2
    z2 = float(special.ndtri(alpha / 2)) ** 2 * (1.0 - chance)
    spread = np.sqrt(z2 * o + z2**2 / 4)
    low = farthest_allowed(many, alpha / 2, o, o * chance, o + z2 / 2 - spread)
    high = farthest_allowed(few, alpha / 2, o, far, o + z2 / 2 + spread)
    return low, high


def cut(low: Floats, high: Floats, least: Floats | float, most: Floats | float) -> tuple[Floats, Floats]:
    """An interval cut to [least, most] that keeps a quarter of its width there: a point only where least = most.

    A quarter of a normal interval of level 95 % is about one standard error, the room `tail_interval` leaves.
    """
    quarter = MARGIN * (high - low)
    inner_low = np.clip(np.minimum(low, most - quarter), least, most)
    inner_high = np.clip(np.maximum(high, least + quarter), least, most)
    return inner_low, inner_high
