"""A bounded pool of processes that answer questions.

A question may run long in DuckDB or in numpy; only a process can be stopped whatever it does. So each worker is a
process that answers one question at a time: past the time limit it is ended and another takes its place, while the
others go on. What waits is bounded too; beyond that a caller hears `Busy` at once.

The time of a question runs from when a worker is ready for it: until then it waits in the queue, whatever starts or
loads meanwhile. A question that is stopped is answered at its limit; its worker's successor starts beside.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from ..engines import scratch

CONTEXT = multiprocessing.get_context("spawn")  # forking a process that has threads may freeze the child
START_LIMIT = 120.0  # seconds until a new worker must be ready, and one that loads what a task needs
READY = "ready"


class Answerer(Protocol):
    """What a worker process holds."""

    def prepare(self, task: Any) -> None:
        """Load what the task needs; no part of its time."""

    def __call__(self, task: Any) -> Any:
        """The reply to a task."""


class Busy(Exception):  # noqa: N818 - reads as the answer it becomes
    """Every worker is at work and the queue is full, or a place in it did not come up in time."""


class OutOfTime(Exception):  # noqa: N818
    """The question ran past its limit; its worker was ended."""


class WorkerLost(Exception):  # noqa: N818
    """The worker ended by itself, most likely out of memory."""


@dataclass(slots=True)
class Pool:
    """`size` processes, each with what `make()` returns.

    Both `make` and the tasks and replies travel between processes, so they can be pickled.
    """

    make: Callable[[], Answerer]
    size: int
    queue: int
    time_limit: float
    memory_mib: int
    _free: asyncio.LifoQueue[_Worker] = field(default_factory=asyncio.LifoQueue)
    _threads: ThreadPoolExecutor | None = None
    _workers: list[_Worker] = field(default_factory=list)
    _replacing: set[asyncio.Task[None]] = field(default_factory=set)
    waiting: int = 0
    busy: int = 0  # workers that answer, or start again
    replaced: int = 0

    async def start(self) -> None:
        """Start the processes and wait until all are ready."""
        self._threads = ThreadPoolExecutor(self.size, thread_name_prefix="sfumato-worker")
        self._workers = [_Worker(self.make, self.memory_mib) for _ in range(self.size)]
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._threads, worker.start) for worker in self._workers))
        for worker in self._workers:
            self._free.put_nowait(worker)

    async def stop(self) -> None:
        """End all processes."""
        for worker in self._workers:
            worker.end()
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)

    async def ask(self, task: Any, *, time_limit: float | None = None) -> Any:
        """The reply to a task; `Busy`, `OutOfTime` or `WorkerLost` where there is none."""
        limit = self.time_limit if time_limit is None else time_limit
        worker = await self._take(limit)
        # The work goes on when the caller leaves, so that the worker comes back only when it is free again.
        running = asyncio.ensure_future(self._run(worker, task, limit))
        running.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to look
        return await asyncio.shield(running)

    async def _take(self, limit: float) -> _Worker:
        """A free worker; `Busy` after `limit` seconds, but where one is about to be ready it is waited for."""
        if self._free.empty() and self.waiting >= self.queue:
            raise Busy
        self.waiting += 1
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limit):
                        return await self._free.get()
                if not self._replacing:
                    raise Busy
        finally:
            self.waiting -= 1

    async def _run(self, worker: _Worker, task: Any, limit: float) -> Any:
        self.busy += 1
        try:
            reply = await asyncio.get_running_loop().run_in_executor(self._threads, worker.ask, task, limit)
        except (OutOfTime, WorkerLost):
            self.replaced += 1
            starting = asyncio.ensure_future(self._replace(worker))
            self._replacing.add(starting)
            starting.add_done_callback(self._replacing.discard)
            raise
        self._give_back(worker)
        return reply

    async def _replace(self, worker: _Worker) -> None:
        with contextlib.suppress(WorkerLost):  # it is started again by who asks it next
            await asyncio.get_running_loop().run_in_executor(self._threads, worker.start)
        self._give_back(worker)

    def _give_back(self, worker: _Worker) -> None:
        self.busy -= 1
        self._free.put_nowait(worker)


def begin(process: Any) -> None:
    """Start a process that Ctrl-C, which reaches the whole group, does not end while it loads its code."""
    if sys.platform == "win32":
        process.start()
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it is started with the process, and lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # of this thread, and of what it starts
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Worker:
    """One process and the pipe to it; used by one thread at a time."""

    def __init__(self, make: Callable[[], Answerer], memory_mib: int) -> None:
        self._make, self._memory_mib = make, memory_mib
        self._process: Any = None
        self._pipe: Connection | None = None
        self._folder: Path | None = None  # its temporary one: a process that is killed cannot clean up
        self._ended = False
        self._lock = threading.Lock()

    def start(self) -> None:
        self._kill()
        with self._lock:
            if self._ended:
                return
            ours, theirs = CONTEXT.Pipe()
            self._folder = scratch.new_folder("worker")
            self._process = CONTEXT.Process(
                target=_serve,
                args=(theirs, self._make, self._memory_mib, self._folder),
                daemon=True,
                name="sfumato-answers",
            )
            begin(self._process)
            theirs.close()  # so that the end of the process is seen as the end of the pipe
            self._pipe = ours
        self._wait_until_ready(ours)

    def ask(self, task: Any, limit: float) -> Any:
        if self._pipe is None:  # the last start failed
            self.start()
        if self._pipe is None:
            raise WorkerLost
        try:
            self._pipe.send(task)
            self._wait_until_ready(self._pipe)
            if not self._pipe.poll(limit):
                raise OutOfTime
            return self._pipe.recv()
        except (EOFError, OSError):
            raise WorkerLost from None

    def _wait_until_ready(self, pipe: Connection) -> None:
        try:
            if pipe.poll(START_LIMIT) and pipe.recv() == READY:
                return
        except (EOFError, OSError):
            pass
        raise WorkerLost

    def end(self) -> None:
        with self._lock:
            self._ended = True
        self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._folder is not None:
            scratch.remove(self._folder)
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = self._folder = None


def _serve(pipe: Connection, make: Callable[[], Answerer], memory_mib: int, folder: Path) -> None:
    """The life of a worker process: tasks in, replies out, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the server decides
    _bound_memory(memory_mib)
    tempfile.tempdir = str(folder)
    answer = make()
    with contextlib.suppress(EOFError, OSError, MemoryError):  # without memory this process ends, and is replaced
        pipe.send(READY)
        while True:
            task = pipe.recv()
            answer.prepare(task)
            pipe.send(READY)
            pipe.send(answer(task))


def _bound_memory(mib: int) -> None:
    """Let allocations beyond the bound fail, where the system can do that."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (mib * 2**20, mib * 2**20))
