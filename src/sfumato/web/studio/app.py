"""The studio's application: its pages behind the gate (host name, sizes, policy) and the door (token, forgeries)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...engines.files import OPTIONS
from ...errors import SfumatoError
from ..api import refused
from ..app import layout, look, nothing_here, static
from ..refusals import Refusal, refusal, wrong
from ..security import PROTECTING, Gate
from . import pages
from .session import Studio

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
        routes=[static(stamp), *pages.ROUTES],
        middleware=[
            Middleware(Gate, hosts=(HOST,), max_body=MAX_BODY, streamed=("/upload",)),
            Middleware(Door, token=token, port=port, free=f"/static/{stamp}/", refuse=say),
        ],
        exception_handlers={HTTPException: missing, SfumatoError: wrong_choice, Exception: failed},
        lifespan=lifespan,
    )
    app.state.studio, app.state.templates = studio, templates
    return app


# The door of the studio: who has the token of the address, or the cookie that it was exchanged for, comes in.
#
# A page of another site cannot read what is here (no CORS), and what it sends is refused: browsers say where a request
# comes from (Origin, Sec-Fetch-Site), and the cookie travels with requests from our own pages only (SameSite=Strict).
# Pages of other servers on this machine count as the same site, so the origin is compared with its port.


READING = ("GET", "HEAD")
# A page of ours leads on, so that the strict cookie goes with the next request.
OPENING = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>sfumato studio</title>
<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url=/"></head>
<body><main><p><a href="/">Open the studio</a></p></main></body></html>"""


class Door:
    """Lets in requests that hold the token or the cookie, and none that another page has forged."""

    def __init__(
        self, app: ASGIApp, *, token: str, port: int, free: str, refuse: Callable[[Request, Refusal], Response]
    ) -> None:
        self._app, self._token, self._free, self._refuse = app, token, free, refuse
        self._cookie, self._secret = f"sfumato-studio-{port}", secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, exchange the token for the cookie, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, headers = Request(scope), Headers(scope=scope)
        if forged(scope["method"], headers):
            said = wrong("this request was sent by another page; only the studio's own pages may ask", status=403)
            await self._refuse(request, said)(scope, receive, send)
        elif scope["path"].startswith(self._free) or self._known(headers):
            await self._app(scope, receive, send)
        elif scope["method"] in READING and scope["path"] == "/" and self._invited(scope):
            response = HTMLResponse(OPENING)
            response.set_cookie(self._cookie, self._secret, path="/", httponly=True, samesite="strict")
            await response(scope, receive, send)
        else:
            said = wrong(
                "this page opens only with the address that sfumato studio has printed",
                status=403,
                hint="It holds a random token, so that nobody else on this machine can open it. See the terminal.",
            )
            await self._refuse(request, said)(scope, receive, send)

    def _invited(self, scope: Scope) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(given) == 1 and same(given[0], self._token)

    def _known(self, headers: Headers) -> bool:
        for line in headers.getlist("cookie"):
            try:
                found = SimpleCookie(line).get(self._cookie)
            except CookieError:
                continue
            if found is not None and same(found.value, self._secret):
                return True
        return False


def same(given: str, secret: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    return secrets.compare_digest(given.encode(), secret.encode())


def forged(method: str, headers: Headers) -> bool:
    """Whether a page of another origin sent the request."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    own = f"http://{headers.get('host', '')}"
    if method in READING:
        # links and typed addresses may lead here; what other pages load into themselves may not
        foreign = site is not None and site not in {"same-origin", "none"}
        return foreign and headers.get("sec-fetch-mode") != "navigate"
    if site is not None and site != "same-origin":
        return True
    if origin is None or origin == "null":  # a form of ours sends null, because we send no referrer
        return site is None
    return origin.lower() != own.lower()
