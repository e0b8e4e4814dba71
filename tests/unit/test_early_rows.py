"""Rows that are read while a command is still being loaded: the same release, and nothing is read in vain for long."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from commands import METHODS, sfumato
from sfumato.cli import early_rows
from sfumato.engines.duckdb import csv_pieces, csv_rows
from sfumato.engines.duckdb.begun_table import BegunTable, begun
from sfumato.engines.duckdb.engine import LocalEngine
from tables import people

ROLES = ("--sa", "disease", "--rest", "quasi", "--seed", "3")


@pytest.fixture(params=["parquet", "csv"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(early_rows, "LARGE", 1)
    path = tmp_path / f"t.{request.param}"
    write = csv.write_csv if request.param == "csv" else pq.write_table
    write(people().select(["age", "sex", "disease"]), path)
    return path


def _published(source: Path, out: Path, *options: str) -> bytes:
    done = sfumato("publish", source, out, *ROLES, *options)
    assert done.code == 0, done.err
    return (out / "data.parquet").read_bytes()


@pytest.mark.parametrize("method", METHODS)
def test_the_release_is_the_same(method: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[bool] = []
    serves = BegunTable.serves
    monkeypatch.setattr(BegunTable, "serves", lambda *a: served.append(serves(*a)) or served[-1])
    options = ("--method", method, *METHODS[method])
    early = _published(source, tmp_path / "early", *options)
    assert served == [True]
    monkeypatch.setattr(early_rows, "LARGE", 1 << 40)
    assert _published(source, tmp_path / "late", *options) == early
    assert served == [True]


@pytest.mark.parametrize(
    "options",
    [
        ("--bins", "age=0,40"),
        ("--types", "age=VARCHAR"),
        ("--sa", "sex"),
        ("--rho1", "2"),
        ("--no-such-option",),
        ("--drop", "age"),
        ("--memory", "100MB"),
        ("--null", "x"),
        ("--delimiter=;",),
    ],
)
def test_nothing_is_read_any_more(options: tuple[str, ...], source: Path, tmp_path: Path) -> None:
    """Whether the command takes other rows, or none."""
    before = set(threading.enumerate())
    sfumato("publish", source, tmp_path / "out", *ROLES, "--method", "uniform", *METHODS["uniform"], *options)
    assert not early_rows._begun
    assert set(threading.enumerate()) <= before


def test_reading_ends_when_nobody_wants_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a long file one piece is looked at, not all."""
    path, seen = tmp_path / "t.csv", list[int]()
    path.write_text("age,sex,disease\n" + "1,a,x\n" * 20_000)
    looked_at = csv_rows._looked_at

    def slowly(*arguments: Any) -> Any:
        seen.append(1)
        time.sleep(0.05)
        return looked_at(*arguments)

    monkeypatch.setattr(csv_rows, "_looked_at", slowly)
    monkeypatch.setattr(csv_pieces, "PIECE", 100)
    table = begun(LocalEngine(threads=1), path, list)
    assert table is not None
    table.let_go()
    assert len(seen) < 100
    assert table.table() is None


@pytest.mark.parametrize("content", [b"", b"no table at all"])
def test_a_file_that_is_none_is_told_once(content: bytes, source: Path, tmp_path: Path) -> None:
    source.write_bytes(content)
    done = sfumato("publish", source, tmp_path / "out", *ROLES, "--method", "uniform", *METHODS["uniform"])
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()
