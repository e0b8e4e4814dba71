"""The benchmark of coverages, at a small size: every method's intervals hold about as often as they say."""

from __future__ import annotations

import pytest
from benchmarks.coverage import METHODS, QUESTIONS, limits, measure

RELEASES, MORE = 8, 64
# Pooled coverage of a question over so many releases; some have 32 numbers in 8 of them. A right rule falls below the
# first band for such a question about once in twenty times, and is then asked again in releases of their own. Of 2,000
# independent numbers the second bands are 4 to 5 standard deviations below the level (numbers of one release depend on
# each other: 2 at four times the variance), so that false alarms are below 1e-3 for a question. Intervals 30 % too
# narrow, which cover 83 %, are found.
LEAST = {0.5: (0.42, 0.44), 0.9: (0.84, 0.865), 0.95: (0.905, 0.925), 0.99: (0.965, 0.98)}


@pytest.mark.parametrize("method", METHODS)
def test_intervals_hold(method: str) -> None:
    low = []
    for name, found in measure(method, list(QUESTIONS), RELEASES):
        assert found.points == 0, name
        assert found.unanswered == 0, name
        at_once = QUESTIONS[name].simultaneous or QUESTIONS[name].chosen
        if not at_once and found.pooled < LEAST[QUESTIONS[name].level][0]:
            low.append(name)
        if at_once:
            assert found.together() >= RELEASES - 2, name
    for name, found in measure(method, low, MORE, seed=1 + RELEASES) if low else ():
        assert found.pooled >= LEAST[QUESTIONS[name].level][1], name


def test_exact_limits() -> None:
    """Clopper and Pearson, 95 % of 20: 4 hits have [.057, .437]; 0 and all are closed by the ends."""
    assert limits(4, 20, 0.95) == pytest.approx((0.0573, 0.4366), abs=1e-4)
    assert limits(0, 20)[0] == 0
    assert limits(20, 20)[1] == 1
