"""Digests that are begun before they are asked for are those of the files as they are when they are asked for."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from sfumato.release import digests

TEXT = b"published" * 100_000


@pytest.fixture(autouse=True)
def _none_begun() -> None:
    digests._begun.clear()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data.parquet"
    path.write_bytes(TEXT)
    return path


@pytest.mark.parametrize("size", [0, 1, digests.PIECE - 1, digests.PIECE, digests.PIECE + 1])
def test_a_digest_is_that_of_all_pieces(size: int, tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    path.write_bytes(TEXT * (size // len(TEXT)) + TEXT[: size % len(TEXT)])
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digests.digest(path) == expected
    digests.begin(path)
    assert digests.digest(path) == expected


def test_what_was_begun_is_used_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests.begin(file)
    digests._begun[str(file)]._thread.join()
    expected = hashlib.sha256(TEXT).hexdigest()
    monkeypatch.setattr(digests, "_digest", lambda _: "read again")
    assert digests.digest(file) == expected
    assert digests.digest(file) == "read again"


def test_a_file_that_was_changed_is_read_again(file: Path) -> None:
    digests.begin(file)
    digests._begun[str(file)]._thread.join()
    file.write_bytes(TEXT[:-1] + b"!")
    assert digests.digest(file) == hashlib.sha256(TEXT[:-1] + b"!").hexdigest()


def test_a_file_that_was_replaced_is_read_again(file: Path) -> None:
    """By one of the same size and age."""
    digests.begin(file)
    digests._begun[str(file)]._thread.join()
    other, now = file.with_name("other"), file.stat()
    other.write_bytes(TEXT[::-1])
    os.utime(other, ns=(now.st_atime_ns, now.st_mtime_ns))
    other.replace(file)
    assert digests.digest(file) == hashlib.sha256(TEXT[::-1]).hexdigest()


@pytest.mark.parametrize("what", ["nothing", "folder", "pipe"])
def test_what_is_no_file_is_left_to_who_needs_it(what: str, tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    {"nothing": lambda: None, "folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}[what]()
    digests.begin(path)
    assert not digests._begun


def test_digests_wait_while_somebody_else_is_waited_for(file: Path) -> None:
    with digests.held_up():
        with pytest.raises(ZeroDivisionError), digests.held_up():
            raise ZeroDivisionError
        digests.begin(file)
        begun = digests._begun[os.path.abspath(file)]  # noqa: PTH100 - as in the module
        begun._thread.join(timeout=0.05)
        assert begun._thread.is_alive()
    assert digests.digest(file) == hashlib.sha256(TEXT).hexdigest()
