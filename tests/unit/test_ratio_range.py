"""Which ratios are possible: coefficients among counted values, times the extremes of a measure."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from sfumato.answering.estimate import ratio_range
from sfumato.model.public import Asked, Floats, Observed


def question(top: list[list[float]], bottom: list[list[float]], measure: int) -> Asked:
    """One pattern for each pair of rows: coefficients above and below over three values."""
    tables = tuple(csr_array(np.array([a, b], dtype=float)) for a, b in zip(top, bottom, strict=True))
    return Asked(
        units=(0,),
        classes=(np.arange(3, dtype=np.int32),),
        coefficients=tables,
        measure=np.array([measure, 0]),
        products=np.zeros((2, 2), np.intp),
        pairs=np.array([[0, 1]]),
        binary=False,
        z=2.0,
    )


def rows(patterns: list[int], keys: list[int]) -> Observed:
    T = len(patterns)
    return Observed(
        stratum=np.arange(T), part=np.zeros(T, np.int64), value=np.zeros(T, np.intp), moments=np.ones((T, 1)),
        key=np.array(keys), pattern=np.array(patterns), keys=max(keys) + 1,
    )  # fmt: skip


def extremes(measure: int) -> tuple[Floats, Floats]:
    assert measure == 1
    return np.array([-2.0, 3.0]), np.array([5.0, 4.0])


def test_an_average_of_the_value_lies_among_the_counted_values():
    asked = question([[0, 20, 30]], [[0, 1, 1]], 0)
    assert [x.tolist() for x in ratio_range(rows([0], [0]), asked, [0], [1], extremes)] == [[[20.0]], [[30.0]]]


def test_a_share_is_between_0_and_1_where_both_kinds_of_rows_occur():
    asked = question([[0, 1, 0], [0, 0, 0]], [[0, 1, 0], [0, 1, 0]], 0)
    least, most = ratio_range(rows([0, 1, 1], [0, 0, 1]), asked, [0], [1], extremes)
    assert (least.tolist(), most.tolist()) == ([[0.0], [0.0]], [[1.0], [0.0]])


def test_an_untouched_column_has_the_extremes_that_the_engine_knows():
    asked = question([[1, 1, 0]], [[1, 1, 0]], 1)
    least, most = ratio_range(rows([0, 0], [0, 1]), asked, [0], [1], extremes)
    assert (least.ravel().tolist(), most.ravel().tolist()) == ([-2.0, 3.0], [5.0, 4.0])


def test_zero_where_the_column_does_not_count():
    """AVG(CASE WHEN value = 1 THEN wage ELSE 0 END): wages, or 0."""
    asked = question([[0, 1, 0]], [[1, 1, 1]], 1)
    least, most = ratio_range(rows([0, 0], [0, 1]), asked, [0], [1], extremes)
    assert (least.ravel().tolist(), most.ravel().tolist()) == ([-2.0, 0.0], [5.0, 4.0])


def test_nothing_is_possible_where_nothing_is_counted():
    asked = question([[0, 1, 0]], [[0, 0, 0]], 0)
    assert np.isnan(ratio_range(rows([0], [0]), asked, [0], [1], extremes)).all()
