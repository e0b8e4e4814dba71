"""Counts of rare values in a decoy release: exact numbers, and the derivative that carries the channel's own noise."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.decoy_counts import calibrated_counts
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from sfumato.laws.decoy_channel import closed_form_channel, rebuild_channel
from sfumato.laws.decoy_estimate import RareCells, rare_value_interval

GAMMA = 12
PUBLISHED = np.array([400] * 60 + [3])


def cells_of(published: np.ndarray, inside: np.ndarray, size: int) -> RareCells:
    """The seven numbers of every value, from a release's histogram and that of the rows in P."""
    matrix = rebuild_channel(published, size, seed=1).matrix
    rows, e, b, share = float(published.sum()), 1 / size, matrix.own_weights(), published / published.sum()
    has = e * b**2 + (1 - e * b) ** 2 / (1 - e)
    return RareCells(
        shown=inside,
        estimate=matrix.estimate(inside),
        squares=matrix.squares(inside),
        weight=b,
        published=published.astype(float),
        rows=np.full(len(published), inside.sum()),
        all_rows=rows,
        other=np.maximum(matrix.squares(share) - share * has, 0) / (1 - share),
        size=size,
    )


def example(rare: int) -> RareCells:
    """60 values published 400 times and one 3 times; P has 200 rows of each common one and some of the rare one."""
    return cells_of(PUBLISHED, np.array([200.0] * 60 + [rare]), GAMMA)


@pytest.mark.parametrize(("rare", "estimate"), [(0, -16.523), (1, -4.508), (2, 7.508), (3, 19.523)])
def test_a_value_published_three_times(rare, estimate):
    """The release says nothing of where its records are: from 0 to the upper end of its total."""
    cells = example(rare)
    assert cells.estimate[60] == pytest.approx(estimate, abs=0.002)
    for alpha, full, high in ((0.05, False, 8.523), (0.01, False, 10.640), (0.05 / 736, True, 16.613)):
        low, found = rare_value_interval(cells, alpha, full=full)
        assert_allclose((low[60], found[60]), (0, high), atol=0.002)


def test_a_common_value_of_the_same_release():
    cells = example(0)
    low, high = rare_value_interval(cells, 0.05)
    assert_allclose((cells.estimate[0], low[0], high[0]), (200.275, 0, 439.435), atol=0.002)


@pytest.mark.parametrize(("values", "gamma", "tolerance"), [(60, 12, 0.05), (46, 6, 0.10)])
def test_slope_against_finite_differences(values, gamma, tolerance):
    """j is how the estimate falls with f' of the value, by product form; the channel itself is conditional Poisson.

    The product form is off by a few percent, more with fewer values and larger inclusion.
    """
    rng = np.random.default_rng(4)
    published = rng.integers(300, 600, values).astype(np.int64)
    inside = np.floor(published * rng.uniform(0.2, 0.8, values))
    cells = cells_of(published, inside, gamma)

    def estimate(counts: np.ndarray) -> np.ndarray:
        return closed_form_channel(np.arange(values), counts, gamma).matrix.estimate(inside)

    gaps = []
    for s in range(0, values, 7):
        step = np.zeros(values, np.int64)
        step[s] = 5
        exact = -(estimate(published + step)[s] - estimate(published - step)[s]) / 10
        gaps.append(abs(cells.slope[s] - exact) / max(abs(exact), 0.1 * abs(cells.slope).mean()))
    assert np.median(gaps) < tolerance


def test_all_rows_have_nearly_the_variance_of_the_total():
    """With P = everything the estimate is f' itself: v = f' (1 - e), a difference of terms a hundred times as large.

    The product form of j leaves 1 % of them; all rows are therefore answered by the total's exact interval.
    """
    cells = cells_of(PUBLISHED, PUBLISHED.astype(float), GAMMA)
    as_if_known = cells.squares - cells.estimate
    gap = cells.variance(cells.estimate) - PUBLISHED * (1 - 1 / GAMMA)
    assert (np.abs(gap) < 0.01 * as_if_known).all()


def test_a_value_never_published():
    zero = np.zeros(1)
    cells = RareCells(shown=zero, estimate=zero, squares=zero, weight=zero, published=zero, rows=np.array([500.0]),
                  all_rows=1000.0, other=zero, size=12)  # fmt: skip
    assert cells.most(0.05)[0] == pytest.approx(3.533, abs=0.002)


@given(st.integers(0, 40), st.integers(0, 40), st.floats(1e-5, 0.3), st.integers(2, 20))
def test_never_empty_never_a_point_and_wider_for_a_higher_level(rare, outside, alpha, gamma):
    published = np.array([300] * 30 + [rare + outside + 1])
    cells = cells_of(published, np.array([150.0] * 30 + [rare]), gamma)
    low, high = rare_value_interval(cells, alpha)
    moved = np.clip(cells.estimate, 0, cells.most(alpha))
    assert (low < high).all()
    assert (low <= moved + 1e-9).all()
    assert (moved <= high + 1e-9).all()
    wide_low, wide_high = rare_value_interval(cells, alpha / 3)
    full_low, full_high = rare_value_interval(cells, alpha, full=True)
    slack = 1e-6 * cells.rows
    assert (wide_low <= low + slack).all()
    assert (wide_high >= high - slack).all()
    assert (full_low <= low + slack).all()
    assert (full_high >= high - slack).all()


def test_the_channel_rebuilt_from_the_release_costs_variance():
    """P holds nine tenths of a value's records and a tenth of the others': its total's noise moves the estimate too.

    Calibration by a channel that is taken as known states a smaller variance there, and the same elsewhere.
    """
    published, gamma, true = np.array([600] * 12), 4, np.array([540.0] + [60] * 11)
    channel = rebuild_channel(published, gamma, seed=1)
    inside = np.linalg.solve(channel.matrix.inverse.T, true)  # what a release shows in the mean
    cells = cells_of(published, inside, gamma)
    assert_allclose(cells.estimate, true, rtol=1e-9)
    ratio = cells.variance(true) / calibrated_counts(channel, inside).variance
    assert ratio[0] > 1.1
    assert (np.abs(ratio[1:] - 1) < 0.03).all()
