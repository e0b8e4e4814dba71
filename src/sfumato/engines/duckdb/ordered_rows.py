"""Released rows in the order of their keys into one Parquet file: in memory where they fit, else by DuckDB's sort."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..ahead import ahead
from ..contract import Keys, ListColumn, Transform
from ..key_order import key_order
from ..parquet_lists import append_lists
from .connection import quoted

KEY = "__order__"
RANGE_ROWS = 131_072  # about; of the keys that are merged at a time
SHARE = 0.25  # of the engine's memory that rows waiting for their order may fill


def transformed(
    batches: Iterable[pa.RecordBatch], transform: Transform, keys: Keys, threads: int
) -> Iterator[pa.RecordBatch]:
    """What the transform makes of the batches, each in the order of its keys, which are the last column.

    Batches are split one after the other; the rest of the work on them goes on beside reading the next ones.
    """

    def finished(number: int, rest: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        out = rest()
        return _by_key(out.append_column(KEY, pa.array(keys(number, out.num_rows))))

    parts = (partial(finished, number, transform.split(number, batch)) for number, batch in enumerate(batches))
    yield from ahead(parts, threads)


def write_ordered(
    con: duckdb.DuckDBPyConnection,
    keyed: pa.Schema,
    rows: Iterator[pa.RecordBatch],
    path: Path,
    lists: Sequence[ListColumn],
    *,
    room: float,
    threads: int,
) -> None:
    """Nothing; the file holds the rows, which come in batches that are in order, in the order of all keys."""
    held, size, names = [], 0, [name for name in keyed.names if name != KEY]
    select = "SELECT * FROM released"
    for batch in rows:
        held.append(batch)
        size += batch.nbytes
        if size > SHARE * room:
            stream = pa.RecordBatchReader.from_batches(keyed, chain(_used_up(held), rows))
            select = f"SELECT {', '.join(map(quoted, names))} FROM released ORDER BY {KEY}"
            break
    else:
        stream = pa.RecordBatchReader.from_batches(pa.schema(map(keyed.field, names)), ahead(_ranges(held), threads))
    con.register("released", stream)
    target = str(path).replace("'", "''")
    con.execute(f"COPY ({select}) TO '{target}' (FORMAT parquet)")
    if lists:
        append_lists(path, lists, threads)


def _used_up(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches one by one; what was handed over is not kept."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _ranges(batches: list[pa.RecordBatch]) -> Iterator[Callable[[], pa.RecordBatch]]:
    """Functions that return the rows of one range of keys each, in order; all keys are equally likely.

    Every batch is in order, so that a range is a slice of each: little is at hand at a time, and stays near.
    """
    ranges = max(1, round(sum(batch.num_rows for batch in batches) / RANGE_ROWS))
    ends = np.array([(number << 64) // ranges for number in range(1, ranges)], dtype=np.uint64)
    cuts = [[0, *np.searchsorted(batch[KEY].to_numpy(), ends).tolist(), batch.num_rows] for batch in batches]

    def rows(number: int) -> pa.RecordBatch:
        parts = [b.slice(at[number], at[number + 1] - at[number]) for b, at in zip(batches, cuts, strict=True)]
        return _by_key(pa.concat_batches(parts)).drop_columns([KEY])

    return (partial(rows, number) for number in range(ranges))


def _by_key(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows in the order of their keys."""
    return pc.take(batch, pa.array(key_order(batch[KEY].to_numpy())), boundscheck=False)
