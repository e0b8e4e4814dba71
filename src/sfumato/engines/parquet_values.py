"""Columns of few known values, read from chunks of a Parquet file as `parquet_codes.py` writes them.

The numbers that such a chunk holds are what is wanted: no value is looked up for a row, and none compared. Whatever
is laid out in another way, by others or by ourselves, is left to the library.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .parquet_chunks import (
    CODEC,
    HEAD,
    KIND,
    RLE_DICTIONARY,
    VALUE_SIZES,
    WHOLE,
    all_there,
    by_library,
    dictionary_head,
    dictionary_of,
    unpacked,
)
from .parquet_codes import SMALL, one_run, packed_size, unpacked_codes, width_of
from .parquet_footer import parsed_at

TEXT = 6  # the format's number of texts, each behind its length


class KnownValues:
    """Values by their codes, 0, 1 .., as the dictionary of a chunk holds them."""

    def __init__(self, kind: int, entries: list[bytes]) -> None:
        """`entries` are the values in the format's type of that number."""
        self.kind, self._codes = kind, {entry: code for code, entry in enumerate(entries)}
        self._size = sum(map(len, entries))
        self._known: dict[bytes, NDArray[np.uint8] | None] = {}  # a dictionary as it lies in a file -> codes

    @classmethod
    def of(cls, name: str, values: pa.Array) -> KnownValues | None:
        """Those of a column; None where their codes take more than a byte, or they have no dictionary."""
        if not 0 < len(values) <= SMALL or values.null_count:
            return None
        once = by_library(name, values, whole_dictionary=True)[0]
        found = _entries(dictionary_of(once), once.meta[KIND][1], once.meta[WHOLE][1])
        return cls(once.meta[KIND][1], found) if found and len(set(found)) == len(values) else None

    def read(self, data: bytes, first: int, into: NDArray[np.integer]) -> bool:
        """Whether the codes of a chunk are in their place now; False where it is not one of so many rows, laid out as
        we do. `first` is where its page begins, behind the dictionary."""
        codes, rows = self._code_of(data[:first]), len(into)
        if codes is None or len(codes) > SMALL:
            return False
        width = width_of(len(codes))
        opening = all_there(rows) + one_run(width, rows)
        found = unpacked(data, first, rows, encoding=RLE_DICTIONARY, size=len(opening) + packed_size(rows, width))
        if found is None or found[1] != len(data) or not found[0].startswith(opening):
            return False
        numbers = unpacked_codes(memoryview(found[0])[len(opening) :], width, rows)
        if len(codes) < 1 << width and int(numbers.max(initial=0)) >= len(codes):
            return False
        in_order = len(codes) == len(self._codes) and (codes[1:] > codes[:-1]).all()
        into[:] = numbers if in_order else codes[numbers]
        return True

    def _code_of(self, dictionary: bytes) -> NDArray[np.uint8] | None:
        """The code of every value of a dictionary; None where one is unknown, or it is not to be read."""
        known = self._known  # another thread may replace it
        if dictionary not in known:
            codes = [self._codes.get(entry, -1) for entry in _entries(dictionary, self.kind, self._size) or [b""]]
            known = self._known = {dictionary: np.array(codes, dtype=np.uint8) if min(codes) >= 0 else None}
        return known[dictionary]


def _entries(page: bytes, kind: int, most: int) -> list[bytes] | None:
    """The values of a dictionary, of at most so many bytes; None where it is not to be read."""
    try:
        head, length = parsed_at(page[:HEAD])
        whole, packed, count = int(head[2][1]), int(head[3][1]), int(head[7][1][1][1])
        if head != dictionary_head(whole, packed, count) or length + packed != len(page) or not 0 < whole <= most:
            return None
        body = pa.Codec(CODEC).decompress(memoryview(page)[length:], whole, asbytes=True)
    except (ValueError, KeyError, TypeError, OSError):  # it is a stranger's file
        return None
    found = list(_cut(body, kind))
    return found if len(found) == count and sum(map(len, found)) == whole else None


def _cut(body: bytes, kind: int) -> Iterator[bytes]:
    """The bytes of each value; a text stands behind its length."""
    at = 0
    while at < len(body):
        size = 4 + int.from_bytes(body[at : at + 4], "little") if kind == TEXT else VALUE_SIZES.get(kind, len(body))
        yield body[at : at + size]
        at += size
