"""Lists of a release compared with those of their numbers, many at a time."""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from sfumato.release.published_lists import ExpectedLists

KINDS = {
    "integers": pa.array([[3, 1], [2, 7], [7, 3]], pa.list_(pa.int16())),
    "texts": pa.array([["b", "a"], ["", "ü"], ["a", ""]]),
    "texts, one missing": pa.array([["b", None], ["", "ü"], [None, ""]]),
    "numbers, one missing": pa.array([[1.5, None], [0.0, 2.0], [None, -3.0]]),
    "days": pa.array([[date(2020, 1, 1), date(1969, 5, 5)], [date(2020, 1, 1), date(1, 1, 1)], [date(2020, 1, 2)] * 2]),
    "yes or no": pa.array([[True, False], [False, True], [True, True]]),
    "uneven": pa.array([[1], [2, 7], [7, 3, 1]], pa.list_(pa.int64())),
    "uneven texts": pa.array([["x"], ["x", "y"], ["z", "x", "y"]]),
}


def coded(cells: pa.ListArray) -> pa.ListArray:
    """As the Parquet library reads texts: by dictionary, here in another order than the domain's."""
    values = cells.flatten()
    distinct = pa.array(list(reversed(values.drop_null().unique().to_pylist())), values.type)
    made = pa.DictionaryArray.from_arrays(pa.compute.index_in(values, value_set=distinct), distinct)
    return pa.ListArray.from_arrays(cells.offsets, made)


def _as_it_is(cells: pa.ListArray) -> pa.ListArray:
    return cells


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("by_dictionary", [False, True])
def test_a_wrong_list_is_seen(kind: str, by_dictionary: bool) -> None:
    lists = KINDS[kind]
    expected = ExpectedLists(lists)
    numbers = np.random.default_rng(1).integers(0, 3, 200).astype(np.int16)
    read = coded if by_dictionary else _as_it_is
    right = pa.concat_arrays([lists.take(pa.array(numbers))])
    assert expected.shown(read(right), pa.array(numbers))
    for row in (0, 77, 199):  # each of them, and the last
        wrong = numbers.copy()
        wrong[row] = (wrong[row] + 1) % 3
        assert not expected.shown(read(pa.concat_arrays([lists.take(pa.array(wrong))])), pa.array(numbers))
    turned = pa.array(
        [cell[::-1] if len(set(cell)) > 1 else [*cell, cell[0]] for cell in right.to_pylist()], right.type
    )
    assert not expected.shown(read(turned), pa.array(numbers))


@pytest.mark.parametrize("numbers", [[0, 3], [-1, 0], [None, 0]])
def test_numbers_of_no_list_are_refused(numbers: list[int | None]) -> None:
    lists = KINDS["integers"]
    assert not ExpectedLists(lists).shown(lists.take(pa.array([0, 1])), pa.array(numbers, pa.int16()))


def test_a_missing_list_is_refused() -> None:
    lists = KINDS["texts"]
    assert not ExpectedLists(lists).shown(pa.array([None, ["", "ü"]], lists.type), pa.array([0, 1]))
