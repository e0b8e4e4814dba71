"""Released rows in the order of their keys into one Parquet file: in memory where they fit, else by DuckDB's sort."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...lazily import compute as pc
from ..ahead import ahead
from ..batches import GROUP_CELLS, TEXT_BYTES, rows_at_once, rows_in, text_bytes
from ..contract import FollowingColumn, Keys, Transform
from ..key_order import KEYS, Order, coarse_order, key_order, keys_between, range_ends
from ..narrow_columns import alike, narrowed
from ..parquet_rows import write_rows

KEY = "__order__"
POOL = pa.system_memory_pool()  # Arrow's own gives memory back and takes it again, to be cleared each time
RANGE_ROWS = 131_072  # about; of the keys that are merged at a time, and of a row group
MANY = 64  # batches, after which memory is given back
KEY_BYTES = 8
MOST_TIMES = 16  # that keys are drawn again
SHARE = 0.95  # of the engine's memory that rows waiting for their order may fill


def transformed(
    batches: Iterable[pa.RecordBatch], transform: Transform, keys: Keys, threads: int
) -> Iterator[pa.RecordBatch]:
    """What the transform makes of the batches, each in the coarse order of its keys, which are the last column.

    Batches are split one after the other; the rest of the work on them goes on beside reading the next ones.
    """

    def finished(number: int, rest: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        out = narrowed(rest())
        order = keys(number, out.num_rows)
        return _taken(out.append_column(KEY, pa.array(order)), coarse_order(order))

    parts = (partial(finished, number, transform.split(number, batch)) for number, batch in enumerate(batches))
    yield from ahead(parts, threads)


def write_ordered(
    sorting: Callable[[], duckdb.DuckDBPyConnection],
    keyed: pa.Schema,
    rows: Iterator[pa.RecordBatch],
    path: Path,
    following: Sequence[FollowingColumn],
    keys: Keys,
    *,
    room: float,
    threads: int,
) -> str:
    """The SHA-256 of the file; it holds the rows, which come in batches that are in coarse order, in the order of all
    keys.

    Rows of the same range of keys are a row group, so that the file is the same whichever way they were sorted:
    with their keys where both fit the room; else without them, which are drawn again; above that by a connection,
    which is opened then.
    """
    held, size, bare = list[pa.RecordBatch](), 0, False
    plain = pa.schema([field for field in keyed if field.name != KEY])
    for batch in rows:
        held.append(_bare(batch) if bare else batch)
        size += held[-1].nbytes
        if size > SHARE * room and not bare:
            held, bare = [_bare(one) for one in used_up(held)], True
            size = sum(one.nbytes for one in held)
        if size > SHARE * room:
            con = sorting()
            con.execute("SET memory_limit=?", [f"{int(room / 2)}B"])  # it sorts while rows are still held here
            again = (_keyed(one, keys(number, one.num_rows)) for number, one in enumerate(used_up(held)))
            return write_rows(path, plain, _sorted(con, keyed, chain(again, rows)), following, threads)
    batches = alike(held)
    groups = _merged_again(batches, keys, room - size, threads) if bare else _merged(batches)
    return write_rows(path, plain, groups, following, threads)


def _bare(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows without their keys."""
    return batch.drop_columns([KEY])


def _keyed(batch: pa.RecordBatch, keys: NDArray[np.uint64]) -> pa.RecordBatch:
    """The rows with their keys again; they are in coarse order, the keys as they were drawn."""
    return batch.append_column(KEY, pa.array(keys[coarse_order(keys)]))


def _ends(rows: int, columns: int, text: int) -> NDArray[np.uint64]:
    """Where ranges of the keys of so many rows end, but for the last; all keys are equally likely."""
    return range_ends(round(rows / _range_rows(columns, text, rows)))


def _range_rows(columns: int, text: int, rows: int) -> int:
    """Rows of a range, about, where so many have that many bytes of text."""
    return rows_in(rows_at_once(RANGE_ROWS, columns, GROUP_CELLS), text, rows, TEXT_BYTES)


def _merged(batches: list[pa.RecordBatch]) -> Iterator[Callable[[], pa.RecordBatch]]:
    """Functions that return the rows of one range of keys each, in order.

    Every batch is in coarse order, so that a range is a slice of each: little is at hand at a time, and stays near.
    """
    count, text = sum(batch.num_rows for batch in batches), sum(text_bytes(batch) for batch in batches)
    ends = _ends(count, batches[0].num_columns - 1 if batches else 0, text)
    cuts = [[0, *np.searchsorted(batch[KEY].to_numpy(), ends).tolist(), batch.num_rows] for batch in batches]

    def rows(number: int) -> pa.RecordBatch:
        parts = [b.slice(at[number], at[number + 1] - at[number]) for b, at in zip(batches, cuts, strict=True)]
        batch = pa.concat_batches(parts, memory_pool=POOL)
        return _taken(batch.drop_columns([KEY]), key_order(batch[KEY].to_numpy()))

    return (partial(rows, number) for number in range(len(ends) + 1)) if batches else iter(())


def _merged_again(
    batches: list[pa.RecordBatch], keys: Keys, room: float, threads: int
) -> Iterator[Callable[[], pa.RecordBatch]]:
    """The same functions for batches without their keys, which are drawn again for some ranges at a time: for as many
    as the room holds keys."""
    count, text = sum(batch.num_rows for batch in batches), sum(text_bytes(batch) for batch in batches)
    ends = [0, *_ends(count, batches[0].num_columns, text).tolist(), KEYS]
    times = min(len(ends) - 1, MOST_TIMES, math.ceil(KEY_BYTES * count / max(room, 1)))

    def drawn(number: int, rows: int, low: int, high: int) -> tuple[int, NDArray[np.uint64]]:
        return keys_between(keys(number, rows), low, high)

    def rows(found: list[tuple[int, NDArray[np.uint64]]], low: int, high: int) -> pa.RecordBatch:
        parts, own = list[pa.RecordBatch](), list[NDArray[np.uint64]]()
        for batch, (before, mine) in zip(batches, found, strict=True):
            first = int(np.searchsorted(mine, np.uint64(low)))
            last = len(mine) if high == KEYS else int(np.searchsorted(mine, np.uint64(high)))
            parts.append(batch.slice(before + first, last - first))
            own.append(mine[first:last])
        return _taken(pa.concat_batches(parts, memory_pool=POOL), key_order(np.concatenate(own)))

    for some in np.array_split(np.arange(len(ends) - 1), times):
        low, high = ends[some[0]], ends[some[-1] + 1]
        found = list(ahead((partial(drawn, n, b.num_rows, low, high) for n, b in enumerate(batches)), threads))
        yield from (partial(rows, found, ends[number], ends[number + 1]) for number in some.tolist())


def _sorted(
    con: duckdb.DuckDBPyConnection, keyed: pa.Schema, rows: Iterator[pa.RecordBatch]
) -> Iterator[Callable[[], pa.RecordBatch]]:
    """The same functions, for rows with their keys; values with a dictionary travel as numbers."""
    first, count, text = next(rows), 0, 0
    of = {f.name: first[f.name].dictionary for f in keyed if pa.types.is_dictionary(f.type)}

    def numbers() -> Iterator[pa.RecordBatch]:
        nonlocal count, text
        for taken, batch in enumerate(chain([first], rows)):
            if taken % MANY == 0:
                POOL.release_unused()  # of what was held; the engine takes its memory elsewhere
            count, text = count + batch.num_rows, text + text_bytes(batch)
            columns = [c.indices if n in of else c for n, c in zip(keyed.names, batch.columns, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, names=names).cast(travelling)

    def values(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.concat_batches(parts)
        columns = [
            pa.DictionaryArray.from_arrays(column, of[f.name]) if f.name in of else column.cast(f.type)
            for f, column in zip(keyed, rows.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=keyed)

    names, width = [f"c{j}" for j in range(len(keyed))], len(keyed) - 1
    kinds = [f.type.index_type if pa.types.is_dictionary(f.type) else f.type for f in keyed]
    travelling = pa.schema(zip(names, kinds, strict=True))
    con.register("released", pa.RecordBatchReader.from_batches(travelling, numbers()))
    at_once = _range_rows(width, text_bytes(first), first.num_rows)
    found = con.sql(f"SELECT * FROM released ORDER BY {names[-1]}").to_arrow_reader(at_once)
    number, parts = 0, list[pa.RecordBatch]()
    for batch in found:
        ends = _ends(count, width, text)  # all rows have been counted
        at = np.searchsorted(ends, batch[names[-1]].to_numpy(), side="right")
        for here in np.unique(at).tolist():
            if here != number and parts:
                yield partial(values, parts)
                parts = []
            low, high = np.searchsorted(at, [here, here + 1]).tolist()
            number = here
            parts.append(batch.slice(low, high - low))
    if parts:
        yield partial(values, parts)


def used_up(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches one by one; what was handed over is not kept."""
    batches.reverse()
    while batches:
        yield batches.pop()


def _taken(batch: pa.RecordBatch, order: Order) -> pa.RecordBatch:
    """The rows in that order."""
    return pc.take(batch, pa.array(order), boundscheck=False, memory_pool=POOL)
