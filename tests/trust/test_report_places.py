"""Reports overwrite nothing but reports: not the source, not a release, not a file of somebody else's."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import sfumato
from tables import ROLES, people

ROLE = ("--sa", "disease", "--qi", "sex", "--rest", "drop")
UNIFORM = ("--method", "uniform", "--rho1", "1/5", "--rho2", "1/3")
COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("plan", "t.parquet", *ROLE, *UNIFORM, "--report"),
    "compare": ("compare", "t.parquet", *ROLE, "--bound", "1/3", "--methods", "uniform", "--releases", "1", "--report"),
    "public": (
        "compare", "t.parquet", *ROLE, "--bound", "1/3", "--methods", "uniform", "--releases", "1", "--public-report",
    ),
}  # fmt: skip
WITH_TWIN = [name for name in COMMANDS if name != "plan"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    pq.write_table(people(), tmp_path / "t.parquet")
    (tmp_path / "mine.html").write_text("<h1>my page</h1>")
    (tmp_path / "mine.json").write_text('{"my": "data"}')
    return tmp_path


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def _refused(command: str, target: str, place: Path, *more: str) -> str:
    before = _contents(place)
    done = sfumato(*COMMANDS[command], target, *more, cwd=place)
    assert done.code == 2, done.text
    assert len(done.err.strip().splitlines()) == 1
    assert _contents(place) == before
    return done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_report_is_an_html_file(command: str, place: Path) -> None:
    for target in ("t.parquet", "mine.json", "report", "/dev/null"):
        assert ".html" in _refused(command, target, place)
        assert ".html" in _refused(command, target, place, "--force")


@pytest.mark.parametrize("command", ["plan", "compare", "public"])
def test_the_source_is_not_overwritten_through_a_link(command: str, place: Path) -> None:
    os.link(place / "t.parquet", place / "t.html")
    for more in ((), ("--force",)):
        assert "is the source" in _refused(command, "t.html", place, *more)


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_no_report_in_the_folder_that_is_read(command: str, place: Path) -> None:
    (place / "parts").mkdir()
    (place / "t.parquet").rename(place / "parts" / "t.parquet")
    arguments = [a if a != "t.parquet" else "parts" for a in COMMANDS[command]]
    done = sfumato(*arguments, "parts/r.html", cwd=place)
    assert done.code == 2
    assert [f.name for f in (place / "parts").iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_report_in_a_release(command: str, place: Path) -> None:
    assert sfumato("publish", "t.parquet", "out", *ROLES, *UNIFORM, cwd=place).code == 0
    for name in ("out/r.html", "out/release.html"):
        for more in ((), ("--force",)):
            assert "release" in _refused(command, name, place, *more)
    assert sfumato("verify", "out", cwd=place).code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_files_of_others_are_kept(command: str, place: Path) -> None:
    assert "--force" in _refused(command, "mine.html", place)


@pytest.mark.parametrize("command", WITH_TWIN)
def test_the_twin_overwrites_nothing_either(command: str, place: Path) -> None:
    (place / "mine.html").unlink()
    assert "mine.json" in _refused(command, "mine.html", place)


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_reports_replace_reports_and_with_force_anything(command: str, place: Path) -> None:
    for target, more in (("r.html", ()), ("r.html", ()), ("mine.html", ("--force",))):
        done = sfumato(*COMMANDS[command], target, *more, cwd=place)
        assert done.code == 0, done.text
    assert b"generator" in (place / "mine.html").read_bytes()
    assert (place / "mine.html").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("target", ["nowhere/r.html", "t.parquet/r.html", "folder.html"])
def test_what_cannot_be_written_is_said_before_the_work(command: str, target: str, place: Path) -> None:
    """The bound is wrong as well; the report is looked at first."""
    (place / "folder.html").mkdir()
    assert "--" in _refused(command, target, place)


def test_one_file_for_two_reports(place: Path) -> None:
    assert "twice" in _refused("compare", "r.html", place, "--public-report", "./r.html")


def test_charts_replace_nothing(place: Path) -> None:
    (place / "charts").mkdir()
    (place / "charts" / "errors.svg").write_text("mine")
    assert "--charts" in _refused("compare", "r.html", place, "--charts", "charts")
    assert "--charts" in _refused("compare", "r.html", place, "--charts", "mine.json")


def test_charts_of_a_comparison_that_is_refused_make_no_folder(place: Path) -> None:
    """It used to be made before the work, and to stay."""
    assert sfumato("publish", "t.parquet", "out", *ROLES, *UNIFORM, cwd=place).code == 0
    for charts, said in (
        ("new", "splu2"),
        ("new/below", "splu2"),
        ("mine.json/below", "no folder"),
        ("out/charts", "release"),
    ):
        assert said in _refused("compare", "r.html", place, "--charts", charts, "--methods", "splu2")


def test_the_demonstration_replaces_only_its_own(place: Path) -> None:
    assert sfumato("publish", "t.parquet", "out", *ROLES, *UNIFORM, cwd=place).code == 0
    before = _contents(place)
    assert sfumato("demo", "--out", "out", cwd=place).code == 2
    assert _contents(place) == before
