"""The custodian's application: one page of steps; each posts its choices and gets itself and the later steps back.

It stands behind the gate (host name, sizes, policy) and the door (token, forgeries).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.applications import Starlette
from starlette.datastructures import Headers, ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ...choosing.setting import parse_bound
from ...engines.files import OPTIONS, options_of
from ...engines.source import check_no_password
from ...errors import SpecError
from ...methods import REGISTRY, method_named
from ...methods.registry import fields_of
from ...model.names import option_name
from ...model.public import READERS
from ...reports.documents import stated_parameters
from ...reports.pages import release_page
from ...reports.text import name_of, number, reached, render_cells, render_unprotected, verdict
from ..analyst import READERS as READER_WORDS
from ..analyst import TRUST as TRUST_WORDS
from ..catalogue import Served, zipped
from ..refusals import Refusal, wrong
from ..server import Gate, error_handlers, layout, look, refused_response, static
from . import choices, session
from .choices import ALWAYS, MOST_QUESTIONS, ROLES, TRUST, held, read_choices
from .session import Studio

HOST = "127.0.0.1"  # and no other name
MAX_BODY = 4 * 2**20
SOON = 0.6  # seconds that a request waits for quick work before it shows progress


def application(studio: Studio, *, token: str, port: int) -> Starlette:
    """The custodian's application for one session."""
    stamp = look()
    templates = layout(stamp)

    def failed(request: Request, refusal: Refusal) -> Response | None:
        """A refusal as a part of the page, or as a page; None where a program asks."""
        if "hx-request" not in request.headers and "text/html" not in request.headers.get("accept", ""):
            return None
        template = "studio/problem.html" if "hx-request" in request.headers else "failed.html"
        context = {"refusal": refusal, "releases": False}
        response: Response = templates.TemplateResponse(request, template, context, status_code=refusal.status)
        return response

    def refused(request: Request, refusal: Refusal) -> Response:
        return failed(request, refusal) or refused_response(refusal)

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
        routes=[static(stamp), *ROUTES],
        middleware=[
            Middleware(Gate, hosts=(HOST,), max_body=MAX_BODY, streamed=("/upload",)),
            Middleware(Door, token=token, port=port, free=f"/static/{stamp}/", refused=refused),
        ],
        exception_handlers=error_handlers(failed),
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
        self, app: ASGIApp, *, token: str, port: int, free: str, refused: Callable[[Request, Refusal], Response]
    ) -> None:
        self._app, self._token, self._free, self._refused = app, token, free, refused
        self._cookie, self._secret = f"sfumato-studio-{port}", secrets.token_urlsafe(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, exchange the token for the cookie, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        if forged(scope["method"], request.headers):
            said = wrong("this request was sent by another page; only the studio's own pages may ask", status=403)
            await self._refused(request, said)(scope, receive, send)
        elif scope["path"].startswith(self._free) or self._known(request):
            await self._app(scope, receive, send)
        elif scope["method"] in READING and scope["path"] == "/" and self._invited(request):
            response = HTMLResponse(OPENING)
            response.set_cookie(self._cookie, self._secret, path="/", httponly=True, samesite="strict")
            await response(scope, receive, send)
        else:
            said = wrong(
                "this page opens only with the address that sfumato studio has printed",
                status=403,
                hint="It holds a random token, so that nobody else on this machine can open it. See the terminal.",
            )
            await self._refused(request, said)(scope, receive, send)

    def _invited(self, request: Request) -> bool:
        given = request.query_params.getlist("token")
        return len(given) == 1 and same(given[0], self._token)

    def _known(self, request: Request) -> bool:
        return same(request.cookies.get(self._cookie, ""), self._secret)


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


# The page and what its steps send.


def studio(request: Request) -> Studio:
    """The session."""
    found: Studio = request.app.state.studio
    return found


async def fields(request: Request) -> ImmutableMultiDict[str, str]:
    """The fields of a form that was sent."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return ImmutableMultiDict(parse_qsl(body, keep_blank_values=True, max_num_fields=10_000))
    except ValueError:
        raise SpecError("the form has too many fields", field="form") from None


def current(given: ImmutableMultiDict[str, str], name: str, number: int) -> None:
    """Refuse a form that was shown for another table or plan: a second tab has moved on."""
    if given.get(name, str(number)) != str(number):
        raise SpecError(f"another {name} was chosen in the meantime, in another tab: reload this page", field=name)


async def page(request: Request) -> Response:
    """GET /: all steps."""
    here = studio(request)
    async with here.lock:
        await here.advance()
    return _render(request, "studio/page.html", {"steps": STEPS, "listing": None})


async def step(request: Request) -> Response:
    """GET /step/{name}: one step, while its work goes on; with the later ones once it is over; 204: nothing new."""
    here, name = studio(request), request.path_params["name"]
    if name not in STEPS:
        raise HTTPException(404)
    job = here.job(name)
    if job is not None and job.running and job.seen == request.query_params.get("seen"):
        return Response(status_code=204)
    async with here.lock:
        await here.advance()
    skip = ("plan", "publish", "hand") if name == "methods" else ()  # they do not follow from what is foreseen
    return _steps(request, name, later=job is None or not job.running, skip=skip)


async def source(request: Request) -> Response:
    """POST /source: the table at a path or an address, or the upload once more, read as the form says."""
    here, given = studio(request), await fields(request)
    async with here.lock:
        named = session.spelled(given.get("source", "").strip())
        again = not named and here.choices.upload
        how = {name: "\n".join(given.get(name, "").splitlines()) for name in OPTIONS}
        await here.open(here.choices.source if again else named, how=how, upload=again)
    return await _after(request, "source")


async def options(request: Request) -> Response:
    """GET /options?source=...: what may be said about how this source is read."""
    named = session.spelled(request.query_params.get("source", "").strip())
    return _render(request, "studio/options.html", {"asked": named, "takes": options_of(named)})


async def upload(request: Request) -> Response:
    """POST /upload?name=...: the table as a body; it is kept in the private folder of this process."""
    here = studio(request)
    kept = await session.keep_upload(request.query_params.get("name", ""), request.stream())
    async with here.lock:
        await here.open(str(kept), upload=True)
    return await _after(request, "source")


async def files(request: Request) -> Response:
    """GET /files?folder=...: a folder of this machine."""
    listing = session.listing(request.query_params.get("folder", ""))
    return _render(request, "studio/files.html", {"listing": listing})


async def roles(request: Request) -> Response:
    """POST /roles: a role for every column, by its number in the table."""
    here, given = studio(request), await fields(request)
    async with here.lock:
        table = here.table
        current(given, "table", here.looks)
        if table is None:
            raise SpecError("no table was looked at", field="source")
        names = [c["name"] for c in table["columns"]]
        chosen = {name: given.get(f"role-{k}") or here.choices.roles[name] for k, name in enumerate(names)}
        if not set(chosen.values()) <= set(ROLES):
            raise SpecError(f"roles are {', '.join(ROLES)}", field="roles")
        rows = given.get("rows_per_person", "").strip()
        if here.choose(
            roles=chosen,
            null_as_value="null_as_value" in given,
            rows_per_person=int(rows) if re.fullmatch(r"[0-9]{1,9}", rows) else None,
        ):
            here.forget("foreseen", "planned")
    return await _after(request, "roles", skip=("promise",))


async def promise(request: Request) -> Response:
    """POST /promise: readers to hold, the bound, the questions; errors are foreseen anew."""
    here, given = studio(request), await fields(request)
    async with here.lock:
        questions = given.get("questions", "")
        if len(questions) > MOST_QUESTIONS:
            raise SpecError(f"the questions are longer than {MOST_QUESTIONS:,} characters", field="questions")
        trust = given.get("trust", TRUST[0])
        here.choose(
            bound=bound_of(given.get("bound", ""), given.get("slider", ""), here.choices.bound),
            rho1=given.get("rho1", "").strip(),
            hold=held(given.getlist("hold")),
            trust=trust if trust in TRUST else TRUST[0],
            questions=questions,
        )
        if here.missing() is None and here.table is not None and not here.foreseen_as_chosen:
            await here.foresee()
    return await _after(request, "methods", beside=("bound",), skip=("plan", "publish", "hand"))


async def enough(request: Request) -> Response:
    """POST /enough: end foreseeing, and go on with what is known."""
    here = studio(request)
    async with here.lock:
        await here.enough()
    return await _after(request, "methods", skip=("plan", "publish", "hand"))


async def bound_words(request: Request) -> Response:
    """GET /bound?slider=...: what the slider stands for, in words."""
    found = bound_of("", request.query_params.get("slider", ""), studio(request).choices.bound)
    return _render(request, "studio/bound_words.html", {"bound": found})


async def method(request: Request) -> Response:
    """POST /method: a method with its parameters; it is planned."""
    here, given = studio(request), await fields(request)
    async with here.lock:
        current(given, "table", here.looks)
        here.check_not_publishing()
        options = {k.removeprefix("option-"): v.strip() for k, v in given.items() if k.startswith("option-")}
        chosen = method_named(given.get("method", "")).name
        here.choose(method=chosen, options={k: v for k, v in options.items() if v}, accept_unprotected=False)
        await here.plan()
    return await _after(request, "plan")


async def publish(request: Request) -> Response:
    """POST /publish: publish what was planned."""
    here, given = studio(request), await fields(request)
    async with here.lock:
        if here.planned is None or not here.planned.finished:
            raise SpecError("nothing is planned", field="method")
        if here.published is not None and here.published.running:
            raise SpecError("publishing is under way", field="out")
        current(given, "plan", here.plans)
        here.choose(out=session.spelled(given.get("out", "").strip()), accept_unprotected="accept_unprotected" in given)
        if not here.choices.out:
            raise SpecError("no folder is named for the release", field="out")
        await here.publish()
    return await _after(request, "publish")


async def cancel(request: Request) -> Response:
    """POST /cancel: end publishing."""
    here = studio(request)
    async with here.lock:
        await here.cancel()
    return await _after(request, "publish")


async def choices_file(request: Request) -> Response:
    """GET /choices.toml: the choices as a file."""
    chosen = studio(request).choices
    return Response(chosen.text(), media_type="application/toml", headers=_attachment(choices.file_name(chosen)))


async def load(request: Request) -> Response:
    """POST /choices: choices of an earlier session; the table is looked at again."""
    here = studio(request)
    try:
        text = (await request.body()).decode("utf-8")
    except UnicodeDecodeError:
        raise SpecError("the file of choices is not text", field="choices") from None
    async with here.lock:
        found = read_choices(text)
        check_no_password(found.source)
        here.check_not_publishing()
        if here.choices.upload:
            session.forget_upload(here.choices.source)
        here.choices, out = found, found.out
        here.forget("looked", "foreseen", "planned", "published", "verified")
        if found.source:
            await here.open(found.source, how={name: found[name] for name in OPTIONS})
            here.choose(out=out or here.choices.out)
    return await _after(request, "source")


async def vocabulary(request: Request) -> Response:
    """GET /vocabulary: the columns, for the editor."""
    here = studio(request)
    columns = here.table["columns"] if here.table is not None else []
    given = here.choices.roles
    found = [{"name": c["name"], "type": c["type"], "role": given.get(c["name"], ""), "values": None} for c in columns]
    return JSONResponse({"columns": found})


async def archive(request: Request) -> Response:
    """GET /release.zip: the release that was published."""
    release = _released(studio(request))
    return StreamingResponse(zipped(release), media_type="application/zip", headers=_attachment(f"{release.name}.zip"))


async def report(request: Request) -> Response:
    """GET /report.html: the public report, from the release alone."""
    release = _released(studio(request))
    job = studio(request).verified
    lines = job.result["lines"] if job is not None and job.finished else []
    text = release_page(release.document, name=release.name, verified=lines)
    return HTMLResponse(text, headers=_attachment(f"{release.name}-report.html"))


def _released(here: Studio) -> Served:
    job = here.published
    if job is None or not job.finished:
        raise HTTPException(404, "nothing is published yet")
    folder = Path(job.task.choices.out)
    if not folder.is_dir():
        raise HTTPException(404, "the release is no longer where it was written")
    return Served(name=folder.name, folder=folder, digest="", document=job.result["document"])


def _attachment(name: str) -> dict[str, str]:
    return {"content-disposition": f"attachment; filename*=UTF-8''{quote(name)}"}


def _render(request: Request, name: str, more: Mapping[str, Any]) -> Response:
    response: Response = request.app.state.templates.TemplateResponse(
        request, name, context(studio(request)) | dict(more)
    )
    return response


async def _after(request: Request, name: str, *, beside: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> Response:
    """The step after a change; without scripts, the whole page again."""
    here = studio(request)
    job = here.job(name)
    if job is not None:
        await job.settle(SOON)
    async with here.lock:
        await here.advance()
    if "hx-request" not in request.headers:
        return RedirectResponse(f"/#step-{name}", status_code=303)
    return _steps(request, name, beside=beside, skip=skip)


def _steps(
    request: Request, name: str, *, later: bool = True, beside: tuple[str, ...] = (), skip: tuple[str, ...] = ()
) -> Response:
    """A step, then the later ones and the list of steps, which take their places by their names."""
    after = STEPS[STEPS.index(name) + 1 :] if later else ()
    return _render(
        request,
        "studio/steps.html",
        {"first": name, "others": tuple(s for s in after if s not in skip), "beside": beside, "listing": None},
    )


ROUTES = (
    Route("/", page),
    Route("/step/{name}", step),
    Route("/source", source, methods=["POST"]),
    Route("/upload", upload, methods=["POST"]),
    Route("/options", options),
    Route("/files", files),
    Route("/roles", roles, methods=["POST"]),
    Route("/promise", promise, methods=["POST"]),
    Route("/enough", enough, methods=["POST"]),
    Route("/bound", bound_words),
    Route("/method", method, methods=["POST"]),
    Route("/publish", publish, methods=["POST"]),
    Route("/cancel", cancel, methods=["POST"]),
    Route("/choices.toml", choices_file),
    Route("/choices", load, methods=["POST"]),
    Route("/vocabulary", vocabulary),
    Route("/release.zip", archive),
    Route("/report.html", report),
)


# What the templates of the studio need, as plain values in the words of a custodian.


STEPS = ("source", "look", "roles", "promise", "methods", "plan", "publish", "hand")
TITLES = {
    "source": "Choose the table",
    "look": "Look at it",
    "roles": "Give every column a role",
    "promise": "Say what must hold",
    "methods": "See what each method costs",
    "plan": "Plan",
    "publish": "Publish",
    "hand": "Verify and hand over",
}
LANES = {  # role -> (heading, what it means)
    "sensitive": ("Sensitive", "changed before publication; this is what readers must not learn"),
    "quasi": ("Others may know it", "published; somebody may know it of a person"),
    "keep": ("Harmless", "published as it is; tells nothing about anybody"),
    "drop": ("Left out", "not published"),
    "person": ("Tells people apart", "one value a person; not published"),
}
SLIDER = (2, 20)  # bounds 1/k from weak to strong
MOST_ERRORS = 12  # values of the table of errors


def bound_of(text: str, slider: str, current: str) -> str:
    """The bound that a form states: what was typed, if it is new, else the place of the slider."""
    if text.strip() and text.strip() != current:
        return str(parse_bound(text.strip()))
    if re.fullmatch(r"\d{1,3}", slider) and int(slider) >= SLIDER[0]:
        place = slider_at(current)
        return f"1/{int(slider)}" if int(slider) != place else current
    if slider:
        raise SpecError("the slider stands for a bound 1/k", field="bound")
    return current


def slider_at(bound: str) -> int:
    """The place of the slider that is nearest to a bound."""
    try:
        k = round(1 / parse_bound(bound))
    except SpecError:
        k = SLIDER[0]
    return max(SLIDER[0], min(SLIDER[1], k))


def context(here: Studio) -> dict[str, Any]:
    """Everything the steps show."""
    entries = here.entries()
    best = next((e for e in entries if e["fits"]), None)
    missing = here.missing() if here.table is not None else None
    return {
        "studio": here,
        "choices": here.choices,
        "table": here.table,
        "titles": TITLES,
        "numbers": {name: k + 1 for k, name in enumerate(STEPS)},
        "done": progress(here),
        "lanes": LANES,
        "roles": ROLES,
        "readers": {name: READER_WORDS[name] for name in READERS},
        "always": ALWAYS,
        "trust_words": TRUST_WORDS,
        "slider": SLIDER,
        "slider_at": slider_at(here.choices.bound),
        "bound": here.choices.bound,
        "missing": missing,
        "null_columns": null_columns(here),
        "entries": entries,
        "best": best,
        "chart": foreseen_chart([e for e in entries if e["able"]]),
        "reached": reached,
        "all_methods": list(REGISTRY),
        "plan": plan_view(here),
        "handed": hand_view(here),
        "oob": False,
    }


def progress(here: Studio) -> dict[str, bool]:
    """Step -> whether it is done."""
    return {
        "source": here.table is not None,
        "look": here.table is not None,
        "roles": here.table is not None and here.missing() is None,
        "promise": here.foreseen is not None,
        "methods": here.foreseen is not None and here.foreseen.finished,
        "plan": here.planned is not None and here.planned.finished,
        "publish": here.published is not None and here.published.finished,
        "hand": here.verified is not None and here.verified.finished,
    }


def null_columns(here: Studio) -> list[str]:
    """Sensitive columns with missing values."""
    columns = here.table["columns"] if here.table is not None else []
    return [c["name"] for c in columns if c["missing"] and here.choices.roles.get(c["name"]) == "sensitive"]


def plan_view(here: Studio) -> dict[str, Any] | None:
    """The plan in words and tables; None where there is none."""
    if here.planned is None or here.planned.task.choices.method not in REGISTRY:
        return None
    given = here.planned.task.choices
    fields = [
        {
            "name": field.name,
            "said": option_name(field.name),
            "help": field.help,
            "required": field.required,
            "value": given.options.get(field.name, ""),
        }
        for field in fields_of(REGISTRY[given.method].spec)
    ]
    view: dict[str, Any] = {"method": given.method, "fields": fields}
    if not here.planned.finished:
        return view | {"ready": False}
    found = here.planned.result
    report = found["report"]
    parameters = stated_parameters(report)
    return view | {
        "ready": True,
        "report": report,
        "parameters": parameters,
        "readers": [
            {"name": name_of(r), "words": READER_WORDS[r["reader"]], "held": verdict(r["held"]), "why": r["why"]}
            | {"posterior": reached(r["posterior"])}
            for r in report["readers"]
        ],
        "unprotected": render_unprotected(report["unprotected"]),
        "cells": render_cells(report["quasi_identifiers"], report["rows"]),
        "errors": errors_table(report.get("expected_error")),
        "text": found["text"],
        "against": found["against"],
        "notes": found["notes"],
    }


def errors_table(error: dict[str, Any] | None) -> dict[str, Any] | None:
    """The expected errors by sensitive value, as the terminal shows them."""
    if not error or "values" not in error:
        return None
    columns = [(k, v) for k, v in error.items() if k != "values" and isinstance(v, list)]
    values = error["values"][:MOST_ERRORS]
    return {
        "meaning": error.get("meaning", "standard error of the count of each value"),
        "header": [name.replace("_", " ") for name, _ in columns],
        "rows": [[str(value), *(number(numbers[i]) for _, numbers in columns)] for i, value in enumerate(values)],
        "more": len(error["values"]) - len(values),
    }


def hand_view(here: Studio) -> dict[str, Any] | None:
    """What is handed over; None where nothing is published."""
    if here.published is None or not here.published.finished:
        return None
    given = here.published.task.choices
    return {
        "out": given.out,
        "upload": given.upload,
        "document": here.published.result["document"],
        "notes": here.published.result["notes"],
        "command": choices.command_line(given),
        "python": choices.python_lines(given),
        "needs_file": not choices.plain_names(given),
        "file": choices.file_name(given),
    }


# The chart of foreseen errors: one bar a candidate, shortest first; what holds less than asked has another colour.


STEP = 30  # height of a bar with its gap
NAMES = {True: "holds what you ask", False: "holds less"}


def foreseen_chart(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A Vega-Lite specification; None where there is nothing to draw. `entries` are sorted as they are to be shown."""
    drawn = [e for e in entries if e["error"] is not None]
    if not drawn:
        return None
    points = [
        {
            "label": e["label"],
            "error": e["error"],
            "said": e["said"],
            "trust": e["trust"],
            "fits": NAMES[e["fits"]],
            "held": ", ".join(e["held"]) or "none",
        }
        for e in drawn
    ]
    tips = [
        {"field": "label", "title": "method"},
        {"field": "said", "title": "expected error"},
        {"field": "trust", "title": "trust"},
        {"field": "held", "title": "readers held"},
    ]
    x = {"field": "error", "type": "quantitative", "title": "expected error of an answer, relative to the true one"}
    return {
        "description": "Expected error of every method for your questions; the table below holds the same numbers",
        "data": {"values": points},
        "height": STEP * len(points),
        "encoding": {
            "y": {"field": "label", "type": "nominal", "sort": [p["label"] for p in points], "title": None}
            | {"axis": {"labelLimit": 300}},
            "tooltip": tips,
        },
        "layer": [
            {
                "mark": {"type": "bar", "cornerRadiusEnd": 2},
                "encoding": {
                    "x": x | {"axis": {"format": "~%"}, "scale": {"zero": True}},
                    "color": {
                        "field": "fits",
                        "type": "nominal",
                        "title": None,
                        "scale": {"domain": list(NAMES.values())},
                        "legend": {"orient": "top", "labelLimit": 400},
                    },
                },
            },
            {
                "mark": {"type": "text", "style": "said", "align": "left", "dx": 5},
                "encoding": {"x": x, "text": {"field": "said"}},
            },
        ],
    }
