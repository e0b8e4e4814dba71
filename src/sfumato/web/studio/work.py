"""What the studio's process does for each step: calls of the library, and nothing else. Private: it reads the table."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from ...choosing.look import look
from ...choosing.recommend import expected
from ...choosing.setting import Setting, make_setting
from ...engines import engine_named, scratch
from ...engines.files import OPTIONS
from ...engines.source import paths_of
from ...errors import DataError, SfumatoError
from ...methods import REGISTRY
from ...methods.registry import build
from ...model.names import option_name
from ...model.public import Candidate
from ...publish import check_covered, prepare, publish
from ...publishing.custodian import READERS
from ...publishing.randomness import Secret
from ...query import open_release
from ...release.verify import describe, unseen, verified_lines
from ...reports.documents import render_plan, share_text
from ..refusals import Refusal, refusal
from ..workers import end_process, start_process
from .choices import Choices

CONDITIONS = 60  # of the query pool, where the custodian asks no questions of her own: for a quick look


Stamp = tuple[int, int]  # what changes when a file does


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """A step to do with these choices."""

    kind: str  # a method of the workbench
    choices: Choices
    stamp: tuple[Stamp, ...] | None = None  # of the table when it was planned


class Workbench:
    """Does one task after the other; the table that errors were foreseen for last is kept open."""

    def __init__(self) -> None:
        self._kept: tuple[object, Setting] | None = None

    def __call__(self, task: Errand, tell: Tell) -> Any:
        """The result of a task, as plain values."""
        if task.stamp is not None and stamp(task.choices.source) not in {None, task.stamp}:
            raise DataError("the table has changed since it was planned; open it again and look at its plan")
        step: Work = getattr(self, task.kind)
        return step(task.choices, tell)

    def look(self, choices: Choices, _: Tell) -> dict[str, Any]:
        """The document of `sfumato look --json`."""
        return look(choices.as_source(), engine=engine_named()).to_dict()

    def foresee(self, choices: Choices, tell: Tell) -> dict[str, Any]:
        """Each candidate of each method is told as soon as its error is known; at the end, what was asked."""
        tell("progress", ("reading the table", 0, len(REGISTRY)))
        setting, secret = self._setting(choices), Secret.fresh()
        for k, name in enumerate(REGISTRY):
            tell("progress", (name, k, len(REGISTRY)))
            for result in expected(setting, name, secret):
                tell("part", _entry(result))
        return {
            "bound": str(setting.tau),
            "rho1": str(setting.rho1),
            "rows": setting.truth.rows,
            "workload": setting.workload.describe(),
        }

    def plan(self, choices: Choices, _: Tell) -> dict[str, Any]:
        """The document of `sfumato plan --json`, the same as text, and what speaks against publishing it."""
        seen = stamp(choices.source)
        prepared = prepare(**reading(choices), secret=Secret.fresh())
        report = prepared.report()
        try:
            check_covered(prepared)
            against = None
        except SfumatoError as error:
            against = str(error)
        return {
            "report": report,
            "text": render_plan(report),
            "against": against,
            "notes": list(prepared.notes),
            "stamp": seen,
        }

    def publish(self, choices: Choices, tell: Tell) -> dict[str, Any]:
        """What the release states about itself, and the notes that came with it."""
        notes: list[str] = []
        release = publish(
            out=choices.out,
            accept_unprotected=choices.accept_unprotected,
            progress=lambda stage, done, rows: tell("progress", (stage, done, rows)),
            notify=notes.append,
            **reading(choices),
        )
        return {"document": describe(release.opened), "notes": notes}

    def verify(self, choices: Choices, tell: Tell) -> dict[str, Any]:
        """The lines of `sfumato verify`, and what nobody can see from the bundle alone."""
        opened = open_release(choices.out).opened
        lines = []
        for line in verified_lines(opened):
            lines.append(line)
            tell("progress", ("verify", len(lines), 0))
        return {"lines": lines, "unseen": list(unseen(opened)), "document": describe(opened)}

    def _setting(self, choices: Choices) -> Setting:
        """The table with its workload at the bound; read again only where something that matters has changed."""
        how = tuple(choices[name] for name in OPTIONS)
        read = (choices.source, stamp(choices.source), how, choices.null_as_value)
        key = (read, choices.questions, tuple(choices.roles.items()), choices.rows_per_person)
        rho1 = choices.rho1 or None
        if self._kept is None or self._kept[0] != key:
            self._kept = None  # the old copy goes before the new one is made
            made = make_setting(
                choices.as_source(),
                roles=choices.as_roles(),
                bound=choices.bound,
                rho1=rho1,
                workload=choices.questions if choices.questions.strip() else None,
                conditions=CONDITIONS,
                engine=engine_named(),
                null_as_value=choices.null_as_value,
            )
            self._kept = (key, made)
            return made
        return self._kept[1].at(choices.bound, rho1)


def reading(choices: Choices) -> dict[str, Any]:
    """The arguments that `prepare` and `publish` share."""
    return {
        "source": choices.as_source(),
        "roles": choices.as_roles(),
        "method": build(choices.method, choices.options, option_name=option_name, readers=READERS),
        "engine": engine_named(),
        "null_as_value": choices.null_as_value,
    }


def _entry(result: dict[str, Any]) -> dict[str, Any]:
    """A candidate as the page shows it."""
    kept = ("method", "variant", "trust", "guarantee", "expected_error", "readers", "holds_bound", "reason")
    entry = {name: result.get(name) for name in kept}
    if result.get("parameters") is not None:
        candidate = Candidate(method=result["method"], parameters=result["parameters"])
        entry |= {"options": candidate.texts(), "command": candidate.options()}
    entry["trust"] = entry["trust"] or str(REGISTRY[result["method"]].trust)
    errors = entry["expected_error"] or {}
    entry["error"] = next(iter(errors.values()), None)
    entry["said"] = share_text(entry["error"])
    return entry


def stamp(source: str) -> tuple[Stamp, ...] | None:
    """When the files of a source were last written, and their sizes; None where it is not made of files."""
    try:
        found = [path.stat() for path in paths_of(source)]
    except (OSError, ValueError, SfumatoError):
        return None
    return tuple((file.st_mtime_ns, file.st_size) for file in found) or None


# A process that does the custodian's work: one task at a time, with progress, and it can be ended at any moment.
#
# The work runs in a thread of that process; its main thread listens, so a signal to end is heard whatever the work
# does. What the process holds (its private folder, a half-written release) goes with it.


Tell = Callable[[str, Any], None]  # (what, value): "progress" (stage, done, total) or "part" (one of several results)
Work = Callable[[Any, Tell], Any]
PATIENCE = 10.0  # seconds for an ended process to tidy up before it is killed
LOST = Refusal(
    type="WorkerLost", message="the work ended by itself, most likely out of memory; nothing was published", status=507
)
STOPPED = Refusal(type="Stopped", message="stopped; nothing was published", status=409)
TOO_LATE = Refusal(
    type="TooLate",
    message="the folder was there before publishing could be stopped; look at it, and remove it if it is not wanted",
    status=409,
)


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
            self._process, self._pipe = start_process(_listen, self._make)

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
            end_process(self._process, PATIENCE)
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
    try:
        while True:
            threading.Thread(target=_do, args=(pipe, work, pipe.recv()), daemon=True).start()
    except (EOFError, OSError):
        pass
    finally:
        scratch.clear()
        os._exit(0)  # a thread inside the engine's C++ aborts where the interpreter ends before it


def _do(pipe: Connection, work: Work, task: Any) -> None:
    """One task in its thread; its end, good or bad, is told."""

    def tell(what: str, value: Any) -> None:
        pipe.send((what, value))

    try:
        last = ("result", work(task, tell))
    except SfumatoError as error:
        last = ("refused", refusal(error))
    except Exception as error:  # its text may quote cells
        message = f"a fault of sfumato ({type(error).__name__}); nothing was published"
        last = ("refused", Refusal(type="ServerError", message=message, status=500))
    with contextlib.suppress(OSError):  # nobody listens any more
        pipe.send(last)
