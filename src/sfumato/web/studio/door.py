"""The door of the studio: who has the token of the address, or the cookie that it was exchanged for, comes in.

A page of another site cannot read what is here (no CORS), and what it sends is refused: browsers say where a request
comes from (Origin, Sec-Fetch-Site), and the cookie travels with requests from our own pages only (SameSite=Strict).
Pages of other servers on this machine count as the same site, so the origin is compared with its port.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..refusals import Refusal, wrong

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
