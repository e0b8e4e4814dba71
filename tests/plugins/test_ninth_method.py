"""examples/ninth-method, installed from its folder: what it touches there is all that a method costs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from commands import RUN, SRC, Done, sfumato
from forged_rows import one_value
from forging import forged
from sfumato.methods import REGISTRY
from tables import ROLES, people

ROOT = SRC.parent
EXAMPLE = ROOT / "examples" / "ninth-method"
NAME = "ordered-response"
OPTIONS = ("--method", NAME, "--odds", "128")
ENDS = "disease IN ('angina', 'hepatitis')"  # of the order: hardly ever taken for each other
Run = Callable[..., Done]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages in which the example is installed."""
    target = tmp_path_factory.mktemp("site")
    pip = ("-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps")
    done = subprocess.run(
        [sys.executable, *pip, "--no-build-isolation", "--target", str(target), str(EXAMPLE)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def python(site: Path) -> Run:
    """Python in a process of its own in which the example is installed."""

    def run(*arguments: object, cwd: Path = ROOT) -> Done:
        path = os.pathsep.join((str(SRC), str(site)))
        env = {**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, *map(str, arguments)]
        found = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=env)
        return Done(code=found.returncode, out=found.stdout, err=found.stderr)

    return run


@pytest.fixture
def command(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The command line in this process, which finds the example for as long as a test lasts."""
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(REGISTRY, "_loaded", {})
    monkeypatch.delitem(vars(REGISTRY), "_plugins", raising=False)
    yield sfumato
    vars(REGISTRY).pop("_plugins", None)  # found with the example's folder on the path
    sys.modules.pop("ordered_response", None)


@pytest.fixture(scope="module")
def folder(python: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table t.parquet and its release out."""
    here = tmp_path_factory.mktemp("ninth")
    pq.write_table(people(), here / "t.parquet")
    done = python("-c", RUN, "publish", "t.parquet", "out", *ROLES, *OPTIONS, "--seed", 1, cwd=here)
    assert done.code == 0, done.text
    return here


def test_the_example_is_four_files() -> None:
    """One source file, one test file, one page, and the file that makes them a package."""
    found = {file.name for file in EXAMPLE.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    assert found == {"ordered_response.py", "test_ordered_response.py", "README.md", "pyproject.toml"}


def test_sfumato_does_not_know_it() -> None:
    """No file of the package names the method, and this process has not got it."""
    assert NAME not in REGISTRY
    files = [file for file in SRC.rglob("*") if file.is_file() and file.suffix in {".py", ".json"}]
    assert [file.name for file in files if "ordered" + "-response" in file.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        (("plan", "t.parquet", *ROLES, *OPTIONS), "times as likely against another"),
        (("inspect", "out"), NAME),
        (("verify", "out", "--test"), "what is published is what the parameters allow"),
        (("publish", "--help"), "--odds"),
        (("query", "out", "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"), "95% interval"),
        (("query", "out", "SELECT AVG(age) FROM release WHERE disease > 'cold'", "--explain"), "C^-1 h"),
        (("fit", "out", "age ~ C(disease)", "--where", ENDS), "release by ordered-response"),
        (("test", "out", "disease", "sex"), "chi2("),
        (("plan", "t.parquet", *ROLES, *OPTIONS[:-1], 10**7, "--fit", "age ~ C(disease)"), "the errors to expect"),
        (("audit", "out", "--truth", "t.parquet"), "record posterior"),
        (("export", "out", "out.duckdb"), "1,246 rows written"),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else "",
)
def test_every_command_takes_it(arguments: tuple[str, ...], shows: str, command: Run, folder: Path) -> None:
    done = command(*arguments, cwd=folder)
    assert done.code == 0, done.text
    assert shows in done.text


def test_answers_hold_the_truth(command: Run, folder: Path) -> None:
    """Counts of all eight values, six standard errors each: false alarm 2e-8 in all."""
    sql = "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease"
    rows = json.loads(command("query", "out", sql, "--format", "json", cwd=folder).out)["rows"]
    true = {row["values"]: row["counts"] for row in people()["disease"].value_counts().to_pylist()}
    assert {row["disease"] for row in rows} == set(true)
    assert all(0 < abs(row["n"] - true[row["disease"]]) < 6 * row["n_se"] for row in rows)


def test_it_is_compared_and_recommended_like_any_other(command: Run, folder: Path) -> None:
    roles = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop", "--bound", "1/3", "--seed", 1, "--json")
    done = command("compare", "t.parquet", *roles, "--methods", f"uniform,{NAME}", "--releases", 2, cwd=folder)
    assert done.code == 0, done.text
    found = {entry["method"]: entry for entry in json.loads(done.out)["methods"]}
    assert set(found) == {"uniform", NAME}
    assert set(found[NAME]) == set(found["uniform"])
    done = command("recommend", "t.parquet", *roles, cwd=folder)
    assert done.code == 0, done.text
    assert NAME in done.out


def test_exported_weights_count_without_sfumato(command: Run, folder: Path) -> None:
    """Plain SQL over the exported tables gives the estimate of `query`, to the last digits of floating point."""
    target = folder / "weights.duckdb"
    assert command("export", "out", target, cwd=folder).code == 0
    sql = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'f'"
    (told,) = json.loads(command("query", "out", sql, "--format", "json", cwd=folder).out)["rows"]
    with duckdb.connect(str(target), read_only=True) as connection:
        plain = "SELECT SUM(weight), SQRT(SUM(variance)) FROM estimates WHERE disease = 'flu' AND sex = 'f'"
        found = connection.execute(plain).fetchone()
    assert found == pytest.approx((told["n"], told["n_se"]))


def test_rows_that_the_channel_does_not_make_are_refused(command: Run, folder: Path, tmp_path: Path) -> None:
    """Every row shows one value, and everything that describes the rows is made anew."""
    forged(folder / "out", tmp_path / "one", data=one_value)
    done = command("verify", tmp_path / "one", "--test")
    assert done.code == 4
    assert "too rarely for the stated noise" in done.err


def test_a_forged_release_is_refused(command: Run, folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder / "out", tmp_path / "copy"))
    stated = json.loads((copy / "release.json").read_text(encoding="utf-8"))
    stated["parameters"]["step"] = "3/2"
    (copy / "release.json").write_text(json.dumps(stated), encoding="utf-8")
    done = command("verify", copy, "--test")
    assert done.code == 4
    assert "guarantee" in done.err


WITHOUT = [
    ("query", "out", "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex", "--format", "json"),
    ("query", "out", "SELECT AVG(age) AS a FROM release WHERE disease > 'cold'", "--format", "json"),
    ("fit", "out", "age ~ C(disease)", "--where", ENDS, "--format", "json"),
    ("test", "out", "disease", "sex", "--format", "json"),
    ("audit", "out", "--truth", "t.parquet", "--json"),
]


@pytest.mark.parametrize("arguments", WITHOUT, ids=lambda a: a[0])
def test_its_release_is_asked_where_it_is_not_installed(arguments: tuple[str, ...], python: Run, folder: Path) -> None:
    """The release states its law: the answers are those of a house that has the method."""
    assert NAME not in REGISTRY
    here, there = sfumato(*arguments, cwd=folder), python("-c", RUN, *arguments, cwd=folder)
    assert here.code == 0, here.text
    assert json.loads(here.out) == json.loads(there.out)


def test_its_rows_are_exported_where_it_is_not_installed(folder: Path) -> None:
    done = sfumato("export", "out", "without.duckdb", cwd=folder)
    assert done.code == 0, done.text
    assert "1,246 rows written" in done.text


def test_what_cannot_be_told_without_the_method_is_said(folder: Path, tmp_path: Path) -> None:
    """The promise is shown as stated, and not called verified; rows that the law does not make are still refused."""
    shown = sfumato("inspect", "out", cwd=folder)
    assert shown.code == 0, shown.text
    assert "times as likely against another" in shown.out
    assert "the method is not installed here" in shown.out
    done = sfumato("verify", "out", "--test", cwd=folder)
    assert done.code == 4
    assert f'the method "{NAME}" is not installed, so that its promise was not recomputed' in done.err
    forged(folder / "out", tmp_path / "one", data=one_value)
    assert "too rarely for the stated noise" in sfumato("verify", tmp_path / "one", "--test").err


def test_the_contract_suite_holds_for_it(python: Run) -> None:
    """The suite that every method must pass, and the example's own tests."""
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/contract", EXAMPLE, "-k", "ordered")
    assert done.code == 0, done.text
    assert "skipped" not in done.out
