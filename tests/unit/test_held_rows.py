"""Rows that are read once, beside other work: the same release, the same errors, nothing held for longer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.engines.directory import read_ahead
from sfumato.engines.duckdb import held_rows
from sfumato.engines.duckdb.engine import LocalEngine
from sfumato.engines.duckdb.held_rows import HeldRows
from sfumato.engines.duckdb.session import Session
from sfumato.errors import DataError
from sfumato.model.private import Needs
from tables import people

ROLES = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")
METHOD = sfumato.UniformPerturbation(rho1="1/3", rho2="1/2")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    pq.write_table(people(), path)
    return path


def _bytes(source: Path, out: Path, engine: LocalEngine) -> bytes:
    release = sfumato.publish(source, out, roles=ROLES, method=METHOD, seed=3, engine=engine)
    return (release.path / "data.parquet").read_bytes()


@pytest.mark.parametrize("share", [held_rows.SHARE, 0.0], ids=["held", "too many to be held"])
def test_the_release_is_the_same(share: float, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_rows, "SHARE", share)
    monkeypatch.setattr(held_rows, "BATCH", 250)
    engine = LocalEngine(batch_rows=300)
    expected = _bytes(source, tmp_path / "plain", engine)
    with read_ahead(engine, source, ROLES.published):
        table = engine.open(source)
        assert (table._held is not None and table._held.batches() is not None) == bool(share)
        assert _bytes(source, tmp_path / "ahead", engine) == expected
        assert table._held is None  # used up


def test_both_passes_look_at_what_was_read_first(source: Path, tmp_path: Path) -> None:
    engine = LocalEngine()
    expected = _bytes(source, tmp_path / "plain", engine)
    with read_ahead(engine, source, ROLES.published):
        held = engine.open(source)._held
        assert held is not None
        held.batches()
        source.write_bytes(b"no longer a table")
        assert _bytes(source, tmp_path / "ahead", engine) == expected
    with pytest.raises(DataError):
        engine.open(source)


def test_other_columns_are_read_from_the_source(source: Path) -> None:
    engine = LocalEngine()
    needs = Needs(units=(("disease",),), joints=((0,),), changed=(True,))
    with read_ahead(engine, source, lambda _: ["age"]):
        profile = engine.open(source).profile(needs, {}, null_as_value=False)
    assert profile.rows == people().num_rows


def test_bins_are_not_taken_from_rows_without_them(source: Path) -> None:
    engine = LocalEngine()
    needs = Needs(units=(("age",),), joints=((0,),), changed=(True,))
    with read_ahead(engine, source, ROLES.published):
        table = engine.open(source)
        assert table._held is not None
        binned = table.binned({"age": [0.0, 40.0]})
        values = binned.profile(needs, {}, null_as_value=False).domains[0].values
    assert all(isinstance(value, str) for (value,) in values)


@pytest.mark.parametrize("content", [b"", b"no table"])
def test_what_is_wrong_is_told_when_the_source_is_opened(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    engine = LocalEngine()
    with pytest.raises(DataError) as plain:
        engine.open(path)
    with read_ahead(engine, path, ROLES.published), pytest.raises(DataError, match=str(plain.value)):
        engine.open(path)


def test_rows_that_cannot_be_read_are_told_by_whoever_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"  # larger than what is held anyway, and broken behind what is looked at first
    path.write_text("age,sex,disease\n" + "1,a,x\n" * 10 + "1,a\n")
    engine = LocalEngine()
    with read_ahead(engine, path, ROLES.published), pytest.raises(DataError, match="ragged"):
        engine.open(path)


def test_nothing_is_read_when_nobody_waits(source: Path) -> None:
    engine = LocalEngine()
    before = threading.active_count()
    with read_ahead(engine, source, ROLES.published):
        table = engine.open(source)
    assert table._held is None
    assert threading.active_count() == before


def test_an_error_while_reading_leaves_nothing_held(source: Path) -> None:
    engine = LocalEngine()
    table = engine.open(source)
    session = table._session().__enter__()
    held = HeldRows(session, ["age"], "SELECT error('secret cell') FROM source")
    assert held.batches() is None
    held.close()


@pytest.mark.parametrize("error", [MemoryError("secret cell"), pa.ArrowInvalid("secret cell"), OSError("secret cell")])
def test_a_fault_of_any_kind_is_no_empty_table(
    error: Exception, source: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Rows that were not all read are not taken for rows that are not there; nothing of them is printed."""

    class Broken:
        def __iter__(self) -> Iterator[pa.RecordBatch]:
            yield people().to_batches()[0]
            raise error

    class Opened:
        def to_arrow_reader(self, _: int) -> Broken:
            return Broken()

    session = LocalEngine().open(source)._session().__enter__()
    monkeypatch.setattr(Session, "query", lambda *_: Opened())
    held = HeldRows(session, ["age"], "SELECT age FROM source")
    assert held.batches() is None
    held.close()
    assert "secret" not in "".join(capfd.readouterr())


def test_tables_in_memory_are_at_hand_already() -> None:
    engine, given = LocalEngine(), people()
    assert isinstance(given, pa.Table)
    with read_ahead(engine, given, ROLES.published):
        assert engine._begun is None
