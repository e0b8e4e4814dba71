"""Refusals: one shape for programs, a caret and one-click corrections for people."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from ..errors import EngineError, QueryError, SfumatoError, SpecError, VerificationError

_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_MEANT = "; did you mean "
KEYWORDS = {word.upper() for word in (*DuckDB.Tokenizer.KEYWORDS, *DuckDB.Generator.RESERVED_KEYWORDS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why there is no answer. `status` is the HTTP status, `fixes` are corrected questions that would be answered."""

    type: str
    message: str
    status: int = 400
    hint: str | None = None
    position: tuple[int, int] | None = None
    sql: str | None = None
    fixes: tuple[tuple[str, str], ...] = ()  # (what a button says, the question)
    retry_after: int | None = None

    def document(self) -> dict[str, Any]:
        """The one error shape of the API."""
        found = asdict(self)
        return {"error": {name: found[name] for name in ("type", "message", "hint", "position", "sql")}}

    @property
    def pointed(self) -> tuple[tuple[str, str, str], ...]:
        """Lines of the question as (before, marked, after); `marked` is empty where nothing is wrong."""
        if self.sql is None or self.position is None:
            return ()
        start, end = self.position
        lines, at = [], 0
        for line in self.sql.split("\n"):
            a, b = max(start - at, 0), min(end - at, len(line))
            here = a < b or (a == len(line) and start >= at and start - at <= len(line))
            lines.append((line[:a], line[a : max(a, b)] or " ", line[max(a, b) :]) if here else (line, "", ""))
            at += len(line) + 1
        return tuple(lines)


class Refused(Exception):  # noqa: N818 - reads as what happened
    """A refusal on its way to the caller."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def refusal(error: SfumatoError, accepted: Callable[[str], bool] = lambda _: False) -> Refusal:
    """The refusal an exception stands for; `accepted` says whether a corrected question would be answered."""
    if isinstance(error, QueryError):
        fixes: list[tuple[str, str]] = []
        for label, sql in _corrections(error):
            if sql != error.sql and accepted(sql) and all(sql != known for _, known in fixes):
                fixes.append((label, sql))
        return Refusal(
            type=type(error).__name__,
            message=error.message,
            hint=error.hint,
            position=error.position,
            sql=error.sql,
            fixes=tuple(fixes[:4]),
        )
    status = 503 if isinstance(error, VerificationError) else 500 if isinstance(error, EngineError) else 400
    return Refusal(type=type(error).__name__, message=str(error), status=status)


def _corrections(error: QueryError) -> Iterator[tuple[str, str]]:
    """Questions with the offending piece replaced, best guess first; each is tried before it is offered."""
    if error.sql is None or error.position is None:
        return
    start, end = error.position
    sql, piece = error.sql, error.sql[start:end]

    def put(text: str) -> str:
        return sql[:start] + text + sql[end:]

    for word in _meant(error.message):
        text = literal(word) if piece.startswith("'") else identifier(word)
        yield f"use {text}", put(text)
        yield f"use {literal(word)}", put(literal(word))
    if piece == "*":
        yield "count the rows instead", put("COUNT(*) AS n")
    if "FROM release" in error.message:
        yield "ask FROM release", put("release")
    if "GROUP BY" in error.message and re.fullmatch(r'\w+|"[^"]+"', piece):
        clause = re.search(r"\b(ORDER\s+BY|LIMIT|HAVING)\b", sql, re.IGNORECASE)
        at = clause.start() if clause else len(sql)
        yield f"GROUP BY {piece}", f"{sql[:at].rstrip()} GROUP BY {piece} {sql[at:]}".rstrip()


def _meant(message: str) -> tuple[str, ...]:
    """The names that the library proposes in a message."""
    _, found, rest = message.partition(_MEANT)
    return tuple(str(ast.literal_eval(text)) for text in _TEXT.findall(rest)) if found else ()


def identifier(name: str) -> str:
    """A column's name as SQL, quoted only where it must be."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def literal(value: object) -> str:
    """A value as SQL."""
    return exp.convert(value).sql(dialect="duckdb")


FEWER = "Ask for fewer groups, or download the release and ask it on your own machine."
BUSY = Refusal(
    type="Busy",
    message="the server has as many questions under way as it takes",
    hint="Ask again in a moment.",
    status=503,
    retry_after=2,
)


OUT_OF_MEMORY = Refusal(
    type="OutOfMemory",
    message="the question needed more memory than this server gives to one",
    hint=FEWER,
    status=507,
)


def out_of_time(seconds: float) -> Refusal:
    """The refusal of a question that ran too long."""
    message = f"the question took longer than the {seconds:g} seconds this server gives to one"
    return Refusal(type="OutOfTime", message=message, hint=FEWER, status=504)


def wrong(message: str, *, field: str | None = None, status: int = 400, hint: str | None = None) -> Refusal:
    """A refusal of the request itself, before any question is asked."""
    return Refusal(type=SpecError.__name__ if field else "RequestError", message=message, status=status, hint=hint)
