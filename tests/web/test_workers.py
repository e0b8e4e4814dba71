"""The pool of worker processes: what counts as the time of a question, who waits for whom, and what it may take."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sfumato.web.refusals import BUSY, OUT_OF_MEMORY, Refused
from sfumato.web.workers import Pool

ENDLESS = 10_000  # seconds


class Waits:
    """Starts only while no file bars the way; a number is a task that takes so many seconds."""

    def __init__(self, barrier: Path) -> None:
        while barrier.exists():
            time.sleep(0.02)

    def __call__(self, task: float) -> float:
        time.sleep(task)
        return task


class Hungry:
    """A number is a task that takes so many bytes."""

    def __call__(self, task: int) -> int:
        return len(bytearray(task))


@asynccontextmanager
async def started(make: Any, **settings: Any) -> AsyncIterator[Pool]:
    pool = Pool(make=make, **{"size": 1, "queue": 5, "time_limit": ENDLESS, "memory_mib": 4096} | settings)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.stop()


def test_a_question_that_runs_on_blocks_nobody_and_one_too_many_is_turned_away(tmp_path: Path) -> None:
    async def walk() -> None:
        async with started(partial(Waits, tmp_path / "no barrier"), size=2, queue=0) as pool:
            running_on = asyncio.ensure_future(pool.ask(ENDLESS))
            await asyncio.sleep(0)
            assert await pool.ask(0) == 0
            second = asyncio.ensure_future(pool.ask(ENDLESS))
            await asyncio.sleep(0)
            with pytest.raises(Refused) as turned_away:
                await pool.ask(0)
            assert turned_away.value.refusal is BUSY
            assert not running_on.done()
            running_on.cancel()
            second.cancel()

    asyncio.run(walk())


def test_nobody_pays_for_the_start_of_a_new_worker(tmp_path: Path) -> None:
    """A question is stopped at its limit; the next waits for a new process, and that is no part of its time."""
    barrier, limit = tmp_path / "barrier", 1

    async def walk() -> None:
        async with started(partial(Waits, barrier)) as pool:
            barrier.touch()  # the first process has started; the next will not
            try:
                with pytest.raises(Refused, match="1 seconds"):
                    await pool.ask(ENDLESS, time_limit=limit)
                assert (pool.busy, pool.replaced) == (1, 1)  # it starts again beside
                innocent = asyncio.ensure_future(pool.ask(0, time_limit=30))
                pressed = asyncio.ensure_future(pool.ask(0, time_limit=limit))
                await asyncio.sleep(2 * limit)
                assert not innocent.done()
                assert not pressed.done()
                pressed.cancel()
            finally:
                barrier.unlink()
            assert await innocent == 0

    asyncio.run(walk())


@pytest.mark.skipif(sys.platform != "linux", reason="the system bounds no memory")
def test_memory_is_bounded() -> None:
    async def walk() -> None:
        async with started(Hungry, memory_mib=700) as pool:
            with pytest.raises(Refused) as stopped:
                await pool.ask(2**31)
            assert stopped.value.refusal is OUT_OF_MEMORY
            assert await pool.ask(1) == 1

    asyncio.run(walk())
