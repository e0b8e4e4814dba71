"""The one way from a request to an answer: limits first, then what is kept, then a worker."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..version import __version__
from .catalogue import Served
from .presenting import Conclusion
from .refusals import BUSY, Refusal, lost, out_of_time, wrong
from .security import Settings
from .tasks import Form, Reply, Task
from .workers import Busy, OutOfTime, Pool, WorkerLost

VOCABULARY_SECONDS = 120.0  # the first look at a large release reads whole columns


class Kept:
    """Finished answers, the least recently asked for falling out first; an answer of a release never changes."""

    def __init__(self, mib: int) -> None:
        self._most, self._size = mib * 2**20, 0
        self._held: OrderedDict[Task | Conclusion, Reply] = OrderedDict()

    def get(self, task: Task | Conclusion) -> Reply | None:
        """The reply, if it is still here."""
        found = self._held.get(task)
        if found is not None:
            self._held.move_to_end(task)
        return found

    def put(self, task: Task | Conclusion, reply: Reply) -> None:
        """Keep a reply, and let old ones go."""
        if reply.size > self._most // 4 or task in self._held:
            return
        self._held[task] = reply
        self._size += reply.size
        while self._size > self._most:
            self._size -= self._held.popitem(last=False)[1].size


@dataclass(slots=True, kw_only=True)
class Service:
    """What every handler needs."""

    served: Mapping[str, Served]
    settings: Settings
    pool: Pool
    stamp: str  # of templates and static files: names the look of a page
    kept: Kept
    _vocabularies: dict[str, dict[str, Any]] = field(default_factory=dict)
    _looking: dict[str, asyncio.Future[Any]] = field(default_factory=dict)

    async def answer(self, served: Served, form: Form, asked: Posed) -> Reply | Refusal:
        """The answer in some form, or why there is none."""
        return await self.reply(
            Task(release=served.name, form=form, sql=asked.sql, level=asked.level, simultaneous=asked.simultaneous)
        )

    async def reply(self, task: Task | Conclusion) -> Reply | Refusal:
        """What a worker says to a task, or why nobody does."""
        if len(task.sql) + (len(task.where) if isinstance(task, Conclusion) else 0) > self.settings.max_sql:
            return wrong(f"the question is longer than {self.settings.max_sql:,} characters", status=413)
        found = self.kept.get(task)
        if found is not None:
            return found
        try:
            reply: Reply | Refusal = await self.pool.ask(task)
        except Busy:
            return BUSY
        except OutOfTime:
            return out_of_time(self.settings.time_limit, task.sql)
        except WorkerLost:
            return lost(task.sql)
        if isinstance(reply, Reply):
            self.kept.put(task, reply)
        return reply

    async def vocabulary(self, served: Served) -> dict[str, Any]:
        """Values of columns and examples; without them where the server is too busy to look."""
        if served.name not in self._vocabularies:
            try:
                reply = await asyncio.shield(self._look(served.name))
            except (Busy, OutOfTime, WorkerLost):
                return {"values": {}, "examples": []}
            if not isinstance(reply, Reply):
                return {"values": {}, "examples": []}
            self._vocabularies[served.name] = reply.shown
        return self._vocabularies[served.name]

    def _look(self, name: str) -> asyncio.Future[Any]:
        """The look at a release that is under way, or a new one: many who come at once share it."""
        found = self._looking.get(name)
        if found is None:
            task = Task(release=name, form="vocabulary")
            found = asyncio.ensure_future(self.pool.ask(task, time_limit=VOCABULARY_SECONDS))
            found.add_done_callback(lambda done: (self._looking.pop(name), done.cancelled() or done.exception()))
            self._looking[name] = found
        return found

    def etag(self, served: Served, *parts: object) -> str:
        """The name of an answer: it follows from the release, the question and this version of sfumato."""
        text = "\x00".join(str(part) for part in (__version__, self.stamp, served.digest, *parts))
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Posed:
    """A question as it came in."""

    sql: str
    level: float = 0.95
    simultaneous: bool = False
