"""Rows in the order of their keys: in memory and by the external sort, the same file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.engines import key_order as orders
from sfumato.engines.duckdb import ordered_rows
from sfumato.engines.duckdb.engine import LocalEngine
from sfumato.engines.duckdb.session import Session
from sfumato.engines.key_order import coarse_order, key_order, range_ends
from tables import people


@pytest.mark.parametrize("high", [2**64, 2**20, 40, 1])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, 1_000, 70_000])
def test_order_is_that_of_whole_keys(rows: int, high: int) -> None:
    """Keys that differ in their lowest bits only are told apart, equal ones stay in their order."""
    rng = np.random.default_rng(rows)
    for shift in (0, 44):
        keys = rng.integers(0, min(high, 2 ** (64 - shift)), size=rows, dtype=np.uint64) << np.uint64(shift)
        assert np.array_equal(key_order(keys), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 1_000, 70_000])
@pytest.mark.parametrize("bits", [1, 12, 31])
def test_ranges_are_slices_of_rows_in_coarse_order(rows: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where too many bits are asked for to be sorted beside the numbers of the rows."""
    monkeypatch.setattr(orders, "COARSE", bits)
    keys = np.random.default_rng(rows).integers(0, 2**64, size=rows, dtype=np.uint64)
    coarse = keys >> np.uint64(64 - bits)
    found = coarse_order(keys)
    assert np.array_equal(np.sort(found), np.arange(rows))
    assert (np.diff(coarse[found].astype(np.int64)) >= 0).all()
    for end in range_ends(min(7, 1 << bits)):
        at = int(np.searchsorted(keys[found], end))
        assert (keys[found][:at] < end).all()
        assert (keys[found][at:] >= end).all()


def test_ranges_are_equal_and_not_more_than_their_bits_tell() -> None:
    assert range_ends(0).tolist() == range_ends(1).tolist() == []
    assert range_ends(4).tolist() == [1 << 62, 2 << 62, 3 << 62]
    assert len(range_ends(10**6)) == 2**12 - 1


@pytest.mark.parametrize("method", [
    sfumato.UniformPerturbation(rho1="1/3", rho2="1/2"),
    sfumato.SubsetResponse(rho1="1/3", rho2="1/2"),
    sfumato.Anatomy(l=2),
])  # fmt: skip
def test_the_same_file_in_memory_and_spilled(method: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people()
    notes = [None if i % 7 == 0 else f"n{i % 11}" for i in range(table.num_rows)]
    table = table.append_column("note", pa.array(notes))
    table = table.append_column("code", pa.array([k * k if k > 600 else k for k in range(table.num_rows)], pa.int64()))
    roles = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), insensitive=("note", "code"), rest="drop")
    monkeypatch.setattr(ordered_rows, "RANGE_ROWS", 256)  # several row groups
    found = []
    for share in (1e9, 0.0):
        monkeypatch.setattr(ordered_rows, "SHARE", share)
        release = sfumato.publish(
            table, tmp_path / str(share), roles=roles, method=method, seed=3, engine=LocalEngine(batch_rows=300)
        )
        found.append((release.path / "data.parquet").read_bytes())
    assert pq.read_metadata(tmp_path / "0.0" / "data.parquet").num_rows
    assert found[0] == found[1]


def test_rows_wait_in_what_the_plan_leaves_of_the_memory() -> None:
    """As much less as it holds, and never less than a quarter."""
    for taken, left in ((0, 800), (300, 500), (700, 200)):
        with Session(LocalEngine(memory="800MiB"), None) as session:
            session.leave(taken * 2**20)
            assert session.room() == left * 2**20
