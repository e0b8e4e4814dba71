"""The analysts' application: the pages home, a release, and asking it; a form that writes SQL; the JSON API."""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..analysis.design import FAMILIES
from ..errors import SpecError
from ..model.names import ENDS, free_name
from . import api
from .catalogue import Served, ServedColumn
from .refusals import Refusal, Refused, identifier, literal, wrong
from .server import AccessLog, Gate, Settings, error_handlers, layout, look, static
from .workers import ON, Answerer, Desk, Pool, Question

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


def application(
    served: Mapping[str, Served], settings: Settings, *, make: Callable[[], Answerer] | None = None
) -> Starlette:
    """The analysts' application. `make` builds what answers in a worker."""
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

    middleware = [
        Middleware(AccessLog),
        Middleware(Gate, hosts=settings.hosts, max_body=settings.max_body, shared=bool(settings.cors)),
    ]
    if settings.cors:
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=settings.cors,
                allow_methods=("GET", "POST"),
                allow_headers=("content-type", "if-none-match"),
                expose_headers=("etag", "retry-after"),
            )
        )
    app = Starlette(
        routes=[static(stamp), *api.ROUTES, *ROUTES],
        middleware=middleware,
        exception_handlers=error_handlers(failed),
        lifespan=lifespan,
    )
    app.state.service = api.Service(served=served, settings=settings, pool=pool, stamp=stamp)
    app.state.templates = layout(stamp)
    return app


def failed(request: Request, refusal: Refusal) -> Response | None:
    """A refusal as a page, where a browser asks for one."""
    if not wants_page(request) or "hx-request" in request.headers:
        return None
    return page(request, "failed.html", {"refusal": refusal, "releases": True}, status=refusal.status)


def page(
    request: Request,
    name: str,
    context: Mapping[str, Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A rendered template."""
    response: Response = request.app.state.templates.TemplateResponse(
        request, name, dict(context), status_code=status, headers=headers
    )
    return response


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
    headers = api.caching(request, served, "about") | {"vary": "Accept"}
    if known := api.unchanged(request, headers):
        return known
    found = await api.service(request).vocabulary(served)
    if not found["values"]:
        headers = {"vary": "Accept"}  # not the whole page: do not let it be kept
    readers = [row | {"words": READERS.get(row["reader"], row["reader"])} for row in served.document.get("readers", ())]
    example = found["examples"][0][1] if found["examples"] else "SELECT COUNT(*) AS n FROM release"
    parameters = served.document["guarantee"]["parameters"]
    context = {
        "release": served,
        "vocabulary": found,
        "readers": readers,
        "trust_words": TRUST[served.document["guarantee"]["trust"]],
        "parameters": {k: v for k, v in parameters.items() if isinstance(v, str | int | float | bool)},
        "lines": Question(release=served.name, kind="query", sql=example).lines(),
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
    context |= {"level": fields.get("level", "0.95"), "simultaneous": fields.get("simultaneous", "").lower() in ON}
    context |= {"families": FAMILIES, "fields": fields}
    status = 200
    kind = analysis(fields)
    if not kind and (fields.get("sql", "").strip() or (FORM_FIELDS & set(fields) and context["sql"])):
        kind = "query"
    if kind:
        answered, status = await answered_context(request, kind, served, context["sql"])
        context |= answered
    return page(request, "ask.html", context, status=status)


async def answer(request: Request) -> Response:
    """GET /{release}/answer: the answer alone, for the page that is open already."""
    served = api.served(request)
    found = await api.service(request).vocabulary(served)
    context = form(served, request.query_params, found["values"]) | {"release": served}
    from_form = "what" in request.query_params
    if from_form and not context["sql"]:
        unfinished = wrong(context["missing"], field="form")
        return page(request, "answered.html", context | {"rewrite": False, "refusal": unfinished}, status=400)
    answered, status = await answered_context(request, "query", served, context["sql"])
    context |= answered | {"rewrite": from_form}
    return page(request, "answered.html", context, status=status, headers=_pushed(request, served))


async def conclusion(request: Request) -> Response:
    """GET /{release}/conclusion: a fit or a test alone, for the page that is open already."""
    served = api.served(request)
    context, status = await answered_context(request, analysis(request.query_params) or "fit", served)
    headers = _pushed(request, served)
    return page(request, "answer.html", context | {"release": served}, status=status, headers=headers)


def _pushed(request: Request, served: Served) -> dict[str, str]:
    """The header by which the open page takes the address of its answer."""
    fields = [(k, v) for k, v in request.query_params.multi_items() if v != ""]
    return {"HX-Push-Url": f"/{quote(served.name)}/ask?{urlencode(fields)}"}


def analysis(fields: Mapping[str, str]) -> str:
    """What the fields ask for beside SQL: "fit", "test" or nothing."""
    return "fit" if fields.get("formula", "").strip() else "test" if fields.get("x") and fields.get("y") else ""


async def answered_context(request: Request, kind: str, served: Served, sql: str = "") -> tuple[dict[str, Any], int]:
    """(what the template of an answer, a fit or a test needs, HTTP status)."""
    again = ""
    try:
        question = api.asked(request, kind, dict(request.query_params) | {"sql": sql}, served, "page")
        rest = urlencode(replace(question, sql="").fields())
        again = f"/{quote(served.name)}/ask?{rest}{'&' if rest else ''}sql="  # of a corrected question
        reply = await api.answered(request, question)
    except Refused as error:
        request.scope["log"]["error"] = error.refusal.type
        return {"asked": None, "refusal": error.refusal, "again": again}, error.refusal.status
    return {
        "asked" if kind == "query" else "concluded": reply.shown,
        "refusal": None,
        "links": question.links(served.digest),
        "lines": question.lines(),
    }, 200


async def builder(request: Request) -> Response:
    """GET /{release}/builder: the form again after a choice, and the SQL that it makes."""
    served = api.served(request)
    found = await api.service(request).vocabulary(served)
    context = form(served, request.query_params, found["values"])
    return page(request, "builder.html", context | {"release": served, "alone": True})


def form(served: Served, fields: QueryParams, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the form's template needs: the question as it stands, its SQL, or what is still missing."""
    question = read(fields, served.columns)
    sql, missing = fields.get("sql", ""), ""
    if not sql:
        try:
            sql = to_sql(question, served.columns)
        except SpecError as error:
            missing = str(error)
    if not question.conditions:
        question = replace(question, conditions=(FormCondition(),))
    columns = {c.name: c for c in served.columns}
    return {
        "question": question,
        "sql": sql,
        "missing": missing,
        "columns": columns,
        "numbers": [c for c in served.columns if c.kind in {"whole", "number"}],
        "values": values,
        "what": WHAT,
        "operators": OPERATORS,
        "steps": STEPS,
    }


ROUTES = (
    Route("/", home),
    Route("/{release}", release),
    Route("/{release}/ask", ask),
    Route("/{release}/answer", answer),
    Route("/{release}/builder", builder),
    Route("/{release}/conclusion", conclusion),
)


# Questions without SQL: what a form says becomes SQL, on the server, where everybody can read it.


MOST_CONDITIONS, MOST_GROUPS = 12, 3
WHAT = {"count": "how many rows", "share": "which share of rows", "average": "the average of", "sum": "the sum of"}
OPERATORS: dict[str, dict[str, str]] = {  # kind of column -> operator -> how it reads
    "text": {
        "is": "is",
        "not": "is not",
        "in": "is one of",
        "has": "contains",
        "empty": "is empty text",
        "null": "is missing",
    },
    "whole": {
        "eq": "=",
        "ne": "≠",
        "lt": "<",
        "le": "≤",
        "gt": ">",
        "ge": "≥",
        "between": "between",
        "null": "missing",
    },
    "truth": {"is": "is", "null": "is missing"},
    "date": {"eq": "on", "lt": "before", "ge": "from", "between": "between", "null": "is missing"},
}
OPERATORS["number"] = OPERATORS["whole"]
OPERATORS["other"] = {"null": "is missing"}
ALONE = {"null": "IS NULL", "empty": "= ''"}  # comparisons that need no value
SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "is": "=", "not": "<>"}
STEPS = {
    "whole": ("", "5", "10", "20", "50", "100", "1000", "10000"),
    "number": ("", "1", "5", "10", "50", "100", "1000", "10000"),
    "date": ("", "month", "year"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FormCondition:
    """One line of the form: a column, how it is compared, and with what."""

    column: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    @property
    def value(self) -> str:
        """The first value, or nothing."""
        return self.values[0] if self.values else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormGroup:
    """A column to group by, in steps where it is a number or a date."""

    column: str = ""
    step: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormQuestion:
    """What the form asks. Empty lines are kept, so that the form can be shown again as it was."""

    what: str = "count"
    of: str = ""
    share: FormCondition = field(default_factory=FormCondition)
    conditions: tuple[FormCondition, ...] = ()
    groups: tuple[FormGroup, ...] = ()


def read(fields: QueryParams, columns: Sequence[ServedColumn]) -> FormQuestion:
    """The question in the fields of a form; unknown columns and operators fall away."""
    known = {c.name: c for c in columns}
    what = fields.get("what") or "count"

    def condition(mark: str) -> FormCondition:
        column = fields.get(f"c{mark}") or ""
        if column not in known:
            return FormCondition()
        allowed = OPERATORS[known[column].kind]
        operator = fields.get(f"o{mark}") or ""
        given = tuple(v for v in fields.getlist(f"v{mark}") if v != "")
        return FormCondition(
            column=column, operator=operator if operator in allowed else next(iter(allowed)), values=given
        )

    removed = fields.get("without") or ""
    conditions = [condition(str(i)) for i in range(MOST_CONDITIONS) if str(i) != removed and f"c{i}" in fields]
    if fields.get("more") and len(conditions) < MOST_CONDITIONS:
        conditions.append(FormCondition())
    groups: list[FormGroup] = []
    for i in range(MOST_GROUPS):
        column, step = fields.get(f"g{i}") or "", fields.get(f"s{i}") or ""
        if column in known and column not in {g.column for g in groups}:
            groups.append(FormGroup(column=column, step=step if step in STEPS.get(known[column].kind, ()) else ""))
    of = fields.get("of") or ""
    return FormQuestion(
        what=what if what in WHAT else "count",
        of=of if of in known else "",
        share=condition("s"),
        conditions=tuple(conditions),
        groups=tuple(groups),
    )


def to_sql(question: FormQuestion, columns: Sequence[ServedColumn]) -> str:
    """The SQL of a question; SpecError names the field that is still empty or does not fit."""
    known = {c.name: c for c in columns}
    keys = [_key(group, known) for group in question.groups]
    number, named = _aggregate(question, known)
    where = [_test(c, known) for c in question.conditions if c.column]
    shown = [*(f"{sql} AS {name}" if sql != name else sql for sql, name in keys), f"{number} AS {named}"]
    lines = ["SELECT " + ", ".join(shown)]
    lines.append("FROM release")
    if where:
        lines.append("WHERE " + "\n  AND ".join(where))
    if keys:
        lines.append("GROUP BY " + ", ".join(sql for sql, _ in keys))
        plain = len(keys) == 1 and known[question.groups[0].column].kind in {"text", "truth"}
        lines.append("ORDER BY " + (f"{named} DESC" if plain else ", ".join(n for _, n in keys)))
    return "\n".join(lines)


def _aggregate(question: FormQuestion, known: Mapping[str, ServedColumn]) -> tuple[str, str]:
    """(SQL, name) of the number that is asked for."""
    if question.what == "count":
        return "COUNT(*)", _named("n", known)
    if question.what == "share":
        if not question.share.column:
            raise SpecError("choose the column whose share is asked", field="cs")
        return f"AVG(CASE WHEN {_test(question.share, known)} THEN 1 ELSE 0 END)", _named("share", known)
    if not question.of or known[question.of].kind not in {"whole", "number"}:
        raise SpecError("choose a column of numbers", field="of")
    function, name = ("AVG", "average") if question.what == "average" else ("SUM", "total")
    return f"{function}({identifier(question.of)})", _named(f"{name}_{question.of}", known)


def _named(name: str, known: Iterable[str]) -> str:
    """A name for a column of the answer that no column of the release has."""
    return identifier(free_name(name, known, ENDS))


def _key(group: FormGroup, known: Mapping[str, ServedColumn]) -> tuple[str, str]:
    """(SQL, name) of a group."""
    column, kind = identifier(group.column), known[group.column].kind
    if not group.step:
        return column, column
    if kind == "date":
        named = _named(f"{group.column}_{group.step}", known)
        return (f"YEAR({column})" if group.step == "year" else f"DATE_TRUNC('month', {column})"), named
    steps = f"{column} // {group.step} * {group.step}" if kind == "whole" else _floor(column, group.step)
    return steps, _named(f"{group.column}_from", known)


def _floor(column: str, step: str) -> str:
    return f"FLOOR({column})" if step == "1" else f"FLOOR({column} / {step}) * {step}"


def _test(condition: FormCondition, known: Mapping[str, ServedColumn]) -> str:
    """A condition as SQL."""
    column, kind, op = identifier(condition.column), known[condition.column].kind, condition.operator
    if op in ALONE:
        return f"{column} {ALONE[op]}"
    if not condition.values:
        raise SpecError(f'choose a value for "{condition.column}"', field=condition.column)
    values = [_literal(condition.column, v, kind) for v in condition.values]
    if op == "in":
        return f"{column} IN ({', '.join(values)})" if len(values) > 1 else f"{column} = {values[0]}"
    if op == "has":
        return f"{column} LIKE {_containing(condition.value)}"
    if op == "between":
        if len(values) < 2:
            raise SpecError(f'give both ends for "{condition.column}"', field=condition.column)
        return f"{column} BETWEEN {values[0]} AND {values[1]}"
    return f"{column} {SIGNS[op]} {values[0]}"


def _containing(text: str) -> str:
    """The pattern of texts that contain this one, whose own % and _ stand for themselves."""
    plain = re.sub(r"([\\%_])", r"\\\1", text)
    return literal(f"%{plain}%") + ("" if plain == text else r" ESCAPE '\'")


def _literal(column: str, text: str, kind: str) -> str:
    """A value of the form as SQL of the column's kind."""
    if kind in {"whole", "number"}:
        if not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", text.strip(), re.ASCII):
            raise SpecError(f'"{column}" is compared with numbers; "{text[:40]}" is none', field=column)
        return text.strip().lstrip("+")
    if kind == "truth":
        return "TRUE" if text.lower() == "true" else "FALSE"
    if kind == "date":
        try:
            datetime.datetime.fromisoformat(text.strip())
        except ValueError:
            raise SpecError(f'"{column}" is compared with dates such as 2024-01-31', field=column) from None
    return literal(text)
