"""The studio's application: its pages behind the gate (host name, sizes, policy) and the door (token, forgeries)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from ...engines.files import OPTIONS
from ...errors import SfumatoError
from ..api import refused
from ..app import layout, look, nothing_here, static
from ..refusals import Refusal, refusal, wrong
from ..security import PROTECTING, Gate
from . import studio_pages
from .door import Door
from .state import Studio

HOST = "127.0.0.1"  # and no other name
MAX_BODY = 4 * 2**20


def application(studio: Studio, *, token: str, port: int) -> Starlette:
    """The custodian's application for one session."""
    stamp = look()
    templates = layout(stamp)

    def say(request: Request, said: Refusal) -> Response:
        """A refusal as a page for browsers, as JSON for programs; a fragment where a part of a page was asked for."""
        if "hx-request" in request.headers:
            context = {"refusal": said}
            return templates.TemplateResponse(request, "studio/problem.html", context, status_code=said.status)
        if "text/html" in request.headers.get("accept", ""):
            context = {"refusal": said}
            return templates.TemplateResponse(request, "studio/failed.html", context, status_code=said.status)
        return refused(request, said)

    async def missing(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = say(request, wrong(nothing_here(request, error), status=error.status_code))
        response.headers.update(error.headers or {})
        return response

    async def wrong_choice(request: Request, error: Exception) -> Response:
        assert isinstance(error, SfumatoError)
        return say(request, refusal(error, lambda _: False))

    async def failed(request: Request, error: Exception) -> Response:
        message = f"a fault of sfumato ({type(error).__name__}); nothing was published"
        response = refused(request, Refusal(type="ServerError", message=message, status=500))
        response.headers.update(PROTECTING)  # this answer does not pass the gate
        return response

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if studio.choices.source:
            source, out = studio.choices.source, studio.choices.out
            await studio.open(source, how={name: studio.choices[name] for name in OPTIONS})
            if out:
                studio.choose(out=out)
        try:
            yield
        finally:
            studio.close()

    app = Starlette(
        routes=[static(stamp), *studio_pages.ROUTES],
        middleware=[
            Middleware(Gate, hosts=(HOST,), max_body=MAX_BODY, streamed=("/upload",)),
            Middleware(Door, token=token, port=port, free=f"/static/{stamp}/", refuse=say),
        ],
        exception_handlers={HTTPException: missing, SfumatoError: wrong_choice, Exception: failed},
        lifespan=lifespan,
    )
    app.state.studio, app.state.templates = studio, templates
    return app
