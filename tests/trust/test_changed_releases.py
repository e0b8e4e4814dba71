"""An open release answers from the files that it was opened with: one that changed since is told, whatever it holds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from commands import sfumato
from sfumato.engines.duckdb.reader import DuckDBReader
from sfumato.errors import SfumatoError, VerificationError
from sfumato.query import Release
from sfumato.release.files import check_states, file_states

QUESTION = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'f'"
ANOTHER = "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"
WATCHED = ("subset-response", "anatomy")  # one with sets.parquet, one with sensitive.parquet
TOLD = r"^\S+ (changed|is gone) since the release was opened; open it again$"


def replaced(file: Path) -> None:
    """Another file has the name; it holds the same bytes but for one."""
    fresh = file.with_name("fresh")
    fresh.write_bytes(_flipped(file))
    fresh.replace(file)


def overwritten(file: Path) -> None:
    """Other bytes, and one more, in the same file."""
    file.write_bytes(_flipped(file) + b" ")


def restored(file: Path) -> None:
    """A byte in the middle is another; size and time are as they were."""
    before = file.stat()
    with file.open("r+b") as handle:
        handle.write(_flipped(file))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def truncated(file: Path) -> None:
    """The first half is left."""
    os.truncate(file, file.stat().st_size // 2)


def emptied(file: Path) -> None:
    """Nothing is left in it."""
    os.truncate(file, 0)


def deleted(file: Path) -> None:
    """It is gone."""
    file.unlink()


CHANGES: tuple[Callable[[Path], None], ...] = (replaced, overwritten, restored, truncated, emptied, deleted)

WAYS: dict[str, Callable[[Release, Path], Any]] = {
    "sql": lambda r, _: r.sql(ANOTHER),
    "sql that is wrong": lambda r, _: r.sql("SELECT nothing FROM nowhere"),
    "explain": lambda r, _: r.explain(QUESTION),
    "fit": lambda r, _: r.fit("age ~ C(sex)"),
    "test": lambda r, _: r.test("sex", "disease"),
    "quantile": lambda r, _: r.quantile("age"),
    "table": lambda r, _: r.table(["sex", "disease"]),
    "table without negative cells": lambda r, _: r.table(["sex"], nonnegative="em"),
    "association": lambda r, _: r.association("sex", "disease"),
    "save": lambda r, folder: r.save(folder / "saved"),
}


def _flipped(file: Path) -> bytes:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    return bytes(content)


def _files(release: Path) -> list[str]:
    return sorted(str(f.relative_to(release)) for f in release.rglob("*") if f.is_file())


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", WATCHED)
def test_a_file_that_changed_is_told(
    name: str, change: Callable[[Path], None], honest_releases: dict[str, Path], tmp_path: Path
) -> None:
    """Each file, before the first question or after it, however often somebody asks."""
    for number, file in enumerate(_files(honest_releases[name])):
        place = tmp_path / file.replace("/", " ")
        shutil.copytree(honest_releases[name], place)
        release = sf.open_release(place)
        if number % 2:
            release.sql(QUESTION)
        change(place / file)
        for _ in range(2):
            with pytest.raises(VerificationError, match=TOLD) as told:
                pytest.fail(f"{file}: {release.sql(QUESTION)}")
        assert str(told.value).startswith(file)


@pytest.mark.parametrize("name", WATCHED)
def test_nothing_leaves_by_any_way(name: str, honest_releases: dict[str, Path], tmp_path: Path) -> None:
    """Also covariances of an answer that was given before."""
    shutil.copytree(honest_releases[name], tmp_path / "r")
    release = sf.open_release(tmp_path / "r")
    before = release.sql(QUESTION)
    replaced(tmp_path / "r" / "data.parquet")
    for way, go in WAYS.items():
        with pytest.raises(VerificationError, match=TOLD):
            pytest.fail(f"{way} gave {go(release, tmp_path)}")
    with pytest.raises(VerificationError, match=TOLD):
        before.covariance()
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("name", WATCHED)
def test_another_release_in_its_place_is_told(name: str, honest_releases: dict[str, Path], tmp_path: Path) -> None:
    """The custodian publishes again onto the folder, with --force; the link to a folder leads to another."""
    (tmp_path / "link").symlink_to(honest_releases[name])
    shutil.copytree(honest_releases[name], tmp_path / "r")
    open_ones = [sf.open_release(tmp_path / place) for place in ("r", "link")]
    for release in open_ones:
        release.sql(QUESTION)
    shutil.rmtree(tmp_path / "r")
    shutil.copytree(honest_releases[name], tmp_path / "r")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "r")
    for release in open_ones:
        with pytest.raises(VerificationError, match=TOLD):
            release.sql(ANOTHER)
    assert sf.open_release(tmp_path / "r").sql(ANOTHER).rows()


@pytest.mark.parametrize("name", WATCHED)
def test_a_change_while_rows_are_counted_is_told(
    name: str, honest_releases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(honest_releases[name], tmp_path / "r")
    release, run = sf.open_release(tmp_path / "r"), DuckDBReader._run
    release.sql(QUESTION)

    def late(reader: DuckDBReader, *given: Any) -> Any:
        found = run(reader, *given)
        os.utime(tmp_path / "r" / "data.parquet")
        return found

    monkeypatch.setattr(DuckDBReader, "_run", late)
    with pytest.raises(VerificationError, match=TOLD):
        release.sql("SELECT sex, COUNT(*) AS n FROM release WHERE age < 40 GROUP BY sex ORDER BY n")


def test_a_release_that_was_just_published_is_held_to_its_files_too(tmp_path: Path) -> None:
    roles = sf.Roles(sensitive="occupation", quasi=["age", "sex"], rest="drop")
    method = sf.SubsetResponse(rho1="1/5", rho2="1/2")
    release = sf.publish(sf.datasets.adult(), tmp_path / "r", roles=roles, method=method, null_as_value=True, seed=1)
    question = "SELECT COUNT(*) AS n FROM release WHERE age < 30 AND occupation = 'Sales'"
    assert release.sql(question).rows()
    overwritten(tmp_path / "r" / "data.parquet")
    with pytest.raises(VerificationError, match=TOLD):
        release.sql(question)


def test_a_release_stays_where_it_was_opened(
    honest_releases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path means another folder once the process goes elsewhere; what lies there is not read."""
    monkeypatch.chdir(honest_releases["anatomy"].parent)
    release = sf.open_release("anatomy")
    (tmp_path / "anatomy").mkdir()
    monkeypatch.chdir(tmp_path)
    (found,), (expected,) = (r.sql(QUESTION).rows() for r in (release, sf.open_release(honest_releases["anatomy"])))
    assert found == pytest.approx(expected, rel=1e-9)  # rows are counted in any order: last bits differ


def test_an_archive_may_go_once_it_is_open(honest_releases: dict[str, Path], tmp_path: Path) -> None:
    archive = Path(shutil.make_archive(str(tmp_path / "r"), "zip", honest_releases["anatomy"]))
    release = sf.open_release(archive)
    archive.unlink()
    assert release.sql(QUESTION).rows()


@pytest.mark.parametrize("command", [("export", "out.csv"), ("verify", "--test")])
def test_commands_tell_a_change_while_they_read(
    command: tuple[str, str], honest_releases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file changes after the digests were compared: nothing is written, and exit code 4."""
    from sfumato.release.opened import OpenedRelease

    shutil.copytree(honest_releases["uniform"], tmp_path / "r")
    asked = OpenedRelease.check_unchanged

    def late(release: OpenedRelease) -> None:
        os.utime(tmp_path / "r" / "README.md")
        asked(release)

    monkeypatch.setattr(OpenedRelease, "check_unchanged", late)
    verb, *rest = command
    done = sfumato(verb, tmp_path / "r", *rest, cwd=tmp_path)
    assert done.code == 4
    assert "README.md changed since the release was opened; open it again" in done.err
    assert not (tmp_path / "out.csv").exists()


def test_states_tell_files_apart(tmp_path: Path) -> None:
    """The checker itself: equal states pass, a file that comes or goes does not."""
    (tmp_path / "a").write_text("a")
    states = file_states([tmp_path / "a", tmp_path / "b"])
    check_states(states)
    (tmp_path / "b").write_text("b")
    with pytest.raises(SfumatoError, match="b changed"):
        check_states(states)
    check_states(file_states([tmp_path / "a", tmp_path / "b"]))


@pytest.mark.parametrize("command", ["audit", "verify"])
def test_commands_with_the_table_tell_a_change_too(
    command: str, honest_releases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file changes while it is compared with the table: nothing is said of what was found."""

    def found(*_: Any, **__: Any) -> tuple[str, ...]:
        os.utime(tmp_path / "r" / "data.parquet")
        return ("found",)

    shutil.copytree(honest_releases["anatomy"], tmp_path / "r")
    monkeypatch.setattr("sfumato.audit.score.check_truth", found)
    monkeypatch.setattr("sfumato.audit.score.audit", found)
    monkeypatch.setattr("sfumato.reports.documents.render_audit", str)
    options = ["--test"] if command == "verify" else []
    done = sfumato(command, tmp_path / "r", "--truth", tmp_path / "t.parquet", *options, cwd=tmp_path)
    assert done.code == 4
    assert "data.parquet changed since the release was opened; open it again" in done.err
    assert "found" not in done.out


def test_an_export_that_fails_leaves_nothing(honest_releases: dict[str, Path], tmp_path: Path) -> None:
    """Also where its name has characters that patterns of file names give a meaning to."""
    from sfumato.exporting import export
    from sfumato.release.opened import open_folder

    shutil.copytree(honest_releases["uniform"], tmp_path / "r")
    opened = open_folder(tmp_path / "r")
    os.utime(tmp_path / "r" / "README.md")
    for target in ("out.csv", "out[1]*.csv"):
        with pytest.raises(VerificationError, match=TOLD):
            export(opened, tmp_path / target)
    assert [file.name for file in tmp_path.iterdir()] == ["r"]
