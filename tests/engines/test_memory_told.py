"""Where memory ends, every source is told the same: that memory ended, not that a file is damaged."""

from __future__ import annotations

from pathlib import Path
from threading import Event

import duckdb
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from commands import sfumato
from sfumato.engines.duckdb.connection import Session, reading_error
from sfumato.errors import DataError, EngineError

COLUMNS, ROWS = 500, 24_000
TOLD = "the engine ran out of memory"


class Little:
    """What the least engine is allowed."""

    memory, threads, stop = "64MB", 1, Event()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT list(repeat('x', 100) || i) AS a FROM range(10000000) t(i)",  # failed to allocate data
        "CREATE TABLE made AS SELECT repeat('x', 1000) || i AS a FROM range(1000000) t(i)",  # could not allocate block
    ],
)
def test_whatever_could_not_be_allocated(sql: str) -> None:
    with Session.open(Little()) as session:
        session.con.execute("SET temp_directory=''")
        with pytest.raises(EngineError, match=TOLD):
            session.query(sql)
        if sql.startswith("SELECT"):
            with pytest.raises(EngineError, match=TOLD):
                list(session.query(sql).to_arrow_reader(1000))


def test_a_file_that_speaks_of_memory_is_told_as_what_it_is() -> None:
    ragged = duckdb.InvalidInputException(
        "CSV Error on Line: 3\nExpected Number of Columns: 2 Found: 3\nout of memory,1"
    )
    told = reading_error(ragged)
    assert isinstance(told, DataError)
    assert "ragged" in str(told)
    damaged = reading_error(duckdb.InvalidInputException("No magic bytes found in file of memory"))
    assert "damaged" in str(damaged)
    assert TOLD in str(reading_error(pa.ArrowInvalid("Out of Memory Error: could not allocate block of size 8 MiB")))
    assert TOLD in str(reading_error(pa.ArrowMemoryError("malloc of size 8 failed")))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_wide_table_that_does_not_fit(kind: str, tmp_path: Path) -> None:
    column = pa.array(range(10**9, 10**9 + ROWS))
    table = pa.table({f"c{i}": column for i in range(COLUMNS)} | {"s": ["a", "b", "c", "d", "e", "f"] * (ROWS // 6)})
    file = tmp_path / f"t.{kind}"
    if kind == "csv":
        pc.write_csv(table, file)
    else:
        pq.write_table(table, file, use_dictionary=False, compression="none")
    roles, method = ("--sa", "s", "--rest", "keep"), ("--method", "uniform", "--rho1", "1/3", "--rho2", "1/2")
    done = sfumato("publish", file, tmp_path / "out", *roles, *method, "--memory", "64MB")
    assert (done.code, TOLD in done.err) == (1, True), done.err
    assert not (tmp_path / "out").exists()
