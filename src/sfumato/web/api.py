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

from ..analysis.families import FAMILIES
from ..errors import VerificationError
from . import conclusions
from .access_log import masked
from .catalogue import Served
from .conclusions import Conclusion
from .openapi import openapi
from .refusals import Refusal, refusal, wrong
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


def concluding(request: Request, given: Mapping[str, Any], release: Served, form: conclusions.Form) -> Conclusion:
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
    if form not in conclusions.FORMS[kind]:
        raise Refused(wrong(f"format is {' or '.join(conclusions.FORMS[kind])}", field="format"))
    task = concluding(request, given, release, cast("conclusions.Form", form))
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
