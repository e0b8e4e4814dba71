"""A release that was opened before a process was forked off answers in both, or says why it does not."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import sfumato as sf
from forgeries import RELEASES, honest
from same_numbers import assert_same_numbers
from sfumato.engines import scratch
from sfumato.errors import EngineError, VerificationError
from sfumato.model.kept import kept
from sfumato.query import Release
from sfumato.release import digests
from sfumato.release.opened import open_folder

QUESTION = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'f'"
ANOTHER = "SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM release WHERE disease = 'flu' GROUP BY sex ORDER BY sex"
SECONDS = 60  # after which a child that waits for ever is ended

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system forks no processes")


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return honest(tmp_path_factory.mktemp("honest"))


def in_child(work: Callable[[], Any]) -> Any:
    """What the work gives, or raises, in a process that is forked off."""
    forking = multiprocessing.get_context("fork")
    ours, theirs = forking.Pipe()

    def go(pipe: Connection) -> None:
        try:
            pipe.send(work())
        except Exception as error:
            pipe.send((type(error).__name__, str(error)))

    child = forking.Process(target=go, args=(theirs,))
    child.start()
    try:
        assert ours.poll(SECONDS), "the child waits for ever"
        found = ours.recv()
        child.join(SECONDS)
        assert child.exitcode == 0
        return found
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("name", list(RELEASES))
def test_a_forked_process_gets_the_same_answers(name: str, asked: bool, releases: dict[str, Path]) -> None:
    release = sf.open_release(releases[name])
    if asked:
        release.sql(QUESTION)
    found = in_child(lambda: [release.sql(sql).rows() for sql in (QUESTION, ANOTHER, QUESTION)])
    fresh = sf.open_release(releases[name])
    for rows, sql in zip(found, (QUESTION, ANOTHER, QUESTION), strict=True):
        assert_same_numbers(rows, release.sql(sql).rows())
        assert_same_numbers(rows, fresh.sql(sql).rows())


def test_also_one_from_an_archive_which_stays(releases: dict[str, Path], tmp_path: Path) -> None:
    """The folder in which it was unpacked is the parent's: a child that forgets the release leaves it there."""
    archive = shutil.make_archive(str(tmp_path / "r"), "zip", releases["anatomy"])
    held = [sf.open_release(archive)]
    rows = held[0].sql(ANOTHER).rows()

    def forget() -> Any:
        found = held[0].sql(ANOTHER).rows()
        held.clear()
        gc.collect()
        return found

    assert_same_numbers(in_child(forget), rows)
    assert_same_numbers(held[0].sql(ANOTHER).rows(), rows)


def test_also_a_child_of_a_child(releases: dict[str, Path]) -> None:
    release = sf.open_release(releases["uniform"])
    rows = release.sql(ANOTHER).rows()

    def again() -> Any:
        release.sql(QUESTION)
        return in_child(lambda: release.sql(ANOTHER).rows())

    assert_same_numbers(in_child(again), rows)


def test_a_file_that_changed_is_told_there_too(releases: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(releases["uniform"], tmp_path / "r")
    release = sf.open_release(tmp_path / "r")
    release.sql(QUESTION)
    shutil.copytree(releases["uniform"], tmp_path / "r", dirs_exist_ok=True)
    kind, said = in_child(lambda: release.sql(QUESTION).rows())
    assert kind == VerificationError.__name__
    assert "changed since the release was opened" in said


def test_what_cannot_be_opened_again_says_so(releases: dict[str, Path]) -> None:
    """Covariances of an answer that the parent got; a release that somebody else opened."""
    answer = sf.open_release(releases["uniform"]).sql(ANOTHER)
    answer.covariance()
    opened = Release(open_folder(releases["uniform"]))
    opened.sql(QUESTION)
    for work in (answer.covariance, lambda: opened.sql(QUESTION)):
        kind, said = in_child(work)
        assert kind == EngineError.__name__
        assert "open it in the process that asks" in said
        assert "\n" not in said


@contextmanager
def by_another_thread(held: AbstractContextManager[Any]) -> Iterator[None]:
    """While the block runs, another thread is in the midst of something, which it ends afterwards."""
    begun, done = Event(), Event()

    def hold() -> None:
        with held:
            begun.set()
            done.wait(SECONDS)

    thread = Thread(target=hold)
    thread.start()
    begun.wait(SECONDS)
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("name", list(RELEASES))
def test_what_another_thread_holds_up_goes_on_in_the_child(name: str, releases: dict[str, Path]) -> None:
    """Values that are published by group are read by another thread, for which digests wait."""
    release = sf.open_release(releases[name])
    rows = release.sql(ANOTHER).rows()
    with by_another_thread(digests.held_up()):
        assert_same_numbers(in_child(lambda: release.sql(ANOTHER).rows()), rows)


def test_a_lock_that_another_thread_holds_is_free_in_the_child(releases: dict[str, Path], tmp_path: Path) -> None:
    """An archive is unpacked to the private folder of the process, which one thread makes at a time."""
    archive = shutil.make_archive(str(tmp_path / "r"), "zip", releases["uniform"])
    with by_another_thread(scratch._guard):
        assert in_child(lambda: sf.open_release(archive).manifest.method) == "uniform"


def test_a_property_that_another_thread_works_out_is_worked_out_in_the_child() -> None:
    here, begun, done = os.getpid(), Event(), Event()

    class Slow:
        @kept
        def number(self) -> int:
            if os.getpid() == here:
                begun.set()
                done.wait(SECONDS)
            return 7

    assert Slow.number.__doc__ is None
    slow = Slow()
    thread = Thread(target=lambda: slow.number)
    thread.start()
    begun.wait(SECONDS)
    assert in_child(lambda: (slow.number, vars(slow))) == (7, {"number": 7})
    done.set()
    thread.join()
    assert slow.number == vars(slow)["number"] == 7
