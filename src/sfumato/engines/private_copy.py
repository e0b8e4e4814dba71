"""Rows of a source that can be read once, kept in the private folder for as long as somebody needs them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from errno import ENOSPC
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ..errors import DataError, ReleaseError
from . import scratch

PIECE = 1 << 20


class Readable(Protocol):
    """What gives bytes until there are none."""

    def read(self, size: int, /) -> bytes: ...


class PrivateCopy:
    """A private folder that goes when nobody holds it any more."""

    def __init__(self) -> None:
        self.folder = scratch.new_folder("rows")
        weakref.finalize(self, scratch.remove, self.folder)

    def rows(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Path:
        """A Parquet file of the rows, in their order, without the schema's own notes."""
        path = self.folder / "rows.parquet"
        try:
            with pq.ParquetWriter(path, schema.remove_metadata()) as writer:
                for batch in batches:
                    writer.write_batch(batch.replace_schema_metadata(None))
        except pa.ArrowException:  # the library's own message may quote a cell
            raise DataError("the batches of the source do not have one schema, or cannot be read") from None
        except OSError as error:
            raise _full(error) from None
        return path

    def bytes(self, name: str, source: Readable) -> Path:
        """A file of everything that can be read from `source`."""
        path = self.folder / name
        try:
            with path.open("xb") as target:
                while piece := source.read(PIECE):
                    target.write(piece)
        except OSError as error:
            raise _full(error) from None
        return path


def _full(error: OSError) -> ReleaseError:
    reason = "the disk is full" if error.errno == ENOSPC else "the source cannot be copied to the temporary folder"
    return ReleaseError(f"{reason}; nothing was published")
