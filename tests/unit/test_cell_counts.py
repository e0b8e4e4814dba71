"""Combinations of whole numbers, counted in rows that are held in memory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines import cell_counts as counting
from sfumato.engines.cell_counts import cell_counts


def batches(columns: dict[str, pa.Array], size: int) -> list[pa.RecordBatch]:
    table = pa.table(columns)
    return table.to_batches(max_chunksize=size)


def by_hand(columns: dict[str, pa.Array]) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in columns.values()), strict=True))


@pytest.mark.parametrize("array", [1, 1 << 20], ids=["sorted", "in an array"])
@pytest.mark.parametrize("few", [False, True], ids=["in one piece", "in pieces of a few rows"])
def test_counts_are_those_of_rows_one_by_one(monkeypatch: pytest.MonkeyPatch, few: bool, array: int) -> None:
    monkeypatch.setattr(counting, "FEW", array)
    if few:
        monkeypatch.setattr(counting, "COUNT_BITS", np.uint64(3))
        monkeypatch.setattr(counting, "NEAR", 5)
    rng = np.random.default_rng(5)
    columns = {
        "ends of a type": pa.array(rng.choice([-128, 0, 127], 1000), pa.int8()),
        "far from 0": pa.array(rng.integers(2**63 - 9, 2**63, 1000, dtype=np.uint64) + np.uint64(2**62)),
        "one number": pa.array(np.full(1000, -5, dtype=np.int32)),
        "many": pa.array(rng.integers(-30, 30, 1000), pa.int64()),
    }
    found = cell_counts(batches(columns, 137), "rows", 2)
    assert found is not None
    assert found.schema == pa.schema({name: c.type for name, c in columns.items()} | {"rows": pa.int64()})
    *cells, rows = (column.to_pylist() for column in found.columns)
    assert dict(zip(zip(*cells, strict=True), rows, strict=True)) == by_hand(columns)


def test_one_number_for_all_rows() -> None:
    found = cell_counts(batches({"a": pa.array([7, 7, 7]), "b": pa.array([0, 0, 0])}, 2), "rows", 1)
    assert found is not None
    assert found.to_pylist() == [{"a": 7, "b": 0, "rows": 3}]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None], pa.int8()),
        pa.array(["1", "2"]),
        pa.array([True, False]),
        pa.array([1.0, 2.0]),
        pa.array([0, 1 << 44]),
        pa.array([], pa.int8()),
    ],
    ids=["missing", "text", "truth", "real", "far apart", "no rows"],
)
def test_others_are_left_to_the_engine(column: pa.Array) -> None:
    assert cell_counts([pa.record_batch({"a": column})], "rows", 1) is None


def test_no_batch_holds_nothing() -> None:
    assert cell_counts([], "rows", 1) is None
