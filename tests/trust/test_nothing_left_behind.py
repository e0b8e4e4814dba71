"""Rows in clear do not outlive the run: not after an end by a signal, and after a kill the next run says so."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import RUN, SRC, sfumato
from constants import SEED
from sfumato.datasets import census_table
from sfumato.engines import scratch
from sfumato.engines.duckdb.connection import limited
from sfumato.engines.duckdb.table import LocalEngine
from tables import MARK, people

ROLES = ("--sa", "occupation", "--qi", "age,education", "--rest", "drop")
COMMANDS = {
    "publish": ("publish", "t.parquet", "out", *ROLES, "--rho1", "1/10", "--rho2", "1/3"),
    "compare": ("compare", "t.parquet", *ROLES, "--bound", "1/3", "--methods", "uniform", "--releases", "50"),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("source") / "t.parquet"
    pq.write_table(census_table(400_000, SEED), file)
    return file


def _started(command: str, source: Path, here: Path) -> subprocess.Popen[bytes]:
    """The command at work: its private folder is there and holds something."""
    (here / "temporary").mkdir(exist_ok=True)
    if not (here / "t.parquet").exists():  # another run may be reading it
        (here / "t.parquet").symlink_to(source)
    env = {**os.environ, "PYTHONPATH": str(SRC), "TMPDIR": str(here / "temporary")}
    heard = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)"  # below nohup it is ignored, and handed on
    arguments = [sys.executable, "-c", f"{heard}; {RUN}", *COMMANDS[command]]
    child = subprocess.Popen(arguments, cwd=here, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    wanted = "truth-*/truth.parquet" if command == "compare" else "spill-*"
    while not list((here / "temporary").glob(f"{scratch.NAME}{child.pid}-*/{wanted}")):
        assert child.poll() is None, "it ended too early for the test"
        assert time.monotonic() < until
        time.sleep(0.005)
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_ended_run_leaves_nothing(command: str, number: signal.Signals, source: Path, tmp_path: Path) -> None:
    child = _started(command, source, tmp_path)
    child.send_signal(number)
    assert child.wait(timeout=60) not in {0, 1, 2}
    assert list((tmp_path / "temporary").iterdir()) == []
    assert sorted(f.name for f in tmp_path.iterdir()) == ["t.parquet", "temporary"]


def test_what_a_kill_leaves_is_found_and_removed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    child = _started("compare", source, tmp_path)
    alive = _started("compare", source, tmp_path)
    request.addfinalizer(alive.kill)
    temporary = tmp_path / "temporary"
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert scratch.left_overs() == ()
    child.send_signal(signal.SIGKILL)
    child.wait()
    (left,) = scratch.left_overs()
    assert list(left.rglob("truth.parquet"))
    pq.write_table(people(), tmp_path / "p.parquet")
    roles = ("--sa", "disease", "--rest", "drop", "--rho1", "1/5", "--rho2", "1/3")
    assert "sfumato clean" in sfumato("plan", tmp_path / "p.parquet", *roles).err
    assert "1 folder" in sfumato("clean").out
    assert not left.exists()
    assert "clean" not in sfumato("plan", tmp_path / "p.parquet", *roles).err
    assert "nothing to remove" in sfumato("clean").out
    assert alive.poll() is None  # its folder was not touched
    assert list(temporary.glob(f"{scratch.NAME}{alive.pid}-*/truth-*/truth.parquet"))
    alive.terminate()
    alive.wait()


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
