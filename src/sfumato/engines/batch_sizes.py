"""Rows in batches of one size, however they came: equal input, equal batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

BATCH_CELLS = 1 << 22  # of a batch of a wide table: several are under way at a time, each in several copies
GROUP_CELLS = 1 << 24  # of a row group, for each column of which there is something to do besides its cells
LEAST_ROWS = 1 << 10


def rows_at_once(most: int, columns: int, cells: int) -> int:
    """How many rows of so many columns are taken at a time: `most`, or of wide tables as many as have so many cells."""
    return min(most, max(LEAST_ROWS, cells // max(columns, 1)))


def exactly(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """The rows in batches of exactly `size`, but for the last: however they came, the same batches."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        while rows >= size:
            table = pa.Table.from_batches(held)
            yield _one(table.slice(0, size))
            held, rows = table.slice(size).to_batches(), rows - size
    if rows:
        yield _one(pa.Table.from_batches(held))


def _one(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]
