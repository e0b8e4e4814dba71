"""The studio's page: one page of steps; each step posts its choices and gets itself and the later steps back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from starlette.datastructures import ImmutableMultiDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ...engines.files import OPTIONS, options_of
from ...engines.source import check_no_password
from ...errors import SpecError
from ...methods import method_named
from ...reports.pages import release_page
from ..catalogue import Served
from ..downloads import zipped
from . import handover, machine_files
from .shown_steps import STEPS, bound_of, context
from .state import Studio
from .studio_choices import MOST_QUESTIONS, ROLES, TRUST, held, read_choices

SOON = 0.6  # seconds that a request waits for quick work before it shows progress


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
        named = machine_files.spelled(given.get("source", "").strip())
        again = not named and here.choices.upload
        how = {name: "\n".join(given.get(name, "").splitlines()) for name in OPTIONS}
        await here.open(here.choices.source if again else named, how=how, upload=again)
    return await _after(request, "source")


async def options(request: Request) -> Response:
    """GET /options?source=...: what may be said about how this source is read."""
    named = machine_files.spelled(request.query_params.get("source", "").strip())
    return _render(request, "studio/options.html", {"asked": named, "takes": options_of(named)})


async def upload(request: Request) -> Response:
    """POST /upload?name=...: the table as a body; it is kept in the private folder of this process."""
    here = studio(request)
    kept = await machine_files.keep_upload(request.query_params.get("name", ""), request.stream())
    async with here.lock:
        await here.open(str(kept), upload=True)
    return await _after(request, "source")


async def files(request: Request) -> Response:
    """GET /files?folder=...: a folder of this machine."""
    listing = machine_files.listing(request.query_params.get("folder", ""))
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
        here.choose(
            out=machine_files.spelled(given.get("out", "").strip()), accept_unprotected="accept_unprotected" in given
        )
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
    return Response(chosen.text(), media_type="application/toml", headers=_attachment(handover.file_name(chosen)))


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
            machine_files.forget_upload(here.choices.source)
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
