"""Real databases: one moment for both passes, types on purpose, few privileges, and no password anywhere."""

from __future__ import annotations

import datetime
import decimal
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from benchmarks import local_postgres as postgres

import sfumato as sf
from commands import SRC, sfumato
from patients import METHOD, ROLES, digests, patients, rows_digest
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import DataError, SpecError
from sfumato.publish import prepare, write
from sfumato.publishing.randomness import Secret
from sfumato.release import bundle

pytest.importorskip("adbc_driver_sqlite")
pytest.importorskip("adbc_driver_postgresql")
COLUMNS = 'name text, age bigint, sex text, "größe, cm" double precision, born date, "Krankheit" text'


def _literal(cell: Any) -> str:
    if cell is None:
        return "NULL"
    return str(cell) if isinstance(cell, int | float) else "'" + str(cell).replace("'", "''") + "'"


def _filled(table: str) -> str:
    """SQL that makes the table of patients."""
    rows = ",\n".join("(" + ", ".join(map(_literal, row.values())) + ")" for row in patients().to_pylist())
    return f"CREATE TABLE {table} ({COLUMNS}); INSERT INTO {table} VALUES {rows};"


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    why = postgres.missing()
    if why:
        pytest.skip(why)
    with postgres.server() as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", postgres.PASSWORD)
        started.run(_filled("patients"))
        yield started


@pytest.fixture(scope="module")
def expected() -> tuple[str, Any]:
    return digests(patients())


def test_the_release_from_postgresql_is_that_of_the_table(server: postgres.Server, expected: tuple[str, Any]) -> None:
    assert digests(server.address(table="patients")) == expected
    assert digests(server.address(table="public.patients")) == expected
    assert digests(sf.Source(server.address(), table="patients")) == expected
    assert digests(sf.Source(server.address(), query="SELECT * FROM patients; ")) == expected


def _published_around(source: Any, change: Any, folder: Path) -> str:
    """The digest of a release whose table is changed by others between the passes."""
    secret = Secret.from_seed(3)
    prepared = prepare(source, roles=ROLES, method=METHOD, secret=secret)
    change()
    with bundle.writing(folder) as partial:
        bundle.finish(partial, write(prepared, partial, secret, reproducible=True))
    return rows_digest(sf.open_release(folder))


def test_postgresql_is_published_as_of_one_moment(
    server: postgres.Server, expected: tuple[str, Any], tmp_path: Path
) -> None:
    server.run(_filled("busy"))

    def change() -> None:
        server.run("UPDATE busy SET \"Krankheit\" = 'Grippe'; DELETE FROM busy WHERE age < 40")
        assert server.run('SELECT count(DISTINCT "Krankheit") FROM busy') == "1"

    assert _published_around(server.address(table="busy"), change, tmp_path / "out") == expected[0]
    assert server.run("SELECT count(*) > 900 FROM busy") == "f"


def test_a_server_that_ends_the_session_is_one_clear_line(server: postgres.Server, tmp_path: Path) -> None:
    def change() -> None:
        server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'")

    with pytest.raises(DataError, match="the database failed while it was read"):
        _published_around(server.address(table="patients"), change, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_function_that_fails_is_not_quoted(tmp_path: Path) -> None:
    calls: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        calls.append(1)
        yield from patients().to_batches()
        if len(calls) > 1:
            raise ValueError("zqxj: a cell of the table")

    with pytest.raises(DataError, match="the source failed while its rows were read") as caught:
        sf.publish(batches, tmp_path / "out", roles=ROLES, method=METHOD)
    assert "zqxj" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_sqlite_is_published_as_of_one_moment(expected: tuple[str, Any], tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as con:
        con.execute("PRAGMA journal_mode=WAL")  # writers go on while we read
        con.executescript(_filled("patients"))

    def change() -> None:
        with sqlite3.connect(tmp_path / "t.db") as con:
            con.execute("DELETE FROM patients WHERE age < 40")
        con.close()

    con.close()
    source = f"sqlite:///{tmp_path / 't.db'}?table=patients"
    assert _published_around(source, change, tmp_path / "out") == expected[0]


def test_a_file_of_duckdb_is_held_while_it_is_read(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "t.duckdb")) as con:
        con.execute(_filled("patients"))
    table = LocalEngine().open(f"duckdb:///{tmp_path / 't.duckdb'}?table=patients")
    code = f"import duckdb; duckdb.connect({str(tmp_path / 't.duckdb')!r})"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode != 0
    assert table.people("name").rows == 1_000


TYPES = {
    "int2": ("SMALLINT", "7", 7),
    "int4": ("INTEGER", "7", 7),
    "int8": ("BIGINT", "7", 7),
    "float4": ("FLOAT", "0.5", 0.5),
    "float8": ("DOUBLE", "0.1", 0.1),
    "bool": ("BOOLEAN", "true", True),
    "numeric(10,2)": ("DECIMAL(10,2)", "12345678.90", decimal.Decimal("12345678.90")),
    "numeric": ("DECIMAL(8,3)", "12345.678", decimal.Decimal("12345.678")),
    "numeric(3,-2)": ("DECIMAL(5,0)", "12345", decimal.Decimal("12300")),
    "uuid": ("VARCHAR", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "date": ("DATE", "'2020-02-29'", datetime.date(2020, 2, 29)),
    "timestamp": ("TIMESTAMP", "'2020-02-29 10:00:00.25'", datetime.datetime(2020, 2, 29, 10, 0, 0, 250000)),  # noqa: DTZ001 - it has no zone
    "timestamptz": (
        "TIMESTAMP WITH TIME ZONE",
        "'2020-02-29 12:00:00+02'",
        datetime.datetime(2020, 2, 29, 10, tzinfo=datetime.UTC),
    ),
    "time": ("TIME", "'10:30'", datetime.time(10, 30)),
    "int4[]": ("VARCHAR", "ARRAY[1,2]", "{1,2}"),
    "jsonb": ("VARCHAR", "'{\"a\":1}'", '{"a": 1}'),
    "interval": ("VARCHAR", "'1 day'", "1 day"),
    "char(4)": ("VARCHAR", "'ab'", "ab"),
    "varchar(9)": ("VARCHAR", "'äb'", "äb"),
    "inet": ("VARCHAR", "'10.0.0.1'", "10.0.0.1/32"),
    "money": ("VARCHAR", "'1.50'", "$1.50"),
    "bytea": ("BLOB", "'\\x01'", b"\x01"),
}


def test_every_type_of_postgresql_is_mapped_on_purpose(server: postgres.Server) -> None:
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(TYPES))
    cells = ", ".join(text for _, text, _ in TYPES.values())
    server.run(f"CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE TABLE kinds ({columns}, m mood)")
    server.run(f"INSERT INTO kinds VALUES ({cells}, 'sad'); INSERT INTO kinds DEFAULT VALUES")
    table = LocalEngine().open(server.address(table="kinds"))
    assert [str(kind) for kind in table.columns.values()] == [kind for kind, _, _ in TYPES.values()] + ["VARCHAR"]
    rows = table._tables([f"SELECT {table._select(list(table.columns))} FROM source"])[0].to_pylist()
    first = list(rows[0].values())
    assert first[-1] == "sad"
    for kind, found, (_, _, wanted) in zip(TYPES, first, TYPES.values(), strict=False):
        assert found == wanted, kind
    assert set(rows[1].values()) == {None}


def test_numbers_that_are_none_are_refused(server: postgres.Server) -> None:
    server.run("CREATE TABLE odd (x numeric); INSERT INTO odd VALUES (1), ('NaN'), ('NaN')")
    with pytest.raises(DataError, match='2 rows of "x" are NaN'):
        LocalEngine().open(server.address(table="odd"))
    server.run("CREATE TABLE long (x numeric); INSERT INTO long VALUES (1e40)")
    with pytest.raises(DataError, match="more than 38 digits"):
        LocalEngine().open(server.address(table="long"))


def test_a_user_who_may_only_read_can_publish(server: postgres.Server, expected: tuple[str, Any]) -> None:
    secret = postgres.PASSWORD
    server.run(f"CREATE ROLE reader LOGIN PASSWORD '{secret}'; CREATE ROLE nobody_yet LOGIN PASSWORD '{secret}'")
    server.run("GRANT SELECT ON patients TO reader")
    assert digests(server.address(user="reader", table="patients")) == expected
    with pytest.raises(DataError, match="needs SELECT"):
        digests(server.address(user="nobody_yet", table="patients"))
    with pytest.raises(DataError, match="needs SELECT"):
        digests(sf.Source(server.address(user="reader"), query="SELECT * FROM pg_authid"))


def test_a_query_can_only_read(server: postgres.Server) -> None:
    for query in (
        "DELETE FROM patients",
        "SELECT 1; DROP TABLE patients",
        "DROP TABLE patients",
        "INSERT INTO patients DEFAULT VALUES RETURNING *",
    ):
        with pytest.raises(DataError):
            LocalEngine().open(sf.Source(server.address(), query=query))
    server.run("CREATE FUNCTION sweep() RETURNS int LANGUAGE sql AS 'DELETE FROM patients RETURNING 1'")
    with pytest.raises(DataError):
        LocalEngine().open(sf.Source(server.address(), query="SELECT sweep() AS x")).people("x")
    assert server.run("SELECT count(*) FROM patients") == "1000"


def test_the_password_is_seen_nowhere(server: postgres.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roles = ("--sa", "Krankheit", "--qi", 'age,sex,"größe, cm"', "--keep", "born", "--drop", "name")
    method = ("--method", "uniform", "--rho1", "1/4", "--rho2", "1/2")
    secret = postgres.PASSWORD
    typed = sfumato("publish", server.address(password=secret, table="patients"), tmp_path / "out", *roles, *method)
    assert typed.code == 2
    assert "PGPASSWORD" in typed.err
    monkeypatch.delenv("PGPASSWORD")
    texts = [typed.text]
    for wrong in (server.address(table="patients"), server.address(user="nobody at all", table="patients")):
        done = sfumato("publish", wrong, tmp_path / "out", *roles, *method)
        assert done.code == 2
        assert len(done.err.strip().splitlines()) == 1
        texts.append(done.text)
    (tmp_path / "pass").write_text(f"*:*:*:*:{secret}\n")
    (tmp_path / "pass").chmod(0o600)
    env = {**os.environ, "PGPASSFILE": str(tmp_path / "pass"), "PYTHONPATH": str(SRC), "PYTHONDONTWRITEBYTECODE": "1"}
    shown = "print(pathlib.Path('/proc/self/cmdline').read_bytes())"
    run = f"import pathlib\nfrom sfumato.cli import main\ntry:\n    main()\nfinally:\n    {shown}"
    command = [sys.executable, "-c", run, "publish", server.address(table="patients"), str(tmp_path / "out")]
    done = subprocess.run([*command, *roles, *method], check=False, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    texts += [done.stdout, done.stderr]
    texts += [file.read_bytes().decode("latin-1") for file in (tmp_path / "out").iterdir()]
    source = sf.Source(server.address(password=secret, table="patients"))
    with pytest.raises(DataError) as caught:
        LocalEngine().open(sf.Source(server.address(password=f"{secret}wrong", table="patients")))
    texts += [repr(source), str(source), str(caught.value), repr(caught.value)]
    assert [text for text in texts if secret in text or server.host in text.replace(str(command), "")] == [done.stdout]
    assert secret not in done.stdout  # the process's own arguments hold the address, and no password


WRONG = {
    "no table": ("sqlite:///{db}", {}, "name one"),
    "two tables": ("sqlite:///{db}?table=t", {"table": "t"}, "one place"),
    "unknown table": ("sqlite:///{db}?table=nope", {}, 'no table "nope"'),
    "unknown option": ("sqlite:///{db}?tabel=t", {}, "tabel"),
    "odd option": ("sqlite:///{db}?t", {}, "cannot be read"),
    "no file": ("sqlite:///{db}x?table=t", {}, "cannot read"),
    "not a database": ("sqlite:///{text}?table=t", {}, "not a SQLite"),
    "two slashes": ("sqlite://x.db?table=t", {}, "sqlite:///"),
    "bad query": ("sqlite:///{db}", {"query": "SELEC x"}, "not one SELECT"),
    "empty query": ("sqlite:///{db}", {"query": " ; "}, "empty"),
    "two statements": ("sqlite:///{db}", {"query": "SELECT 1 AS a; DROP TABLE t"}, "not one SELECT"),
    "writes": ("sqlite:///{db}", {"query": "DELETE FROM t"}, "not one SELECT"),
    "bytes among others": ("sqlite:///{db}?table=mixed", {}, "bytes among"),
    "delimiter": ("sqlite:///{db}?table=t", {"delimiter": ";"}, "CSV"),
    "unknown scheme": ("mysql://host/name", {}, "mysql"),
    "duckdb, no file": ("duckdb:///{db}x?table=t", {}, "no file"),
    "duckdb, not one": ("duckdb:///{text}?table=t", {}, "not a DuckDB"),
    "duckdb, unknown table": ("duckdb:///{duck}?table=nope", {}, "no such table"),
    "duckdb, bad query": ("duckdb:///{duck}", {"query": "SELECT FROM"}, "not one SELECT"),
    "duckdb, other files": ("duckdb:///{duck}", {"query": "SELECT * FROM read_csv('/etc/passwd')"}, "not one SELECT"),
    "postgresql, nobody there": ("postgresql:///x?host=/nowhere&table=t", {}, "no PostgreSQL server"),
    "query of a file": ("{text}", {"query": "SELECT 1"}, "address of a database"),
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("places")
    with sqlite3.connect(folder / "t.db") as con:
        con.executescript("CREATE TABLE t (x INTEGER, s TEXT); INSERT INTO t VALUES (1, 'zqxj');")
        con.executescript("CREATE TABLE mixed (x, s TEXT); INSERT INTO mixed VALUES (1, 'a'), (x'00', 'b');")
    con.close()
    with duckdb.connect(str(folder / "t.duckdb")) as duck:
        duck.execute("CREATE TABLE t AS SELECT 1 AS x")
    (folder / "t.csv").write_text("x,s\n1,zqxj\n")
    return {"db": folder / "t.db", "duck": folder / "t.duckdb", "text": folder / "t.csv"}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_is_said_in_one_line(case: str, places: dict[str, Path]) -> None:
    address, options, said = WRONG[case]
    with pytest.raises((DataError, SpecError), match=said) as caught:
        LocalEngine().open(sf.Source(address.format(**places), **options))
    assert "\n" not in str(caught.value)
    assert "zqxj" not in str(caught.value)


def test_cells_of_sqlite_decide_its_types(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as con:
        con.execute("CREATE TABLE t (late, mixed, real, yes BOOLEAN, day DATE, no_day DATE, moment DATETIME, empty)")
        blank = [(None, 1, 1, 1, "2020-01-01", "2020-01-01", "2020-01-01 10:00", None)] * 70_000
        con.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", blank)
        con.execute("INSERT INTO t VALUES ('x', 'y', 0.5, 0, NULL, 'soon', NULL, NULL)")
    con.close()
    table = LocalEngine().open(f"sqlite:///{tmp_path / 't.db'}?table=t")
    kinds = ["VARCHAR", "VARCHAR", "DOUBLE", "BOOLEAN", "DATE", "VARCHAR", "TIMESTAMP", "VARCHAR"]
    assert [str(kind) for kind in table.columns.values()] == kinds
    (note,) = table.notes
    assert '"mixed" is read as text: 1 of its cells are texts' in note
    assert table.people("late") == LocalEngine().open(pa.table({"late": [None] * 70_000 + ["x"]})).people("late")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT 'flu' AS s, date 'infinity' AS x", "infinite date"),
        ("SELECT 'flu' AS s, time '24:00' AS x", "the time 24:00"),
        ("SELECT 'flu' AS s, timestamp '-infinity' AS x", "infinite date"),
        ("SELECT age AS s, age AS x, age AS x FROM patients", "two columns alike"),
        ("WITH gone AS (DELETE FROM patients RETURNING *) SELECT age AS s, sex AS x FROM gone", "one SELECT"),
        ("SELECT 'flu' AS s, 1 / (age - age) AS x FROM patients", "divides by zero|failed while"),
    ],
)
def test_odd_queries_of_postgresql_are_one_clear_line(server: postgres.Server, query: str, said: str) -> None:
    method = sf.UniformPerturbation(rho1="1/3", rho2="3/5")
    others = " UNION ALL ".join(f"SELECT '{name}', NULL" for name in ("gout", "cold", "acne"))
    twice = f"({query}) UNION ALL {others}" if "'flu'" in query else query
    roles = sf.Roles(sensitive="s", insensitive=["x"])
    with pytest.raises(DataError, match=said):
        sf.publish(sf.Source(server.address(), query=twice), roles=roles, method=method)
    assert server.run("SELECT count(*) FROM patients") == "1000"
