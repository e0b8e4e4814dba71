"""What decoy groups of a given size promise about totals: small sums hidden, large sums kept.

A value with f records is in f groups, so its published count X is Binomial(size * f, 1 / size) whatever the grouping:
mean f, variance f (1 - 1 / size) [docs/explanation/splu.md, 4]. Interval ends are exact: epsilon is a fraction.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ...errors import SpecError
from ..shared.grouping import Counts

CHUNK = 65_536


def _check(size: int, epsilon: Fraction) -> None:
    if size < 2:
        raise SpecError(f"group size must be an integer of at least 2, got {size!r}", field="gamma")
    if not 0 < epsilon < 1:
        raise SpecError(f"epsilon must lie strictly between 0 and 1, got {epsilon}", field="epsilon")


def _outside(low: Counts, high: Counts, n: Counts, p: float) -> NDArray[np.float64]:
    """Pr[X <= low] + Pr[X > high] for X ~ Binomial(n, p)."""
    below = np.where(low < 0, 0.0, special.bdtr(np.clip(low, 0, n), n, p))
    above = np.where(high < 0, 1.0, np.where(high >= n, 0.0, special.bdtrc(np.clip(high, 0, n), n, p)))
    return np.asarray(below + above)


def error_probability(true_counts: Counts, size: int, epsilon: Fraction) -> NDArray[np.float64]:
    """Pr[|X - f| > epsilon f] for each f: the chance that a total is published with more relative error than epsilon.

    Equality counts as inside, which is conservative for privacy. The lower end is a ceiling: the SPLU paper's
    Theorem 4 prints a floor, which gives 0.264 instead of 0.613 at f = 1, size 10, epsilon 0.3.
    """
    _check(size, epsilon)
    f = np.asarray(true_counts, np.int64)
    a, b = epsilon.numerator, epsilon.denominator
    low = -((a - b) * f // b)  # ceil((1 - eps) f)
    high = (b + a) * f // b  # floor((1 + eps) f)
    return _outside(low - 1, high, size * f, 1 / size)


def small_sum_privacy(size: int, epsilon: Fraction, alpha: int) -> float:
    """T_p: every total of at most `alpha` records is published wrong by more than epsilon with at least this chance."""
    if alpha < 1:
        raise SpecError(f"alpha must be an integer of at least 1, got {alpha!r}", field="alpha")
    return float(error_probability(np.arange(1, alpha + 1), size, epsilon).min())


def tail_probability(true_counts: Counts, size: int, epsilon: Fraction) -> NDArray[np.float64]:
    """Pr[|X - f| >= epsilon f] for each f, equality included, which is conservative for utility."""
    _check(size, epsilon)
    f = np.asarray(true_counts, np.int64)
    a, b = epsilon.numerator, epsilon.denominator
    low = (b - a) * f // b
    high = -(-(b + a) * f // b)
    return _outside(low, high - 1, size * f, 1 / size)


def large_sum_utility(size: int, epsilon: Fraction, miss: Fraction) -> int:
    """T_f: the least f from which on every total errs by epsilon or more with chance at most `miss` (T_E).

    The tail is a sawtooth in f. Bernstein certifies f >= 2 (1 - 1/size + eps/3) ln(2/T_E) / eps^2; from there we walk
    down to the last failure. The SPLU paper's (1 / (size eps^2 T_E))^(1/2) divides the variance by n twice: false.
    """
    _check(size, epsilon)
    if not 0 < miss < 1:
        raise SpecError(f"T_E must lie strictly between 0 and 1, got {miss}", field="miss")
    certified = math.ceil(2 * (1 - 1 / size + epsilon / 3) * math.log(2 / miss) / epsilon**2) + 1
    for top in range(certified, 0, -CHUNK):
        f = np.arange(max(1, top - CHUNK + 1), top + 1)
        failures = np.flatnonzero(tail_probability(f, size, epsilon) > float(miss))
        if len(failures):
            return int(f[failures[-1]]) + 1
    return 1


def amplification(counts: Counts, size: int) -> NDArray[np.float64]:
    """A_s = size (N - f) / (N - size f): growth of the noise of conditioned counts of s; infinite at f = N / size.

    From the true counts it is for the publisher only; a reader has it from the published ones.
    """
    counts = np.asarray(counts, np.int64)
    total = int(counts.sum())
    room = (total - size * counts).astype(np.float64)
    return np.divide(size * (total - counts), room, out=np.full(len(counts), np.inf), where=room > 0)
