"""The access log: one JSON object a line, without addresses of people and without the literals of their questions."""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, TextIO

import sqlglot
from sqlglot import TokenType
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LITERALS = {TokenType.STRING, TokenType.NUMBER, TokenType.NATIONAL_STRING, TokenType.RAW_STRING}
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}


class AccessLog:
    """Writes a line when a request is done. Handlers add what they know to `scope["log"]`."""

    def __init__(self, app: ASGIApp, *, write: Callable[[str], None] | None = None) -> None:
        self._app, self._write = app, write or line_writer(sys.stdout)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and note what became of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        seen: dict[str, Any] = {"status": 500, "bytes": 0}
        scope["log"] = {}

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
            elif message["type"] == "http.response.body":
                seen["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
            line = {"time": now, "method": scope["method"], "path": scope["path"], **seen}
            line["ms"] = round(1000 * (time.perf_counter() - start), 1)
            # ASCII alone: no character of an address ends the line or steers the terminal that shows it
            self._write(json.dumps(line | scope["log"], default=str))


def line_writer(stream: TextIO) -> Callable[[str], None]:
    """A function that writes a line at once."""

    def write(line: str) -> None:
        stream.write(line + "\n")
        stream.flush()

    return write


def masked(sql: str, known: Iterable[str]) -> str:
    """The question with `?` for every literal and for every name that is not a column of the release.

    A mistyped question may hold a value where a name belongs, so names are kept only if they are public ones.
    """
    public = {name.lower() for name in known} | {"release"}
    try:
        tokens = sqlglot.tokenize(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return "?"
    words = []
    for token in tokens:
        keep = token.token_type not in _LITERALS
        if token.token_type in _NAMES:
            keep = token.text.lower() in public or token.text.upper() in _FUNCTIONS
        elif keep and token.text[:1].isalpha():
            keep = token.text.upper() in _KEYWORDS or token.text.lower() in public
        words.append(token.text if keep else "?")
    return " ".join(words)


_FUNCTIONS = frozenset(
    ("COUNT", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "INTERVAL_LOW", "INTERVAL_HIGH", "STD_ERROR", "FLOOR")
)
_WORDS = """
SELECT FROM WHERE HAVING LIMIT OFFSET AS AND OR NOT IN IS NULL BETWEEN LIKE ILIKE CASE WHEN THEN ELSE END FILTER
CUBE ROLLUP ASC DESC TRUE FALSE DISTINCT BY GROUP ORDER
"""
_KEYWORDS = _FUNCTIONS | {*_WORDS.split(), "GROUP BY", "ORDER BY", "GROUPING SETS"}
