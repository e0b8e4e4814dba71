"""A release with a wrong byte in any of its files is refused by every way of opening it."""

from __future__ import annotations

import hashlib
import shutil
import threading
from pathlib import Path

import pytest

import sfumato as sf
from commands import sfumato
from forgeries import RELEASES
from sfumato.errors import VerificationError
from sfumato.release.files import digest

QUESTION = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'f'"
WRONG = "is not the file that release.json describes"
COMMANDS: dict[str, tuple[str, ...]] = {
    "query": (QUESTION,),
    "query --explain": (QUESTION,),
    "fit": ("age ~ C(sex)",),
    "test": ("sex", "disease"),
    "inspect": (),
    "verify": ("--test",),
    "export": ("exported.csv",),
    "audit": ("--truth", "release"),
    "serve": ("--port", "0"),
}


def flipped(release: Path, target: Path, file: Path, share: float) -> Path:
    """A copy of the release, one byte of a file of which is another."""
    shutil.copytree(release, target)
    content = bytearray((target / file).read_bytes())
    content[int(share * (len(content) - 1))] ^= 0x10
    (target / file).write_bytes(content)
    return target


def files(release: Path) -> list[Path]:
    """Those whose digests a release states."""
    stated = [f.relative_to(release) for f in release.rglob("*") if f.suffix in {".parquet", ".md"}]
    assert stated
    return stated


@pytest.mark.parametrize("name", list(RELEASES))
def test_a_release_with_a_wrong_byte_is_not_opened(name: str, honest_releases: dict[str, Path], tmp_path: Path) -> None:
    """In each of its files, at its ends and in its middle."""
    for i, file in enumerate(files(honest_releases[name])):
        for share in (0.0, 0.5, 1.0):
            wrong = flipped(honest_releases[name], tmp_path / f"{i} {share}", file, share)
            with pytest.raises(VerificationError, match=f"{file} {WRONG}"):
                sf.open_release(wrong)


@pytest.mark.parametrize("name", list(RELEASES))
def test_commands_say_nothing_of_such_a_release(name: str, honest_releases: dict[str, Path], tmp_path: Path) -> None:
    for i, file in enumerate(files(honest_releases[name])):
        wrong = flipped(honest_releases[name], tmp_path / str(i), file, 0.5)
        for command, arguments in COMMANDS.items():
            verb, *options = command.split()
            done = sfumato(verb, wrong, *arguments, *options, cwd=tmp_path)
            assert (done.code, done.out) == (4, ""), command
            assert f"{file} {WRONG}" in done.err
        assert not (tmp_path / "exported.csv").exists()
        archive = shutil.make_archive(str(tmp_path / f"zipped {i}"), "zip", wrong)
        for path in (wrong, Path(archive)):
            for way in (sf.open_release, sf.verify):
                with pytest.raises(VerificationError, match=WRONG):
                    way(path)


@pytest.mark.parametrize("name", list(RELEASES))
def test_answers_are_the_same_without_the_digests(name: str, honest_releases: dict[str, Path]) -> None:
    asked = [sf.open_release(honest_releases[name], check=check).sql(QUESTION).to_json() for check in (True, False)]
    assert asked[0] == asked[1]


def test_no_thread_outlives_the_call_that_opens_a_release(honest_releases: dict[str, Path]) -> None:
    before = threading.active_count()
    release = sf.open_release(honest_releases["anatomy"])
    assert threading.active_count() == before
    release.sql(QUESTION)
    assert threading.active_count() == before


def test_a_digest_is_that_of_the_whole_file(tmp_path: Path) -> None:
    for size in (0, 1, (1 << 18) - 1, 1 << 18, (1 << 20) + 1):
        (tmp_path / "data.parquet").write_bytes(b"p" * size)
        assert digest(tmp_path / "data.parquet") == hashlib.sha256(b"p" * size).hexdigest()
