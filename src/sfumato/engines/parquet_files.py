"""Parquet files of a release: how they are written and how their rows are read one after the other, both by pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .batches import GROUP_CELLS, OFFSETS, TEXT_BYTES, exactly, rows_at_once

ROW_GROUP = 131_072  # rows; fewer of wide tables and of long texts
PIECE = TEXT_BYTES >> 3  # bytes of text in rows that are handed out at a time, of which there are several copies


def write_parquet(
    path: Path,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    dictionaries: Mapping[str, pa.Array] | None = None,
    rising: Sequence[str] = (),
) -> None:
    """Write the batches to a new file, in row groups of one size.

    Columns with a dictionary come as codes into it; `rising` are whole numbers, which are written as differences.
    Nothing is kept of how rows were held in memory: statistics describe the published rows, and dictionaries are
    sorted, or in the order in which these rows show their values.
    """
    known = {name: _Dictionary(values) for name, values in (dictionaries or {}).items()}
    plain = pa.schema([(f.name, known[f.name].type if f.name in known else f.type) for f in schema])
    rows = rows_at_once(ROW_GROUP, len(schema), GROUP_CELLS)
    options = {
        "compression": "zstd",
        "compression_level": 1,
        "store_schema": False,
        "use_dictionary": [name for name in plain.names if name not in rising],
        "column_encoding": dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
    }
    with pq.ParquetWriter(path, plain, **options) as writer:
        for batch in exactly(batches, rows, TEXT_BYTES):
            columns = [
                known[field.name].values(column) if field.name in known else column.cast(field.type)
                for field, column in zip(plain, batch.columns, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=plain))


class _Dictionary:
    """Values that codes stand for, of which some may be equal, or missing."""

    def __init__(self, values: pa.Array) -> None:
        distinct = pc.unique(values.drop_null())
        self._distinct = distinct.take(pc.sort_indices(distinct))
        self._places = pc.index_in(values, value_set=self._distinct)  # null where a value is missing
        self.type = pa.dictionary(pa.int32(), distinct.type)

    def values(self, codes: pa.Array) -> pa.DictionaryArray:
        """The values of these codes."""
        codes = codes.indices if pa.types.is_dictionary(codes.type) else codes
        return pa.DictionaryArray.from_arrays(self._places.take(codes), self._distinct)


def open_parquet(path: Path) -> pq.ParquetFile:
    """The file; its texts come as numbers and a dictionary: some kilobytes may repeat a long text a million times."""
    schema = pq.read_schema(path)
    return pq.ParquetFile(path, read_dictionary=[field.name for field in schema if field.type in OFFSETS])


def read_rows(paths: Sequence[Path], rows: int) -> Iterator[pa.RecordBatch]:
    """The rows of the files, one after the other, at most so many at a time and fewer of long texts."""
    for path in paths:
        with open_parquet(path) as file:
            for batch in file.iter_batches(rows):
                yield from written_out(batch)


def written_out(batch: pa.RecordBatch, room: int = PIECE) -> Iterator[pa.RecordBatch]:
    """The rows with their texts, as many at a time as have that many bytes of them; one at least."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
            sizes += np.append(lengths, 0)[column.indices.fill_null(len(lengths)).to_numpy()]
    upto, first = np.cumsum(sizes), 0
    while first < batch.num_rows:
        before = int(upto[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(upto, before + room, side="right")))
        some = batch.slice(first, last - first)
        columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in some.columns]
        yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
        first = last
