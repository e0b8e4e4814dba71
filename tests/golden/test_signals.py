"""Ctrl-C and a request to end, in the middle of a command: nothing is left half-written, and one line says so."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import RUN, SRC, Done, sfumato
from serving import PATIENCE, running, running_studio
from tables import people

OPTIONS = "--sa disease --qi age,sex --keep number --drop name --method uniform --rho1 1/5 --rho2 1/3 --seed 1"
QUESTION = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"
NOTHING = "error: stopped; nothing was published\n"
CODES = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
# The signal comes when a function is called, before its work or after it.
PRESSED = """
import importlib, os, signal
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # where the tests run in the background it is ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # below nohup it is ignored, and handed on
def press():
    os.kill(os.getpid(), signal.{number})
    for _ in range(1000): pass
def pressing(where, name, *, after=False):
    usual = getattr(where, name)
    def called(*arguments, **more):
        setattr(where, name, usual)
        if not after: press()
        found = usual(*arguments, **more)
        if after: press()
        return found
    setattr(where, name, called)
def module(name):
    return importlib.import_module("sfumato." + name)
"""

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signals")
    pq.write_table(people().rename_columns(["name", "number", "age", "sex", "disease"]), folder / "t.parquet")
    done = sfumato("publish", "t.parquet", "out", *OPTIONS.split(), cwd=folder)
    assert done.code == 0, done.text
    return folder


def pressed(moment: str, *arguments: object, folder: Path, number: str = "SIGINT") -> Done:
    """The finished command, in an empty temporary folder that is empty again, after the lines of Python in `moment`."""
    (folder / "temporary").mkdir()
    (folder / "place").mkdir(exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(SRC), "TMPDIR": str(folder / "temporary")}
    command = [sys.executable, "-c", f"{PRESSED.format(number=number)}\n{moment}\n{RUN}", *map(str, arguments)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=folder / "place", env=env, timeout=PATIENCE
    )
    assert list((folder / "temporary").iterdir()) == []
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "place").iterdir())


# Each moment with one of the signals, and all of them together.
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        ("SIGHUP", 'pressing(module("engines.duckdb.table").LocalEngine, "open")'),
        ("SIGTERM", 'pressing(module("release.bundle"), "finish")'),
        ("SIGINT", 'pressing(module("engines.scratch"), "place_folder")'),
        ("SIGTERM", 'pressing(module("engines.scratch"), "_move", after=True)'),
    ],
)
def test_a_publication_that_is_stopped_leaves_nothing(number: str, moment: str, here: Path, tmp_path: Path) -> None:
    done = pressed(moment, "publish", here / "t.parquet", "out", *OPTIONS.split(), folder=tmp_path, number=number)
    assert (done.code, done.text.splitlines(keepends=True)[-1], names(tmp_path)) == (CODES[number], NOTHING, [])


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        ("SIGINT", 'module("engines.scratch").run_folder()\npressing(Path, "rename")'),
        ("SIGTERM", 'module("engines.scratch").run_folder()\npressing(Path, "rename", after=True)'),
        ("SIGHUP", 'pressing(module("engines.scratch"), "_move")'),
        ("SIGINT", 'pressing(module("engines.scratch"), "_move", after=True)'),
    ],
)
def test_a_release_that_was_to_be_replaced_is_still_there(number: str, moment: str, here: Path, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    shutil.copytree(here / "out", tmp_path / "place" / "out")
    before = (tmp_path / "place" / "out" / "release.json").read_bytes()
    again = OPTIONS.replace("--seed 1", "--seed 2").split()
    done = pressed(moment, "publish", here / "t.parquet", "out", *again, "--force", folder=tmp_path, number=number)
    assert done.code == CODES[number], done.text
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "place" / "out" / "release.json").read_bytes() == before
    assert sfumato("verify", tmp_path / "place" / "out", "--test").code == 0


@pytest.mark.parametrize(
    ("number", "ending", "moment"),
    [
        ("SIGINT", "csv", 'pressing(module("exporting.files"), "flat")'),
        ("SIGHUP", "xlsx", 'pressing(module("exporting.files"), "_fill", after=True)'),
        ("SIGTERM", "sqlite", 'pressing(module("exporting.files"), "view")'),
    ],
)
def test_an_export_that_is_stopped_leaves_nothing(
    number: str, ending: str, moment: str, here: Path, tmp_path: Path
) -> None:
    done = pressed(moment, "export", here / "out", f"rows.{ending}", folder=tmp_path, number=number)
    assert (done.code, done.text, names(tmp_path)) == (CODES[number], "error: stopped\n", [])


@pytest.mark.parametrize("number", CODES)
def test_a_comparison_that_is_stopped_leaves_no_rows_in_clear(number: str, here: Path, tmp_path: Path) -> None:
    """The signal comes when the table was copied into the private folder."""
    moment = 'pressing(module("choosing.measure"), "trial")'
    asked = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop", "--bound", "1/3", "--methods", "uniform")
    done = pressed(moment, "compare", here / "t.parquet", *asked, folder=tmp_path, number=number)
    assert (done.code, done.text, names(tmp_path)) == (CODES[number], "error: stopped\n", [])


def test_a_file_of_roles_is_whole_or_not_there(here: Path, tmp_path: Path) -> None:
    moment = 'pressing(Path, "write_text", after=True)'
    asked = ("look", here / "t.parquet", "--sa", "disease", "--write-roles", "roles.toml")
    done = pressed(moment, *asked, folder=tmp_path)
    assert (done.code, names(tmp_path)) == (CODES["SIGINT"], []), done.text


def test_a_question_that_is_stopped_is_told_in_a_line(here: Path, tmp_path: Path) -> None:
    moment = 'pressing(module("query"), "observe")'
    done = pressed(moment, "query", here / "out", QUESTION, folder=tmp_path, number="SIGTERM")
    assert (done.code, done.text) == (CODES["SIGTERM"], "error: stopped\n")


def test_an_engine_that_answers_a_signal_with_an_error_of_its_own_is_stopped(tmp_path: Path) -> None:
    """As DuckDB does: it looks for signals between pieces of work, and says that the statement was interrupted."""
    work = """
import sfumato.cli.application as application
def work(**_):
    try:
        press()
    except KeyboardInterrupt:
        raise RuntimeError("Query interrupted")
application.application = lambda _: work
"""
    done = pressed(work, "query", "out", QUESTION, folder=tmp_path)
    assert (done.code, done.text) == (130, "error: stopped\n")


def test_ctrl_c_ends_a_server_and_its_workers_well(here: Path) -> None:
    """A terminal sends it to all of them; the server answers, so all of them are there."""
    with running(here / "out", options=("--workers", "2"), own_group=True) as server:
        os.killpg(server.process.pid, signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0
        assert "Traceback" not in server.error_file.read_text()


def test_ctrl_c_ends_a_studio_well(here: Path) -> None:
    with running_studio(str(here / "t.parquet"), "--port", "0", folder=here, own_group=True) as studio:
        os.killpg(studio.process.pid, signal.SIGINT)
        assert studio.process.wait(PATIENCE) == 0
        assert "Traceback" not in studio.error_file.read_text()
