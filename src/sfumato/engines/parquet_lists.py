"""Columns of lists as chunks of a Parquet file, from the number of every row's list.

A release shows few different lists, so that a row's cells are the same bytes each time: they are put together by
copying, where the libraries at hand encode them value by value (docs/performance.md). The library still writes what
there is once: the lists themselves, from which the column's types and its dictionary of values are taken. The format:
a chunk holds that dictionary and pages; a page has the places where lists begin, the values that are there, and
numbers of values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .byte_pieces import Pieces
from .contract import FollowingColumn
from .parquet_chunks import (
    CODEC,
    COMPRESSION,
    KIND,
    PATH,
    PLAIN,
    RLE_DICTIONARY,
    SCHEMA,
    Chunk,
    Page,
    by_library,
    chunk,
    dictionary_of,
    packed_page,
    page,
    unpacked,
)
from .parquet_footer import Struct, varint
from .snappy_pieces import SnappyPieces, literal, repeated

PAGE_VALUES = 1 << 20  # at most, of a page with more than one list
PRESENT, MISSING = 3, 2  # a value that is there; a list that is there and holds a missing one


class ListChunks:
    """A list column as it is written: what all its chunks share, and the bytes of every list."""

    def __init__(self, column: FollowingColumn) -> None:
        values = column.cells.flatten()
        distinct = pc.unique(pc.drop_null(values))
        plain = pa.types.is_boolean(values.type)  # the format has no dictionary for those
        codes = pc.fill_null(pc.index_in(values, value_set=distinct), 0).to_numpy(zero_copy_only=False)
        there = pc.is_valid(values).to_numpy(zero_copy_only=False)
        once = values if plain else pa.DictionaryArray.from_arrays(pa.array(codes, mask=~there), distinct)
        length = pc.list_value_length(column.cells).to_numpy(zero_copy_only=False)
        ends = np.cumsum(length)
        lists = pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]), pa.int32()), once)
        self._wide = np.dtype(
            np.uint8 if plain or len(distinct) <= 256 else np.uint16 if len(distinct) <= 65_536 else "<u4"
        )
        held = np.diff(np.concatenate([[0], np.cumsum(there)])[np.concatenate([[0], ends])])
        shown = distinct.to_numpy(zero_copy_only=False)[codes] if plain else codes
        self._codes = Pieces(shown[there].astype(self._wide), held)
        self._short: SnappyPieces | None = None  # lists of one length that are packed by us
        if self._codes.table is not None and there.all() and not plain:
            table = self._codes.table.view(np.uint8)
            self._short = SnappyPieces(table) if SnappyPieces.suit(table) else None
        self._codec = CODEC if self._short is None else "snappy"
        written, footer = by_library(column.name, lists, statistics=False, whole_dictionary=True, codec=self._codec)
        self._meta = {field: written.meta[field] for field in (KIND, PATH, COMPRESSION)}
        self._encoding = PLAIN if plain else RLE_DICTIONARY
        self.schema: list[Struct] = footer[SCHEMA][1][1][1:]
        self._dictionary = b"" if plain else dictionary_of(written)
        self.numbers = column.numbers
        self._missing = bool(values.null_count)
        self._rows = max(1, PAGE_VALUES // max(int(length.max(initial=1)), 1))
        begins = np.ones(len(values), dtype=np.uint8)
        begins[ends - length] = 0
        self._begins = Pieces(begins, length)
        self._places: bytes | None = None  # where lists begin in a whole page, if all have one length:
        self._each = 0
        if self._begins.table is not None:
            self._each = self._begins.table.shape[1]
            self._places = np.packbits(np.tile(self._begins.table[0], self._rows), bitorder="little").tobytes()
        self._levels_of = Pieces(np.where(there, PRESENT, MISSING).astype(np.uint8), length)

    def chunk(self, numbers: pa.Array) -> Chunk:
        """The lists of these numbers, one after the other."""
        return chunk(self._meta, self._dictionary, self._encoding, [*map(self._page, self._by_page(numbers))])

    def shown_in(self, file: BinaryIO, leaf: Any, stated: Any, numbers: pa.Array) -> bool:
        """Whether a chunk is the one of these numbers, however its pages are packed; False where it cannot be said.

        `leaf` and `stated` are what the library tells of the column and of the chunk.
        """
        first = len(self._dictionary)
        begins = stated.data_page_offset - first
        if (
            (leaf.max_definition_level, leaf.max_repetition_level) != (PRESENT, 1)
            or (stated.physical_type, stated.compression) != (leaf.physical_type, self._codec.upper())
            or stated.dictionary_page_offset != (begins if first else None)
        ):
            return False
        file.seek(begins)
        data = file.read(stated.total_compressed_size)
        if data[:first] != self._dictionary:
            return False
        at, held = first, 0
        for some in self._by_page(numbers):
            if self._short is not None:  # packed by us, always alike
                expected = self._page(some)
                if not data.startswith(expected.data, at):
                    return False
                at, held = at + len(expected.data), held + expected.values
                continue
            body, values = self._body(some)
            found = unpacked(data, at, values, encoding=self._encoding, size=len(body))
            if found is None or found[0] != body:
                return False
            at, held = found[1], held + values
        return at == len(data) and held == stated.num_values

    def _by_page(self, numbers: pa.Array) -> Iterator[pa.Array]:
        return (numbers.slice(first, self._rows) for first in range(0, len(numbers), self._rows))

    def _page(self, numbers: pa.Array) -> Page:
        """The page of these lists."""
        if self._short is None:
            return page(*self._body(numbers), encoding=self._encoding)
        (length, bits), present, values = self._levels(numbers)
        opening, padding = self._run(self._short.length * len(numbers))
        begins = repeated(bits[: self._each], len(bits))  # eight lists begin where the next eight do
        head = literal(length) + begins + literal(present + opening)
        size = len(length) + len(bits) + len(present) + len(opening)
        packed = self._short.packed((head, size), numbers.to_numpy(), padding)
        return packed_page(*packed, values, encoding=self._encoding)

    def _body(self, numbers: pa.Array) -> tuple[bytes, int]:
        """(a page before it is packed, the number of its values)."""
        begins, present, values = self._levels(numbers)
        codes = self._codes.copied(numbers)
        if self._encoding == PLAIN:
            return b"".join([*begins, present, np.packbits(codes, bitorder="little").tobytes()]), values
        opening, padding = self._run(len(codes))
        return b"".join([*begins, present, opening, codes.tobytes(), padding]), values

    def _run(self, size: int) -> tuple[bytes, bytes]:
        """What stands before and after numbers of values that take so many bytes."""
        eights = -(-size // (8 * self._wide.itemsize))
        opening = bytes([8 * self._wide.itemsize]) + varint(eights << 1 | 1)
        return opening, bytes(eights * 8 * self._wide.itemsize - size)

    def _levels(self, numbers: pa.Array) -> tuple[tuple[bytes, bytes], bytes, int]:
        """(where lists begin, as a length and bits; which values are there; the number of values)."""
        if self._places is not None:
            values = len(numbers) * self._each
            bits = self._places[: (values + 7) // 8]
        else:
            begins = self._begins.copied(numbers)
            values, bits = len(begins), np.packbits(begins, bitorder="little").tobytes()
        if self._missing:
            levels = self._levels_of.copied(numbers)
            fours = np.zeros((len(levels) + 7) // 8 * 8, dtype=np.uint8)
            fours[: len(levels)] = levels
            packed = (fours.reshape(-1, 4) << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=1, dtype=np.uint8)
            present = varint((len(fours) // 8) << 1 | 1) + packed.tobytes()
        else:
            present = varint(values << 1) + bytes([PRESENT])
        run = varint(len(bits) << 1 | 1)
        length = (len(run) + len(bits)).to_bytes(4, "little") + run
        return (length, bits), len(present).to_bytes(4, "little") + present, values
