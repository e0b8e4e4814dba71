"""A process that does the custodian's work: one task at a time, with progress, and it can be ended at any moment.

The work runs in a thread of that process; its main thread listens, so a signal to end is heard whatever the work does.
What the process holds (its private folder, a half-written release) goes with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from ...engines import scratch
from ..refusals import Refusal
from ..workers import CONTEXT, begin

Tell = Callable[[str, Any], None]  # (what, value): "progress" (stage, done, total) or "part" (one of several results)
Work = Callable[[Any, Tell], Any]
PATIENCE = 10.0  # seconds for an ended process to tidy up before it is killed
LOST = Refusal(
    type="WorkerLost", message="the work ended by itself, most likely out of memory; nothing was published", status=507
)
STOPPED = Refusal(type="Stopped", message="stopped; nothing was published", status=409)


@dataclass(slots=True, kw_only=True)
class Job:
    """A task under way or done."""

    task: Any
    stage: str = ""
    done: int = 0
    total: int = 0
    parts: list[Any] = field(default_factory=list)
    result: Any = None
    refusal: Refusal | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> bool:
        return not self.over.is_set()

    @property
    def finished(self) -> bool:
        """Whether it ended with a result."""
        return self.over.is_set() and self.refusal is None

    @property
    def seen(self) -> str:
        """Changes whenever there is something new to show."""
        return f"{self.stage}-{self.done}-{len(self.parts)}-{self.over.is_set()}"

    async def settle(self, seconds: float) -> None:
        """Wait for the end, but not longer than that."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), seconds)


class Hand:
    """One process; `make()` gives, inside it, the function that does a task."""

    def __init__(self, make: Callable[[], Work]) -> None:
        self._make = make
        self._process: Any = None
        self._pipe: Connection | None = None
        self._job: Job | None = None
        self._ear: threading.Thread | None = None

    async def start(self, task: Any) -> Job:
        """Begin a task; whatever was under way is ended first."""
        await self.end()
        self.warm()
        assert self._pipe is not None
        job = self._job = Job(task=task)
        loop = asyncio.get_running_loop()
        self._ear = threading.Thread(target=_hear, args=(self._pipe, job, loop), daemon=True)
        self._ear.start()
        with contextlib.suppress(OSError):  # the process is gone: the listener says so
            self._pipe.send(task)
        return job

    def warm(self) -> None:
        """Start the process if there is none, so that the next task need not wait for it."""
        if self._process is None or not self._process.is_alive():
            ours, theirs = CONTEXT.Pipe()
            self._process = CONTEXT.Process(target=_listen, args=(theirs, self._make), daemon=True, name="sfumato-hand")
            begin(self._process)
            theirs.close()  # so that the end of the process is seen as the end of the pipe
            self._pipe = ours

    async def end(self, job: Job | None = None) -> None:
        """End what is under way (or, if it is, this job), leaving nothing of it behind; nothing where all is done."""
        current = self._job
        if current is None or not current.running or (job is not None and job is not current):
            return
        current.refusal = STOPPED
        current.over.set()
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(PATIENCE)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
                scratch.remove_left_overs()
        if self._ear is not None:
            self._ear.join(PATIENCE)  # it hears the end of the process; only then may the pipe be closed
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = self._ear = None


def _hear(pipe: Connection, job: Job, loop: asyncio.AbstractEventLoop) -> None:
    """Takes messages of one job to the loop, until it is over."""
    while True:
        try:
            what, value = pipe.recv()
        except (EOFError, OSError, TypeError):  # TypeError: the pipe was closed while we read
            what, value = "refused", LOST
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to look
            loop.call_soon_threadsafe(_note, job, what, value)
        if what in {"result", "refused"}:
            return


def _note(job: Job, what: str, value: Any) -> None:
    if not job.running:
        return
    if what == "progress":
        job.stage, job.done, job.total = value
    elif what == "part":
        job.parts.append(value)
    elif what == "result":
        job.result = value
    else:
        job.refusal = value
    if what in {"result", "refused"}:
        job.over.set()


def _listen(pipe: Connection, make: Callable[[], Work]) -> None:
    """The life of the process: a task in, messages out, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the server decides
    scratch.run_folder()  # from here on a signal to end clears up first
    work = make()
    with contextlib.suppress(EOFError, OSError):
        while True:
            threading.Thread(target=_do, args=(pipe, work, pipe.recv()), daemon=True).start()


def _do(pipe: Connection, work: Work, task: Any) -> None:
    """One task in its thread; its end, good or bad, is told."""
    from ...errors import SfumatoError
    from ..refusals import refusal

    def tell(what: str, value: Any) -> None:
        pipe.send((what, value))

    try:
        last = ("result", work(task, tell))
    except SfumatoError as error:
        last = ("refused", refusal(error, lambda _: False))
    except Exception as error:  # its text may quote cells
        message = f"a fault of sfumato ({type(error).__name__}); nothing was published"
        last = ("refused", Refusal(type="ServerError", message=message, status=500))
    with contextlib.suppress(OSError):  # nobody listens any more
        pipe.send(last)
