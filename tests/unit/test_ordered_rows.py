"""Rows in the order of their keys, in memory and spilled; and how many are held at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import sfumato as command
from sfumato.engines.batches import BATCH_CELLS, GROUP_CELLS, rows_at_once
from sfumato.engines.duckdb.connection import Session
from sfumato.engines.duckdb.table import KEY, LocalEngine, sorted_rows
from sfumato.publishing.applier import Applier

UNIFORM = ("--method", "uniform", "--rho1", "1/3", "--rho2", "1/2")


SCHEMA = pa.schema([("x", pa.uint64()), ("X", pa.string()), ("code", pa.dictionary(pa.int32(), pa.string()))])


def _keyed(sizes: list[int]) -> list[pa.RecordBatch]:
    """Batches as `transformed` makes them, in which x is the key itself."""
    found = []
    for number, rows in enumerate(sizes):
        keys = np.random.default_rng(number).integers(0, 2**64, size=rows, dtype=np.uint64)
        texts, codes = pa.array(keys.astype(str), pa.string()), pa.array((keys % np.uint64(7)).astype(np.int32))
        found.append(
            pa.RecordBatch.from_arrays([pa.array(keys), texts, codes, pa.array(keys)], ["x", "X", "code", KEY])
        )
    return found


@pytest.mark.parametrize("sizes", [[700, 0, 1, 2_000, 33], [0], [400_000] * 3])
@pytest.mark.parametrize("memory", ["60MB", "1GB"])
def test_rows_leave_in_the_order_of_their_keys(sizes: list[int], memory: str, tmp_path: Path) -> None:
    """In memory and spilled; cells stay in their row."""
    settings = {"memory_limit": memory, "temp_directory": str(tmp_path), "threads": 1}
    with duckdb.connect(config=settings) as con:
        batches = list(sorted_rows(con, SCHEMA, iter(_keyed(sizes))))
    coded = SCHEMA.set(2, pa.field("code", pa.int32()))
    found = pa.Table.from_batches(batches, coded)
    keys = found["x"].to_numpy()
    assert np.array_equal(keys, np.sort(np.concatenate([batch.column(0).to_numpy() for batch in _keyed(sizes)])))
    assert found["X"].to_pylist() == [str(key) for key in keys]
    assert np.array_equal(found["code"].to_numpy(), keys % np.uint64(7))


def test_rows_wait_in_what_the_plan_leaves_of_the_memory() -> None:
    """As much less as it holds, and never less than a quarter."""
    for taken, left in ((0, 800), (300, 500), (700, 200)):
        with Session.open(LocalEngine(memory="800MiB"), taken=taken * 2**20) as session:
            assert session.con.execute("SELECT current_setting('memory_limit')").fetchone() == (f"{left}.0 MiB",)


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
    apply, wide = Applier.apply, list[int]()

    def applying(self: Applier, number: int, batch: pa.RecordBatch) -> Any:
        wide.append(batch.num_rows * batch.num_columns)
        return apply(self, number, batch)

    monkeypatch.setattr(Applier, "apply", applying)
    done = command("publish", tmp_path / "t.parquet", tmp_path / "out", "--sa", "s", "--rest", "keep", *UNIFORM)
    assert done.code == 0, done.text
    assert len(wide) > 1
    assert max(wide) <= BATCH_CELLS
    written = pq.read_metadata(tmp_path / "out" / "data.parquet")
    assert written.num_rows == rows
    assert all(written.row_group(g).num_rows * columns < 1.5 * GROUP_CELLS for g in range(written.num_row_groups))
