"""Fieller's set: exact numbers, every shape it can have, and what holds for any moments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

from sfumato.stats.intervals import fieller

Z = float(norm.isf(0.025))


def one(A, B, VA, C, VB, z=Z, least=0.0, most=1.0):
    found = fieller(*(np.array([float(x)]) for x in (A, B, VA, C, VB)), z, least, most)
    return float(found.low[0]), float(found.high[0]), bool(found.bounded[0])


def test_shares():
    low, high, bounded = one(40, 100, 400, 300, 900)
    assert_allclose((low, high), (0.0113, 0.8592), atol=0.00006)
    assert bounded
    low, high, bounded = one(40, 40, 400, 300, 900)
    assert_allclose((low, high), (0.0627, 1.0), atol=0.00006)
    assert not bounded


def test_a_certain_denominator_gives_the_numerator_divided():
    low, high, bounded = one(40, 100, 25, 0, 0)
    assert_allclose((low, high), (0.4 - Z * 0.05, 0.4 + Z * 0.05))
    assert bounded


@pytest.mark.parametrize(
    ("given_moments", "expected"),
    [
        ((0, 0, 1, 0, 1), (0.0, 1.0)),  # everything agrees
        ((3, -50, 1, 0, 1), (0.0, 1.0)),  # a denominator surely below 0: nothing is known
        ((50, 1, 1, 0, 1), (0.0, 1.0)),  # only ratios far above 1 agree: the whole range, and no bound
        ((10, 2, 1, 0, 1 / Z**2 * 4), (0.0, 1.0)),  # denominator exactly z errors from 0
    ],
)
def test_unbounded_sets(given_moments, expected):
    low, high, bounded = one(*given_moments)
    assert (low, high) == expected
    assert not bounded


def test_the_hull_can_end_inside_the_range():
    """A numerator surely above 0 excludes the ratios around 0 whatever the denominator is."""
    low, high, bounded = one(20, 1, 4, 0, 4, least=-100.0, most=100.0)
    assert (low, high, bounded) == (-100.0, 100.0, False)
    low, high, bounded = one(20, 1, 4, 0, 4, least=0.0, most=100.0)
    assert high == 100.0
    assert 1 < low < 10
    assert (20 - low * 1) ** 2 == pytest.approx(Z**2 * (4 + low**2 * 4))


def test_moments_that_contradict_each_other_are_taken_as_independent():
    assert one(40, 100, 400, 700, 900) == one(40, 100, 400, 0, 900)


moments = st.tuples(
    st.floats(-1e4, 1e4), st.floats(-1e4, 1e4), st.floats(0.01, 1e6), st.floats(-0.99, 0.99), st.floats(0.01, 1e6)
)


@given(moments, st.floats(0.5, 5))
def test_the_set_holds_the_ratio_and_its_ends_solve_the_equation(given_moments, z):
    A, B, VA, correlation, VB = given_moments
    C = correlation * np.sqrt(VA * VB)
    low, high, bounded = one(A, B, VA, C, VB, z=z)
    assert 0 <= low < high <= 1
    assert bounded == (z**2 * VB < B**2 and B > 0)
    if bounded and low > 0 and high < 1 and low <= A / B <= high:
        for R in (low, high):
            gap, allowed = (A - R * B) ** 2, z**2 * (VA - 2 * R * C + R**2 * VB)
            assert gap == pytest.approx(allowed, rel=1e-4, abs=1e-4 * VA)
    if bounded:
        assert low <= np.clip(A / B, 0, 1) <= high


@given(moments, st.floats(0.5, 4), st.floats(1.01, 2))
def test_a_higher_level_is_wider(given_moments, z, more):
    A, B, VA, correlation, VB = given_moments
    C = correlation * np.sqrt(VA * VB)
    narrow, wide = (
        one(A, B, VA, C, VB, z=z, least=-1e9, most=1e9),
        one(A, B, VA, C, VB, z=more * z, least=-1e9, most=1e9),
    )
    if narrow[2] or B > 0:
        assert wide[0] <= narrow[0] + 1e-6 * (1 + abs(narrow[0]))
        assert wide[1] >= narrow[1] - 1e-6 * (1 + abs(narrow[1]))


def test_arrays_of_questions():
    found = fieller(np.array([[40.0, 40]]), np.array([[100.0, 40]]), 400.0, 300.0, 900.0, Z, 0.0, 1.0)
    assert found.low.shape == (1, 2)
    assert found.bounded.tolist() == [[True, False]]


def test_parts_of_a_known_total_have_opposed_errors() -> None:
    """A / (n - A) is as uncertain as A: the ends are those of A's interval, put into the ratio."""
    A, n, se, z = 262.0, 750.0, 30.0, 1.96
    found = fieller(*(np.array([x]) for x in (A, n - A, se**2, -(se**2), se**2)), z, 0.0, np.inf)
    expected = [(A + sign * z * se) / (n - A - sign * z * se) for sign in (-1, 1)]
    assert [found.low[0], found.high[0]] == pytest.approx(expected, rel=1e-9)


def test_the_table_of_the_documentation_is_what_its_text_says() -> None:
    """docs/explanation/intervals.md, section 6, from the draws that it describes."""
    text = (Path(__file__).parents[2] / "docs/explanation/intervals.md").read_text(encoding="utf-8")
    lines = text.partition("| true B / its error |")[2].split("\n\n")[0].splitlines()[2:]
    assert len(lines) == 4
    for line in lines:
        errors, *stated = (float(cell) for cell in line.strip("|").split("|"))
        rng, R = np.random.default_rng(1), 20_000
        VA, VB = (30 / errors) ** 2, (100 / errors) ** 2
        top, bottom = 80 + np.sqrt(VA) * rng.standard_normal(R), 100 + np.sqrt(VB) * rng.standard_normal(R)
        found = fieller(top, bottom, VA, 0.0, VB, Z, 0.0, 1.0)
        held, answered, ratio = (found.low <= 0.8) & (found.high >= 0.8), bottom >= 3 * np.sqrt(VB), top / bottom
        near = np.abs(ratio - 0.8) <= Z * np.sqrt(VA + ratio**2 * VB) / np.abs(bottom)
        shares = [held.mean(), found.bounded.mean(), held[found.bounded].mean(), answered.mean(), near[answered].mean()]
        assert shares == pytest.approx(stated, abs=0.006)
