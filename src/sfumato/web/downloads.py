"""Downloads: the bundle as a zip, its files one by one, and the published rows as CSV; all streamed."""

from __future__ import annotations

import asyncio
import csv
import io
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.concurrency import iterate_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ..errors import VerificationError
from .api import Refused, caching, known, served, service
from .catalogue import Served
from .refusals import BUSY

if TYPE_CHECKING:
    import pyarrow as pa

PIECE = 1 << 18  # bytes
BATCH = 1 << 14  # rows
KINDS = {
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
    ".md": "text/markdown; charset=utf-8",
    ".sig": "text/plain; charset=us-ascii",
}
DATED = (1980, 1, 1, 0, 0, 0)  # equal bundles give equal archives


class _Download(StreamingResponse):
    """A response that is broken off where the release cannot be read on: whoever downloads it sees that it is short."""

    async def stream_response(self, send: Send) -> None:
        from pyarrow import ArrowException

        try:
            await super().stream_response(send)
        except (ArrowException, OSError, VerificationError):
            return  # without an end: the server drops the connection and says so in one line


class _File(FileResponse):
    """The same of one file as it lies there."""

    def __init__(self, release: Served, name: str, headers: dict[str, str]) -> None:
        super().__init__(release.folder / name, media_type=KINDS[Path(name).suffix], headers=headers)
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def checked(message: Message) -> None:
            if message["type"] == "http.response.body":  # what it holds has been read
                self._release.check()
            await send(message)

        try:
            await super().__call__(scope, receive, checked)
        except (OSError, VerificationError):
            return


class _Sink(io.RawIOBase):
    """Collects what a zip writer writes, to be taken away piece by piece."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        taken, self._parts = b"".join(self._parts), []
        return taken


def zipped(release: Served) -> Iterator[bytes]:
    """The bundle as a zip archive; Parquet is compressed already, so files are stored as they are."""
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name in release.files:
            path = release.folder / name
            entry = zipfile.ZipInfo(f"{release.name}/{name}", DATED)
            entry.external_attr = 0o644 << 16
            with path.open("rb") as source, archive.open(entry, "w", force_zip64=True) as target:
                while piece := source.read(PIECE):
                    target.write(piece)
                    release.check()
                    yield sink.take()
    release.check()
    yield sink.take()


def rows_as_csv(release: Served) -> Iterator[bytes]:
    """The published rows as CSV."""
    from ..engines.batches import read_rows

    header = True
    for batch in read_rows([release.folder / n for n in release.document["files"] if n.startswith("data")], BATCH):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if header:
            writer.writerow(batch.schema.names)
            header = False
        columns = [_cells(column) for column in batch.columns]
        writer.writerows(zip(*columns, strict=True))
        release.check()
        yield text.getvalue().encode()


def _cells(column: pa.Array) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):  # dates beyond Python's calendar
        return list(column.cast("string").to_pylist())


async def bundle(request: Request) -> Response:
    """GET /{release}/release.zip."""
    return _streamed(request, "release.zip", "application/zip")


async def rows(request: Request) -> Response:
    """GET /{release}/data.csv."""
    return _streamed(request, "data.csv", "text/csv; charset=utf-8")


def _streamed(request: Request, what: str, kind: str) -> Response:
    release = served(request)
    headers = caching(request, service(request).etag(release, what))
    if known(request, headers["etag"]):
        return Response(status_code=304, headers=headers)
    extension = Path(what).suffix
    headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(release.name)}{extension}"
    if request.method == "HEAD":
        return Response(headers=headers, media_type=kind)
    made = zipped(release) if what == "release.zip" else rows_as_csv(release)
    places: asyncio.Semaphore = request.app.state.downloads
    if places.locked():
        raise Refused(BUSY)

    async def pieces() -> AsyncIterator[bytes]:
        async with places:
            async for piece in iterate_in_threadpool(made):
                yield piece

    return _Download(pieces(), media_type=kind, headers=headers)


async def file(request: Request) -> Response:
    """GET /{release}/files/{file}: one file of the bundle; ranges are answered, so DuckDB can read it from afar."""
    release = served(request)
    name = request.path_params["file"]
    if name not in release.files:
        raise HTTPException(404, "the release has no such file")
    headers = caching(request, service(request).etag(release, "file", name))
    if known(request, headers["etag"]):
        return Response(status_code=304, headers=headers)
    return _File(release, name, headers)


ROUTES = (
    Route("/{release}/release.zip", bundle),
    Route("/{release}/data.csv", rows),
    Route("/{release}/files/{file:path}", file),
)
