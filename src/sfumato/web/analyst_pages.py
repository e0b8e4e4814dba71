"""The analysts' pages: home, a release, and asking it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.templating import Jinja2Templates

from ..analysis.design import FAMILIES
from ..errors import SpecError
from . import api, asking, presenting
from .catalogue import Served
from .refusals import Refusal, wrong
from .service import Posed, Service
from .tasks import Reply

LEVELS = ("0.8", "0.9", "0.95", "0.99")
FORM_FIELDS = frozenset({"what", "c0", "g0", "of", "cs"})
READERS = {  # the ladder of readers, in plain words
    "value": "someone with a guess about one value",
    "set": "someone with a guess about a set of values",
    "histogram": "someone who knows how common each value is and sees all that is published of a record",
    "linking": "someone who also knows the person's other columns",
    "corruption": "someone who knows every other record",
    "person": "someone after a person with several rows",
}
TRUST = {
    "proved": "The bound holds for the stated reader.",
    "conditional": "The bound holds under assumptions that a determined reader may break.",
    "baseline": "For comparison only; nothing is promised.",
}


def templates(request: Request) -> Jinja2Templates:
    """The templates of this application."""
    found: Jinja2Templates = request.app.state.templates
    return found


def page(
    request: Request,
    name: str,
    context: Mapping[str, Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A rendered template."""
    return templates(request).TemplateResponse(request, name, dict(context), status_code=status, headers=headers)


def wants_page(request: Request) -> bool:
    """Whether a browser asks, rather than a program."""
    return "text/html" in request.headers.get("accept", "") and request.query_params.get("format") != "json"


async def home(request: Request) -> Response:
    """GET /: the releases, as a page or as JSON."""
    if not wants_page(request):
        return await api.listing(request)
    return page(
        request, "home.html", {"releases": list(api.service(request).served.values())}, headers={"vary": "Accept"}
    )


async def release(request: Request) -> Response:
    """GET /{release}: what a release promises and holds, as a page or as JSON."""
    if not wants_page(request):
        return await api.document(request)
    served = api.served(request)
    etag = api.service(request).etag(served, "about")
    headers = api.caching(request, etag) | {"vary": "Accept"}
    if api.known(request, etag):
        return Response(status_code=304, headers=headers)
    found = await api.service(request).vocabulary(served)
    if not found["values"]:
        headers = {"vary": "Accept"}  # not the whole page: do not let it be kept
    readers = [row | {"words": READERS.get(row["reader"], row["reader"])} for row in served.document.get("readers", ())]
    context = {
        "release": served,
        "vocabulary": found,
        "readers": readers,
        "trust_words": TRUST[served.document["guarantee"]["trust"]],
        "parameters": _plain(served.document["guarantee"]["parameters"]),
        "lines": lines(served, (found["examples"] or [("", "SELECT COUNT(*) AS n FROM release")])[0][1]),
        "sizes": {name: (served.folder / name).stat().st_size for name in served.files},
    }
    return page(request, "release.html", context, headers=headers)


async def ask(request: Request) -> Response:
    """GET /{release}/ask: the form, the editor, and the answer where a question is in the address."""
    served = api.served(request)
    fields = request.query_params
    found = await api.service(request).vocabulary(served)
    context = form(served, fields, found["values"])
    context |= {"release": served, "vocabulary": found, "levels": LEVELS, "asked": None, "refusal": None}
    context |= {"level": fields.get("level", "0.95"), "simultaneous": _on(fields.get("simultaneous", ""))}
    context |= {"families": FAMILIES, "fields": fields}
    status = 200
    if _concludes(fields):
        answered, status = await concluded_context(request, served)
        context |= answered
    elif fields.get("sql", "").strip() or (FORM_FIELDS & set(fields) and context["sql"]):
        answered, status = await answered_context(request, served, context["sql"])
        context |= answered
    return page(request, "ask.html", context, status=status)


async def answer(request: Request) -> Response:
    """GET /{release}/answer: the answer alone, for the page that is open already."""
    served = api.served(request)
    found = await api.service(request).vocabulary(served)
    context = form(served, request.query_params, found["values"])
    from_form = "what" in request.query_params
    if from_form and not context["sql"]:
        unfinished = {
            "release": served,
            "rewrite": False,
            "asked": None,
            "refusal": wrong(context["missing"], field="form"),
        }
        return page(request, "answered.html", context | unfinished, status=400)
    answered, status = await answered_context(request, served, context["sql"])
    fields = [(k, v) for k, v in request.query_params.multi_items() if v != ""]
    where = f"/{quote(served.name)}/ask?{urlencode(fields)}"
    context |= answered | {"release": served, "rewrite": from_form}
    return page(request, "answered.html", context, status=status, headers={"HX-Push-Url": where})


async def conclusion(request: Request) -> Response:
    """GET /{release}/conclusion: a fit or a test alone, for the page that is open already."""
    served = api.served(request)
    context, status = await concluded_context(request, served)
    fields = [(k, v) for k, v in request.query_params.multi_items() if v != ""]
    where = f"/{quote(served.name)}/ask?{urlencode(fields)}"
    return page(request, "answer.html", context | {"release": served}, status=status, headers={"HX-Push-Url": where})


def _concludes(fields: Mapping[str, str]) -> bool:
    return bool(fields.get("formula", "").strip() or (fields.get("x", "") and fields.get("y", "")))


async def concluded_context(request: Request, served: Served) -> tuple[dict[str, Any], int]:
    """(what the template of a fit or a test needs, HTTP status)."""
    found: Reply | Refusal
    try:
        task = api.concluding(request, request.query_params, served, "page")
        found = await api.service(request).reply(task)
    except api.Refused as error:
        found = error.refusal
    if isinstance(found, Refusal):
        request.scope["log"]["error"] = found.type
        return {"asked": None, "refusal": found, "again": ""}, found.status
    return {
        "asked": None,
        "refusal": None,
        "concluded": found.shown,
        "links": presenting.links(served.name, served.digest, task),
        "lines": presenting.lines(served.name, task),
    }, 200


async def builder(request: Request) -> Response:
    """GET /{release}/builder: the form again after a choice, and the SQL that it makes."""
    served = api.served(request)
    found = await api.service(request).vocabulary(served)
    context = form(served, request.query_params, found["values"])
    return page(request, "builder.html", context | {"release": served, "alone": True})


def form(served: Served, fields: QueryParams, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the form's template needs: the question as it stands, its SQL, or what is still missing."""
    question = asking.read(fields, served.columns)
    sql, missing = fields.get("sql", ""), ""
    if not sql:
        try:
            sql = asking.to_sql(question, served.columns)
        except SpecError as error:
            missing = str(error)
    if not question.conditions:
        question = asking.with_empty_line(question)
    columns = {c.name: c for c in served.columns}
    return {
        "question": question,
        "sql": sql,
        "missing": missing,
        "columns": columns,
        "numbers": [c for c in served.columns if c.kind in {"whole", "number"}],
        "values": values,
        "what": asking.WHAT,
        "operators": asking.OPERATORS,
        "steps": asking.STEPS,
    }


async def answered_context(request: Request, served: Served, sql: str) -> tuple[dict[str, Any], int]:
    """(what the answer's template needs, HTTP status)."""
    given = {"sql": sql, "level": request.query_params.get("level", 0.95)}
    given["simultaneous"] = request.query_params.get("simultaneous", "")
    service: Service = api.service(request)
    try:
        question = api.asked(request, given, served)
    except api.Refused as error:
        request.scope["log"]["error"] = error.refusal.type
        return {"asked": None, "refusal": error.refusal}, error.refusal.status
    reply = await service.answer(served, "page", question)
    if isinstance(reply, Refusal):
        request.scope["log"]["error"] = reply.type
        return {"asked": None, "refusal": reply, "again": _again(served, question)}, reply.status
    request.scope["log"] |= {"kind": reply.kind, "rows": reply.rows}
    return {
        "asked": reply.shown,
        "refusal": None,
        "links": links(served, question),
        "lines": lines(served, sql, question),
    }, 200


def links(served: Served, question: Posed) -> dict[str, str]:
    """Addresses of this answer: the page, and the files; they name the release's contents."""
    fields = _fields(question) | {"digest": served.digest[:16]}
    query = f"/{quote(served.name)}/query?"
    files = {form: query + urlencode(fields | {"format": form}) for form in api.FORMS}
    return {"page": f"/{quote(served.name)}/ask?{urlencode(fields)}#answer", **files}


def lines(served: Served, sql: str, question: Posed | None = None) -> dict[str, str]:
    """The same question on a command line and in Python."""
    flat = " ".join(sql.split()) if "'" not in sql and '"' not in sql and "--" not in sql else sql.strip()
    options, arguments = "", ""
    if question is not None and question.level != 0.95:
        options, arguments = f" --level {question.level}", f", level={question.level}"
    if question is not None and question.simultaneous:
        options, arguments = f"{options} --simultaneous", f"{arguments}, simultaneous=True"
    return {
        "shell": f"sfumato query {shlex.quote(served.name)} {shlex.quote(flat)}{options}",
        "python": f"import sfumato\n\nrelease = sfumato.open_release({served.name!r})\n"
        f"answer = release.sql({flat!r}{arguments})\nprint(answer)",
    }


def _fields(question: Posed) -> dict[str, str]:
    fields = {"sql": question.sql}
    if question.level != 0.95:
        fields["level"] = str(question.level)
    return fields | ({"simultaneous": "1"} if question.simultaneous else {})


def _again(served: Served, question: Posed) -> str:
    """The start of the address of a corrected question."""
    rest = _fields(question)
    del rest["sql"]
    return f"/{quote(served.name)}/ask?" + (urlencode(rest) + "&" if rest else "") + "sql="


def _on(text: str) -> bool:
    return text.lower() in {"1", "true", "on", "yes"}


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if isinstance(value, str | int | float | bool)}


ROUTES = (
    Route("/", home),
    Route("/{release}", release),
    Route("/{release}/ask", ask),
    Route("/{release}/answer", answer),
    Route("/{release}/builder", builder),
    Route("/{release}/conclusion", conclusion),
)
