"""Differences between groups: interval, z and p are of one test, whose variance moves with what it tests."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm

from sfumato.analysis.contrasts import _tested

GAPS = (-0.4, -0.05, 0.0, 0.02, 0.3)
SLOPES = (-0.2, -0.01, 0.0, 0.01, 0.2)


@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_p_is_small_where_the_interval_leaves_out_nothing(gap: float, slope: float, level: float) -> None:
    """The interval of any level holds the estimate, and 0 just where p is at least one less the level."""
    low, high, z, p = _tested(gap, 0.01, slope, 1.0, 1 - level)
    assert -1 <= low <= gap <= high <= 1
    assert (low <= 0 <= high) == (p >= 1 - level)
    assert z is not None
    assert np.sign(z) * np.sign(gap) >= 0
    assert 2 * norm.sf(abs(z)) == pytest.approx(p)


def test_without_a_slope_it_is_the_normal_one() -> None:
    low, high, z, p = _tested(3.0, 4.0, 0.0, 1e9, 0.05)
    assert (low, high) == pytest.approx((3 - 1.959964 * 2, 3 + 1.959964 * 2), abs=1e-5)
    assert (z, p) == pytest.approx((1.5, 2 * norm.sf(1.5)))
    assert _tested(3.0, 0.0, 0.0, 1e9, 0.05) == (3.0, 3.0, None, 0.0)
    assert _tested(0.0, 0.0, 0.0, 1e9, 0.05) == (0.0, 0.0, None, 1.0)


def test_a_wide_column_does_not_make_the_ends_coarse() -> None:
    narrow, wide = (_tested(3.0, 4e-6, 1e-4, widest, 0.05) for widest in (10.0, 1e12))
    np.testing.assert_allclose(narrow[:2], wide[:2], rtol=1e-9)


@pytest.mark.parametrize("rows", [15, 26])
@pytest.mark.parametrize("keep", [0.1, 0.3, 0.6, 0.8])
def test_few_rows_are_covered_by_enumeration(keep: float, rows: int) -> None:
    """Hits among few rows of 12 values, the other group known, every outcome and every truth enumerated.

    Tails are mid-p: coverage is that of the level on average over the truths, here to one percent, and less for some.
    Plain intervals of a column that is hardly kept fail that.
    """
    b = (1 - keep) / 12
    own, other = (1 - b) / keep, -b / keep
    hits = np.arange(rows + 1)
    gaps = (hits * own + (rows - hits) * other) / rows
    variances = (hits * own * (own - 1) + (rows - hits) * other * (other - 1)) / rows**2
    slope = (own + other - 1) / rows
    ends = np.array([_tested(gap, v, slope, 1.0, 0.05)[:2] for gap, v in zip(gaps, variances, strict=True)])
    held, plain = [], []
    for having in range(rows + 1):
        with_value = binom.pmf(np.arange(having + 1), having, keep + b)
        chance = np.convolve(with_value, binom.pmf(np.arange(rows - having + 1), rows - having, b))
        true = having / rows
        held.append(chance @ ((ends[:, 0] <= true + 1e-9) & (true <= ends[:, 1] + 1e-9)))
        plain.append(chance @ (np.abs(gaps - true) <= norm.isf(0.025) * np.sqrt(variances)))
    assert np.mean(held) > 0.94
    assert keep > 0.3 or np.mean(plain) < 0.94
