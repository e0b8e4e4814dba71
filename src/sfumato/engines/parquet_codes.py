"""Columns of few different values as chunks of a Parquet file: a dictionary, and numbers of as few bits as it needs.

Rows in random order hold values in random order, so that there are no runs to look for, and whole numbers need no
hashing: their places in a range are their codes. Values of other types, and of many, are left to the library.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .parquet_chunks import (
    COMPRESSION,
    DIFFERENCES,
    KIND,
    MISSING_VALUES,
    PATH,
    RLE_DICTIONARY,
    STATISTICS,
    Chunk,
    all_there,
    by_library,
    chunk,
    dictionary_of,
    page,
)
from .parquet_footer import I64, STRUCT, varint
from .positions import above

SOME, REPEATED = 4096, 0.93  # of so many rows, which are in no order: numbers that repeat less are of 30,000 or more
SMALL, MOST = 1 << 8, 1 << 16  # different values: every one of the range is in the dictionary; codes have 16 bits
Codes = NDArray[np.uint8 | np.uint16]


class CodedColumn:
    """A column's chunks; what does not change from one row group to the next is made once.

    Whole numbers may come in a narrower type than they are written in.
    """

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self._name, self._kind = name, kind
        self._dictionaries: dict[bytes, Chunk] = {}

    def chunk(self, values: pa.Array) -> Chunk:
        """The row group's values."""
        missing = values.null_count
        there = pc.is_valid(values).to_numpy(zero_copy_only=False) if missing else None
        found = _coded(values.drop_null() if missing else values)
        if found is None:
            plain = values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values
            encoding = DIFFERENCES if pa.types.is_integer(plain.type) and _mostly_different(plain) else None
            return by_library(self._name, plain.cast(self._kind), encoding=encoding)[0]
        codes, distinct = found
        if there is None:
            levels = all_there(len(values))
        else:
            bits = np.packbits(there, bitorder="little").tobytes()
            shown = varint(len(bits) << 1 | 1) + bits
            levels = len(shown).to_bytes(4, "little") + shown
        width = width_of(len(distinct))
        body = levels + one_run(width, len(codes))
        once = self._once(distinct.cast(self._kind))
        shared = {field: once.meta[field] for field in (KIND, PATH, COMPRESSION)}
        if STATISTICS in once.meta:
            shared[STATISTICS] = (STRUCT, once.meta[STATISTICS][1] | {MISSING_VALUES: (I64, missing)})
        pages = [page(body + packed(codes, width), len(values), encoding=RLE_DICTIONARY)]
        return chunk(shared, dictionary_of(once), RLE_DICTIONARY, pages)

    def _once(self, distinct: pa.Array) -> Chunk:
        """The different values as a chunk: their dictionary, the least and the greatest of them."""
        key = b"".join(buffer.to_pybytes() for buffer in distinct.buffers() if buffer is not None)
        if key not in self._dictionaries:
            self._dictionaries = {key: by_library(self._name, distinct, whole_dictionary=True)[0]}
        return self._dictionaries[key]


def _coded(values: pa.Array) -> tuple[Codes, pa.Array] | None:
    """(numbers of the values in the dictionary, the dictionary); None: too many, none, or not of a kind for it."""
    if not len(values):
        return None
    if isinstance(values, pa.DictionaryArray):
        own, low, distinct = values.indices.to_numpy(), 0, values.dictionary
        size = len(distinct)
        plain = pa.types.is_boolean(distinct.type)  # the format has no dictionary for those
        if plain or size > MOST or distinct.null_count or len(distinct.unique()) < size:
            return None
    elif pa.types.is_integer(values.type) or pa.types.is_date32(values.type):
        whole = pa.int32() if pa.types.is_date32(values.type) else values.type
        own = values.view(whole).to_numpy()
        low = int(own.min())
        size = int(own.max()) - low + 1
        if size > MOST:
            return None
        distinct = pa.array(np.arange(low, low + size, dtype=own.dtype), whole).view(values.type)
    else:
        return None
    codes: Codes = above(own, low).astype(_narrow(size))
    if size <= SMALL and not isinstance(values, pa.DictionaryArray):
        return codes, distinct
    shown = np.bincount(codes[:SOME], minlength=size) > 0  # in most columns these rows show all values
    if not shown.all():
        shown = np.bincount(codes, minlength=size) > 0
    if not shown.all():
        distinct = distinct.filter(pa.array(shown))
        codes = np.take((np.cumsum(shown) - 1).astype(_narrow(len(distinct))), codes)
    return codes, distinct


def _mostly_different(numbers: pa.Array) -> bool:
    """Whether whole numbers hardly repeat, as those of small groups: a dictionary would be as long as they are."""
    some = numbers[:SOME].drop_null().to_numpy()
    return len(np.unique(some)) > REPEATED * SOME


def _narrow(size: int) -> type[np.uint8 | np.uint16]:
    """The type of that many codes."""
    return np.uint8 if size <= 1 << 8 else np.uint16


def width_of(distinct: int) -> int:
    """Bits of a number of one of so many values."""
    return max(1, (distinct - 1).bit_length())


def one_run(width: int, numbers: int) -> bytes:
    """What stands before numbers that are packed one after the other."""
    return bytes([width]) + varint(-(-numbers // 8) << 1 | 1)


def packed_size(numbers: int, width: int) -> int:
    """Bytes of so many numbers."""
    return -(-numbers // 8) * width


def packed(codes: Codes, width: int) -> bytes:
    """The numbers with `width` bits each, the first in the lowest bits; zeros fill up the last eight numbers."""
    lane = 8 * codes.itemsize
    filled = np.zeros(-(-len(codes) // 8) * 8, dtype=codes.dtype)
    filled[: len(codes)] = codes
    words: NDArray[Any] = filled.view("<u8")
    bits, word = width, 64 // lane * width
    while lane < 64:  # neighbours are moved together, in all lanes of a word at a time
        low = np.uint64(sum(((1 << lane) - 1) << at for at in range(0, 64, 2 * lane)))
        upper = words & ~low
        upper >>= np.uint64(lane - bits)
        words &= low
        words |= upper
        lane, bits = 2 * lane, 2 * bits
    if codes.itemsize == 1:
        return _first_bytes(words, 8, width)
    if width == lane // 4:
        return words.tobytes()
    pairs = words.reshape(-1, 2)
    pairs[:, 0] |= pairs[:, 1] << np.uint64(word)
    pairs[:, 1] >>= np.uint64(64 - word)
    return _first_bytes(words, 16, width)


def _first_bytes(words: NDArray[Any], size: int, first: int) -> bytes:
    """Of every `size` bytes the first ones; column by column, where a row of them is too short to be copied at once."""
    item = next(n for n in (8, 4, 2, 1) if first % n == 0)
    rows = words.view(f"<u{item}").reshape(-1, size // item)
    taken = np.empty((len(rows), first // item), dtype=rows.dtype)
    for j in range(taken.shape[1]):
        taken[:, j] = rows[:, j]
    return taken.tobytes()


def unpacked_codes(bits: memoryview | bytes, width: int, numbers: int) -> NDArray[np.uint8]:
    """The numbers that were packed with `width` bits each, at most 8."""
    words = np.zeros(-(-numbers // 8), dtype="<u8")
    item = next(n for n in (8, 4, 2, 1) if width % n == 0)
    rows, given = words.view(f"<u{item}").reshape(-1, 8 // item), np.frombuffer(bits, dtype=f"<u{item}")
    for j in range(width // item):
        rows[:, j] = given[j :: width // item]
    lane, upper = 64, np.empty_like(words)
    while lane > 8 and width < 8:  # the halves of a lane are moved apart, in all lanes of a word at a time
        lane //= 2
        kept = lane * width // 8
        low = sum(((1 << kept) - 1) << at for at in range(0, 64, 2 * lane))
        np.bitwise_and(words, np.uint64(low << kept), out=upper)
        upper <<= np.uint64(lane - kept)
        words &= np.uint64(low)
        words |= upper
    return words.view(np.uint8)[:numbers]
