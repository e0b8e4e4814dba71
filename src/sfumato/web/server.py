"""What both servers share, the analysts' and the custodian's: limits, the gate, the log, templates, errors."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import jinja2
import sqlglot
import uvicorn
from sqlglot import TokenType
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import SfumatoError
from ..version import __version__
from .refusals import KEYWORDS, Refusal, Refused, refusal, wrong

HERE = Path(__file__).parent
ALWAYS = "public, max-age=31536000, immutable"  # for addresses that name what they hold
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to
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
    downloads: int = 16  # bundles and tables streamed at once
    hosts: tuple[str, ...] = LOOPBACK  # names under which the server answers
    cors: tuple[str, ...] = ()  # origins whose pages may read the API; "*" for all
    log_sql: bool = False  # write questions into the access log with their literals


def cores() -> int:
    """Processes that can work at the same time here, four at most unless told otherwise."""
    return max(1, min(4, os.cpu_count() or 1))


def allowed_hosts(bound: str, extra: tuple[str, ...]) -> tuple[str, ...]:
    """Host names under which the server answers: loopback, the bound one, and those named."""
    named = tuple(name.strip().strip("[]").lower() for name in extra)
    own = () if bound in ANY else (bound.strip("[]").lower(),)
    return tuple(dict.fromkeys((*LOOPBACK, *own, *named)))


class Gate:
    """Checks host name and size of a request, and completes the headers of what comes back."""

    def __init__(
        self, app: ASGIApp, *, hosts: Iterable[str], max_body: int, shared: bool = False, streamed: Iterable[str] = ()
    ) -> None:
        self._app, self._hosts, self._max_body = app, frozenset(hosts), max_body
        self._shared = shared  # pages of other origins may read answers
        self._streamed = frozenset(streamed)  # paths whose handlers take a body of any size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or forward a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in PROTECTING.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
                headers["cross-origin-resource-policy"] = "cross-origin" if self._shared else "same-origin"
            await send(message)

        bounded = scope["path"] not in self._streamed
        refused = self._refusal(Headers(scope=scope), bounded=bounded)
        if refused is not None:
            await refused_response(refused)(scope, receive, complete)
        else:
            await self._app(scope, self._counted(receive) if bounded else receive, complete)

    def _refusal(self, headers: Headers, *, bounded: bool) -> Refusal | None:
        given = headers.getlist("host")
        if len(given) != 1 or host_name(given[0]) not in self._hosts:
            return wrong(
                "the server does not answer under this host name",
                status=421,
                hint="Use the address that it was started with, or start it with --allow-host NAME.",
            )
        if "transfer-encoding" in headers and "content-length" in headers:  # what lies between may read it otherwise
            return wrong("the request states its length in two ways", status=400)
        length = headers.get("content-length", "0")
        return self._too_large() if bounded and (not length.isdigit() or int(length) > self._max_body) else None

    def _too_large(self) -> Refusal:
        return wrong(f"the body of the request is larger than {self._max_body:,} bytes", status=413)

    def _counted(self, receive: Receive) -> Receive:
        """A `receive` that raises Refused as soon as the body is too large."""
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._max_body:
                raise Refused(self._too_large())
            return message

        return counted


def host_name(header: str) -> str:
    """The name in a Host header, without the port and without brackets, in lower case."""
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].removesuffix(".")


# The access log: one JSON object a line, without addresses of people and without the literals of their questions.


class AccessLog:
    """Writes a line when a request is done. Handlers add what they know to `scope["log"]`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

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
            sys.stdout.write(json.dumps(line | scope["log"], default=str) + "\n")
            sys.stdout.flush()


_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}
_LITERALS = {TokenType.STRING, TokenType.NUMBER, TokenType.NATIONAL_STRING, TokenType.RAW_STRING}
_FUNCTIONS = frozenset(
    ("COUNT", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "INTERVAL_LOW", "INTERVAL_HIGH", "STD_ERROR", "FLOOR")
)


def masked(sql: str, known: Iterable[str]) -> str:
    """The question with `?` for every literal and for every name that is not a column of the release.

    A mistyped question may hold a value where a name belongs, so names are kept only if they are public ones.
    """
    public = {name.lower() for name in known} | {"release"}
    try:
        tokens = sqlglot.tokenize(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:
        return "?"

    def shown(token: Any) -> bool:
        if token.token_type in _LITERALS:
            return False
        words = _FUNCTIONS if token.token_type in _NAMES else _FUNCTIONS | KEYWORDS
        is_word = token.token_type in _NAMES or token.text[:1].isalpha()
        return not is_word or token.text.lower() in public or token.text.upper() in words

    return " ".join(token.text if shown(token) else "?" for token in tokens)


# Pages, static files and errors.


def look() -> str:
    """A name for the look of the pages: it changes with any template or static file."""
    digest = hashlib.sha256()
    for folder in ("templates", "static"):
        for file in sorted((HERE / folder).rglob("*")):
            if file.is_file():
                digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def static(stamp: str) -> Mount:
    """Static files under an address that names their contents, so that browsers keep them for good."""
    return Mount(f"/static/{stamp}", _Static(directory=HERE / "static"), name="static")


class _Static(StaticFiles):
    async def get_response(self, path: str, scope: Any) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = ALWAYS
        return response


def layout(stamp: str) -> Jinja2Templates:
    """The templates, everything escaped, an unknown name an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"static": f"/static/{stamp}", "version": __version__}
    environment.filters |= {"grouped": lambda n: f"{n:,}"}
    return Jinja2Templates(env=environment)


def refused_response(said: Refusal) -> Response:
    """A refusal in the one error shape."""
    headers = {} if said.retry_after is None else {"retry-after": str(said.retry_after)}
    if said.type == "RequestError" and said.status in {400, 413}:  # what follows may not be what it seems
        headers["connection"] = "close"
    return JSONResponse(said.document(), said.status, headers=headers)


def error_handlers(
    page: Callable[[Request, Refusal], Response | None],
) -> dict[Any, Callable[[Request, Any], Awaitable[Response]]]:
    """What is said of exceptions: by `page` to people, in the one error shape to programs (where `page` is None)."""

    def say(request: Request, said: Refusal) -> Response:
        request.scope.setdefault("log", {})["error"] = said.type
        return page(request, said) or refused_response(said)

    async def missing(request: Request, error: HTTPException) -> Response:
        message = error.detail
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = (error.headers or {}).get("Allow", "GET")
            message = f"{request.method} is not answered at this address, only {allowed}"
        elif error.detail == HTTPStatus(error.status_code).phrase:
            message = "there is nothing at this address"
        response = say(request, wrong(message, status=error.status_code))
        response.headers.update(error.headers or {})
        return response

    async def refused(request: Request, error: Refused) -> Response:
        return say(request, error.refusal)

    async def mistaken(request: Request, error: SfumatoError) -> Response:
        return say(request, refusal(error))

    async def failed(_: Request, error: Exception) -> Response:
        message = f"a fault of sfumato ({type(error).__name__})"
        response = refused_response(Refusal(type="ServerError", message=message, status=500))
        response.headers.update(PROTECTING)  # this answer does not pass the gate
        return response

    return {HTTPException: missing, Refused: refused, SfumatoError: mistaken, Exception: failed}


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or one line that says why there is none."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With its protocol named, asyncio turns Nagle's algorithm off; else a small answer waits 40 ms for its body.
        listener = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
        return listener
    except OSError as error:
        raise SfumatoError(f"cannot listen on {host}, port {port}: {error.strerror}") from None


def run(app: ASGIApp, listener: socket.socket, *, patience: int) -> None:
    """Serve until a signal to end; running answers have `patience` seconds to finish, or until a second signal."""
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=patience,
        timeout_keep_alive=15,
        lifespan="on",
    )
    server = uvicorn.Server(config)
    with contextlib.suppress(KeyboardInterrupt, SystemExit):  # uvicorn raises the signal again once it is done
        server.run(sockets=[listener])
    if not server.started:
        raise SfumatoError("the server could not start; see the lines above")
