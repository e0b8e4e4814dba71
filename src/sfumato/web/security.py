"""The gate in front of every application here: host names, body sizes, origins, and headers that protect readers.

Pure ASGI, and shared by whatever is served: the analysts' pages and anything else that stands on the same layout.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TextIO

import sqlglot
from sqlglot import TokenType
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import SpecError
from .refusals import Refusal, wrong

# Scripts, styles, fonts and requests from this server alone; nothing inline, nothing evaluated, no frame around us.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
PROTECTING: Mapping[str, str] = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",  # addresses hold questions
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "cross-origin-opener-policy": "same-origin",
}
METHODS = ("GET", "HEAD", "POST", "OPTIONS")
BODY_SECONDS = 10.0  # for a whole body to arrive
DRAIN_BYTES, DRAIN_SECONDS = 2**20, 2.0  # of a refused body that is read and dropped, so that the refusal is heard


class Gate:
    """Checks a request before the application sees it, and completes the headers of what comes back."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Iterable[str],
        max_body: int,
        cors: Iterable[str] = (),
        methods: tuple[str, ...] = METHODS,
        streamed: Iterable[str] = (),
    ) -> None:
        self._app, self._hosts, self._max_body = app, frozenset(hosts), max_body
        self._cors, self._methods = frozenset(cors), methods
        self._streamed = frozenset(streamed)  # paths whose handlers read the body themselves, piece by piece

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let lifespan events pass; answer or forward requests; close websockets."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = Headers(scope=scope)
        send = self._completing(headers, send)
        refused = self._refusal(scope, headers)
        if refused is not None:
            if _has_body(headers):
                await _drain(receive)
            await respond(refused, send)
            return
        if scope["method"] == "OPTIONS":
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        if scope["path"] in self._streamed:
            await self._app(scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(self._body(receive), BODY_SECONDS) if _has_body(headers) else b""
        except TimeoutError:
            await respond(wrong("the body of the request did not arrive in time", status=408), send)
            return
        if body is None:
            await _drain(receive)
            await respond(self._too_large(), send)
            return
        await self._app(scope, _replayed(body, receive), send)

    def _refusal(self, scope: Scope, headers: Headers) -> Refusal | None:
        given = headers.getlist("host")
        if len(given) != 1 or host_name(given[0]) not in self._hosts:
            return wrong(
                "the server does not answer under this host name",
                status=421,
                hint="Use the address that it was started with, or start it with --allow-host NAME.",
            )
        if scope["method"] not in self._methods:
            return wrong(f"{scope['method'][:20]} is not among the methods of this server", status=405)
        if "transfer-encoding" in headers and "content-length" in headers:  # what lies between may read it otherwise
            return wrong("the request states its length in two ways", status=400)
        length = headers.get("content-length", "0")
        if scope["path"] not in self._streamed and (not length.isdigit() or int(length) > self._max_body):
            return self._too_large()
        return None

    def _too_large(self) -> Refusal:
        return wrong(f"the body of the request is larger than {self._max_body:,} bytes", status=413)

    async def _body(self, receive: Receive) -> bytes | None:
        """The whole body, or None as soon as it is too large."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return b"".join(parts)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._max_body:
                return None
            if not message.get("more_body"):
                return b"".join(parts)

    def _completing(self, request: Headers, send: Send) -> Send:
        origin = request.get("origin")
        allowed = origin is not None and bool({origin, "*"} & self._cors)

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTING.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
                headers["cross-origin-resource-policy"] = "cross-origin" if self._cors else "same-origin"
                if self._cors:
                    headers.add_vary_header("Origin")
                if allowed and origin is not None:
                    headers["access-control-allow-origin"] = "*" if "*" in self._cors else origin
                    headers["access-control-allow-methods"] = "GET, POST"
                    headers["access-control-allow-headers"] = "content-type, if-none-match"
                    headers["access-control-expose-headers"] = "etag, retry-after"
            await send(message)

        return complete


def host_name(header: str) -> str:
    """The name in a Host header, without the port and without brackets, in lower case."""
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].removesuffix(".")


async def respond(refused: Refusal, send: Send) -> None:
    """Send a refusal in the one error shape."""
    body = json.dumps(refused.document()).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")] if refused.status in {400, 408, 413} else []
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _drain(receive: Receive) -> None:
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while size < DRAIN_BYTES:
                message = await receive()
                size += len(message.get("body", b"")) + 1
                if message["type"] != "http.request" or not message.get("more_body"):
                    return


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body that was read, then what comes after it."""
    done = False

    async def again() -> Message:
        nonlocal done
        if done:
            return await receive()
        done = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


# What a server allows: limits, host names, origins. One frozen object, made from the command line.


LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to


def cores() -> int:
    """Processes that can work at the same time here, four at most unless told otherwise."""
    return max(1, min(4, os.cpu_count() or 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits of a server for analysts; the defaults suit a small public server."""

    workers: int = 2  # processes that answer, so: questions under way at once
    queue: int = 64  # questions that may wait for a worker; one more gets 503
    time_limit: float = 20.0  # seconds for one question, from the moment a worker takes it
    memory_mib: int = 2048  # private memory of one worker
    max_sql: int = 10_000  # characters of a question
    max_body: int = 64 * 1024  # bytes of a request's body
    max_rows: int = 10_000  # rows of an answer
    cache_mib: int = 64  # finished answers that are kept
    downloads: int = 16  # bundles and tables streamed at once
    hosts: tuple[str, ...] = LOOPBACK  # names under which the server answers
    cors: tuple[str, ...] = ()  # origins whose pages may read the API; "*" for all
    log_sql: bool = False  # write questions into the access log with their literals

    def __post_init__(self) -> None:
        limits = {"max_sql": self.max_sql, "max_body": self.max_body, "max_rows": self.max_rows}
        for name, number in {"workers": self.workers, "queue": self.queue, **limits}.items():
            least = 0 if name == "queue" else 1
            if number < least:
                raise SpecError(f"{name.replace('_', '-')} must be at least {least}, got {number}", field=name)
        if not 0 < self.time_limit < 86_400:
            raise SpecError(f"time-limit must be between 0 and 86400 seconds, got {self.time_limit:g}", field="time")
        if self.memory_mib < 512:
            raise SpecError(f"memory must be at least 512 MiB for each worker, got {self.memory_mib}", field="memory")
        for origin in self.cors:
            if origin != "*" and not origin.startswith(("http://", "https://")):
                raise SpecError(f'--cors takes an origin such as https://example.org, got "{origin}"', field="cors")


def allowed_hosts(bound: str, extra: tuple[str, ...]) -> tuple[str, ...]:
    """Host names under which the server answers: loopback, the bound one, and those named."""
    named = tuple(name.strip().strip("[]").lower() for name in extra)
    own = () if bound in ANY else (bound.strip("[]").lower(),)
    return tuple(dict.fromkeys((*LOOPBACK, *own, *named)))


# The access log: one JSON object a line, without addresses of people and without the literals of their questions.


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
