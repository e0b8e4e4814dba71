"""Rows in batches of one size, however they came: equal input, equal batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

BATCH_CELLS = 1 << 22  # of a batch of a wide table: several are under way at a time, each in several copies
GROUP_CELLS = 1 << 24  # of a row group, for each column of which there is something to do besides its cells
TEXT_BYTES = 1 << 26  # of text in a batch or a row group: of 131,072 rows, 512 bytes each
LEAST_ROWS = 1 << 10
OFFSETS = {pa.string(): np.int32, pa.binary(): np.int32, pa.large_string(): np.int64, pa.large_binary(): np.int64}


def rows_at_once(most: int, columns: int, cells: int) -> int:
    """How many rows of so many columns are taken at a time: `most`, or of wide tables as many as have so many cells."""
    return min(most, max(LEAST_ROWS, cells // max(columns, 1)))


def rows_in(most: int, size: float, rows: int, room: float) -> int:
    """How many rows are taken at a time where so many of them have that size: `most`, or as many as fit the room."""
    return most if size * most <= room * rows else max(1, int(room * rows / size))


def exactly(batches: Iterable[pa.RecordBatch], size: int, most_text: int | None = None) -> Iterator[pa.RecordBatch]:
    """The rows in batches of exactly `size`, but for the last, and for those whose text would be more than so many
    bytes, which have as many rows as fit: however they came, the same batches."""
    held: list[pa.RecordBatch] = []
    rows, text = 0, 0
    for batch in batches:
        held.append(batch)
        rows, text = rows + batch.num_rows, text + text_bytes(batch)
        while rows >= size or (most_text is not None and text > most_text):
            table = pa.Table.from_batches(held)
            fit = _fitting(table, min(rows, size), text, most_text)
            yield _one(table.slice(0, fit))
            held, rows = table.slice(fit).to_batches(), rows - fit
            text = sum(text_bytes(one) for one in held)
    if rows:
        yield _one(pa.Table.from_batches(held))


def text_bytes(batch: pa.RecordBatch) -> int:
    """Bytes of the texts in the columns of text; told by where they begin and end, whatever their number."""
    kinds = ((j, kind) for j, kind in enumerate(batch.schema.types) if kind in OFFSETS)
    return sum(int(ends[-1]) - int(ends[0]) for j, kind in kinds if len(ends := _ends(batch.column(j), kind)))


def _ends(column: pa.Array, kind: pa.DataType) -> np.ndarray[tuple[int], np.dtype[np.signedinteger]]:
    """Where each text of a column begins, and the last ends."""
    whole = np.frombuffer(column.buffers()[1], dtype=OFFSETS[kind]) if len(column) else np.zeros(0, OFFSETS[kind])
    return whole[column.offset : column.offset + len(column) + 1]


def _fitting(table: pa.Table, rows: int, text: int, most: int | None) -> int:
    """How many of the first rows have that much text at most; one at least."""
    if most is None or text <= most:
        return rows
    first = table.slice(0, rows)
    total = np.zeros(rows, dtype=np.int64)
    for column, kind in zip(first.columns, first.schema.types, strict=True):
        if kind in OFFSETS:
            total += np.concatenate([np.diff(_ends(chunk, kind)) for chunk in column.chunks])
    return max(1, int(np.searchsorted(np.cumsum(total), most, side="right")))


def _one(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]
