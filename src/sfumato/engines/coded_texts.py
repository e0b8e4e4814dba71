"""Texts of Parquet files as the numbers and the dictionary that lie there: a file of some kilobytes may repeat a long
text a million times, and would fill the memory of whoever has all of them written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..lazily import compute as pc
from ..lazily import parquet as pq
from .batches import TEXT_BYTES, text_bytes

PIECE = TEXT_BYTES >> 3  # bytes of text in rows that are written out, of which there are several copies at a time


def open_coded(paths: Sequence[Path]) -> list[pq.ParquetFile]:
    """The files; columns of texts of which one has a dictionary come as numbers of its values, out of each."""
    footers = [pq.read_metadata(path) for path in paths]
    coded = sorted(set[str]().union(*map(_with_dictionary, footers)))
    return [
        pq.ParquetFile(path, metadata=footer, read_dictionary=coded)
        for path, footer in zip(paths, footers, strict=True)
    ]


def _with_dictionary(metadata: pq.FileMetaData) -> set[str]:
    leaves = [(j, metadata.schema.column(j)) for j in range(metadata.num_columns)]
    texts = [(j, x.path) for j, x in leaves if x.physical_type == "BYTE_ARRAY" and x.max_repetition_level == 0]
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    return {path for j, path in texts if any(group.column(j).has_dictionary_page for group in groups)}


def written_out(batch: pa.RecordBatch, room: int = PIECE) -> Iterator[pa.RecordBatch]:
    """The rows with their texts, as many at a time as have that many bytes of them; one at least."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
            sizes += np.append(lengths, 0)[column.indices.fill_null(len(lengths)).to_numpy()]
    sizes += text_bytes(batch) // max(batch.num_rows, 1)
    upto, first = np.cumsum(sizes), 0
    while first < batch.num_rows:
        before = int(upto[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(upto, before + room, side="right")))
        yield _plain(batch.slice(first, last - first))
        first = last


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    found = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(found, names=batch.schema.names)
