"""Released rows in the order of their keys into one Parquet file: in memory where they fit, else by DuckDB's sort."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..contract import Keys, ListColumn, Transform
from ..list_columns import ROW_GROUP, write_with_lists
from .connection import quoted

KEY = "__order__"
MOST_BYTES = 2**31 - 1  # of rows that are ordered here: Arrow counts the bytes of a column of texts in 32 bits
SHARE = 0.25  # of the engine's memory that rows waiting for their order may fill; sorting them takes as much again


def transformed(
    batches: Iterable[pa.RecordBatch], transform: Transform, keys: Keys, threads: int
) -> Iterator[pa.RecordBatch]:
    """What the transform makes of the batches, in their order, with the keys as last column.

    Batches are split one after the other; the rest of the work on them goes on beside reading the next ones.
    """

    def finished(number: int, rest: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        out = rest()
        return out.append_column(KEY, pa.array(keys(number, out.num_rows)))

    with ThreadPoolExecutor(max_workers=threads) as workers:
        waiting: deque[Future[pa.RecordBatch]] = deque()
        for number, batch in enumerate(batches):
            waiting.append(workers.submit(finished, number, transform.split(number, batch)))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def write_ordered(
    con: duckdb.DuckDBPyConnection,
    keyed: pa.Schema,
    rows: Iterator[pa.RecordBatch],
    path: Path,
    lists: Sequence[ListColumn],
    *,
    room: float,
) -> None:
    """Nothing; the file holds the rows in the order of their keys, without these."""
    held, size = [], 0
    for batch in rows:
        held.append(batch)
        size += batch.nbytes
        if size > min(SHARE * room, MOST_BYTES):
            break
    else:
        table = _in_order(held, keyed)
        if lists:
            write_with_lists(table.to_batches(max_chunksize=ROW_GROUP), path, lists)
        else:
            con.register("released", table)
            _write(con, "SELECT * FROM released", path, lists)
        return
    con.register("released", pa.RecordBatchReader.from_batches(keyed, chain(_used_up(held), rows)))
    names = ", ".join(quoted(name) for name in keyed.names if name != KEY)
    _write(con, f"SELECT {names} FROM released ORDER BY {KEY}", path, lists)


def _used_up(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches one by one; what was handed over is not kept."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _write(con: duckdb.DuckDBPyConnection, select: str, path: Path, lists: Sequence[ListColumn]) -> None:
    if lists:
        write_with_lists(con.sql(select).to_arrow_reader(ROW_GROUP), path, lists)
    else:
        target = str(path).replace("'", "''")
        con.execute(f"COPY ({select}) TO '{target}' (FORMAT parquet)")


def _in_order(batches: list[pa.RecordBatch], keyed: pa.Schema) -> pa.Table:
    """The rows of the batches, which are used up, in the order of their keys."""
    columns = [[batch.column(j) for batch in batches] for j in range(len(keyed))]
    batches.clear()
    order = pa.array(key_order(np.concatenate([key.to_numpy() for key in columns.pop()] or [np.zeros(0, np.uint64)])))

    def taken(j: int) -> pa.ChunkedArray:
        whole = pa.chunked_array(columns[j], type=keyed.field(j).type).combine_chunks()
        columns[j] = []
        return pc.take(whole, order, boundscheck=False)

    with ThreadPoolExecutor() as workers:
        return pa.table(dict(zip(keyed.names[:-1], workers.map(taken, range(len(columns))), strict=True)))


def key_order(keys: NDArray[np.uint64]) -> NDArray[np.uint32 | np.uint64]:
    """The numbers of the rows in the order of their keys.

    Row numbers replace the lowest bits of the keys, so that plain numbers are sorted; where only those bits tell keys
    apart, which is rare, the keys themselves decide.
    """
    bits = np.uint64(max(len(keys) - 1, 1).bit_length())
    low = (np.uint64(1) << bits) - np.uint64(1)
    packed = keys & ~low
    packed |= np.arange(len(keys), dtype=np.uint64)
    packed.sort()
    order: NDArray[np.uint32 | np.uint64] = (packed & low).astype(np.uint32 if bits <= 32 else np.uint64)
    packed >>= bits
    tied = np.flatnonzero(packed[1:] == packed[:-1])
    if len(tied):
        places = np.union1d(tied, tied + 1)
        order[places] = order[places][np.lexsort((keys[order[places]], packed[places]))]
    return order
