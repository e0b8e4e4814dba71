"""Passes over a source share one database, which goes with the table, or with the pass that fails."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.engines.duckdb import session as sessions
from sfumato.engines.duckdb.engine import LocalEngine
from sfumato.errors import DataError
from sfumato.methods import REGISTRY
from tables import people

METHOD = sfumato.UniformPerturbation(rho1="1/3", rho2="1/2")
ROLES = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")


def _parquet(path: Path) -> Path:
    pq.write_table(people(), path / "t.parquet")
    return path / "t.parquet"


def _csv(path: Path) -> Path:
    pyarrow.csv.write_csv(people(), path / "t.csv")
    return path / "t.csv"


SOURCES: dict[str, Callable[[Path], Any]] = {
    "table": lambda _: people(),
    "parquet": _parquet,
    "csv": _csv,
    "batches": lambda _: lambda: people().to_reader(100),
    "reader": lambda _: people().to_reader(100),
    "pandas": lambda _: people().to_pandas(),
    "relation": lambda _: duckdb.sql("SELECT * FROM held", connection=_connection()),
}


def _connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.register("held", people())
    return con


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[duckdb.DuckDBPyConnection]:
    """The databases that sessions open from now on."""
    found: list[duckdb.DuckDBPyConnection] = []
    limited = sessions.limited
    monkeypatch.setattr(sessions, "limited", lambda *given: found.append(limited(*given)) or found[-1])
    return found


def closed(con: duckdb.DuckDBPyConnection) -> bool:
    try:
        con.execute("SELECT 1")
    except duckdb.ConnectionException:
        return True
    return False


@pytest.mark.parametrize("kind", SOURCES)
def test_one_database_for_all_passes(kind: str, opened: list[duckdb.DuckDBPyConnection], tmp_path: Path) -> None:
    sfumato.publish(SOURCES[kind](tmp_path), tmp_path / "r", roles=ROLES, method=METHOD, seed=1)
    assert len(opened) == 1


def test_of_many_rows_none_waits_for_the_plan(
    opened: list[duckdb.DuckDBPyConnection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory of 100 million rows that were counted: 0.7 GB."""
    monkeypatch.setattr("sfumato.engines.duckdb.table.KEPT_ROWS", people().num_rows - 1)
    sfumato.publish(people(), tmp_path / "r", roles=ROLES, method=METHOD, seed=1)
    assert len(opened) == 2


@pytest.mark.parametrize("name", REGISTRY)
def test_the_rows_of_every_pass_are_fresh(name: str, tmp_path: Path) -> None:
    """A source of batches is asked for them again by each pass."""
    method, passes = REGISTRY[name], [0]

    def batches() -> pa.RecordBatchReader:
        passes[0] += 1
        return people().to_reader(100)

    spec = method.spec(**method.example.spec)
    one, other = (
        sfumato.publish(given, tmp_path / out, roles=ROLES, method=spec, seed=1, accept_unprotected=True)
        for given, out in ((batches, "a"), (people(), "b"))
    )
    assert (one.path / "data.parquet").read_bytes() == (other.path / "data.parquet").read_bytes()
    assert passes[0] >= 2


def test_a_pass_that_fails_leaves_no_database(opened: list[duckdb.DuckDBPyConnection], tmp_path: Path) -> None:
    path = _parquet(tmp_path)
    table = LocalEngine().open(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError):
        table.filled(["age"])
    assert len(opened) == 1
    assert closed(opened[0])


def test_a_table_that_nobody_holds_leaves_no_folder(opened: list[duckdb.DuckDBPyConnection], tmp_path: Path) -> None:
    gc.disable()
    try:
        table = LocalEngine().open(_parquet(tmp_path))
        table.filled(["age"])
        (spill,) = opened[0].execute("SELECT current_setting('temp_directory')").fetchall()[0]
        assert Path(spill).is_dir()
        del table
        assert not Path(spill).exists()
    finally:
        gc.enable()
