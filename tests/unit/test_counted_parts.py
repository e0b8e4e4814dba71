"""Rows of every part: the same numbers, counted in an array or by the engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.answering.observation import wanted_of
from sfumato.engines.duckdb import reader
from sfumato.engines.statements import COUNT
from sfumato.methods import REGISTRY
from sfumato.sql.parse import read
from tables import people

RNG = np.random.default_rng(5)
COLUMNS = {
    "parts": pa.array(RNG.integers(0, 400, 1_000), pa.int32()),
    "long": pa.array(RNG.integers(0, 999, 1_000), pa.int64()),
    "one": pa.array(np.zeros(1_000), pa.int32()),
    "negative": pa.array(RNG.integers(-2, 9, 1_000), pa.int32()),
    "too large": pa.array(RNG.integers(0, 1_001, 1_000) + 1_000, pa.int32()),
    "missing": pa.array([None if i % 9 == 0 else i % 50 for i in range(1_000)], pa.int32()),
    "texts": pa.array([f"t{i % 7}" for i in range(1_000)]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_parts_are_counted_alike(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MANY", 300)
    pq.write_table(pa.table({name: COLUMNS[name]}), tmp_path / "data.parquet")
    found = []
    for few in (0, 10_000):
        monkeypatch.setattr(reader, "FEW_ROWS", few)
        opened = reader.DuckDBReader([tmp_path / "data.parquet"], 1_000)
        found.append(opened.count([name]).sort_by(name))
    assert found[0].equals(found[1])
    assert sum(found[0][COUNT].to_pylist()) == 1_000


def test_numbers_of_parts_are_counted_in_an_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "FEW_ROWS", 0)
    pq.write_table(pa.table(COLUMNS), tmp_path / "data.parquet")
    opened = reader.DuckDBReader([tmp_path / "data.parquet"], 1_000)
    assert [name for name in COLUMNS if opened._by_array(name) is not None] == ["parts", "long", "one"]


@pytest.mark.parametrize("name", [name for name in REGISTRY if REGISTRY[name].withheld])
def test_rows_of_a_part_are_counted_by_the_engine_unless_they_are_a_handful(name: str) -> None:
    """Parts of many rows each are few, and rows that leave the engine one by one cost more than all the rest."""
    method = REGISTRY[name]
    roles = sfumato.Roles(sensitive="disease", quasi=["age", "sex"])
    rows = people().select(["age", "sex", "disease"])
    subject = sfumato.publish(rows, roles=roles, method=method.spec(**method.example.spec), seed=1).subject
    value = subject.domains[0].values[0][0]
    asked = read(f"SELECT COUNT(*) FROM release WHERE disease = '{value}' AND age > 30", subject.schema)
    assert wanted_of(asked, subject, "release", None).by_row == method.handfuls
