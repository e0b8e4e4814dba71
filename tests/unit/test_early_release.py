"""A release that is opened and counted before its question is understood: the same answers and the same errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato
from commands import sfumato as command
from sfumato.methods.registry import BUILT_IN
from sfumato.methods.specifications import build

ROWS = 12_000  # above those that are not worth it
QUESTIONS = (
    "SELECT COUNT(*) AS n FROM release WHERE Disease = 2 AND age > 30",
    'SELECT sex, AVG(age) AS a FROM release WHERE "disease" < 3 GROUP BY sex ORDER BY sex',
    "SELECT COUNT(*) AS n FROM release",
)

ASKED = """
import contextlib, io, json, sys
from sfumato.cli import early_release, main
out, told = io.StringIO(), io.StringIO()
with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told):
    try:
        main(sys.argv[1:])
    except SystemExit as end:
        code = end.code
assert not early_release._begun, "it is still held"
print(json.dumps([code, out.getvalue(), told.getvalue()]))
"""


def asked(*arguments: object) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command in a process of its own."""
    line = [sys.executable, "-c", ASKED, *map(str, arguments)]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code, out, told = json.loads(done.stdout.splitlines()[-1])
    return code, out, told


def asked_late(*arguments: object) -> tuple[int, str, str]:
    """The same here, by a release that is opened when the question is understood."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.cli.early_release.begin", lambda _: None)
        done = command(*arguments)
    return done.code, done.out, done.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    table = {"age": rng.integers(18, 60, ROWS), "sex": rng.integers(0, 2, ROWS), "disease": rng.integers(0, 9, ROWS)}
    roles = sfumato.Roles(sensitive="disease", quasi=("age", "sex"))
    folder = tmp_path_factory.mktemp("releases")
    for method in BUILT_IN:
        spec = build(method, sfumato.methods.REGISTRY[method].example.options)
        sfumato.publish(pa.table(table), folder / method, roles=roles, method=spec, seed=1)
    return folder


@pytest.mark.parametrize("method", BUILT_IN)
def test_answers_are_those_of_a_release_that_was_opened_in_time(method: str, folder: Path) -> None:
    for question in QUESTIONS:
        early, late = asked("query", folder / method, question), asked_late("query", folder / method, question)
        assert early == late
        assert early[0] == 0 or "AVG" in question, early


def test_errors_are_the_commands_own(folder: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged"
    shutil.copytree(folder / "uniform", forged)
    with (forged / "data.parquet").open("ab") as file:
        file.write(b"more")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "release.json").write_text("{}")
    for arguments in (
        ("query", forged, QUESTIONS[0]),
        ("query", tmp_path / "broken", QUESTIONS[0]),
        ("query", tmp_path / "none", QUESTIONS[0]),
        ("query", folder / "uniform", "SELECT nothing FROM release"),
        ("query", folder / "uniform", QUESTIONS[0], "--level", "many"),
        ("query", folder / "uniform", QUESTIONS[0], "--engine", "abacus"),
        ("query", folder / "uniform", QUESTIONS[0], "--remote", "sc://nowhere"),
    ):
        early, late = asked(*arguments), asked_late(*arguments)
        assert early == late
        assert early[0] != 0
        assert early[2].startswith("error: ")
