"""Tails against scipy's: limits are limits, and the tests find what the exact tails find."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import binom, hypergeom

from sfumato.stats.tails import chernoff, crowded, too_few, too_many

RNG = np.random.default_rng(7)


def exact(tail: np.ndarray, sizes: np.ndarray, values: int, alarm: float) -> bool:
    sets = gammaln(values + 1) - gammaln(sizes + 1) - gammaln(values - sizes + 1)
    with np.errstate(divide="ignore"):
        surprise = np.log(tail) - np.log(alarm) + np.log(max(values - 1, 1)) + sets
    return bool(len(sizes) and surprise.min() < 0)


@pytest.mark.parametrize("values", [2, 3, 8, 40, 300])
@pytest.mark.parametrize("alarm", [1e-9, 1e-2, 0.3])
def test_the_same_alarms_as_by_exact_tails(values: int, alarm: float) -> None:
    found = set()
    for _ in range(60):
        rows = int(RNG.integers(1, 3000))
        counts = RNG.multinomial(rows, RNG.dirichlet(np.full(values, RNG.uniform(0.2, 20)))).astype(np.int64)
        floor, ceiling = RNG.uniform(0, 1 / values), RNG.uniform(1, 3) / values
        sizes = np.arange(1, values)
        low = binom.cdf(np.cumsum(np.sort(counts))[:-1], rows, np.minimum(sizes * floor, 1))
        few = too_few(counts, floor, alarm)
        assert (few is not None) == exact(low, sizes, values, alarm)
        fits = sizes * ceiling < 1
        high = binom.sf(np.cumsum(np.sort(counts)[::-1])[:-1][fits] - 1, rows, sizes[fits] * ceiling)
        mine = too_many(counts, ceiling, alarm)
        assert (mine is not None) == exact(high, sizes[fits], values, alarm)
        found |= {mine is None, few is None}
    assert found == {True, False}


def test_limits_of_hypergeometric_tails_are_limits() -> None:
    """Whatever alarms by the limit alarms by the exact tail; and what is far out alarms."""
    for _ in range(300):
        rows = int(RNG.integers(2, 2000))
        half, totals = int(RNG.integers(1, rows)), RNG.integers(1, rows + 1, 5)
        first = np.array([RNG.integers(max(0, t - (rows - half)), min(t, half) + 1) for t in totals])
        low, high = hypergeom.cdf(first, rows, totals, half), hypergeom.sf(first - 1, rows, totals, half)
        alarm = float(10 ** RNG.uniform(-12, -1))
        exactly = (np.minimum(low, high) < alarm / 10).any()
        assert exactly or not crowded(first, totals, np.array(rows), np.array(half), alarm)
    rows, half = np.array(2000), np.array(1000)
    assert crowded(np.array([500]), np.array([500]), rows, half)
    assert crowded(np.array([0]), np.array([500]), rows, half)
    assert not crowded(np.array([250, 0]), np.array([500, 1]), rows, half)


@pytest.mark.parametrize(("count", "mean"), [(0, 3.0), (10, 0.0), (10, 10.0), (3, 3.0), (7, 2.5)])
def test_chernoff_is_above_the_binomial_tail(count: int, mean: float) -> None:
    side = binom.sf(count - 1, 10, mean / 10) if count >= mean else binom.cdf(count, 10, mean / 10)
    assert side <= chernoff(count, 10, mean) + 1e-12
    assert chernoff(3, 10, 3.0) == 1
