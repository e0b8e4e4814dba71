"""A release takes its place: one winner, nothing of others touched, the old release restored when the new one fails."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import METHODS, sfumato
from sfumato.errors import ReleaseError, SfumatoError, SpecError, VerificationError
from sfumato.release import bundle
from tables import ROLES, people

UNIFORM = ("--method", "uniform", *METHODS["uniform"])


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> sf.Release:
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], rest="drop")
    return sf.publish(people(), roles=roles, method=sf.UniformPerturbation(rho1="1/5", rho2="1/3"))


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def _wrote(folder: Path) -> None:
    (folder / "release.json").write_text("new")


@pytest.mark.parametrize("empty", [False, True])
def test_what_appears_during_the_run_is_not_replaced(empty: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ReleaseError, match="appeared"), bundle.writing(out) as folder:  # noqa: PT012 - a run
        _wrote(folder)
        out.mkdir()
        if not empty:
            (out / "precious.txt").write_text("keep me")
    assert _contents(tmp_path) == ({} if empty else {"out/precious.txt": b"keep me"})
    assert [f.name for f in tmp_path.iterdir()] == ["out"]


def test_of_several_publishers_one_wins(tmp_path: Path) -> None:
    out, ready, results = tmp_path / "out", threading.Barrier(8), []

    def run(number: int) -> None:
        try:
            with bundle.writing(out) as folder:
                (folder / "release.json").write_text(str(number))
                ready.wait()
            results.append(number)
        except ReleaseError:
            pass

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 1
    assert _contents(tmp_path) == {"out/release.json": str(results[0]).encode()}


@pytest.mark.parametrize("foreign", ["precious.txt", "more/data.csv", ".hidden"])
def test_force_touches_no_folder_with_files_of_others(foreign: str, release: sf.Release, tmp_path: Path) -> None:
    out = tmp_path / "out"
    release.save(out)
    (out / foreign).parent.mkdir(exist_ok=True)
    (out / foreign).write_text("keep me")
    before = _contents(out)
    with pytest.raises(ReleaseError, match="no part of the release"):
        release.save(out, force=True)
    assert _contents(out) == before
    assert [f.name for f in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("text", ["{}", "[1]", "not JSON", '{"format": "other", "files": {}}', "[" * 100_000])
def test_force_replaces_releases_only(text: str, release: sf.Release, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "release.json").write_text(text)
    with pytest.raises(ReleaseError, match="not a release"):
        release.save(out, force=True)
    assert _contents(tmp_path) == {"out/release.json": text.encode()}


def test_force_does_not_follow_a_link(release: sf.Release, tmp_path: Path) -> None:
    release.save(tmp_path / "real")
    (tmp_path / "out").symlink_to(tmp_path / "real")
    before = _contents(tmp_path / "real")
    with pytest.raises(ReleaseError, match="not a folder"):
        release.save(tmp_path / "out", force=True)
    assert _contents(tmp_path / "real") == before
    assert (tmp_path / "out").is_symlink()


@pytest.mark.parametrize("moment", [1, 2])
def test_files_added_during_the_run_come_back(
    moment: int, release: sf.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    release.save(out)
    real = bundle.check_replaceable
    looks: list[str] = []

    def late(folder: Path, name: str = "") -> None:
        """A file comes after each of the three looks but the last."""
        looks.append(name)
        real(folder, name)
        if len(looks) == moment:
            (out / "precious.txt").write_text("keep me")

    monkeypatch.setattr(bundle, "check_replaceable", late)
    with pytest.raises(ReleaseError, match="no part"), bundle.writing(out, force=True) as folder:
        _wrote(folder)
    assert len(looks) == moment + 1
    assert (out / "precious.txt").read_text() == "keep me"
    assert sf.open_release(out).manifest.rows == people().num_rows
    assert [f.name for f in tmp_path.iterdir()] == ["out"]


def test_a_failed_second_rename_restores_the_old_release(
    release: sf.Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old release is renamed, then the new one, which fails as a full disk or a lost mount would make it."""
    out = tmp_path / "out"
    release.save(out)
    before = _contents(out)
    real: Callable[[Path, Path], Path] = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError(5, os.strerror(5))
        return real(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(ReleaseError, match="nothing was published"):
        release.save(out, force=True)
    assert _contents(out) == before
    assert [f.name for f in tmp_path.iterdir()] == ["out"]


class _Disk:
    """Counts syncs and renames, and fails at some of them."""

    def __init__(self, patch: pytest.MonkeyPatch, failing: frozenset[int]) -> None:
        self.steps = 0
        fsync, rename = os.fsync, Path.rename

        def step() -> None:
            self.steps += 1
            if self.steps in failing:
                raise OSError(28, os.strerror(28))

        patch.setattr(os, "fsync", lambda handle: (step(), fsync(handle))[1])
        patch.setattr(Path, "rename", lambda old, new: (step(), rename(old, new))[1])


@pytest.mark.parametrize("force", [False, True])
def test_a_disk_that_fails_at_any_step_changes_nothing(force: bool, release: sf.Release, tmp_path: Path) -> None:
    """After the rename too: the folder around it could not be synced, so the rename is undone."""
    out = tmp_path / "out"
    if force:
        release.save(out)
    before = _contents(tmp_path), (out.stat().st_ino if force else None)
    with pytest.MonkeyPatch.context() as patch:
        disk = _Disk(patch, frozenset())
        release.save(tmp_path / "trial")
        release.save(tmp_path / "trial", force=True)
        most = disk.steps
    shutil.rmtree(tmp_path / "trial")
    failed = 0
    for step in range(1, most + 1):
        with pytest.MonkeyPatch.context() as patch:
            disk = _Disk(patch, frozenset({step}))
            try:
                release.save(out, force=force)
                said = ""
            except ReleaseError as error:
                said = str(error)
        if disk.steps < step:  # no such step: it was published
            assert sf.open_release(out).manifest.rows == people().num_rows
            break
        assert "nothing was published" in said
        failed += 1
        assert (_contents(tmp_path), (out.stat().st_ino if force else None)) == before
        assert [f.name for f in tmp_path.iterdir()] == (["out"] if force else [])
    assert failed >= 6  # every file, the folder, the rename, the folder around it


@pytest.mark.parametrize("force", [False, True])
def test_a_disk_that_refuses_to_undo_is_told_plainly(force: bool, release: sf.Release, tmp_path: Path) -> None:
    """Neither sync nor undoing works: the message says what lies where, and both releases are whole."""
    out = tmp_path / "out"
    if force:
        release.save(out)
        release.save(tmp_path / "trial")
    with pytest.MonkeyPatch.context() as patch:
        disk = _Disk(patch, frozenset())
        release.save(tmp_path / "trial", force=force)
        last = disk.steps
    shutil.rmtree(tmp_path / "trial")
    with pytest.MonkeyPatch.context() as patch:
        _Disk(patch, frozenset(range(last, last + 9)))
        with pytest.raises(ReleaseError, match=r"holds the new release|whole in"):
            release.save(out, force=force)
    for folder in tmp_path.iterdir():
        assert sf.open_release(folder).manifest.rows == people().num_rows
    assert len(list(tmp_path.iterdir())) == 1 + force


def test_force_replaces_a_release(release: sf.Release, tmp_path: Path) -> None:
    out = tmp_path / "out"
    release.save(out)
    (out / "data.parquet").write_bytes(b"old")
    release.save(out, force=True)
    assert sf.open_release(out).manifest.rows == people().num_rows
    assert [f.name for f in tmp_path.iterdir()] == ["out"]


def test_what_cannot_be_read_back_is_not_moved_in(tmp_path: Path) -> None:
    with pytest.raises(VerificationError), bundle.writing(tmp_path / "out") as folder:  # noqa: PT012 - a run
        _wrote(folder)
        assert not (tmp_path / "out").exists()
        raise VerificationError("no")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("method", "share"), [("uniform", 0.1), ("anatomy", 0.5), ("subset-response", 0.999)])
def test_publishing_verifies_before_it_publishes(
    method: str, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte of a file becomes another one on the disk after its digest was taken: the folder never gets its name,
    whether the byte means something to a reader or not."""
    real = bundle.finish

    def damaging(folder: Path, *given: object) -> object:
        for file in (f for f in ("data.parquet", "sensitive.parquet", "sets.parquet") if (folder / f).exists()):
            content = bytearray((folder / file).read_bytes())
            content[int(share * len(content))] ^= 0x10
            (folder / file).write_bytes(content)
        return real(folder, *given)

    pq.write_table(people(), tmp_path / "t.parquet")
    monkeypatch.setattr(bundle, "finish", damaging)
    done = sfumato(
        "publish", tmp_path / "t.parquet", tmp_path / "out", *ROLES, "--method", method, *METHODS[method], "--seed", "1"
    )
    assert done.code == 4 or (done.code == 2 and "cannot be read" in done.text), done.text
    assert [f.name for f in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_zeros_of_both_signs_are_one_value(kind: pa.DataType, tmp_path: Path) -> None:
    values = pa.array([0.0, -0.0, 1.5, 2.5, -3.0] * 40, kind)
    table = pa.table({"s": values, "q": pa.array([-0.0, 0.0] * 100, kind)})
    roles = sf.Roles(sensitive="s", quasi=["q"])
    release = sf.publish(table, tmp_path / "out", roles=roles, method=sf.UniformPerturbation(rho1="1/3", rho2="1/2"))
    assert [v for (v,) in release.domains[0].values] == [-3.0, 0.0, 1.5, 2.5]
    assert sf.open_release(tmp_path / "out").sql("SELECT COUNT(*) AS n FROM release WHERE s >= 0").rows()
    assert sfumato("verify", tmp_path / "out").code == 0


@pytest.mark.parametrize("out", ["parts", "parts/out", "parts/part-0.parquet/x", "."])
def test_source_and_output_lie_apart(out: str, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    pq.write_table(people(), tmp_path / "parts" / "part-0.parquet")
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex"], rest="drop")
    with pytest.raises((SpecError, SfumatoError)):
        sf.publish(
            tmp_path / "parts",
            tmp_path / out,
            roles=roles,
            method=sf.UniformPerturbation(rho1="1/5", rho2="1/3"),
            force=True,
        )
    assert list(_contents(tmp_path)) == ["parts/part-0.parquet"]
