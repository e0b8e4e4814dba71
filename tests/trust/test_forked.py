"""A release belongs to the process that opened it: one that was forked off is told to open it itself."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import sfumato as sf
from same_numbers import assert_same_numbers
from sfumato.engines import scratch
from sfumato.errors import EngineError

QUESTION = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'f'"
SECONDS = 600  # after which a child that waits for ever is ended

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system forks no processes")


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


def test_a_release_of_the_parent_is_refused(honest_releases: dict[str, Path]) -> None:
    """Questions, and covariances of an answer that the parent got: the database has no threads in the child."""
    release = sf.open_release(honest_releases["uniform"])
    answer = release.sql(QUESTION)
    for work in (lambda: release.sql(QUESTION), answer.covariance):
        kind, said = in_child(work)
        assert kind == EngineError.__name__
        assert "open it in the process that asks" in said
        assert "\n" not in said


def test_a_release_of_the_parent_may_be_dropped(honest_releases: dict[str, Path]) -> None:
    """Its database is not closed in the child, which would end the process."""
    held = [sf.open_release(honest_releases["uniform"])]
    held[0].sql(QUESTION)

    def drop() -> int:
        held.clear()
        return gc.collect() * 0

    assert in_child(drop) == 0


def test_a_forked_process_opens_it_itself(honest_releases: dict[str, Path], tmp_path: Path) -> None:
    """A folder, and an archive, which is unpacked to the private folder of the process that asks."""
    archive = shutil.make_archive(str(tmp_path / "r"), "zip", honest_releases["anatomy"])
    for path in (honest_releases["anatomy"], archive):
        here = sf.open_release(path).sql(QUESTION).rows()
        assert_same_numbers(in_child(lambda path=path: sf.open_release(path).sql(QUESTION).rows()), here)


def test_a_lock_of_another_thread_is_free_in_the_child(honest_releases: dict[str, Path], tmp_path: Path) -> None:
    """An archive is unpacked to the private folder of the process, which one thread makes at a time."""
    archive = shutil.make_archive(str(tmp_path / "r"), "zip", honest_releases["uniform"])
    begun, done = Event(), Event()

    def hold() -> None:
        with scratch._guard:
            begun.set()
            done.wait(SECONDS)

    thread = Thread(target=hold)
    thread.start()
    begun.wait(SECONDS)
    try:
        assert in_child(lambda: sf.open_release(archive).manifest.method) == "uniform"
    finally:
        done.set()
        thread.join()
