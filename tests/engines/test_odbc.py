"""ODBC with a real driver: the same release, one moment, one-line refusals, and no password anywhere."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import sfumato as sf
from commands import sfumato
from patients import METHOD, ROLES, digests, patients, rows_digest
from sfumato.engines.source import address_of
from sfumato.errors import DataError, SfumatoError, SpecError
from sfumato.publish import prepare, write
from sfumato.publishing.randomness import Secret
from sfumato.release import bundle


def _driver() -> str | None:
    """Why there is no driver, or None."""
    tool = shutil.which("odbcinst")
    if tool is None:
        return "unixODBC is not installed"
    known = subprocess.run([tool, "-q", "-d"], capture_output=True, text=True, check=False).stdout
    return None if "[SQLite3]" in known else "SQLite's ODBC driver is not installed"


try:
    import_module("arrow_odbc")
except ImportError:
    pytest.skip("the extra odbc is not installed", allow_module_level=True)
except OSError:  # it loads the driver manager, which Debian has in its package unixodbc
    pytest.skip("unixODBC is not installed", allow_module_level=True)
pytestmark = pytest.mark.skipif(_driver() is not None, reason=str(_driver()))
COLUMNS = 'name text, age bigint, sex text, "größe, cm" double precision, born date, "Krankheit" text'


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "clinic.db"
    with sqlite3.connect(file) as con:
        con.execute(f"CREATE TABLE patients ({COLUMNS})")
        rows = [
            tuple(None if c is None else c if isinstance(c, int | float) else str(c) for c in row.values())
            for row in patients().to_pylist()
        ]
        con.executemany("INSERT INTO patients VALUES (?, ?, ?, ?, ?, ?)", rows)
    con.close()
    return file


def address(file: Path, **options: str) -> str:
    parts = {"Driver": "SQLite3", "Database": str(file)} | options
    return "odbc://?" + "&".join(f"{key}={quote(value)}" for key, value in parts.items())


def test_the_release_is_that_of_the_table(database: Path) -> None:
    expected = digests(patients())
    assert digests(address(database, table="patients")) == expected
    assert digests(sf.Source(address(database), table="patients")) == expected
    assert digests(sf.Source(address(database), query="SELECT * FROM patients;")) == expected


def test_both_passes_see_one_moment(database: Path, tmp_path: Path) -> None:
    secret = Secret.from_seed(3)
    prepared = prepare(address(database, table="patients"), roles=ROLES, method=METHOD, secret=secret)
    assert any("asked once" in note for note in prepared.table.notes)
    with sqlite3.connect(database) as con:
        con.execute("DELETE FROM patients WHERE rowid % 2 = 0")
    con.close()
    with bundle.writing(tmp_path / "out") as partial:
        bundle.finish(partial, write(prepared, partial, secret, reproducible=True))
    assert rows_digest(sf.open_release(tmp_path / "out")) == digests(patients())[0]


def refused(source: Any) -> str:
    with pytest.raises(SfumatoError) as found:
        sf.publish(source, roles=ROLES, method=METHOD, seed=1)
    return str(found.value)


def test_refusals_are_one_line_and_quote_nothing(database: Path, tmp_path: Path) -> None:
    with sqlite3.connect(database) as con:
        con.execute("INSERT INTO patients (name) VALUES (?)", ("secret" * 20_000,))
    con.close()
    texts = [
        refused(address(database, table="nothing")),
        refused(address(database, table="patients")),  # a cell that does not fit is refused, never cut
        refused(sf.Source(address(database), query="SELEKT 1")),
        refused(address(tmp_path / "no" / "clinic.db", table="patients")),
        refused("odbc://nothing-of-that-name?table=patients"),
        refused("odbc://?Driver=Nothing&table=patients"),
        refused(address(database)),
    ]
    assert all("\n" not in text and "secret" not in text and str(tmp_path) not in text for text in texts)
    assert "many tables" in texts[-1]


def test_no_password_on_the_command_line(tmp_path: Path) -> None:
    for key in ("PWD", "Password"):
        given = f"odbc://clinic?{key}=hunter2&table=t"
        done = sfumato("publish", given, str(tmp_path / "out"), "--sa", "s", "--rho1", "1/5", "--rho2", "1/2")
        assert done.code == 2
        assert "hunter2" not in done.out + done.err
        assert "odbc.ini" in done.err
        found = address_of(f"odbc://clinic?{key}=hunter2")
        assert found is not None
        assert "hunter2" not in repr(found)


@pytest.mark.parametrize("given", ["odbc://", "odbc://?", "odbc://?table=t", "odbc://?a%3Bb=1", "odbc://x?y"])
def test_addresses_that_say_nothing(given: str) -> None:
    with pytest.raises((SpecError, DataError)):
        sf.publish(given, roles=ROLES, method=METHOD)
