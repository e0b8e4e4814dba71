"""The application: routes, templates, static files, the gate and the log around them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import jinja2
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.templating import Jinja2Templates
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ..version import __version__
from . import analyst_pages, api, downloads
from .catalogue import Served
from .refusals import Refusal, wrong
from .security import PROTECTING, AccessLog, Gate, Settings
from .service import Kept, Service
from .tasks import Desk
from .workers import Answerer, Pool

HERE = Path(__file__).parent


def application(
    served: Mapping[str, Served],
    settings: Settings,
    *,
    make: Callable[[], Answerer] | None = None,
    write: Callable[[str], None] | None = None,
) -> Starlette:
    """The analysts' application. `make` builds what answers in a worker; `write` takes the lines of the access log."""
    pool = Pool(
        make=make or partial(Desk, served, settings.max_rows),
        size=settings.workers,
        queue=settings.queue,
        time_limit=settings.time_limit,
        memory_mib=settings.memory_mib,
    )
    stamp = look()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.downloads = asyncio.Semaphore(settings.downloads)
        await pool.start()
        try:
            yield
        finally:
            await pool.stop()

    app = Starlette(
        routes=[static(stamp), *api.ROUTES, *downloads.ROUTES, *analyst_pages.ROUTES],
        middleware=[
            Middleware(AccessLog, write=write),
            Middleware(Gate, hosts=settings.hosts, max_body=settings.max_body, cors=settings.cors),
        ],
        exception_handlers={HTTPException: _missing, api.Refused: _refused, Exception: _failed},
        lifespan=lifespan,
    )
    app.state.service = Service(served=served, settings=settings, pool=pool, stamp=stamp, kept=Kept(settings.cache_mib))
    app.state.templates = layout(stamp)
    return app


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
        response.headers["cache-control"] = api.ALWAYS
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
    environment.filters |= {"grouped": lambda n: f"{n:,}", "bytes": _bytes}
    return Jinja2Templates(env=environment)


def _bytes(size: int) -> str:
    for unit, bound in (("bytes", 1000), ("kB", 1000**2), ("MB", 1000**3)):
        if size < bound:
            return f"{size / (bound / 1000):.3g} {unit}" if unit != "bytes" else f"{size} bytes"
    return f"{size / 1000**3:.3g} GB"


def _say(request: Request, refusal: Refusal) -> Response:
    """A refusal as a page for browsers, as JSON for programs."""
    request.scope["log"]["error"] = refusal.type
    if analyst_pages.wants_page(request) and "hx-request" not in request.headers:
        return analyst_pages.page(request, "failed.html", {"refusal": refusal}, status=refusal.status)
    return api.refused(request, refusal)


def nothing_here(request: Request, error: HTTPException) -> str:
    """Why there is no answer at an address, or not to this method."""
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = (error.headers or {}).get("Allow", "GET")
        return f"{request.method} is not answered at this address, only {allowed}"
    usual = error.detail == HTTPStatus(error.status_code).phrase
    return "there is nothing at this address" if usual else error.detail


async def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = _say(request, wrong(nothing_here(request, error), status=error.status_code))
    response.headers.update(error.headers or {})
    return response


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, api.Refused)
    return _say(request, error.refusal)


async def _failed(request: Request, error: Exception) -> Response:
    fault = Refusal(type="ServerError", message=f"a fault of the server ({type(error).__name__})", status=500)
    response = api.refused(request, fault)
    response.headers.update(PROTECTING)  # this answer does not pass the gate
    return response


# Connections that do not wait for ever: whoever sends no question, or does not take the answer, is let go.
#
# uvicorn bounds the pause between two requests, but neither the time in which the head of one must arrive nor the time
# that a client may leave an answer lying. A stranger could hold connections and downloads open with a byte a minute.


HEAD_SECONDS = 10.0  # for the head of a request; a connection without one is closed after once to twice this time
STALL_SECONDS = 60.0  # without taking a buffer's worth (about 50 kB) of an answer that waits


def patient(*, head_seconds: float = HEAD_SECONDS, stall_seconds: float = STALL_SECONDS) -> type[asyncio.Protocol]:
    """The protocol of a connection, for uvicorn's `http`, that looks at itself every `head_seconds`."""

    class Patient(AutoHTTPProtocol):  # type: ignore[misc,valid-type] # which one it is depends on what is installed
        _watch: asyncio.TimerHandle | None = None
        _idle: Any = None  # the request after which nothing had come when we last looked; ourselves if one was at work
        _stuck: float | None = None  # since when the client takes nothing, or the connection waits to be closed

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch = self.loop.call_later(head_seconds, self._look)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._watch is not None:
                self._watch.cancel()
            super().connection_lost(exc)

        def pause_writing(self) -> None:
            self._stuck = self.loop.time()
            super().pause_writing()

        def resume_writing(self) -> None:
            self._stuck = None
            super().resume_writing()

        def _look(self) -> None:
            now = self.loop.time()
            if self._stuck is not None and now - self._stuck > stall_seconds:
                self.transport.abort()  # to close would be to wait until the client has taken the rest
                return
            idle = self.cycle is None or self.cycle.response_complete
            if idle and self.cycle is self._idle:
                self.transport.close()
            if self.transport.is_closing() and self._stuck is None:
                self._stuck = now
            self._idle = self.cycle if idle else self
            self._watch = self.loop.call_later(head_seconds, self._look)

    return Patient
