"""Inverted tails: exact numbers, coverage by enumeration of every outcome, and what holds for any question."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binom, norm, poisson

from sfumato.errors import SpecError
from sfumato.stats.intervals import (
    Line,
    binomial_total_interval,
    count_cumulants,
    cut,
    lower_tail,
    tail_interval,
    upper_tail,
)

P, B = 2 / 48, 1 / 48  # 46 values, gamma 3
MANY = 0.05 / 736  # alpha of one of 736 intervals that hold together
TOLERANCE = 0.002


@pytest.mark.parametrize(
    ("hits", "rows", "mid", "full", "together"),
    [
        (0, 900, (0, 109.015), (0, 123.850), (0, 408.952)),
        (40, 900, (251.428, 832.760), (241.168, 846.508), (25.183, 900)),
        (90, 3000, (253.649, 1129.914), (242.802, 1143.075), (0, 1688.935)),
        (5, 100, (0, 100), (0, 100), (0, 100)),
    ],
)
def test_counts_of_a_uniform_release(hits, rows, mid, full, together):
    v, k = count_cumulants(rows, P, B)
    value = np.array([(hits - B * rows) / P])
    for expected, alpha, unit in ((mid, 0.05, 0.0), (full, 0.05, 1 / P), (together, MANY, 1 / P)):
        found = np.concatenate(tail_interval(value, v, k, alpha, 0.0, rows, unit))
        assert_allclose(found, expected, atol=TOLERANCE)


def test_totals_of_a_decoy_release():
    low, high = binomial_total_interval(np.array([0.0, 1, 5, 50, 3]), 12, 0.05)
    assert_allclose(low[:4], [0, 0.083, 1.727, 37.619], atol=TOLERANCE)
    assert_allclose(high[:4], [3.533, 5.378, 11.386, 65.243], atol=TOLERANCE)


@pytest.mark.parametrize("size", [2, 6, 12])
def test_total_intervals_keep_their_level_exactly(size):
    """Every total up to 100, every outcome: never below the level, and not by a wide margin above it."""
    o = np.arange(0, 100 * size + 1)
    low, high = binomial_total_interval(o.astype(float), size, 0.05)
    covered = np.array([binom.pmf(o, size * f, 1 / size)[(low <= f) & (f <= high)].sum() for f in range(1, 101)])
    assert covered.min() >= 0.95
    assert covered.mean() < 0.98


# Coverage of the truth x by enumeration of all hits ~ Binomial(x, p + b) + Binomial(n - x, b), over these truths.
TRUTHS = (0, 1, 2, 3, 5, 8, 12, 20, 30, 50, 100)
CHANNELS = {
    "46 values, gamma 3": (2 / 48, 1 / 48),
    "314 values, gamma 12": (11 / 325, 1 / 325),
    "20 values, keep .6": (11 / 19, 0.4 / 19),
    "2 values, keep .9": (0.8, 0.1),
}


def coverage(channel: str, rows: int, alpha: float, *, full: bool) -> np.ndarray:
    p, b = CHANNELS[channel]
    hits = np.arange(rows + 1)
    v, k = count_cumulants(rows, p, b)
    low, high = tail_interval((hits - b * rows) / p, v, k, alpha, 0.0, rows, 1 / p if full else 0.0)
    assert (high > low).all()
    found = []
    for x in sorted({*TRUTHS, rows // 2, rows} & set(range(rows + 1))):
        chance = np.convolve(binom.pmf(np.arange(x + 1), x, p + b), binom.pmf(np.arange(rows - x + 1), rows - x, b))
        found.append(chance[(low <= x) & (x <= high)].sum())
    return np.array(found)


@pytest.mark.parametrize(
    ("channel", "rows", "mid", "full", "missed"),
    [  # (mean, least) at 95 % with mid-p tails, with full tails; (mean, largest) misses in units of alpha = .05/736
        ("46 values, gamma 3", 20, (0.989, 0.936), (1.000, 1.000), (0, 0)),
        ("46 values, gamma 3", 100, (0.977, 0.963), (0.986, 0.976), (0, 0)),
        ("46 values, gamma 3", 3000, (0.973, 0.946), (0.977, 0.957), (0.44, 0.76)),
        ("314 values, gamma 12", 100, (0.967, 0.937), (0.990, 0.977), (0.07, 0.37)),
        ("314 values, gamma 12", 3000, (0.968, 0.936), (0.980, 0.951), (0.31, 0.63)),
        ("20 values, keep .6", 100, (0.961, 0.928), (0.976, 0.960), (0.34, 0.48)),
        ("2 values, keep .9", 20, (0.954, 0.928), (0.981, 0.972), (0.54, 1.75)),
    ],
)
def test_coverage_by_enumeration(channel, rows, mid, full, missed):
    """The table of docs/explanation/intervals.md section 3; three decimals, two for the far tail."""
    for expected, tails in ((mid, False), (full, True)):
        found = coverage(channel, rows, 0.05, full=tails)
        assert_allclose((found.mean(), found.min()), expected, atol=0.0006)
    far = (1 - coverage(channel, rows, MANY, full=True)) / MANY
    assert_allclose((far.mean(), far.max()), missed, atol=0.006)


def test_tails_are_exact_for_rare_hits():
    """Where every row that hits weighs u and hits are Poisson, nothing is approximate: mid-p at whole numbers."""
    lam, u = 2.5, 7.0
    hits = np.arange(0, 12).astype(float)
    t = u * (hits - lam)
    below = lower_tail(t + u / 2, np.zeros(12), u**2 * lam, u**3 * lam)
    assert_allclose(below, poisson.cdf(hits, lam), rtol=1e-12)
    above = upper_tail(t - u / 2, np.zeros(12), u**2 * lam, u**3 * lam)
    assert_allclose(above, poisson.sf(hits - 1, lam), rtol=1e-12)
    mirrored = lower_tail(-t + u / 2, np.zeros(12), u**2 * lam, -(u**3) * lam)
    assert_allclose(mirrored, poisson.sf(hits - 1, lam), rtol=1e-12)


def test_without_skewness_it_is_the_score_interval():
    v, nothing = Line(constant=np.array([400.0]), slope=3.0), Line(constant=0.0)
    low, high = tail_interval(np.array([100.0]), v, nothing, 0.05, 0.0, 1e6)
    z = norm.isf(0.025)
    for end in (low[0], high[0]):
        assert abs(100 - end) == pytest.approx(z * np.sqrt(400 + 3 * end), rel=1e-4)


def test_a_small_skewness_changes_little():
    """The switch to the normal law is no jump."""
    ends = [
        tail_interval(np.array([0.0]), Line(constant=1.0), Line(constant=k), 0.05, -10.0, 10.0)[1][0]
        for k in (0.99e-4, 1.01e-4)
    ]
    assert ends[0] == pytest.approx(ends[1], abs=1e-4)


@st.composite
def questions(draw):
    """A count of some rows through a channel, at any estimate, also outside what is possible."""
    rows = draw(st.integers(1, 5000))
    p = draw(st.floats(0.02, 0.95))
    b = draw(st.floats(0.001, 1.0)) * (1 - p)
    value = draw(st.floats(-3, 4)) * rows
    return rows, p, min(b, 1 - p - 1e-6), value


@given(questions(), st.floats(1e-6, 0.6), st.booleans())
def test_never_empty_never_a_point_and_holds_the_estimate(question, alpha, full):
    rows, p, b, value = question
    v, k = count_cumulants(rows, p, b)
    low, high = tail_interval(np.array([value]), v, k, alpha, 0.0, rows, 1 / p if full else 0.0)
    moved = np.clip(value, 0, rows)
    assert 0 <= low[0] <= moved <= high[0] <= rows
    assert low[0] < high[0]


@given(questions(), st.floats(1e-5, 0.15), st.floats(0.05, 0.95))
def test_a_higher_level_is_wider_and_full_tails_wider_still(question, alpha, part):
    """From 85 % on; below, an estimate that is impossible is moved by less, and that may outweigh the level."""
    rows, p, b, value = question
    v, k = count_cumulants(rows, p, b)
    slack = 1e-6 * rows
    wide, narrow = (tail_interval(np.array([value]), v, k, a, 0.0, rows) for a in (alpha * part, alpha))
    assert wide[0][0] <= narrow[0][0] + slack
    assert wide[1][0] >= narrow[1][0] - slack
    full = tail_interval(np.array([value]), v, k, alpha, 0.0, rows, 1 / p)
    assert full[0][0] <= narrow[0][0] + slack
    assert full[1][0] >= narrow[1][0] - slack


@given(st.integers(0, 2000), st.integers(2, 60), st.floats(1e-6, 0.3))
def test_total_intervals_hold_what_was_published(published, size, alpha):
    low, high = binomial_total_interval(np.array([float(published)]), size, alpha)
    assert 0 <= low[0] <= published < high[0]
    assert (low[0] == 0) == (published == 0)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_cutting_leaves_a_width_and_never_loses_a_possible_number(low, width, least, room):
    high, most = low + width, least + room
    found_low, found_high = cut(np.array([low]), np.array([high]), least, most)
    assert least <= found_low[0] < found_high[0] <= most
    assert found_low[0] <= np.clip(low, least, most)
    assert found_high[0] >= np.clip(high, least, most)


def test_cutting_agrees_with_one_standard_error_at_95_percent():
    """An estimate far below 0 with standard error 10 keeps [0, 9.8], a quarter of 3.92 standard errors."""
    low, high = cut(np.array([-519.6]), np.array([-480.4]), 0.0, 1000.0)
    assert (low[0], high[0]) == (0.0, pytest.approx(9.8))
    assert [x[0] for x in cut(np.array([-1.0]), np.array([4.0]), 2.0, 2.0)] == [2.0, 2.0]


@pytest.mark.parametrize("alpha", [0.0, 1.0, float("nan")])
def test_an_impossible_alpha_is_refused(alpha):
    line = Line(constant=1.0)
    with pytest.raises(SpecError, match="alpha must lie between 0 and 1"):
        tail_interval(np.zeros(1), line, line, alpha, 0.0, 1.0)
    with pytest.raises(SpecError, match="alpha must lie between 0 and 1"):
        binomial_total_interval(np.zeros(1), 4, alpha)


@pytest.mark.parametrize("full", [False, True])
def test_many_cells_get_the_ends_that_one_gets(full):
    """Cells that are alike are searched once, nearly normal ones not at all: the search itself says nearly the same."""
    rng = np.random.default_rng(1)
    rows, p, b = np.repeat([50.0, 900.0, 3e3, 2e5, 2e7], 400), 0.05, 1 / 48
    v, k = count_cumulants(rows, p, b)
    true = np.floor(rng.random(len(rows)) * rows / 10)
    value = (rng.binomial(rows.astype(int), b) + rng.binomial(true.astype(int), p) - b * rows) / p
    unit = 1 / p if full else 0.0
    low, high = tail_interval(value, v, k, 0.05, 0.0, rows, unit)
    searched = tail_interval(value, v.__call__, k.__call__, 0.05, 0.0, rows, unit)  # not known to be linear
    for ends, found in zip(searched, (low, high), strict=True):
        np.testing.assert_array_less(np.abs(found - ends) / (high - low), 2e-4)
    for i in range(0, len(rows), 97):
        one = count_cumulants(rows[i], p, b)
        ends = tail_interval(value[i], *one, 0.05, 0.0, rows[i], unit)
        assert (float(ends[0]), float(ends[1])) == (low[i], high[i])


def test_without_noise_the_interval_is_the_number():
    """A column that is hardly randomised: no half row to either side, as steps of whole hits would have."""
    v, k = Line(constant=1e-20), Line(constant=-1e-20)
    low, high = tail_interval(np.array([0.0, 137.0, 1000.0]), v, k, 0.05, 0.0, 1000.0)
    assert_allclose(high - low, 0.0, atol=1e-5)
