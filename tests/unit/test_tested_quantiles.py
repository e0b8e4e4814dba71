"""Quantiles: a value is tested with the variance that it would have, so that few rows are enough to be honest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.analysis import quantiles
from sfumato.laws.functionals import Cells, IndependentRows, KroneckerWeights, Target

VALUES = 12
LEAST = 0.92  # few rows have few outcomes; tails are mid-p


def ends(
    monkeypatch: pytest.MonkeyPatch, rows: int, low: int, keep: float, of_low: int, share: float, target: Target
) -> tuple[float, float]:
    """The interval where so many rows show a low value (0), of which `of_low` of VALUES are; the others are 1."""
    weights = KroneckerWeights(axes=(B(keep, of_low),), shape=(2,))
    cells = Cells(
        cell=np.zeros(2, dtype=np.intp),
        part=np.zeros(2, dtype=np.int64),
        value=np.arange(2),
        moments=np.array([low, rows - low], dtype=float)[:, None, None],
        cells=1,
        rows=rows,
    )
    read = SimpleNamespace(
        functionals=IndependentRows(cells, weights),
        sums=lambda others: IndependentRows(others, weights),
        cells=cells,
        weight=np.ones((1, 2)),
        variables={"s": SimpleNamespace(numbers=lambda: np.array([[0.0, 1.0]]))},
        caveats=(),
    )
    monkeypatch.setattr(quantiles, "read", lambda *_, **__: read)
    monkeypatch.setattr(quantiles, "is_number", lambda *_: True)
    (found,) = quantiles.quantile(cast(Any, None), "s", share, target=target).rows
    return found.low, found.high


def B(keep: float, of_low: int) -> np.ndarray | None:
    return None if keep == 1 else (np.eye(2) - (1 - keep) / VALUES * np.array([of_low, VALUES - of_low])) / keep


@pytest.mark.parametrize("of_low", [1, 6, 11])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("rows", [15, 26])
@pytest.mark.parametrize("keep", [0.1, 0.3, 0.6, 0.9])
def test_few_rows_of_a_table_are_covered_by_enumeration(
    monkeypatch: pytest.MonkeyPatch, keep: float, rows: int, share: float, of_low: int
) -> None:
    """Every outcome for every truth: with the error that was drawn with the estimate the least is .753."""
    b = (1 - keep) / VALUES * of_low
    found = np.array([ends(monkeypatch, rows, low, keep, of_low, share, "table") for low in range(rows + 1)])
    for having in range(rows + 1):
        chance = np.convolve(
            binom.pmf(np.arange(having + 1), having, keep + b),
            binom.pmf(np.arange(rows - having + 1), rows - having, b),
        )
        true = 0.0 if having >= share * rows - 1e-9 else 1.0
        assert chance @ ((found[:, 0] <= true) & (true <= found[:, 1])) > LEAST, having


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("rows", [15, 26])
@pytest.mark.parametrize("keep", [0.1, 0.6, 1.0])
def test_few_rows_of_a_population_are_covered_by_enumeration(
    monkeypatch: pytest.MonkeyPatch, keep: float, rows: int, share: float
) -> None:
    b = (1 - keep) / VALUES * 6
    found = np.array([ends(monkeypatch, rows, low, keep, 6, share, "population") for low in range(rows + 1)])
    for p in np.linspace(0, 1, 41):
        chance = binom.pmf(np.arange(rows + 1), rows, b + keep * p)
        true = 0.0 if p >= share - 1e-9 else 1.0
        assert chance @ ((found[:, 0] <= true) & (true <= found[:, 1])) > LEAST, p
