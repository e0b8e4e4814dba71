"""Rows on their way through the shuffle: thousands of them packed into one value, which Spark moves and never opens.

Spark carries rows one by one, and would turn each from a column of Python's into a row of Java's and back: most of the
time of a publication. A chunk holds the rows of one task that lie in one range of the keys; Spark sees its part, its
range, its number and some bytes. Ranges are narrow, so that whoever writes a part holds a few hundred thousand rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ORDER, PART, RANGE, NUMBER, ROWS = "__order__", "__part__", "__range__", "__number__", "__rows__"
CHUNK = {PART: pa.int32(), RANGE: pa.int32(), NUMBER: pa.int64(), ROWS: pa.binary()}
WINDOW_ROWS, WINDOW_BYTES = 1 << 20, 1 << 26  # of which a task makes chunks at a time; whichever comes first
MOST_RANGES, MOST_A_PART = 1024, 16  # a window's chunks hold a thousand rows where there are 1,024 ranges
WINDOW_BITS = 24  # of a chunk's number: windows of one partition
Batches = Iterator[pa.RecordBatch]


def ranges_a_part(parts: int) -> int:
    """Ranges of the keys of each part: as many as chunks stay long enough for."""
    return min(max(MOST_RANGES // parts, 1), MOST_A_PART)


def bucket(keys: NDArray[np.uint64], ranges: int) -> NDArray[np.int32]:
    """The range of every key: equal ranges of the 64-bit numbers, of which random keys fill each as likely."""
    return ((keys >> np.uint64(32)) * np.uint64(ranges) >> np.uint64(32)).astype(np.int32)


def packed(batches: Iterable[pa.RecordBatch], partition: int, parts: int) -> Batches:
    """The rows of a partition, which have a key ORDER, as chunks."""
    held: list[pa.RecordBatch] = []
    window = 0
    for batch in batches:
        held += [batch] if batch.num_rows else []  # a method may leave all rows of a batch out
        rows, size = sum(b.num_rows for b in held), sum(b.nbytes for b in held)
        if rows >= WINDOW_ROWS or size >= WINDOW_BYTES:
            yield _chunks(held, partition << WINDOW_BITS | window, parts)
            held, window = [], window + 1
    if held:
        yield _chunks(held, partition << WINDOW_BITS | window, parts)


def _chunks(batches: list[pa.RecordBatch], number: int, parts: int) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches)
    each = ranges_a_part(parts)
    found = bucket(table[ORDER].to_numpy(), parts * each)
    rows = table.take(np.argsort(found, kind="stable")).combine_chunks()
    here, counts = np.unique(found, return_counts=True)
    starts = np.cumsum(counts) - counts
    (batch,) = rows.to_batches()
    cells = [batch.slice(int(start), int(n)).serialize().to_pybytes() for start, n in zip(starts, counts, strict=True)]
    columns = [here // each, here, np.full(len(here), number), cells]
    arrays = [pa.array(column, type=kind) for column, kind in zip(columns, CHUNK.values(), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(CHUNK))


def by_part(chunks: Batches, schema: pa.Schema) -> Iterator[tuple[int, Batches]]:
    """(number of the part, its rows in the order of their keys); they must be used up before the next part.

    Chunks come in the order of range and number, so that rows with equal keys do not depend on who was faster.
    """
    for part, mine in groupby(_listed(chunks), key=lambda chunk: chunk[0]):
        yield part, (_in_order([c[2] for c in same], schema) for _, same in groupby(mine, key=lambda c: c[1]))


def _listed(chunks: Batches) -> Iterator[tuple[int, int, bytes]]:
    for batch in chunks:
        columns = (batch.column(name) for name in (PART, RANGE, ROWS))
        # as bytes of Python, one by one: their memory is aligned as Arrow wants it, and goes when they are used
        yield from ((part.as_py(), place.as_py(), rows.as_py()) for part, place, rows in zip(*columns, strict=True))


def _in_order(chunks: list[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of all chunks of a range, sorted by key."""
    table = pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(chunk), schema) for chunk in chunks])
    order = np.argsort(table[ORDER].to_numpy(), kind="stable")
    (batch,) = table.take(order).combine_chunks().to_batches()
    return batch
