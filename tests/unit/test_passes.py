"""Every pass over a source has a database and a spill folder of its own, which go with it, also where it fails."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.engines.duckdb import connection as sessions
from sfumato.engines.duckdb.table import LocalEngine
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


@pytest.fixture
def spilled(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that sessions may spill to from now on."""
    found: list[Path] = []
    limited = sessions.limited

    def noted(allowed: sessions.Allowance, spill: str, taken: int = 0) -> duckdb.DuckDBPyConnection:
        found.append(Path(spill))
        return limited(allowed, spill, taken)

    monkeypatch.setattr(sessions, "limited", noted)
    return found


def closed(con: duckdb.DuckDBPyConnection) -> bool:
    try:
        con.execute("SELECT 1")
    except duckdb.ConnectionException:
        return True
    return False


@pytest.mark.parametrize("kind", SOURCES)
def test_no_pass_leaves_a_database(kind: str, opened: list[duckdb.DuckDBPyConnection], tmp_path: Path) -> None:
    sfumato.publish(SOURCES[kind](tmp_path), tmp_path / "r", roles=ROLES, method=METHOD, seed=1)
    assert opened
    assert all(map(closed, opened))


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


def test_a_pass_that_fails_leaves_neither_database_nor_folder(
    opened: list[duckdb.DuckDBPyConnection], spilled: list[Path], tmp_path: Path
) -> None:
    path = _parquet(tmp_path)
    table = LocalEngine().open(path)
    passes = len(opened)
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError):
        table.filled(["age"])
    assert len(opened) == passes + 1
    assert all(map(closed, opened))
    assert not any(folder.exists() for folder in spilled)


def test_an_open_table_holds_no_folder(spilled: list[Path], tmp_path: Path) -> None:
    table = LocalEngine().open(_parquet(tmp_path))
    table.filled(["age"])
    assert len(spilled) == 2
    assert not any(folder.exists() for folder in spilled)
