"""The pool of worker processes: what counts as the time of a question, and who waits for whom."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sfumato.web.workers import OutOfTime, Pool


class Waits:
    """Starts, and loads, only while no file bars the way; a number is a task that takes so many seconds."""

    def __init__(self, barrier: Path) -> None:
        self._barrier = barrier
        self._wait()

    def prepare(self, task: Any) -> None:
        """As slow as the start."""
        self._wait()

    def __call__(self, task: float) -> float:
        time.sleep(task)
        return task

    def _wait(self) -> None:
        while self._barrier.exists():
            time.sleep(0.02)


def test_a_question_that_runs_on_blocks_nobody(tmp_path: Path) -> None:
    async def walk() -> None:
        pool = Pool(make=partial(Waits, tmp_path / "no barrier"), size=2, queue=0, time_limit=600, memory_mib=4096)
        await pool.start()
        try:
            running_on = asyncio.ensure_future(pool.ask(500))
            await asyncio.sleep(0)
            assert await pool.ask(0) == 0
            assert not running_on.done()
            running_on.cancel()
        finally:
            await pool.stop()

    asyncio.run(walk())


def test_nobody_pays_for_the_start_of_a_new_worker(tmp_path: Path) -> None:
    """A question is stopped at its limit, not when its worker's successor is there; who waits for that one is answered.

    Both failed: the first heard nothing before the new worker was ready, the second was told that it took too long.
    """
    barrier = tmp_path / "barrier"

    async def walk() -> None:
        pool = Pool(make=partial(Waits, barrier), size=1, queue=5, time_limit=2, memory_mib=4096)
        await pool.start()
        try:
            running_away = asyncio.ensure_future(pool.ask(600))
            await asyncio.sleep(0.5)
            barrier.touch()
            async with asyncio.timeout(60):
                with pytest.raises(OutOfTime):
                    await running_away
            assert (pool.busy, pool.replaced) == (1, 1)  # the successor is being started
            innocent = asyncio.ensure_future(pool.ask(0))
            await asyncio.sleep(5)  # more than twice the limit
            assert not innocent.done()
            barrier.unlink()
            assert await innocent == 0
            assert pool.busy == 0
        finally:
            barrier.unlink(missing_ok=True)
            await pool.stop()

    asyncio.run(walk())


def test_loading_a_release_is_no_part_of_a_question(tmp_path: Path) -> None:
    barrier = tmp_path / "barrier"

    async def walk() -> None:
        pool = Pool(make=partial(Waits, barrier), size=1, queue=5, time_limit=2, memory_mib=4096)
        await pool.start()
        try:
            barrier.touch()
            asked = asyncio.ensure_future(pool.ask(0))
            await asyncio.sleep(5)
            assert not asked.done()
            barrier.unlink()
            assert await asked == 0
        finally:
            barrier.unlink(missing_ok=True)
            await pool.stop()

    asyncio.run(walk())
