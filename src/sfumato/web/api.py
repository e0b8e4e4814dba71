"""The JSON API: the documents of the command line over HTTP, one error shape, names for answers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..analysis.design import FAMILIES
from ..errors import VerificationError
from ..version import __version__
from . import presenting
from .catalogue import Served
from .presenting import Conclusion
from .refusals import Refusal, refusal, wrong
from .security import Settings, masked
from .service import Posed, Service

FORMS: Mapping[str, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
ALWAYS = "public, max-age=31536000, immutable"  # for addresses that name the contents of the release
CHECKED = "public, no-cache"  # a name may stand for another release tomorrow; the ETag makes asking again cheap


class Refused(Exception):  # noqa: N818 - reads as what happened
    """A refusal on its way to the caller."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def service(request: Request) -> Service:
    """The service of this application."""
    found: Service = request.app.state.service
    return found


def served(request: Request) -> Served:
    """The release that the address names."""
    name = request.path_params["release"]
    found = service(request).served.get(name)
    if found is None:
        raise HTTPException(404, "there is no release under this name")
    request.scope["log"]["release"] = name
    digest = request.query_params.get("digest", "")
    if digest and (len(digest) < 8 or not found.digest.startswith(digest)):
        raise HTTPException(409, "another release is served under this name than the one the address was made for")
    try:
        found.check()
    except VerificationError as error:
        raise Refused(refusal(error, lambda _: False)) from None
    return found


def asked(request: Request, given: Mapping[str, Any], release: Served) -> Posed:
    """The question in a query string or a body; the log learns its shape."""
    sql, level, simultaneous = given.get("sql"), given.get("level", 0.95), given.get("simultaneous", False)
    if not isinstance(sql, str) or not sql.strip():
        raise Refused(wrong("no question was asked", field="sql", hint="Give it as sql=SELECT ... FROM release ..."))
    _check_text(sql, "sql")
    if len(sql) <= service(request).settings.max_sql:
        log_sql = service(request).settings.log_sql
        request.scope["log"]["sql"] = sql if log_sql else masked(sql, (c.name for c in release.columns))
    number = _level(level)
    return Posed(sql=sql, level=number, simultaneous=str(simultaneous).lower() in {"1", "true", "on", "yes"})


def concluding(request: Request, given: Mapping[str, Any], release: Served, form: presenting.Form) -> Conclusion:
    """The fit or the test in a query string; the log learns which it is."""
    words = {name: str(given.get(name, "")) for name in ("formula", "family", "x", "y", "where")}
    words |= {name: words[name].strip() for name in ("formula", "family", "where")}  # a column may begin with a space
    for name, text in words.items():
        _check_text(text, name)
    if not words["formula"] and not (words["x"] and words["y"]):
        raise Refused(wrong("a fit needs a formula, a test two columns", field="formula"))
    words["family"] = words["family"] or FAMILIES[0]
    if words["formula"]:
        words["x"] = words["y"] = ""
    found = Conclusion(release=release.name, form=form, level=_level(given.get("level", 0.95)), **words)
    request.scope["log"]["analysis"] = found.kind
    if service(request).settings.log_sql:
        request.scope["log"] |= {"sql": found.sql} | ({"where": found.where} if found.where else {})
    return found


def _level(given: Any) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number < 1:
        raise Refused(wrong("level must lie between 0 and 1", field="level"))
    return number


def _check_text(text: str, field: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:  # halves of characters, which JSON can spell
        raise Refused(wrong("the question is not text", field=field)) from None


def refused(request: Request, refusal: Refusal) -> Response:
    """A refusal as JSON."""
    request.scope.setdefault("log", {})["error"] = refusal.type
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    return JSONResponse(refusal.document(), refusal.status, headers=headers)


def known(request: Request, etag: str) -> bool:
    """Whether the caller has this answer already."""
    given = request.headers.get("if-none-match", "")
    return etag in {part.strip().removeprefix("W/") for part in given.split(",")}


def caching(request: Request, etag: str) -> dict[str, str]:
    """Headers of an answer that follows from the release and the question."""
    return {"etag": etag, "cache-control": ALWAYS if request.query_params.get("digest") else CHECKED}


async def query(request: Request) -> Response:
    """GET or POST /{release}/query: the answer as JSON, CSV or Parquet."""
    release = served(request)
    given: Mapping[str, Any] = request.query_params if request.method != "POST" else await _body(request)
    question = asked(request, given, release)
    form = str(given.get("format", "json"))
    if form not in FORMS:
        raise Refused(wrong("format is json, csv or parquet", field="format"))
    etag = service(request).etag(release, form, question.level, question.simultaneous, question.sql)
    headers = caching(request, etag) if request.method != "POST" else {}
    if headers and known(request, etag):
        return Response(status_code=304, headers=headers)
    reply = await service(request).answer(release, form, question)  # type: ignore[arg-type] # one of FORMS
    if isinstance(reply, Refusal):
        return refused(request, reply)
    request.scope["log"] |= {"kind": reply.kind, "rows": reply.rows}
    if form != "json":
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(release.name)}-answer.{form}"
    return Response(reply.body, media_type=FORMS[form], headers=headers)


async def conclude(request: Request) -> Response:
    """GET /{release}/fit or /{release}/test: the document of the command of that name; a fit also as CSV."""
    release, kind = served(request), request.url.path.rpartition("/")[2]
    given = dict(request.query_params) | ({"formula": ""} if kind == "test" else {"x": "", "y": ""})
    form = given.get("format", "json")
    if form not in presenting.FORMS[kind]:
        raise Refused(wrong(f"format is {' or '.join(presenting.FORMS[kind])}", field="format"))
    task = concluding(request, given, release, cast("presenting.Form", form))
    headers = caching(request, service(request).etag(release, task))
    if known(request, headers["etag"]):
        return Response(status_code=304, headers=headers)
    reply = await service(request).reply(task)
    if isinstance(reply, Refusal):
        return refused(request, reply)
    if form == "csv":
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(release.name)}-fit.csv"
    return Response(reply.body, media_type=FORMS[form], headers=headers)


async def explain(request: Request) -> Response:
    """GET /{release}/explain: how a question would be answered."""
    release = served(request)
    question = asked(request, request.query_params, release)
    etag = service(request).etag(release, "explain", question.sql)
    if known(request, etag):
        return Response(status_code=304, headers=caching(request, etag))
    reply = await service(request).answer(release, "explain", question)
    if isinstance(reply, Refusal):
        return refused(request, reply)
    return JSONResponse({"explanation": reply.body.decode()}, headers=caching(request, etag))


async def vocabulary(request: Request) -> Response:
    """GET /{release}/vocabulary: columns, the values of those that have few, and examples; for editors."""
    release = served(request)
    found = await service(request).vocabulary(release)
    columns = [
        {"name": c.name, "role": c.role, "type": c.type, "values": found["values"].get(c.name)} for c in release.columns
    ]
    examples = [{"title": title, "sql": sql} for title, sql in found["examples"]]
    etag = service(request).etag(release, "vocabulary")
    headers = caching(request, etag) if found["values"] else {}
    return JSONResponse({"columns": columns, "examples": examples}, headers=headers)


async def document(request: Request) -> Response:
    """The release's own description: the document of `sfumato inspect --json`."""
    release = served(request)
    etag = service(request).etag(release, "document")
    headers = caching(request, etag) | {"vary": "Accept"}
    if known(request, etag):
        return Response(status_code=304, headers=headers)
    body = json.dumps({"name": release.name, "digest": release.digest, **release.document}, ensure_ascii=False)
    return Response(body, media_type="application/json", headers=headers)


async def listing(request: Request) -> Response:
    """The releases served, as JSON."""
    return JSONResponse({"releases": [r.summary for r in service(request).served.values()]})


async def health(request: Request) -> Response:
    """GET /healthz: that the server lives, and how busy it is."""
    pool = service(request).pool
    state = {"status": "ok", "releases": len(service(request).served), "workers": pool.size}
    return JSONResponse(state | {"busy": pool.busy, "waiting": pool.waiting, "replaced": pool.replaced})


async def description(request: Request) -> Response:
    """GET /openapi.json: this API in OpenAPI 3.1."""
    return JSONResponse(openapi(service(request).settings))


async def _body(request: Request) -> Mapping[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(wrong("a question in a body is sent as application/json", status=415))
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise Refused(wrong("the body is not JSON")) from None
    if not isinstance(given, dict):
        raise Refused(wrong('the body is an object such as {"sql": "SELECT ..."}'))
    return given


ROUTES = (
    Route("/healthz", health),
    Route("/openapi.json", description),
    Route("/{release}/query", query, methods=["GET", "POST"]),
    Route("/{release}/fit", conclude),
    Route("/{release}/test", conclude),
    Route("/{release}/explain", explain),
    Route("/{release}/vocabulary", vocabulary),
)


# The API described in OpenAPI 3.1.


def openapi(settings: Settings) -> dict[str, Any]:
    """The document of /openapi.json, with this server's limits."""
    release = _in_path("release", "name of a release, as in the list at /")
    sql = _in_query("sql", {"type": "string", "maxLength": settings.max_sql}, "the question; FROM release", needed=True)
    level = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.95}
    options = [
        _in_query("level", level, "confidence level of the intervals"),
        _in_query("simultaneous", {"type": "boolean", "default": False}, "the level holds for all rows at once"),
        _in_query("format", {"enum": ["json", "csv", "parquet"], "default": "json"}, "form of the answer"),
        _in_query(
            "digest", {"type": "string", "minLength": 8}, "start of the release's digest: answer this one or none"
        ),
    ]
    where = _in_query("where", {"type": "string"}, "an SQL condition: only rows that meet it")
    question = {
        "type": "object",
        "required": ["sql"],
        "properties": {"sql": {"type": "string"}, "level": level, "simultaneous": {"type": "boolean"}, "format": {}},
    }
    answered = {
        "200": _json("the answer", "Answer"),
        "304": {"description": "the answer is the one the caller has"},
        **{
            code: _json(text, "Error")
            for code, text in (
                ("400", "the question is wrong, or cannot be answered with its error"),
                ("409", "another release is served under this name"),
                ("413", "the question or the body is too long"),
                ("503", "too many questions at once; ask again after Retry-After seconds"),
                ("504", "the question took too long"),
                ("507", "the question needed too much memory"),
            )
        },
    }
    ask = "Ask a release SQL; every number comes with its error"
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sfumato",
            "version": __version__,
            "description": "Releases of tables of people, asked in SQL.",
        },
        "paths": {
            "/": {"get": _plain("The releases served", "Releases")},
            "/{release}": {"get": {"parameters": [release], **_plain("What a release states about itself", "Release")}},
            "/{release}/query": {
                "get": {"summary": ask, "parameters": [release, sql, *options], "responses": answered},
                "post": {
                    "summary": ask,
                    "parameters": [release],
                    "requestBody": {"required": True, "content": {"application/json": {"schema": question}}},
                    "responses": answered,
                },
            },
            "/{release}/fit": {
                "get": {
                    "summary": "Fit a regression; every coefficient comes with its error",
                    "parameters": [
                        release,
                        _in_query("formula", {"type": "string"}, "outcome ~ terms", needed=True),
                        _in_query("family", {"enum": list(FAMILIES), "default": FAMILIES[0]}, "family of the model"),
                        where,
                        options[0],
                        _in_query("format", {"enum": ["json", "csv"], "default": "json"}, "form of the answer"),
                    ],
                    "responses": answered | {"200": _json("the coefficients", "Fit")},
                }
            },
            "/{release}/test": {
                "get": {
                    "summary": "Test whether two columns go together",
                    "parameters": [
                        release,
                        *(_in_query(name, {"type": "string"}, "a column", needed=True) for name in ("x", "y")),
                        where,
                        options[0],
                    ],
                    "responses": answered | {"200": _json("the test", "Test")},
                }
            },
            "/{release}/explain": {
                "get": {
                    "summary": "How a question would be answered",
                    "parameters": [release, sql],
                    "responses": answered,
                }
            },
            "/{release}/vocabulary": {
                "get": {"parameters": [release], **_plain("Columns, values and examples", "Vocabulary")}
            },
            "/{release}/release.zip": {"get": {"parameters": [release], **_file("The bundle", "application/zip")}},
            "/{release}/data.csv": {"get": {"parameters": [release], **_file("The published rows", "text/csv")}},
            "/{release}/files/{file}": {
                "get": {
                    "parameters": [release, _in_path("file", "a file of the bundle")],
                    **_file("One file of the bundle; ranges are answered", "application/octet-stream"),
                }
            },
            "/healthz": {"get": _plain("Whether the server lives, and how busy it is", "Health")},
        },
        "components": {"schemas": _schemas()},
    }


def _schemas() -> dict[str, Any]:
    text, whole = {"type": "string"}, {"type": "integer"}
    nothing = {"type": ["string", "null"]}
    error = {
        "type": "object",
        "required": ["type", "message", "hint", "position", "sql"],
        "properties": {
            "type": text,
            "message": text,
            "hint": nothing,
            "position": {
                "description": "half-open span of the offending text in sql",
                "type": ["array", "null"],
                "items": whole,
                "minItems": 2,
                "maxItems": 2,
            },
            "sql": nothing,
        },
    }
    answer = {
        "type": "object",
        "required": ["method", "level", "kind", "rows"],
        "properties": {
            "method": text,
            "level": {"type": "number"},
            "kind": {"enum": ["exact", "confidence", "bounds"]},
            "rows": {"type": "array", "items": {"type": "object"}},
            "caveats": {"type": "array", "items": text},
        },
    }
    return {
        "Error": {"type": "object", "required": ["error"], "properties": {"error": error}},
        "Answer": answer,
        "Fit": {"type": "object", "required": ["method", "formula", "family", "level", "rows"]},
        "Test": {"type": "object", "required": ["x", "y", "test", "statistic", "df", "p"]},
        "Release": {"type": "object", "required": ["name", "digest", "method", "rows", "columns", "guarantee"]},
        "Releases": {"type": "object", "required": ["releases"]},
        "Vocabulary": {"type": "object", "required": ["columns", "examples"]},
        "Health": {"type": "object", "required": ["status"]},
    }


def _in_path(name: str, said: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": said, "schema": {"type": "string"}}


def _in_query(name: str, schema: dict[str, Any], said: str, *, needed: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": needed, "description": said, "schema": schema}


def _json(said: str, schema: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
    return {"description": said, "content": content}


def _plain(summary: str, schema: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": _json(summary, schema)}}


def _file(summary: str, kind: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": {"description": summary, "content": {kind: {}}}}}
