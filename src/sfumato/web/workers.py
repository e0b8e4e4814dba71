"""A bounded pool of processes that answer questions, and what they do.

A question may run long in DuckDB or in numpy; only a process can be stopped whatever it does. So each worker is a
process that answers one question at a time: past the time limit it is ended and another takes its place, while the
others go on. What waits is bounded too; beyond that a caller is refused at once.

The time of a question runs from when a worker has it: what waits in the queue does not pay for a process that starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import math
import multiprocessing
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import quote, urlencode

import pyarrow.parquet as pq

from ..analysis.design import FAMILIES
from ..answering.answer import Answer
from ..engines import scratch
from ..errors import SfumatoError
from ..model.names import ENDS, free_name
from ..query import Release, open_release
from ..reports.text import json_text
from .catalogue import Served, ServedColumn
from .presenting import chart, present, present_fit, present_test
from .refusals import BUSY, OUT_OF_MEMORY, Refusal, Refused, identifier, literal, out_of_time, refusal, wrong

CONTEXT = multiprocessing.get_context("spawn")  # forking a process that has threads may freeze the child
START_LIMIT = 120.0  # seconds until a new worker must be ready
PATIENCE = 1.0  # seconds for a process that is ended to tidy up
READY = "ready"
MOST_VALUES = 500  # of a column, for completion and the form

Answerer = Callable[[Any], Any]  # what a worker process holds: task in, reply or Refusal out


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
    _free: asyncio.Queue[_Worker] = field(default_factory=asyncio.Queue)
    _threads: ThreadPoolExecutor | None = None
    _workers: list[_Worker] = field(default_factory=list)
    _restarting: set[asyncio.Task[None]] = field(default_factory=set)
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
        for worker in self._workers:  # one may have been about to start again
            worker.end()

    async def ask(self, task: Any, *, time_limit: float | None = None) -> Any:
        """The reply to a task; Refused where all are busy, or where it takes too much time or memory."""
        limit = self.time_limit if time_limit is None else time_limit
        worker = await self._take(limit)
        # The work goes on when the caller leaves, so that the worker comes back only when it is free again.
        running = asyncio.ensure_future(self._run(worker, task, limit))
        running.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to look
        return await asyncio.shield(running)

    async def _take(self, limit: float) -> _Worker:
        """A free worker; Refused after `limit` seconds, but one that is about to be ready is waited for."""
        if self._free.empty() and self.waiting >= self.queue:
            raise Refused(BUSY)
        self.waiting += 1
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limit):
                        return await self._free.get()
                if not self._restarting:
                    raise Refused(BUSY)
        finally:
            self.waiting -= 1

    async def _run(self, worker: _Worker, task: Any, limit: float) -> Any:
        self.busy += 1
        try:
            reply = await asyncio.get_running_loop().run_in_executor(self._threads, worker.ask, task, limit)
        except Refused:  # told at once: the process is ended and started again beside
            self.replaced += 1
            starting = asyncio.ensure_future(self._restart(worker))
            self._restarting.add(starting)
            starting.add_done_callback(self._restarting.discard)
            raise
        self._give_back(worker)
        return reply

    async def _restart(self, worker: _Worker) -> None:
        with contextlib.suppress(EOFError, OSError):  # it is started again by who asks it next
            await asyncio.get_running_loop().run_in_executor(self._threads, worker.restart)
        self._give_back(worker)

    def _give_back(self, worker: _Worker) -> None:
        self.busy -= 1
        self._free.put_nowait(worker)


def start_process(target: Callable[..., None], *arguments: Any) -> tuple[Any, Connection]:
    """A process that runs `target(pipe, *arguments)`, and our end of the pipe.

    Ctrl-C, which reaches the whole group, does not end it while it loads its code.
    """
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=target, args=(theirs, *arguments), daemon=True, name="sfumato-worker")
    if sys.platform == "win32":
        process.start()
    else:
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # it is started with the process, and lets Ctrl-C through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # of this thread, and of what it starts
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()  # so that the end of the process is seen as the end of the pipe
    return process, ours


def end_process(process: Any, patience: float) -> None:
    """End a process; one that does not tidy up in time is killed, and what it left behind removed."""
    process.terminate()
    process.join(patience)
    if process.is_alive():
        process.kill()
        process.join()
        scratch.remove_left_overs()


class _Worker:
    """One process and the pipe to it; used by one thread at a time."""

    def __init__(self, make: Callable[[], Answerer], memory_mib: int) -> None:
        self._make, self._memory_mib = make, memory_mib
        self._process: Any = None
        self._pipe: Connection | None = None

    def start(self) -> Connection:
        """Start the process and wait until it is ready; the pipe to it."""
        self._process, pipe = start_process(_serve, self._make, self._memory_mib)
        self._pipe = pipe
        if not pipe.poll(START_LIMIT) or pipe.recv() != READY:
            raise EOFError
        return pipe

    def restart(self) -> None:
        """End the process and start another."""
        self.end()
        self.start()

    def ask(self, task: Any, limit: float) -> Any:
        """The reply; Refused where the process has none in time, or ends: it must be started again."""
        try:
            pipe = self._pipe or self.start()
            pipe.send(task)
            if pipe.poll(limit):
                return pipe.recv()
            why = out_of_time(limit)
        except (EOFError, OSError):
            why = OUT_OF_MEMORY
        raise Refused(why)

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            end_process(self._process, PATIENCE)
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def _serve(pipe: Connection, make: Callable[[], Answerer], memory_mib: int) -> None:
    """The life of a worker process: tasks in, replies out, until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the server decides
    scratch.run_folder()  # from here on a signal to end clears up first
    with contextlib.suppress(ImportError, ValueError, OSError):  # where the system can bound memory
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (memory_mib * 2**20, memory_mib * 2**20))
    answer = make()
    with contextlib.suppress(EOFError, OSError, MemoryError):  # without memory this process ends
        pipe.send(READY)
        while True:
            pipe.send(answer(pipe.recv()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A finished answer: bytes for the API, a plain structure for pages."""

    body: bytes = b""
    shown: Any = None
    kind: str = ""
    rows: int = 0


class Desk:
    """Answers questions to some releases, which it holds open."""

    def __init__(self, served: Mapping[str, Served], max_rows: int) -> None:
        self._served, self._max_rows = dict(served), max_rows
        self._open: dict[str, Release] = {}
        for name in served:
            with contextlib.suppress(Exception):  # said, as a refusal, in a reply
                self._release(name).explain("SELECT COUNT(*) FROM release")

    def __call__(self, task: Question) -> Reply | Refusal:
        """The reply, or why there is none: nothing is said of other files than those that the server opened."""
        served = self._served[task.release]
        found = self._reply(task)
        try:
            served.check()
        except SfumatoError as error:
            self._open.pop(task.release, None)
            return refusal(error)
        return found

    def _reply(self, task: Question) -> Reply | Refusal:
        try:
            release = self._release(task.release)
            if task.kind == "vocabulary":
                return Reply(shown=self._vocabulary(release, self._served[task.release]))
            if task.kind == "explain":
                return Reply(body=release.explain(task.sql).encode())
            return self._answer(release, task) if task.kind == "query" else _concluded(release, task)
        except SfumatoError as error:
            return refusal(error, lambda sql: self._accepted(self._release(task.release), sql))
        except MemoryError:
            raise  # the process is no longer sound: let it end, and another take its place
        except RecursionError:
            return Refusal(type="QueryError", message="the question is nested too deeply", sql=task.typed)
        except Exception as error:  # a fault of ours must not end the server; its text may quote cells
            return Refusal(
                type="ServerError",
                message=f"the question could not be answered, through a fault of the server ({type(error).__name__})",
                status=500,
                sql=task.typed,
            )

    def _release(self, name: str) -> Release:
        if name not in self._open:
            self._open[name] = open_release(self._served[name].folder, check=False)  # digests were checked at the start
        return self._open[name]

    def _accepted(self, release: Release, sql: str) -> bool:
        try:
            release.explain(sql)
        except (SfumatoError, RecursionError):
            return False
        return True

    def _vocabulary(self, release: Release, served: Served) -> dict[str, Any]:
        """Values of the columns that have few, and examples that this release answers."""
        found = values(release, served)
        fitting = [(title, sql) for title, sql in examples(served.columns, found) if self._accepted(release, sql)]
        return {"values": found, "examples": fitting}

    def _answer(self, release: Release, task: Question) -> Reply | Refusal:
        answer = release.sql(task.sql, level=task.level, simultaneous=task.simultaneous)
        rows = answer.to_arrow().num_rows
        if rows > self._max_rows:
            return Refusal(
                type="AnswerTooLarge",
                message=f"the answer has {rows:,} rows; this server gives at most {self._max_rows:,}",
                hint="Group by fewer columns, or add ORDER BY and LIMIT.",
                sql=task.sql,
            )
        if task.form == "page":
            shown = present(answer, task.sql)
            shown["chart"] = chart(answer, task.sql)
            shown["explanation"] = release.explain(task.sql)
            return Reply(shown=shown, kind=answer.kind, rows=rows)
        return Reply(body=encoded(answer, task.form), kind=answer.kind, rows=rows)


def _concluded(release: Release, asked: Question) -> Reply:
    """A fit or a test, as a file or as a page needs it."""
    where, level = asked.where or None, asked.level
    if asked.kind == "fit":
        fit = release.fit(asked.formula, family=asked.family, where=where, level=level)
        if asked.form == "page":
            return Reply(shown=present_fit(fit), kind="fit")
        return Reply(body=(fit.to_csv() if asked.form == "csv" else fit.to_json()).encode(), kind="fit")
    test = release.test(asked.x, asked.y, where=where, level=level)
    if asked.form == "page":
        return Reply(shown=present_test(test), kind="test")
    return Reply(body=json_text(test.to_dict()).encode(), kind="test")


def encoded(answer: Answer, form: str) -> bytes:
    """The answer as a file."""
    if form == "csv":
        return answer.to_csv().encode()
    if form == "parquet":
        out = io.BytesIO()
        facts = {"sfumato.method": answer.method, "sfumato.level": str(answer.level), "sfumato.kind": answer.kind}
        pq.write_table(answer.to_arrow().replace_schema_metadata(facts), out)
        return out.getvalue()
    return json.dumps(answer.to_dict(), ensure_ascii=False, default=str).encode()


def values(release: Release, served: Served) -> dict[str, list[Any] | None]:
    """column -> its values if they are few, else None; of the domain where there is one, else of what is published."""
    found: dict[str, list[Any] | None] = {}
    for column in served.columns:
        if column.domain is not None:
            found[column.name] = list(column.domain) if len(column.domain) <= MOST_VALUES else None
        elif column.kind in {"text", "truth"}:
            found[column.name] = _published(release, column.name)
        else:
            found[column.name] = None
    return found


def _published(release: Release, name: str) -> list[Any] | None:
    """Distinct values of an unchanged column, or None where they are too many."""
    column = identifier(name)
    question = f"SELECT {column}, COUNT(*) FROM release WHERE {column} IS NOT NULL GROUP BY {column}"
    try:
        found = release.sql(f"{question} LIMIT {MOST_VALUES + 1}").to_arrow().column(0).cast("string").to_pylist()
    except SfumatoError:  # of a column that is published in ranges
        return None
    return sorted(found) if len(found) <= MOST_VALUES else None


# Questions that fit a release: made from its columns, shown only if the release answers them.


FEW = 12  # values of a column that makes a readable group


def examples(columns: Sequence[ServedColumn], values: Mapping[str, Sequence[Any] | None]) -> Iterator[tuple[str, str]]:
    """(title, SQL), from the plainest on."""
    sensitive = next((c for c in columns if c.role == "sensitive"), None)
    others = [c for c in columns if c.role != "sensitive"]
    group = next((c for c in others if c.kind in {"text", "truth"} and 1 < len(values.get(c.name) or ()) <= FEW), None)
    measure = next((c for c in reversed(others) if c.kind in {"whole", "number"}), None)
    axis = next((c for c in others if c.kind == "whole"), None)
    if sensitive is None:
        return
    s = identifier(sensitive.name)

    def named(name: str) -> str:
        return identifier(free_name(name, (c.name for c in columns), ENDS))

    n, share = named("n"), named("share")
    if sensitive.domain is None or len(sensitive.domain) <= 100:
        yield (
            f"How many of each {sensitive.name}?",
            f"SELECT {s}, COUNT(*) AS {n}\nFROM release\nGROUP BY {s}\nORDER BY {n} DESC",
        )
    if not sensitive.domain:
        return
    value = next((v for v in sensitive.domain if v not in (None, "")), None)
    asked = f"{s} = {literal(value)}"
    if group is not None:
        g = identifier(group.name)
        yield (
            f"{value}, by {group.name}",
            f"SELECT {g}, COUNT(*) AS {n}\nFROM release\nWHERE {asked}\nGROUP BY {g}\nORDER BY {n} DESC",
        )
        with_it = f"AVG(CASE WHEN {asked} THEN 1 ELSE 0 END) AS {share}"
        yield (
            f"The share of {value} in each {group.name}",
            f"SELECT {g}, {with_it}\nFROM release\nGROUP BY {g}\nORDER BY {g}",
        )
    if axis is not None:
        a = identifier(axis.name)
        step = f"{a} // 10 * 10"
        name = named(f"{axis.name}_from")
        yield (
            f"{value}, by {axis.name} in steps of 10",
            f"SELECT {step} AS {name}, COUNT(*) AS {n}\nFROM release\nWHERE {asked}\nGROUP BY {step}\nORDER BY {name}",
        )
    if measure is not None:
        m, name = identifier(measure.name), named(f"average_{measure.name}")
        yield (
            f"Average {measure.name} by {sensitive.name}",
            f"SELECT {s}, AVG({m}) AS {name}\nFROM release\nGROUP BY {s}\nORDER BY {name} DESC",
        )


# --- what is asked of a release: SQL, a model or a test; read from an address, written as one or as a command


FORMS = {"query": ("json", "csv", "parquet"), "fit": ("json", "csv"), "test": ("json",)}  # kind -> files of the answer
TEXTS = {"query": ("sql",), "explain": ("sql",), "fit": ("formula", "family", "where"), "test": ("x", "y", "where")}
ON = {"1", "true", "on", "yes"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question to a release: `sql`, a model (`formula`) or a test (`x` and `y`)."""

    release: str
    kind: str  # query, fit, test, explain or vocabulary
    form: str = "json"  # of the answer: one of FORMS, or "page"
    sql: str = ""
    formula: str = ""
    family: str = FAMILIES[0]
    x: str = ""
    y: str = ""
    where: str = ""
    level: float = 0.95
    simultaneous: bool | None = None  # None: where estimates choose the rows

    @property
    def typed(self) -> str:
        """What was typed."""
        return self.sql or self.formula or f"{self.x}, {self.y}"

    def options(self) -> dict[str, Any]:
        """What differs from the defaults, but for what the answer is about."""
        usual = Question(release="", kind="")
        names = ("family", "where", "level", "simultaneous")
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(usual, name)}

    def fields(self) -> dict[str, str]:
        """The question as fields of an address."""
        about = {name: getattr(self, name) for name in ("sql", "formula", "x", "y") if getattr(self, name)}
        return about | {name: str(int(v) if isinstance(v, bool) else v) for name, v in self.options().items()}

    def links(self, digest: str) -> dict[str, str]:
        """Addresses of the answer: the page, and the files; they name the release's contents."""
        place, fields = f"/{quote(self.release)}", self.fields() | {"digest": digest[:16]}
        files = {form: f"{place}/{self.kind}?{urlencode(fields | {'format': form})}" for form in FORMS[self.kind]}
        return {"page": f"{place}/ask?{urlencode(fields)}#answer", **files}

    def lines(self) -> dict[str, str]:
        """The same question on a command line and in Python."""
        words = [self.x, self.y] if self.kind == "test" else [self.formula or _in_one_line(self.sql)]
        options = "".join(
            f" --{'' if value else 'no-'}{name}" if isinstance(value, bool) else f" --{name}={shlex.quote(str(value))}"
            for name, value in self.options().items()
        )
        # what follows -- is no option
        ended = ["--"] if any(word.startswith("-") for word in (self.release, *words)) else []
        shell = " ".join(shlex.quote(word) for word in (*ended, self.release, *words))
        given = [*map(repr, words), *(f"{name}={value!r}" for name, value in self.options().items())]
        function = "sql" if self.kind == "query" else self.kind
        return {
            "shell": f"sfumato {self.kind}{options} {shell}",
            "python": f"import sfumato\n\nrelease = sfumato.open_release({self.release!r})\n"
            f"print(release.{function}({', '.join(given)}))",
        }


def read_question(kind: str, given: Mapping[str, Any], release: str, form: str) -> Question:
    """The question in a query string or a body; Refused where it is incomplete."""
    texts = {name: given.get(name, "") for name in TEXTS[kind]}
    for name, text in texts.items():
        if not _is_text(text):
            raise Refused(wrong("the question is not text", field=name))
    texts |= {name: texts[name].strip() for name in ("formula", "family", "where") if name in texts}
    if "sql" in texts and not texts["sql"].strip():
        raise Refused(wrong("no question was asked", field="sql", hint="Give it as sql=SELECT ... FROM release ..."))
    if not all(texts[name] for name in ("formula", "x", "y") if name in texts):
        raise Refused(wrong("a fit needs a formula, a test two columns", field="formula"))
    if not texts.get("family", FAMILIES[0]):
        del texts["family"]
    wanted = str(given.get("simultaneous", "")).lower() if kind == "query" else ""
    simultaneous = wanted in ON if wanted else None
    level = _level(given.get("level", 0.95))
    return Question(release=release, kind=kind, form=form, level=level, simultaneous=simultaneous, **texts)


def _level(given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number < 1:
        raise Refused(wrong("level must lie between 0 and 1", field="level"))
    return number


def _is_text(text: Any) -> bool:
    """Whether it is text; JSON can spell halves of characters, which are not."""
    return isinstance(text, str) and not any("\ud800" <= character <= "\udfff" for character in text)


def _in_one_line(sql: str) -> str:
    """The SQL in one line, where no text, name or comment in it may hold a line break."""
    return sql.strip() if "'" in sql or '"' in sql or "--" in sql else " ".join(sql.split())
