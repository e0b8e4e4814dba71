"""The JSON API: the documents of the command line over HTTP, one error shape, names for answers, downloads."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.concurrency import iterate_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..version import __version__
from .catalogue import Served, rows_as_csv, zipped
from .refusals import BUSY, Refusal, Refused, wrong
from .server import ALWAYS, HERE, Settings, masked
from .workers import FORMS, Pool, Question, Reply, read_question

VOCABULARY_SECONDS = 120.0  # the first look at a large release reads whole columns
MEDIA_TYPES: Mapping[str, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "md": "text/markdown; charset=utf-8",
    "sig": "text/plain; charset=us-ascii",
    "zip": "application/zip",
}
CHECKED = "public, no-cache"  # a name may stand for another release tomorrow; the ETag makes asking again cheap


@dataclass(slots=True, kw_only=True)
class Service:
    """What every handler needs."""

    served: Mapping[str, Served]
    settings: Settings
    pool: Pool
    stamp: str  # of templates and static files: names the look of a page
    _vocabularies: dict[str, dict[str, Any]] = field(default_factory=dict)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def reply(self, question: Question) -> Reply:
        """What a worker says to a question; Refused where nobody answers it."""
        if len(question.typed) + len(question.where) > self.settings.max_sql:
            raise Refused(wrong(f"the question is longer than {self.settings.max_sql:,} characters", status=413))
        reply: Reply | Refusal = await self.pool.ask(question)
        if isinstance(reply, Refusal):
            raise Refused(reply)
        return reply

    async def vocabulary(self, served: Served) -> dict[str, Any]:
        """Values of columns and examples; without them where the server is too busy to look."""
        async with self._looking:  # many who come at once share one look
            if served.name not in self._vocabularies:
                question = Question(release=served.name, kind="vocabulary")
                try:
                    reply = await self.pool.ask(question, time_limit=VOCABULARY_SECONDS)
                except Refused:
                    reply = None
                if not isinstance(reply, Reply):
                    return {"values": {}, "examples": []}
                self._vocabularies[served.name] = reply.shown
        return self._vocabularies[served.name]

    def etag(self, served: Served, *parts: object) -> str:
        """The name of an answer: it follows from the release, the question and this version of sfumato."""
        text = "\x00".join(str(part) for part in (__version__, self.stamp, served.digest, *parts))
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


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
    found.check()
    return found


def asked(request: Request, kind: str, given: Mapping[str, Any], release: Served, form: str) -> Question:
    """The question in a query string or a body; the log learns its kind, and of SQL its shape."""
    question = read_question(kind, given, release.name, form)
    log, with_literals = request.scope["log"], service(request).settings.log_sql
    if kind in {"fit", "test"}:
        log["analysis"] = kind
        if with_literals:
            log |= {"sql": question.typed} | ({"where": question.where} if question.where else {})
    elif len(question.sql) <= service(request).settings.max_sql:
        log["sql"] = question.sql if with_literals else masked(question.sql, (c.name for c in release.columns))
    return question


async def answered(request: Request, question: Question) -> Reply:
    """The reply to a question; the log learns what kind of answer it is."""
    reply = await service(request).reply(question)
    request.scope["log"] |= {"kind": reply.kind, "rows": reply.rows}
    return reply


def caching(request: Request, release: Served, *parts: object) -> dict[str, str]:
    """Headers of an answer that follows from the release and these parts of the question."""
    etag = service(request).etag(release, *parts)
    return {"etag": etag, "cache-control": ALWAYS if request.query_params.get("digest") else CHECKED}


def unchanged(request: Request, headers: Mapping[str, str]) -> Response | None:
    """The answer to a caller who has this one already."""
    given = request.headers.get("if-none-match", "")
    known = headers["etag"] in {part.strip().removeprefix("W/") for part in given.split(",")}
    return Response(status_code=304, headers=headers) if known else None


async def answer(request: Request) -> Response:
    """GET /{release}/query, fit or test, and POST /{release}/query: the answer as JSON or as another file."""
    release, kind = served(request), request.url.path.rpartition("/")[2]
    given: Mapping[str, Any] = request.query_params if request.method != "POST" else await _body(request)
    form = str(given.get("format", "json"))
    if form not in FORMS[kind]:
        raise Refused(wrong(f"format is {' or '.join(FORMS[kind])}", field="format"))
    question = asked(request, kind, given, release, form)
    headers = {} if request.method == "POST" else caching(request, release, question)
    if headers and (known := unchanged(request, headers)):
        return known
    reply = await answered(request, question)
    if form != "json":
        name = f"{quote(release.name)}-{'answer' if kind == 'query' else kind}.{form}"
        headers["content-disposition"] = f"attachment; filename*=UTF-8''{name}"
    return Response(reply.body, media_type=MEDIA_TYPES[form], headers=headers)


async def explain(request: Request) -> Response:
    """GET /{release}/explain: how a question would be answered."""
    release = served(request)
    question = asked(request, "explain", request.query_params, release, "json")
    headers = caching(request, release, question)
    if known := unchanged(request, headers):
        return known
    reply = await service(request).reply(question)
    return JSONResponse({"explanation": reply.body.decode()}, headers=headers)


async def vocabulary(request: Request) -> Response:
    """GET /{release}/vocabulary: columns, the values of those that have few, and examples; for editors."""
    release = served(request)
    found = await service(request).vocabulary(release)
    columns = [
        {"name": c.name, "role": c.role, "type": c.type, "values": found["values"].get(c.name)} for c in release.columns
    ]
    examples = [{"title": title, "sql": sql} for title, sql in found["examples"]]
    headers = caching(request, release, "vocabulary") if found["values"] else {}
    return JSONResponse({"columns": columns, "examples": examples}, headers=headers)


async def document(request: Request) -> Response:
    """The release's own description: the document of `sfumato inspect --json`."""
    release = served(request)
    headers = caching(request, release, "document") | {"vary": "Accept"}
    if known := unchanged(request, headers):
        return known
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
    """GET /openapi.json: this API in OpenAPI 3.1, with this server's version and limit."""
    found = json.loads((HERE / "openapi.json").read_text(encoding="utf-8"))
    found["info"]["version"] = __version__
    found["components"]["parameters"]["sql"]["schema"]["maxLength"] = service(request).settings.max_sql
    return JSONResponse(found)


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


async def download(request: Request) -> Response:
    """GET /{release}/release.zip or /{release}/data.csv: the bundle, or the published rows."""
    release, what = served(request), request.url.path.rpartition("/")[2]
    headers = caching(request, release, what)
    if known := unchanged(request, headers):
        return known
    extension = what.rpartition(".")[2]
    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(release.name)}.{extension}"
    if request.method == "HEAD":
        return Response(headers=headers, media_type=MEDIA_TYPES[extension])
    places: asyncio.Semaphore = request.app.state.downloads
    if places.locked():
        raise Refused(BUSY)

    async def pieces() -> AsyncIterator[bytes]:
        async with places:
            async for piece in iterate_in_threadpool(zipped(release) if extension == "zip" else rows_as_csv(release)):
                yield piece

    return StreamingResponse(pieces(), media_type=MEDIA_TYPES[extension], headers=headers)


async def file(request: Request) -> Response:
    """GET /{release}/files/{file}: one file of the bundle; ranges are answered, so DuckDB can read it from afar."""
    release, name = served(request), request.path_params["file"]
    if name not in release.files:
        raise HTTPException(404, "the release has no such file")
    headers = caching(request, release, "file", name)
    if known := unchanged(request, headers):
        return known
    return FileResponse(release.folder / name, media_type=MEDIA_TYPES[Path(name).suffix[1:]], headers=headers)


ROUTES = (
    Route("/healthz", health),
    Route("/openapi.json", description),
    Route("/{release}/query", answer, methods=["GET", "POST"]),
    Route("/{release}/fit", answer),
    Route("/{release}/test", answer),
    Route("/{release}/explain", explain),
    Route("/{release}/vocabulary", vocabulary),
    Route("/{release}/release.zip", download),
    Route("/{release}/data.csv", download),
    Route("/{release}/files/{file:path}", file),
)
