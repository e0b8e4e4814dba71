"""The releases that a server offers: opened and checked once at the start, then only described and copied out."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import SpecError, VerificationError
from ..model.public import ADDED
from ..query import open_release
from ..release.files import FileStates, check_states
from ..release.verify import SIGNATURE, describe

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED = frozenset({"static", "healthz", "openapi.json", "favicon.ico", "robots.txt"})
CHANGED = "the files of the release changed since this server opened it; whoever runs the server starts it again"
WORDS = {  # roles as analysts read them
    "sensitive": "sensitive: changed before publication",
    "quasi": "others may know it of a person",
    "insensitive": "published as it was",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedColumn:
    """A column that an analyst may ask for."""

    name: str
    role: str
    type: str
    domain: tuple[Any, ...] | None  # declared values, of changed columns only
    declared: bool

    @property
    def words(self) -> str:
        """The role in plain words."""
        return WORDS[self.role]

    @property
    def kind(self) -> str:
        """text, whole, number, truth, date or other: what conditions and groups make sense."""
        if self.type.startswith(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINY", "USMALL", "UINT", "UBIG")):
            return "whole"
        if self.type.startswith(("FLOAT", "DOUBLE", "DECIMAL", "HUGEINT")):
            return "number"
        if self.type == "BOOLEAN":
            return "truth"
        if self.type.startswith(("DATE", "TIMESTAMP")):
            return "date"
        return "text" if self.type == "VARCHAR" else "other"


@dataclass(frozen=True, kw_only=True)
class Served:
    """One release as the pages know it."""

    name: str
    folder: Path
    digest: str  # of release.json, which holds the digests of the data: names the contents
    document: Mapping[str, Any]  # of `sfumato inspect --json`
    states: FileStates | None = None  # of its files when it was opened; None: of one that nobody asks

    @cached_property
    def columns(self) -> tuple[ServedColumn, ...]:
        """The columns that may be asked for, in the order of the release."""
        declared = {n for unit in self.document["units"] if unit["declared"] for n in unit["columns"]}
        return tuple(
            ServedColumn(
                name=c["name"],
                role=c["role"],
                type=c["type"],
                domain=tuple(c["domain"]) if c.get("domain") is not None else None,
                declared=c["name"] in declared,
            )
            for c in self.document["columns"]
            if c["role"] not in ADDED
        )

    def check(self) -> None:
        """Raise VerificationError where a file changed since the server opened the release."""
        if self.states is None:
            return
        try:
            check_states(self.states)
        except VerificationError:
            raise VerificationError(CHANGED) from None

    @property
    def files(self) -> tuple[str, ...]:
        """Files of the bundle, as written in it, and its signature where it has one."""
        signed = [SIGNATURE] if (self.folder / SIGNATURE).is_file() else []
        documents = self.document.get("documents", ())
        return ("release.json", "datapackage.json", *self.document["files"], *documents, *signed)

    @property
    def summary(self) -> dict[str, Any]:
        """What the list of releases says."""
        guarantee = self.document["guarantee"]
        return {
            "name": self.name,
            "method": self.document["method"],
            "rows": self.document["rows"],
            "columns": [c.name for c in self.columns],
            "guarantee": guarantee["statement"],
            "trust": guarantee["trust"],
            "digest": self.digest,
        }


def catalogue(paths: Sequence[str | Path]) -> dict[str, Served]:
    """name -> release, in the order given; every bundle's digests are checked."""
    found: dict[str, Served] = {}
    for path in paths:
        folder = Path(os.path.realpath(path))  # a loop of links is no release, and no error of its own here
        name = folder.name
        if folder.is_file():
            raise SpecError(f'"{name}" is a file; unpack it, and serve the folder that it holds', field="release")
        if name in RESERVED or not name:
            raise SpecError(f'a release cannot be served under the name "{name}"; rename its folder', field="release")
        if name in found:
            raise SpecError(f'two releases are called "{name}"; rename the folder of one', field="release")
        release = open_release(folder)
        digest = hashlib.sha256((folder / "release.json").read_bytes()).hexdigest()
        opened = release.opened  # last: what was read before is of the files whose states it holds
        found[name] = Served(name=name, folder=folder, digest=digest, document=describe(opened), states=opened.states)
    if not found:
        raise SpecError("no release is named; give the folder of at least one", field="release")
    return found


# A release as one file, made while it is sent.


PIECE = 1 << 18  # bytes
BATCH = 1 << 14  # rows
DATED = (1980, 1, 1, 0, 0, 0)  # equal bundles give equal archives


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
