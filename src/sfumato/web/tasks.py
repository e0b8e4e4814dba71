"""What a worker process does: it holds the releases open and answers one task after the other."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..answering.answer import Answer
from ..errors import SfumatoError
from ..model.names import ENDS, free_name
from ..query import Release, open_release
from .catalogue import Served, ServedColumn
from .presenting import Conclusion, chart, concluded, present
from .refusals import Refusal, identifier, literal, refusal

Form = Literal["json", "csv", "parquet", "page", "explain", "vocabulary"]
MOST_VALUES = 500  # of a column, for completion and the form


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One question to one release, and the form of the answer."""

    release: str
    form: Form
    sql: str = ""
    level: float = 0.95
    simultaneous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A finished answer: bytes for the API, a plain structure for pages."""

    body: bytes = b""
    shown: Any = None
    kind: str = ""
    rows: int = 0

    @property
    def size(self) -> int:
        """Roughly the bytes it holds."""
        return len(self.body) + (len(str(self.shown)) if self.shown is not None else 0) + 200


class Desk:
    """Answers tasks about some releases; opens each at its first question."""

    def __init__(self, served: Mapping[str, Served], max_rows: int) -> None:
        self._served, self._max_rows = dict(served), max_rows
        self._open: dict[str, Release] = {}

    def prepare(self, task: Task | Conclusion) -> None:
        """Open the release of a task, and load what reads questions, before the time of the task begins."""
        if task.release not in self._open:
            with contextlib.suppress(Exception):  # said, as a refusal, in the reply
                self._release(task.release).explain("SELECT COUNT(*) FROM release")

    def __call__(self, task: Task | Conclusion) -> Reply | Refusal:
        """The reply, or why there is none: nothing is said of other files than those that the server opened."""
        served = self._served[task.release]
        found = self._reply(task)
        try:
            served.check()
        except SfumatoError as error:
            self._open.pop(task.release, None)
            return refusal(error, lambda _: False)
        return found

    def _reply(self, task: Task | Conclusion) -> Reply | Refusal:
        try:
            release = self._release(task.release)
            if isinstance(task, Conclusion):
                body, shown = concluded(release, task)
                return Reply(body=body, shown=shown or None, kind=task.kind)
            if task.form == "vocabulary":
                return Reply(shown=self._vocabulary(release, self._served[task.release]))
            if task.form == "explain":
                return Reply(body=release.explain(task.sql).encode())
            return self._answer(release, task)
        except SfumatoError as error:
            return refusal(error, lambda sql: self._accepted(self._release(task.release), sql))
        except MemoryError:
            raise  # the process is no longer sound: let it end, and another take its place
        except RecursionError:
            return Refusal(type="QueryError", message="the question is nested too deeply", sql=task.sql)
        except Exception as error:  # a fault of ours must not end the server; its text may quote cells
            return Refusal(
                type="ServerError",
                message=f"the question could not be answered, through a fault of the server ({type(error).__name__})",
                status=500,
                sql=task.sql,
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

    def _answer(self, release: Release, task: Task) -> Reply | Refusal:
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
    """Distinct values of an unchanged column, or None as soon as they are too many; reads that column alone."""
    seen: pa.Array | None = None
    for part in release.manifest.files:
        if not part.startswith("data"):
            continue
        with pq.ParquetFile(release.path / part) as file:
            if name not in file.schema_arrow.names:
                return None
            for batch in file.iter_batches(1 << 17, columns=[name]):
                fresh = pc.unique(batch.column(0).cast(pa.string()))
                seen = fresh if seen is None else pc.unique(pa.concat_arrays([seen, fresh]))
                if len(seen) > MOST_VALUES:
                    return None
    return sorted(v for v in (seen.to_pylist() if seen is not None else []) if v is not None)


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
