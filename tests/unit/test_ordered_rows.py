"""Rows in the order of their keys: in memory and by the external sort, the same file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import sfumato
from commands import sfumato as command
from sfumato.engines import key_order as orders
from sfumato.engines.batches import BATCH_CELLS, GROUP_CELLS, rows_at_once
from sfumato.engines.duckdb import ordered_rows
from sfumato.engines.duckdb import table as duckdb_table
from sfumato.engines.duckdb.engine import LocalEngine
from sfumato.engines.duckdb.session import Session
from sfumato.engines.key_order import coarse_order, key_order, range_ends
from sfumato.publishing.applier import Applier
from tables import people

UNIFORM = ("--method", "uniform", "--rho1", "1/3", "--rho2", "1/2")


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
    """With keys, with keys that are drawn again, and by the external sort."""
    table = people()
    notes = [None if i % 7 == 0 else f"n{i % 11}" for i in range(table.num_rows)]
    table = table.append_column("note", pa.array(notes))
    table = table.append_column("code", pa.array([k * k if k > 600 else k for k in range(table.num_rows)], pa.int64()))
    roles = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), insensitive=("note", "code"), rest="drop")
    monkeypatch.setattr(ordered_rows, "RANGE_ROWS", 256)  # several row groups
    rooms, sizes, ways = list[float](), list[float](), list[str]()

    def noted(name: str) -> None:
        inner = getattr(ordered_rows, name)

        def called(*given: Any) -> Any:
            ways.append(name)
            if name == "_merged":
                sizes.append(sum(batch.nbytes for batch in given[0]) - 4 * sum(batch.num_rows for batch in given[0]))
            return inner(*given)

        monkeypatch.setattr(ordered_rows, name, called)

    def written(*given: Any, room: float, threads: int) -> str:
        rooms.append(room)
        return write_ordered(*given, room=room, threads=threads)

    write_ordered = ordered_rows.write_ordered
    monkeypatch.setattr(duckdb_table, "write_ordered", written)
    for name in ("_merged", "_merged_again", "_sorted"):
        noted(name)
    found = []
    for way in ("_merged", "_merged_again", "_sorted"):  # half of the keys is more than the room in the second
        share = {"_merged": 1e9, "_merged_again": sizes[0] / rooms[0] if sizes else 0.0, "_sorted": 0.0}[way]
        monkeypatch.setattr(ordered_rows, "SHARE", share)
        release = sfumato.publish(
            table, tmp_path / way, roles=roles, method=method, seed=3, engine=LocalEngine(batch_rows=300)
        )
        found.append((release.path / "data.parquet").read_bytes())
        assert ways.pop() == way
        assert not ways
    assert pq.read_metadata(tmp_path / "_sorted" / "data.parquet").num_rows
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("room", [1, 20_000, 10**9])
def test_keys_that_are_drawn_again_give_the_same_order(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a few ranges at a time, for more, for all; batches of no rows too."""
    monkeypatch.setattr(ordered_rows, "RANGE_ROWS", 64)
    sizes = [700, 0, 1, 2_000, 33]

    def keys(number: int, rows: int) -> NDArray[np.uint64]:
        return np.random.default_rng(number).integers(0, 2**64, size=rows, dtype=np.uint64)

    drawn = [keys(number, rows) for number, rows in enumerate(sizes)]
    batches = [pa.record_batch({"x": pa.array(own[coarse_order(own)])}) for own in drawn]
    found = [make().column("x").to_numpy() for make in ordered_rows._merged_again(batches, keys, room, 2)]
    assert len(found) == len(ordered_rows._ends(sum(sizes), 2, 0)) + 1
    assert np.array_equal(np.concatenate(found), np.sort(np.concatenate(drawn)))


def test_rows_wait_in_what_the_plan_leaves_of_the_memory() -> None:
    """As much less as it holds, and never less than a quarter."""
    for taken, left in ((0, 800), (300, 500), (700, 200)):
        with Session(LocalEngine(memory="800MiB"), None) as session:
            session.leave(taken * 2**20)
            assert session.room() == left * 2**20


@pytest.mark.parametrize(
    ("columns", "rows"), [(1, 131_072), (32, 131_072), (33, 127_100), (400, 10_485), (9_000, 1_024)]
)
def test_wide_tables_come_in_batches_of_fewer_rows(columns: int, rows: int) -> None:
    assert rows_at_once(131_072, columns, BATCH_CELLS) == rows
    assert rows_at_once(300, columns, BATCH_CELLS) == 300


def test_no_batch_of_a_wide_table_holds_more_cells_than_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As read, as randomised, and as row groups."""
    rows, columns = 30_000, 900
    table = pa.table({"s": np.arange(rows) % 5} | {f"c{j}": np.full(rows, j, np.int16) for j in range(columns)})
    pq.write_table(table, tmp_path / "t.parquet")
    split, read, wide, long = Applier.split, Session.batches, list[int](), list[int]()

    def splitting(self: Applier, number: int, batch: pa.RecordBatch) -> Any:
        wide.append(batch.num_rows * batch.num_columns)
        return split(self, number, batch)

    def reading(self: Session, sql: str, at_once: int) -> Any:
        long.append(at_once * table.num_columns)
        return read(self, sql, at_once)

    monkeypatch.setattr(Applier, "split", splitting)
    monkeypatch.setattr(Session, "batches", reading)
    done = command("publish", tmp_path / "t.parquet", tmp_path / "out", "--sa", "s", "--rest", "keep", *UNIFORM)
    assert done.code == 0, done.text
    assert len(wide) > 1
    assert max(wide) <= BATCH_CELLS
    assert 0 < max(long) <= BATCH_CELLS
    written = pq.read_metadata(tmp_path / "out" / "data.parquet")
    assert written.num_rows == rows
    assert all(written.row_group(g).num_rows * columns < 1.5 * GROUP_CELLS for g in range(written.num_row_groups))
