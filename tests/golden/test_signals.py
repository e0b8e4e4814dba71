"""Signals in moments in which something is half done: it is done, or as before, and said so in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import RUN, SRC, Done, sfumato
from tables import people

OPTIONS = "--sa disease --qi age,sex --keep number --drop name --method uniform --rho1 1/5 --rho2 1/3 --seed 1"
NOTHING = "error: stopped; nothing was published\n"
# The signal comes while a function is called: before the call, or after it.
PRESSED = """
import importlib, os, signal, sys
from pathlib import Path
def press(*_):
    os.kill(os.getpid(), signal.{number})
    for _ in range(1000): pass
def pressing(where, name, *, after=False, times=1):
    usual, calls = getattr(where, name), []
    def called(*arguments, **more):
        calls.append(0)
        if len(calls) <= times and not after: press()
        found = usual(*arguments, **more)
        if len(calls) <= times and after: press()
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
        command, check=False, capture_output=True, text=True, cwd=folder / "place", env=env, timeout=60
    )
    assert list((folder / "temporary").iterdir()) == []
    return Done(code=done.returncode, out=done.stdout, err=done.stderr)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "place").iterdir())


PLACED = [
    'pressing(module("release.placing"), "move_in", after=True)',
    'pressing(os, "fsync", times=100)',
    'pressing(module("cli.terminal"), "_print")',
    'pressing(module("cli.custodian"), "mention_left_overs")',
    'import atexit\npressing(atexit, "_run_exitfuncs")',
]


@pytest.mark.parametrize("moment", PLACED)
def test_a_release_is_told_of_or_is_not_there(moment: str, here: Path, tmp_path: Path) -> None:
    done = pressed(moment, "publish", here / "t.parquet", "out", *OPTIONS.split(), folder=tmp_path)
    if done.code == 0:
        assert "out: 1,246 rows by uniform" in done.out
        assert "error" not in done.err
        assert names(tmp_path) == ["out"]
    else:
        assert (done.code, done.text, names(tmp_path)) == (130, NOTHING, [])


REPLACED = [
    'pressing(module("release.placing"), "_rename_with", after=True)',
    'pressing(Path, "rename", after=True, times=2)',
    'pressing(os, "fsync", times=100)',
    'pressing(module("engines.scratch").shutil, "rmtree", times=9)',
    'module("release.placing")._rename_with = lambda *_: False\npressing(Path, "rename", after=True, times=9)',
]


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("moment", REPLACED)
def test_a_release_that_is_replaced_is_the_old_or_the_new_one(
    moment: str, number: str, here: Path, tmp_path: Path
) -> None:
    (tmp_path / "place").mkdir()
    old = sfumato("publish", here / "t.parquet", tmp_path / "place" / "out", *OPTIONS.split())
    assert old.code == 0, old.text
    before = (tmp_path / "place" / "out" / "release.json").read_bytes()
    again = OPTIONS.replace("--seed 1", "--seed 2").split()
    done = pressed(moment, "publish", here / "t.parquet", "out", *again, "--force", folder=tmp_path, number=number)
    assert names(tmp_path) == ["out"]
    assert sfumato("verify", tmp_path / "place" / "out", "--test").code == 0
    is_new = (tmp_path / "place" / "out" / "release.json").read_bytes() != before
    if number == "SIGINT":
        assert (done.code, "error" in done.err) == ((0, False) if is_new else (130, True)), done.text
    else:
        assert done.code in {0, -signal.SIGTERM}


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    "moment",
    [
        'pressing(module("engines.scratch").tempfile, "mkdtemp", after=True)',
        'pressing(module("engines.scratch").secrets, "token_hex", times=9)',
        'pressing(module("engines.scratch").os, "open", after=True, times=9)',
    ],
)
def test_a_private_folder_that_is_being_made_goes(moment: str, number: str, here: Path, tmp_path: Path) -> None:
    done = pressed(moment, "publish", here / "t.parquet", "out", *OPTIONS.split(), folder=tmp_path, number=number)
    assert done.code == (130 if number == "SIGINT" else -signal.SIGTERM), done.text
    assert done.err == (NOTHING if number == "SIGINT" else "")
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    "moment",
    [
        'pressing(module("cli.application"), "complain")',
        'pressing(module("cli.application"), "complain", after=True)',
        'import atexit\npressing(atexit, "_run_exitfuncs")',
        'pressing(module("engines.scratch"), "clear")',
        'pressing(module("engines.scratch").shutil, "rmtree", times=9)',
    ],
)
def test_ctrl_c_pressed_twice_is_told_once(moment: str, here: Path, tmp_path: Path) -> None:
    first = 'pressing(module("release.bundle"), "finish")'
    done = pressed(f"{first}\n{moment}", "publish", here / "t.parquet", "out", *OPTIONS.split(), folder=tmp_path)
    assert (done.code, done.text, names(tmp_path)) == (130, NOTHING, [])


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    ("ending", "moment"),
    [
        ("csv", 'pressing(module("exporting.text_files"), "flat", times=9)'),
        ("csv", 'pressing(Path, "replace", after=True)'),
        ("xlsx", 'pressing(module("exporting.text_files"), "_fill", after=True)'),
        ("sqlite", 'pressing(module("exporting.databases"), "view")'),
    ],
)
def test_an_export_is_whole_or_not_there(ending: str, moment: str, number: str, here: Path, tmp_path: Path) -> None:
    done = pressed(moment, "export", here / "out", f"rows.{ending}", folder=tmp_path, number=number)
    if '"replace"' in moment:
        assert done.code in ({0} if number == "SIGINT" else {0, -signal.SIGTERM}), done.text
        assert "error" not in done.err
        assert names(tmp_path) == [f"rows-weights.{ending}", f"rows.{ending}"]
    else:
        stopped = (130, "error: stopped\n") if number == "SIGINT" else (-signal.SIGTERM, "")
        assert (done.code, done.text) == stopped
        assert names(tmp_path) == []


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_a_file_of_roles_is_whole_or_not_there(number: str, here: Path, tmp_path: Path) -> None:
    moment = (
        "usual = Path.open\n"
        "Path.open = lambda path, mode='r', **more: (usual(path, mode, **more), mode == 'x' and press())[0]"
    )
    asked = ("look", here / "t.parquet", "--sa", "disease", "--write-roles", "roles.toml")
    done = pressed(moment, *asked, folder=tmp_path, number=number)
    assert done.code in {0, 130 if number == "SIGINT" else -signal.SIGTERM}, done.text
    assert all((tmp_path / "place" / name).stat().st_size for name in names(tmp_path))


@pytest.mark.parametrize("command", ["serve", "studio"])
def test_ctrl_c_while_processes_are_started_ends_the_server_well(command: str, here: Path, tmp_path: Path) -> None:
    """A terminal sends it to all of them."""
    env = {**os.environ, "PYTHONPATH": str(SRC), "TMPDIR": str(tmp_path)}
    asked = [command, str(here / ("out" if command == "serve" else "t.parquet")), "--port", "0"]
    for moment in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", RUN, *asked], stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
        )
        assert child.stderr is not None
        assert "Ctrl-C stops" in child.stderr.readline()
        time.sleep(0.3 + 0.1 * moment)
        os.killpg(child.pid, signal.SIGINT)
        _, told = child.communicate(timeout=60)
        assert (child.returncode, told, list(tmp_path.iterdir())) == (0, "", []), moment
