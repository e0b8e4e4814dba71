"""`sfumato query` in a pipe: questions from a file or from standard input, and exit codes that scripts can trust."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import RUN, SRC, sfumato
from tables import people

QUESTION = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"
OPTIONS = "--sa disease --qi age,sex --keep number --drop name --method uniform --rho1 1/5 --rho2 1/3 --seed 1"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipes")
    pq.write_table(people().rename_columns(["name", "number", "age", "sex", "disease"]), folder / "t.parquet")
    done = sfumato("publish", "t.parquet", "out", *OPTIONS.split(), cwd=folder)
    assert done.code == 0, done.text
    (folder / "q.sql").write_text(f"{QUESTION};\n", encoding="utf-8")
    pq.write_table(pa.table({"sex": ["f", "m"], "word": ["women", "men"]}), folder / "words.parquet")
    (folder / "words.csv").write_text("sex,word\nf,women\nm,men\n", encoding="utf-8")
    return folder


def piped(folder: Path, *arguments: str, text: str | None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", RUN, *arguments]
    return subprocess.run(command, input=text, check=False, capture_output=True, text=True, cwd=folder, env=env)


def test_a_file_holds_the_question(here: Path) -> None:
    plain = sfumato("query", "out", QUESTION, "--format", "json", cwd=here)
    assert sfumato("query", "out", "--file", "q.sql", "--format", "json", cwd=here) == plain
    both = sfumato("query", "out", QUESTION, "--file", "q.sql", cwd=here)
    assert (both.code, both.err) == (2, "error: give the question or --file, not both\n")
    assert sfumato("query", "out", "--file", "nowhere.sql", cwd=here).code == 2


def test_standard_input_is_read_without_a_prompt(here: Path) -> None:
    plain = sfumato("query", "out", QUESTION, "--format", "csv", cwd=here)
    done = piped(here, "query", "out", "--format", "csv", text=f"{QUESTION};\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, plain.out, "")
    refused = piped(here, "query", "out", text="SELECT * FROM release")
    assert (refused.returncode, refused.stdout) == (2, "")
    empty = piped(here, "query", "out", text="")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert empty.stderr == "error: the query is empty\n"


def test_a_reader_that_goes_away_is_no_fault_of_ours(here: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", RUN, "query", "out", QUESTION]
    try:
        done = subprocess.run(command, check=False, stdout=write, stderr=subprocess.PIPE, text=True, cwd=here, env=env)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("asked", [("query", "out", QUESTION), ("--version",), ("inspect", "out")])
def test_a_full_disk_is_told_in_a_line(asked: tuple[str, ...], here: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-c", RUN, *asked]
        done = subprocess.run(command, check=False, cwd=here, env=env, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: what is to be said cannot be written to standard output; is a disk full?\n"


def test_ctrl_c_that_nobody_was_to_hear_is_not_heard(here: Path) -> None:
    """As of a command that a shell runs in the background."""
    pressed = "importlib.import_module = lambda *a, **k: (os.kill(os.getpid(), signal.SIGINT), usual(*a, **k))[1]"
    text = f"import importlib, os, signal\nusual = importlib.import_module\n{pressed}\n"
    text += f"signal.signal(signal.SIGINT, signal.SIG_IGN)\n{RUN}"
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    asked = [sys.executable, "-c", text, "query", "out", QUESTION]
    done = subprocess.run(asked, check=False, capture_output=True, text=True, env=env, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("where", ["sfumato.release.bundle.finish", "sfumato.engines.duckdb.table.LocalEngine.open"])
def test_ctrl_c_at_work_is_told_in_a_line(
    where: str, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(where, stop)
    done = sfumato("publish", here / "t.parquet", tmp_path / "out", *OPTIONS.split())
    assert (done.code, done.text) == (130, "error: stopped; nothing was published\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_hear_nothing(closed: str, here: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    run = f'"$0" -m sfumato publish t.parquet "$1" {OPTIONS} {closed}'
    command = ["sh", "-c", run, sys.executable, str(tmp_path / "out")]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=here, env=env)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert sfumato("verify", tmp_path / "out", "--test").code == 0


@pytest.mark.parametrize("file", ["words.csv", "words.parquet"])
def test_a_lookup_table_comes_as_a_file(file: str, here: Path) -> None:
    sql = "SELECT w.word, COUNT(*) AS n FROM release r JOIN words w ON r.sex = w.sex GROUP BY w.word ORDER BY 1"
    done = sfumato("query", "out", sql, "--table", f"words={file}", "--format", "json", cwd=here)
    assert done.code == 0, done.text
    document = json.loads(done.out)
    assert document["kind"] == "exact"
    assert {row["word"] for row in document["rows"]} <= {"women", "men"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("words", "NAME=FILE"),
        ("words=nowhere.csv", "cannot be read"),
        ("words=q.sql", "neither"),
        ("release=words.csv", "no name"),
    ],
)
def test_a_lookup_table_that_cannot_be_read_is_refused(given: str, message: str, here: Path) -> None:
    done = sfumato("query", "out", QUESTION, "--table", given, cwd=here)
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
