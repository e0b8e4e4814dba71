"""Differences between groups: interval, z and p are of one test, whose variance moves with what it tests."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, norm

import sfumato as sf
from sfumato.analysis import contrasts
from sfumato.analysis.contrasts import RatioLaw, _tested
from sfumato.errors import QueryError
from sfumato.laws.functionals import Cells, IndependentRows, KroneckerWeights, Target
from sfumato.methods import REGISTRY

GAPS = (-0.4, -0.05, 0.0, 0.02, 0.3)
SLOPES = (-0.2, -0.01, 0.0, 0.01, 0.2)
KNOWN = RatioLaw(0.0, 0.0, 0.0, 0.0)


def ends_of(
    gap: float, variance: float, slope: float, widest: float, alpha: float
) -> tuple[float, float, float | None, float]:
    """A group against one whose ratio is known to be 0."""
    return _tested(RatioLaw(gap, variance, slope, variance), KNOWN, 0.0, (-widest, widest), alpha)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_p_is_small_where_the_interval_leaves_out_nothing(level: float) -> None:
    """The interval of any level holds the estimate, and 0 just where p is at least one less the level."""
    for gap, slope in itertools.product(GAPS, SLOPES):
        low, high, z, p = ends_of(gap, 0.01, slope, 1.0, 1 - level)
        assert low <= gap <= high
        assert (low <= 0 <= high) == (p >= 1 - level)
        assert z is not None
        assert np.sign(z) * np.sign(gap) >= 0
        assert 2 * norm.sf(abs(z)) == pytest.approx(p)


def test_without_a_slope_it_is_the_normal_one() -> None:
    low, high, z, p = ends_of(3.0, 4.0, 0.0, 1e9, 0.05)
    assert (low, high) == pytest.approx((3 - 1.959964 * 2, 3 + 1.959964 * 2), abs=1e-5)
    assert (z, p) == pytest.approx((1.5, 2 * norm.sf(1.5)))
    assert ends_of(3.0, 0.0, 0.0, 1e9, 0.05) == (3.0, 3.0, None, 0.0)
    assert ends_of(0.0, 0.0, 0.0, 1e9, 0.05) == (0.0, 0.0, None, 1.0)


def test_a_wide_column_does_not_make_the_ends_coarse() -> None:
    narrow, wide = (ends_of(3.0, 4e-6, 1e-4, widest, 0.05) for widest in (10.0, 1e12))
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
    ends = np.array([ends_of(gap, v, slope, 1.0, 0.05)[:2] for gap, v in zip(gaps, variances, strict=True)])
    held, plain = [], []
    for having in range(rows + 1):
        with_value = binom.pmf(np.arange(having + 1), having, keep + b)
        chance = np.convolve(with_value, binom.pmf(np.arange(rows - having + 1), rows - having, b))
        true = having / rows
        held.append(chance @ ((ends[:, 0] <= true + 1e-9) & (true <= ends[:, 1] + 1e-9)))
        plain.append(chance @ (np.abs(gaps - true) <= norm.isf(0.025) * np.sqrt(variances)))
    assert np.mean(held) > 0.94
    assert keep > 0.3 or np.mean(plain) < 0.94


# --- all rows of a group alike ---------------------------------------------------------------------------------


def grid(sizes: tuple[int, ...], hits: tuple[int, ...], keep: float) -> SimpleNamespace:
    """What `compare` reads of groups in which so many rows show a value of 12, kept with a chance."""
    K = len(sizes)
    shown = np.array([[h, n - h] for h, n in zip(hits, sizes, strict=True)], dtype=float).ravel()
    cells = Cells(
        cell=np.repeat(np.arange(K), 2),
        part=np.zeros(2 * K, dtype=np.int64),
        value=np.tile([0, 1], K),
        moments=shown[:, None, None],
        cells=K,
        rows=sum(sizes),
    )
    B = None if keep == 1 else (np.eye(2) - (1 - keep) / 12 * np.array([1, 11])) / keep
    by = SimpleNamespace(codes=np.arange(K)[:, None], labels=[str(i) for i in range(K)], randomised=False)
    return SimpleNamespace(
        functionals=IndependentRows(cells, KroneckerWeights(axes=(B,), shape=(2,))),
        weight=np.ones((K, 2)),
        flags=(np.tile([1.0, 0.0], (K, 1)),),
        variables={"by": by},
        caveats=(),
    )


def compared(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...], hits: tuple[int, ...], keep: float, target: Target
) -> contrasts.ContrastGroup:
    monkeypatch.setattr(contrasts, "read", lambda *_, **__: grid(sizes, hits, keep))
    return contrasts.compare(cast(Any, None), by="by", share="the value", target=target).groups[1]


@pytest.mark.parametrize("keep", [1.0, 0.9, 0.6, 0.3])
@pytest.mark.parametrize("rows", [5, 15])
def test_populations_of_few_rows_are_covered_by_enumeration(
    monkeypatch: pytest.MonkeyPatch, rows: int, keep: float
) -> None:
    """Every outcome of a group of few rows against one of 12, for shares from 0 to 1.

    Stated variances are 0 where all rows are alike: intervals of them held a share of 2 % against none in 10 %.
    """
    first = 12
    found = {
        (i, j): compared(monkeypatch, (first, rows), (i, j), keep, "population")
        for i in range(first + 1)
        for j in range(rows + 1)
    }
    ends = np.array([[(found[i, j].low, found[i, j].high) for j in range(rows + 1)] for i in range(first + 1)])
    small = np.array([[found[i, j].pvalue < 0.05 for j in range(rows + 1)] for i in range(first + 1)])
    assert (ends[:, :, 0] < ends[:, :, 1]).all()
    np.testing.assert_array_equal(small, (ends[:, :, 0] > 1e-9) | (ends[:, :, 1] < -1e-9))
    shares, b = (0.0, 0.02, 0.06, 0.3, 0.5, 0.9, 1.0), (1 - keep) / 12
    held, rejected = [], []
    for one in shares:
        for other in shares:
            chance = np.outer(
                binom.pmf(np.arange(first + 1), first, b + keep * one),
                binom.pmf(np.arange(rows + 1), rows, b + keep * other),
            )
            gap = other - one
            held.append((chance * ((ends[:, :, 0] <= gap + 1e-9) & (gap <= ends[:, :, 1] + 1e-9))).sum())
            if one == other:
                rejected.append((chance * small).sum())
    assert np.mean(held) > 0.95
    assert min(held) > 0.89
    assert max(rejected) < 0.06


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("hits", [(0, 0), (0, 9), (2, 0), (7, 4), (20, 9), (20, 0)])
def test_groups_that_change_places_change_the_sign(
    monkeypatch: pytest.MonkeyPatch, hits: tuple[int, int], target: Target
) -> None:
    one = compared(monkeypatch, (20, 9), hits, 0.7, target)
    other = compared(monkeypatch, (9, 20), hits[::-1], 0.7, target)
    found = (one.low, one.high, one.z, one.pvalue, one.difference_se)
    np.testing.assert_allclose(found, (-other.high, -other.low, -other.z, other.pvalue, other.difference_se), atol=1e-7)


@pytest.mark.parametrize("name", REGISTRY)
def test_no_difference_of_a_population_is_a_point(name: str) -> None:
    """Values that nobody has, or all: 12 rows against 108 do not say that no two others differ."""
    rng = np.random.default_rng(7)
    disease = np.array([f"d{i}" for i in np.arange(120) % 8])
    table = pa.table({"disease": disease, "age": rng.integers(20, 60, 120), "sex": np.repeat(["m", "f"], [12, 108])})
    method = REGISTRY[name]
    released = sf.publish(
        table,
        roles=sf.Roles(sensitive="disease", quasi=["age", "sex"]),
        method=method.spec(**method.example.spec),
        domains={"disease": [f"d{i}" for i in range(8)] + ["none such"]},
        seed=3,
        accept_unprotected=True,
    )
    for share in ("disease = 'none such'", "disease <> 'none such'", "disease = 'd1'", "age > 200"):
        try:
            (_, group) = released.compare(share=share, by="sex", target="population").groups
        except QueryError:  # answers no such comparison
            continue
        assert group.low < group.high
        assert group.difference_se > 0
        assert group.low <= group.difference <= group.high or abs(group.difference) > 1
        assert (group.low <= 0 <= group.high) == (group.pvalue >= 0.05)
