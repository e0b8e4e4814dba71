"""Ends of intervals are those of plain bisection, for a third of the chances that it asks for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.stats.intervals import STEPS, Chance, Floats, farthest_allowed, lower_tail


def bisected(chance: Chance, level: float, start: Floats, limit: Floats) -> Floats:
    """The definition."""
    good, bad = start.copy(), limit.copy()
    for _ in range(STEPS):
        middle = (good + bad) / 2
        fine = chance(middle) >= level
        good, bad = np.where(fine, middle, good), np.where(fine, bad, middle)
    return np.where(chance(limit) >= level, limit, good)


def tail(t: Floats, scale: float, skew: float, growth: float) -> Chance:
    """P(T <= t), of counts whose variance grows with them; falls as x grows."""
    return lambda x: lower_tail(t, x, scale**2 + growth * np.maximum(x, 0.0), np.full_like(x, skew * scale**3))


@settings(max_examples=60, deadline=None)
@given(
    scale=st.floats(0.0, 1e4),
    skew=st.floats(-50.0, 50.0),
    growth=st.floats(0.0, 20.0),
    level=st.sampled_from([0.2, 0.025, 5e-4, 1e-9]),
    span=st.floats(0.0, 1e7),
    guess=st.floats(-1e7, 1e7),
)
def test_ends_are_those_of_bisection(
    scale: float, skew: float, growth: float, level: float, span: float, guess: float
) -> None:
    """However bad the guess; where the whole way is allowed, where nothing is, and where there is none."""
    t = np.array([0.0, 3.0, 250.0, 1e5])
    start, limit = t.copy(), t + span * np.array([1.0, 0.1, 0.0, 1.0])
    chance = tail(t, scale, skew, growth)
    found = farthest_allowed(chance, level, start, limit, np.full(4, guess))
    np.testing.assert_allclose(found, bisected(chance, level, start, limit), rtol=0, atol=span * 2.0**-STEPS)


def test_a_start_that_is_not_allowed_is_not_passed_by() -> None:
    """Every halving asks then, as bisection does: chances up to 2 are too small, from there to 5 large enough."""
    start, limit = np.zeros(1), np.full(1, 8.0)

    def chance(x: Floats) -> Floats:
        return np.where((x > 2) & (x < 5), 0.5, 0.0)

    found = farthest_allowed(chance, 0.025, start, limit, np.ones(1))
    np.testing.assert_array_equal(found, bisected(chance, 0.025, start, limit))
    assert found[0] == pytest.approx(5.0)


def test_few_chances_are_asked_for() -> None:
    asked = []
    t = np.array([20.0, 800.0, 31_000.0])
    plain = tail(t, 30.0, 0.4, 2.0)

    def chance(x: Floats) -> Floats:
        asked.append(1)
        return plain(x)

    guess = t + 1.96 * np.sqrt(900 + 2 * t)
    found = farthest_allowed(chance, 0.025, t, np.full(3, 1e7), guess)
    np.testing.assert_array_equal(found, bisected(plain, 0.025, t, np.full(3, 1e7)))
    assert len(asked) <= 14
