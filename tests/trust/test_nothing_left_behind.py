"""Rows in clear do not outlive the run; after a kill the next run says so. Ends by a signal: golden/test_signals.py."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import RUN, SRC, sfumato
from sfumato.engines import scratch
from sfumato.engines.duckdb.connection import limited
from sfumato.engines.duckdb.table import LocalEngine
from tables import MARK, ROLES, people

# A comparison that has copied the table into its private folder, says so, and goes no further.
HALTED = """
import signal
import sfumato.choosing.measure as measure
def halt(*arguments):
    print("halted", flush=True)
    signal.pause()
measure.trial = halt
"""


@contextmanager
def halted(table: Path, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """The comparison of a table in a process of its own, halted with the table's copy in its private folder."""
    env = {**os.environ, "PYTHONPATH": str(SRC), "TMPDIR": str(temporary)}
    asked = ("compare", str(table), *ROLES, "--bound", "1/3", "--methods", "uniform")
    arguments = [sys.executable, "-c", f"{HALTED}\n{RUN}", *asked]
    child = subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "halted\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def test_what_a_kill_leaves_is_found_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, temporary = tmp_path / "t.parquet", tmp_path / "temporary"
    temporary.mkdir()
    pq.write_table(people(), table)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    options = (*ROLES, "--rho1", "1/5", "--rho2", "1/3")
    with halted(table, temporary) as alive:
        with halted(table, temporary):
            assert scratch.left_overs() == ()
        (left,) = scratch.left_overs()
        assert list(left.rglob("truth.parquet"))
        assert "sfumato clean" in sfumato("plan", table, *options).err
        assert "1 folder" in sfumato("clean").out
        assert not left.exists()
        assert "clean" not in sfumato("plan", table, *options).err
        assert "nothing to remove" in sfumato("clean").out
        assert list(temporary.glob(f"{scratch.NAME}{alive.pid}-*/truth-*/truth.parquet"))  # it is at work


def test_folders_of_others_and_links_are_not_left_overs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / scratch.LOCK).touch()
    (tmp_path / f"{scratch.NAME}1-link").symlink_to(tmp_path / "precious")
    (tmp_path / f"{scratch.NAME}2-nolock").mkdir()
    (tmp_path / f"{scratch.NAME}3-file").touch()
    assert scratch.left_overs() == ()
    assert scratch.remove_left_overs() == 0
    assert len(list(tmp_path.iterdir())) == 4


def test_the_private_folder_is_private() -> None:
    release = sf.publish(
        people(),
        roles=sf.Roles(sensitive="disease", rest="drop"),
        method=sf.UniformPerturbation(rho1="1/5", rho2="1/3"),
    )
    folder = scratch.run_folder()
    assert folder in release.path.parents
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    place = release.path.parent
    del release
    assert not place.exists()


def test_what_spills_cannot_be_read(tmp_path: Path) -> None:
    """A table larger than the memory: the files on disk hold no cell of it."""
    con = limited(LocalEngine(memory="64MB", threads=1), str(tmp_path))
    con.execute(f"CREATE TABLE t AS SELECT '{MARK}' || md5(i::VARCHAR) AS s FROM range(1500000) r(i)")
    spilled = [file for file in tmp_path.iterdir() if file.stat().st_size > 100_000]
    assert spilled
    assert not [file for file in spilled if MARK.encode() in file.read_bytes()]
    assert con.execute("SELECT count(DISTINCT s) FROM t").fetchall() == [(1_500_000,)]
