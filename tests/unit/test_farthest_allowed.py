"""How far a test allows a number to go."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.stats.intervals import Floats, farthest_allowed, lower_tail


def test_the_end_is_where_the_chance_falls_to_the_level() -> None:
    t = np.array([20.0, 800.0, 31_000.0])

    def chance(x: Floats) -> Floats:
        return lower_tail(t, x, 900.0 + 2.0 * np.maximum(x, 0.0), np.full_like(x, 0.4 * 30.0**3))

    found = farthest_allowed(chance, 0.025, t, np.full(3, 1e7))
    assert (chance(found) >= 0.025).all()
    assert (chance(found + 0.02) < 0.025).all()


def test_a_way_that_is_allowed_ends_at_its_limit() -> None:
    assert farthest_allowed(np.ones_like, 0.025, np.zeros(2), np.array([3.0, 0.0])).tolist() == [3.0, 0.0]


def test_a_start_that_is_not_allowed_is_not_passed_by() -> None:
    """Chances up to 2 are too small, from there to 5 large enough."""

    def chance(x: Floats) -> Floats:
        return np.where((x > 2) & (x < 5), 0.5, 0.0)

    assert farthest_allowed(chance, 0.025, np.zeros(1), np.full(1, 8.0))[0] == pytest.approx(5.0)
