"""Names that no file can have, or that lead nowhere, wherever a command takes one: one line, and no fault of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

import sfumato as sf
from commands import RUN, SRC, sfumato
from sfumato.cli.application import COMMANDS, application
from sfumato.errors import SfumatoError
from sfumato.methods import REGISTRY

# What stands for a path in the help of a command, and how a path is said there.
SAID: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("SOURCE", "OUT", "TARGET", "RELEASE", "RELEASE...", "FOLDER", "FILE"), lambda path: path),
    **dict.fromkeys(("FILE.toml", "FILE.sql", "FILE.json", "FILE|set|value", "PUB", "KEY"), lambda path: path),
    "COLUMN=FILE": lambda path: f"disease={path}",
    "NAME=FILE": lambda path: f"more={path}",
}
METHOD = ("--method", "uniform", "--rho1", "1/3", "--rho2", "1/2")
ROLES = ("--sa", "disease", "--rest", "quasi")
# A call of each command that would work; a path takes the place of an argument, or comes as an option besides.
CALLS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "demo": ({}, ()),
    "look": ({"source": "t.parquet"}, ()),
    "publish": ({"source": "t.parquet", "out": "new"}, (*ROLES, *METHOD)),
    "plan": ({"source": "t.parquet"}, (*ROLES, *METHOD)),
    "query": ({"release": "out"}, ("SELECT COUNT(*) AS n FROM release",)),
    "fit": ({"release": "out"}, ("disease ~ sex",)),
    "test": ({"release": "out"}, ("disease", "sex")),
    "inspect": ({"release": "out"}, ()),
    "verify": ({"release": "out"}, ("--test",)),
    "audit": ({"release": "out"}, ("--truth", "t.parquet")),
    "compare": ({"source": "t.parquet"}, (*ROLES, "--bound", "1/3")),
    "recommend": ({"source": "t.parquet"}, (*ROLES, "--bound", "1/3")),
    "export": ({"release": "out", "target": "new.csv"}, ()),
    "serve": ({"releases": "out"}, ()),
}
LONG = "a" * 5_000
PATHS = {
    "too long": LONG,
    "a long archive": f"{LONG}.zip",
    "a long table": f"{LONG}.csv",
    "long folders": "/".join(["b" * 200] * 40),
    "through a file": "t.parquet/x.csv",
    "a loop of links": "loop.csv",
    "in a loop of links": "loop.csv/x.html",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, its release, and a link to itself."""
    folder = tmp_path_factory.mktemp("here")
    table = pa.table({"disease": ["flu", "gout", "cold", "acne"] * 50, "sex": ["f", "m"] * 100})
    pq.write_table(table, folder / "t.parquet")
    roles, spec = sf.Roles(sensitive="disease", rest="quasi"), REGISTRY["uniform"].spec(rho1="1/3", rho2="1/2")
    sf.publish(table, folder / "out", roles=roles, method=spec, accept_unprotected=True, seed=1)
    (folder / "loop.csv").symlink_to("loop.csv")
    return folder


def places(command: str) -> list[tuple[str, str]]:
    """(name or option, metavar) of what a command takes a path for."""
    found = typer.main.get_command(application(command)).commands[command].params  # type: ignore[attr-defined]
    return [(p.opts[-1], str(p.metavar)) for p in found if p.metavar in SAID]


def test_every_command_that_takes_a_path_is_tried() -> None:
    taking = {command for command in COMMANDS if places(command)}
    assert taking == {*CALLS, "studio"}  # which shows what is wrong with a path on its page


# Every command with two of the paths, every path with four of the commands.
PAIRS = [(command, list(PATHS)[(i + j) % len(PATHS)]) for i, command in enumerate(CALLS) for j in (0, 3)]


@pytest.mark.parametrize(("command", "kind"), PAIRS)
def test_a_path_that_leads_nowhere(command: str, kind: str, here: Path) -> None:
    arguments, options = CALLS[command]
    for place, metavar in places(command):
        said = SAID[metavar](PATHS[kind])
        given = list({**arguments, place: said}.values()) if place in arguments else [*arguments.values(), place, said]
        before = sorted(here.rglob("*"))
        done = sfumato(command, *given, *(() if place == "--file" else options), cwd=here)  # or there are two questions
        text = done.err.replace(LONG, "aaa...")
        assert done.code == 2, (place, text)
        assert (text.count("\n"), "fault in sfumato" in text, text[:7]) == (1, False, "error: "), (place, text)
        assert sorted(here.rglob("*")) == before, place


@pytest.mark.parametrize("kind", PATHS)
def test_the_same_from_python(kind: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here)
    with pytest.raises(SfumatoError):
        sf.open_release(PATHS[kind])
    with pytest.raises(SfumatoError):
        sf.look(PATHS[kind])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_that_may_not_be_entered(here: Path, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    try:
        for command in ("inspect", "look", "verify"):
            done = sfumato(command, closed / "x.csv", cwd=here)
            assert (done.code, done.err.count("\n"), "fault" in done.err) == (2, 1, False), done.err
    finally:
        closed.chmod(0o700)


def test_a_long_name_before_the_command_line_is_loaded(here: Path) -> None:
    """`query` opens its release before anything else."""
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    question = ["query", LONG, "SELECT COUNT(*) AS n FROM release"]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *question], check=False, capture_output=True, text=True, cwd=here, env=env
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
