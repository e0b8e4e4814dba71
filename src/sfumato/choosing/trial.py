"""A release to try and throw away: written as it would be published, or its rows alone, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..engines import reader_of, scratch
from ..engines.contract import Reader, Table
from ..errors import EngineError
from ..publish import Prepared, applier_of, described, write
from ..publishing.randomness import Secret
from ..query import Release
from ..release import bundle
from ..release.manifest import FileModel
from ..release.opened import OpenedRelease, open_folder


@contextmanager
def trial(prepared: Prepared, secret: Secret) -> Iterator[Release]:
    """A release in a private temporary folder, gone afterwards."""
    with scratch.folder("trial") as place:
        with bundle.writing(place / "release", force=False) as folder:
            manifest = write(prepared, folder, secret, reproducible=True)
            bundle.finish(folder, manifest)
        yield Release(open_folder(place / "release", check=False))


@contextmanager
def drawn(prepared: Prepared, secret: Secret, held: Sequence[pa.RecordBatch]) -> Iterator[Release]:
    """The release with the same rows, of which no file is written: answers do not depend on their order.

    `held` are the batches of the table. Neither lists of sets nor what stands beside the rows is made; the digest, from
    which some methods take the start of their random numbers, is drawn.
    """
    applier = applier_of(prepared, secret)
    made = [applier.split(number, batch.select(applier.reads))() for number, batch in enumerate(held)]
    applier.close()
    rows = pa.Table.from_batches(made, schema=applier.schema)
    digest = secret.stream("digest").bytes(32).hex()
    files = {"data.parquet": FileModel(sha256=digest, rows=rows.num_rows)}
    with scratch.folder("trial") as place:
        if prepared.planned.work.side:
            side = applier.side_table()
            bundle.write_side(side, place / "sensitive.parquet")
            files["sensitive.parquet"] = FileModel(sha256=digest, rows=side.num_rows)
        manifest = described(prepared, applier, files, reproducible=True)
        yield Release(OpenedRelease(place, manifest, engine=_HeldEngine(reader_of(rows))))


class _HeldEngine:
    """An engine that reads the rows in memory, whatever file it is asked for."""

    name = "held"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def open(self, source: Any, *, delimiter: str | None = None) -> Table:  # noqa: ARG002
        raise EngineError("rows in memory are read, not opened")

    def read(self, data: Sequence[Path]) -> Reader:  # noqa: ARG002
        return self._reader
