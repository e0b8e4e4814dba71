"""The pool of worker processes: what counts as the time of a question, and who waits for whom."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

from sfumato.web.refusals import Refused
from sfumato.web.workers import Pool


class Waits:
    """Starts only while no file bars the way; a number is a task that takes so many seconds."""

    def __init__(self, barrier: Path) -> None:
        while barrier.exists():
            time.sleep(0.02)

    def __call__(self, task: float) -> float:
        time.sleep(task)
        return task


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
    """A question is stopped at its limit; the next waits for a new process, and that is no part of its time."""
    barrier = tmp_path / "barrier"

    async def walk() -> None:
        pool = Pool(make=partial(Waits, barrier), size=1, queue=5, time_limit=2, memory_mib=4096)
        await pool.start()
        try:
            running_away = asyncio.ensure_future(pool.ask(600))
            await asyncio.sleep(0.5)
            barrier.touch()
            async with asyncio.timeout(60):
                with pytest.raises(Refused, match="2 seconds"):
                    await running_away
            assert (pool.busy, pool.replaced) == (1, 1)  # it starts again beside
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
