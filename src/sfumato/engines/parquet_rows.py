"""Rows into a Parquet file, row group by row group: columns of few values and of lists by us, others by the library."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from .ahead import ahead
from .contract import FollowingColumn
from .parquet_chunks import (
    CHILDREN,
    CHUNKS,
    GROUP_ROWS,
    META,
    ORDERS,
    PACKED,
    ROW_GROUPS,
    ROWS,
    SCHEMA,
    SIZE,
    SMALL,
    WHOLE,
    Chunk,
)
from .parquet_codes import CodedColumn
from .parquet_footer import I32, I64, LIST, MAGIC, STRUCT, Struct, closing, parsed
from .parquet_lists import ListChunks
from .parquet_steps import Rising


def write_rows(
    path: Path,
    schema: pa.Schema,
    groups: Iterable[Callable[[], pa.RecordBatch]],
    following: Sequence[FollowingColumn],
    threads: int,
    rising: Collection[str] = (),
) -> str:
    """The SHA-256 of what was written; the new file holds the rows of the groups, a row group each, every list in front
    of its number, and whole numbers that follow from others behind all columns.

    `rising` names columns of whole numbers that are written as differences.
    Whole numbers may be narrower than the schema says. Groups are made and encoded at the same time, a few ahead of
    the one that is written.
    """
    behind = [one for one in following if not pa.types.is_list(one.cells.type)]
    plain = pa.schema(
        [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
        + [pa.field(one.name, one.cells.type) for one in behind]
    )
    shown: list[tuple[str, Encoder]] = []  # (column that it is made from, what makes its chunks)
    for name in schema.names:
        shown += [(name, ListChunks(one)) for one in following if one.numbers == name and one not in behind]
        shown.append((name, Rising(name) if name in rising else CodedColumn(name, plain.field(name).type)))
    shown += [(one.numbers, Followed(one)) for one in behind]

    def encoded(rows: Callable[[], pa.RecordBatch]) -> tuple[int, list[Chunk]]:
        batch = rows()
        return batch.num_rows, [encoder.chunk(batch.column(name)) for name, encoder in shown]

    made, digest = list[Struct](), hashlib.sha256()
    with path.open("wb") as file:

        def put(data: bytes) -> None:
            file.write(data)
            digest.update(data)

        put(MAGIC)
        for rows, chunks in ahead((partial(encoded, group) for group in groups), threads):
            if rows:
                places = []
                for chunk in chunks:
                    places.append(chunk.at(file.tell()))
                    put(chunk.data)
                made.append(_row_group(rows, places))
        put(closing(_footer(plain, [encoder for _, encoder in shown], made)))
    return digest.hexdigest()


class Encoder(Protocol):
    """What makes a column's chunks."""

    def chunk(self, values: pa.Array, /) -> Chunk:
        """The row group's values, or those that follow from them."""


class Followed:
    """Whole numbers that follow from those of another column."""

    def __init__(self, column: FollowingColumn) -> None:
        self._coded, self._cells = CodedColumn(column.name, column.cells.type), column.cells.to_numpy()

    def chunk(self, values: pa.Array) -> Chunk:
        """What the row group's values stand for."""
        return self._coded.chunk(pa.array(self._cells.take(values.to_numpy())))


def _row_group(rows: int, chunks: list[Struct]) -> Struct:
    """What the footer says of a row group."""
    metas = [chunk[META][1] for chunk in chunks]
    return {
        CHUNKS: (LIST, (STRUCT, chunks)),
        SIZE: (I64, sum(meta[WHOLE][1] for meta in metas)),
        GROUP_ROWS: (I64, rows),
        PACKED: (I64, sum(meta[SMALL][1] for meta in metas)),
    }


def _footer(plain: pa.Schema, encoders: Sequence[Encoder], groups: list[Struct]) -> Struct:
    """The footer: that of a file without rows, with the lists' columns and the row groups."""
    sink = pa.BufferOutputStream()
    pq.write_table(plain.empty_table(), sink, store_schema=False)
    file = sink.getvalue().to_pybytes()
    empty = parsed(file[-8 - int.from_bytes(file[-8:-4], "little") : -8])
    root, *own = empty[SCHEMA][1][1]
    elements, others = list[Struct](), iter(own)
    for encoder in encoders:
        elements += encoder.schema if isinstance(encoder, ListChunks) else [next(others)]
    more = len(encoders) - len(own)
    orders = empty[ORDERS][1][1]
    return empty | {
        SCHEMA: (LIST, (STRUCT, [root | {CHILDREN: (I32, len(own) + more)}, *elements])),
        ROWS: (I64, sum(group[GROUP_ROWS][1] for group in groups)),
        ROW_GROUPS: (LIST, (STRUCT, groups)),
        ORDERS: (LIST, (STRUCT, orders + orders[:1] * more)),
    }
