"""Columns of lists for a Parquet file that has the number of every row's list.

A release shows few different lists, so that a row's cells are the same bytes each time: they are put together by
copying, where the libraries at hand encode them value by value (docs/performance.md). The library still writes what
there is once: the lists themselves, from which the column's types and its dictionary of values are taken. The format:
a chunk for each row group holds that dictionary and pages; a page has the places where lists begin, the values that
are there, and numbers of values. Chunks may lie anywhere in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .ahead import ahead
from .contract import ListColumn
from .parquet_footer import I32, I64, LIST, STRUCT, Struct, closing, parsed, read_footer, varint, written

PAGE_VALUES = 1 << 20  # at most, of a page with more than one list
CODEC, LEVEL = "zstd", 1
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8  # encodings
PRESENT, MISSING = 3, 2  # a value that is there; a list that is there and holds a missing one
# fields of a footer, of a column in its schema, of a row group, of a chunk, of a chunk's description
SCHEMA, ROW_GROUPS, ORDERS = 2, 4, 7
NAME, CHILDREN = 4, 5
CHUNKS, SIZE, PACKED = 1, 2, 6
OFFSET, META = 2, 3
KIND, ENCODINGS, PATH, COMPRESSION, VALUES, WHOLE, SMALL, PAGES, DICTIONARY = 1, 2, 3, 4, 5, 6, 7, 9, 11


def append_lists(path: Path, lists: Sequence[ListColumn], threads: int) -> None:
    """Nothing; the file, of plain columns so far, has every list column in front of its numbers."""
    footer, end = read_footer(path)
    groups = footer[ROW_GROUPS][1][1]
    columns = [_Lists(column) for column in lists]
    made: list[dict[bytes, list[Struct]]] = [{} for _ in groups]
    with path.open("r+b") as file, pq.ParquetFile(path) as plain:
        file.seek(end)

        def work() -> Iterator[Callable[[], _Pages]]:
            for g in range(len(groups)):
                numbers = plain.read_row_group(g, columns=[column.numbers for column in columns])
                yield from (partial(column.pages, numbers[column.numbers]) for column in columns)

        places = ((chunks, column) for chunks in made for column in columns)
        for (chunks, column), pages in zip(places, ahead(work(), threads), strict=True):
            chunks.setdefault(column.numbers.encode(), []).append(column.chunk(file.tell(), pages))
            file.write(column.dictionary + pages.data)
        schemas: dict[bytes, list[Struct]] = {}
        for column in columns:  # several may have the same numbers: the columns of a compound value
            schemas.setdefault(column.numbers.encode(), []).extend(column.schema)
        file.write(closing(_with_columns(footer, len(columns), schemas, made)))


def _with_columns(
    footer: Struct, more: int, schemas: Mapping[bytes, list[Struct]], made: list[dict[bytes, list[Struct]]]
) -> Struct:
    """The footer with the new columns in front of their numbers: in the schema, in every row group, in the orders."""
    root, *plain = footer[SCHEMA][1][1]
    names = [element[NAME][1] for element in plain]

    def woven(own: list[Struct], new: Mapping[bytes, list[Struct]]) -> list[Struct]:
        return [one for name, old in zip(names, own, strict=True) for one in (*new.get(name, ()), old)]

    root = root | {CHILDREN: (I32, len(plain) + more)}
    result = footer | {SCHEMA: (LIST, (STRUCT, [root, *woven(plain, schemas)]))}
    if ORDERS in footer:
        orders = footer[ORDERS][1][1]
        added = {name: orders[:1] * len(chunks) for name, chunks in (made[0] if made else {}).items()}
        result[ORDERS] = (LIST, (STRUCT, woven(orders, added)))
    groups = []
    for group, chunks in zip(footer[ROW_GROUPS][1][1], made, strict=True):
        own, metas = group[CHUNKS][1][1], [chunk[META][1] for some in chunks.values() for chunk in some]
        new = {CHUNKS: (LIST, (STRUCT, woven(own, chunks)))}
        for field, size in ((SIZE, WHOLE), (PACKED, SMALL)):
            if field in group:
                new[field] = (I64, group[field][1] + sum(meta[size][1] for meta in metas))
        groups.append(group | new)
    return result | {ROW_GROUPS: (LIST, (STRUCT, groups))}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pages:
    """Pages of a chunk, one after the other; `whole` is their size before packing."""

    data: bytes
    whole: int
    values: int


class _Lists:
    """A list column as it is written: what all its chunks share, and the bytes of every list."""

    def __init__(self, column: ListColumn) -> None:
        values = column.lists.flatten()
        distinct = pc.unique(pc.drop_null(values))
        plain = pa.types.is_boolean(values.type)  # the format has no dictionary for those
        codes = pc.fill_null(pc.index_in(values, value_set=distinct), 0).to_numpy(zero_copy_only=False)
        there = pc.is_valid(values).to_numpy(zero_copy_only=False)
        once = values if plain else pa.DictionaryArray.from_arrays(pa.array(codes, mask=~there), distinct)
        length = pc.list_value_length(column.lists).to_numpy(zero_copy_only=False)
        ends = np.cumsum(length)
        lists = pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), once)
        sink = pa.BufferOutputStream()
        pq.write_table(
            pa.table({column.name: lists}),
            sink,
            compression=CODEC,
            compression_level=LEVEL,
            write_statistics=False,
            store_schema=False,
        )
        file = sink.getvalue().to_pybytes()
        footer = parsed(file[-8 - int.from_bytes(file[-8:-4], "little") : -8])
        meta = footer[ROW_GROUPS][1][1][0][CHUNKS][1][1][0][META][1]
        self._meta = {field: meta[field] for field in (KIND, PATH, COMPRESSION)}
        self._encoding = PLAIN if plain else RLE_DICTIONARY
        self.schema: list[Struct] = footer[SCHEMA][1][1][1:]
        self.dictionary = b"" if plain else file[meta[DICTIONARY][1] : meta[PAGES][1]]
        self.numbers = column.numbers
        self._missing = bool(values.null_count)
        self._wide = np.dtype(
            np.uint8 if plain or len(distinct) <= 256 else np.uint16 if len(distinct) <= 65_536 else "<u4"
        )
        self._rows = max(1, PAGE_VALUES // max(int(length.max(initial=1)), 1))
        begins = np.ones(len(values), dtype=np.uint8)
        begins[ends - length] = 0
        codes = distinct.to_numpy(zero_copy_only=False)[codes] if plain else codes
        self._begins = _pieces(begins, length)
        self._levels = _pieces(np.where(there, PRESENT, MISSING).astype(np.uint8), length)
        held = np.diff(np.concatenate([[0], np.cumsum(there)])[np.concatenate([[0], ends])])
        self._codes = _pieces(codes[there].astype(self._wide), held)

    def chunk(self, at: int, pages: _Pages) -> Struct:
        """The description of a chunk that begins at this place of the file."""
        first = len(self.dictionary)
        meta = self._meta | {
            ENCODINGS: (LIST, (I32, sorted({PLAIN, RLE, self._encoding}))),
            VALUES: (I64, pages.values),
            WHOLE: (I64, pages.whole + first),
            SMALL: (I64, len(pages.data) + first),
            PAGES: (I64, at + first),
        }
        return {OFFSET: (I64, 0), META: (STRUCT, meta | ({DICTIONARY: (I64, at)} if first else {}))}

    def pages(self, numbers: pa.ChunkedArray) -> _Pages:
        """The lists of these numbers, one after the other."""
        data, whole, values = [], 0, 0
        for first in range(0, len(numbers), self._rows):
            body, held = self._body(numbers.slice(first, self._rows).combine_chunks())
            packed = pa.Codec(CODEC, LEVEL).compress(body, asbytes=True)
            kinds = {1: (I32, held), 2: (I32, self._encoding), 3: (I32, RLE), 4: (I32, RLE)}
            head = written({1: (I32, 0), 2: (I32, len(body)), 3: (I32, len(packed)), 5: (STRUCT, kinds)})
            data += [head, packed]
            whole, values = whole + len(head) + len(body), values + held
        return _Pages(data=b"".join(data), whole=whole, values=values)

    def _body(self, numbers: pa.Array) -> tuple[bytes, int]:
        """(a page, the number of its values): where lists begin, which values are there, the values."""
        begins = _copied(self._begins, numbers)
        bits = np.packbits(begins, bitorder="little").tobytes()
        if self._missing:
            levels = _copied(self._levels, numbers)
            fours = np.zeros((len(levels) + 7) // 8 * 8, dtype=np.uint8)
            fours[: len(levels)] = levels
            packed = (fours.reshape(-1, 4) << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=1, dtype=np.uint8)
            present = varint((len(fours) // 8) << 1 | 1) + packed.tobytes()
        else:
            present = varint(len(begins) << 1) + bytes([PRESENT])
        parts = [varint(len(bits) << 1 | 1) + bits, present]
        codes = _copied(self._codes, numbers)
        if self._encoding == PLAIN:
            shown = np.packbits(codes, bitorder="little").tobytes()
        else:
            eights = -(-len(codes) // (8 * self._wide.itemsize))
            padding = bytes(eights * 8 * self._wide.itemsize - len(codes))
            shown = bytes([8 * self._wide.itemsize]) + varint(eights << 1 | 1) + codes.tobytes() + padding
        return b"".join([*(len(p).to_bytes(4, "little") + p for p in parts), shown]), len(begins)


def _pieces(whole: NDArray[Any], length: NDArray[Any]) -> pa.Array | NDArray[Any]:
    """The array cut into pieces of these lengths: rows of a table where they are equal, else as bytes."""
    if len(length) and (length == length[0]).all():
        return whole.reshape(len(length), -1)
    ends = np.concatenate([[0], np.cumsum(length, dtype=np.int64)]) * whole.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(whole.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(length), buffers)


def _copied(pieces: pa.Array | NDArray[Any], numbers: pa.Array) -> NDArray[np.uint8]:
    """The bytes of these pieces, one after the other."""
    if isinstance(pieces, np.ndarray):
        return np.take(pieces, numbers.to_numpy(), axis=0).ravel().view(np.uint8)
    _, ends, data = pc.take(pieces, numbers).buffers()
    size = int(np.frombuffer(ends, dtype=np.int64)[len(numbers)])
    return np.frombuffer(data, dtype=np.uint8, count=size) if size else np.zeros(0, dtype=np.uint8)
