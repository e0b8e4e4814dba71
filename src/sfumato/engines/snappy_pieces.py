"""Pieces of one length and of few kinds, one after the other, packed as Snappy packs: each is a copy of an earlier one.

A library would look for what repeats, byte by byte; here it is known that every piece is one of few. A packed text is
its length and a run of elements: a literal, which brings bytes, or a copy of up to 64 bytes that stand up to 65,535
bytes before (the format's description, sections 1 and 2). Any reader of the format unpacks it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .parquet_footer import varint

SHORTEST, LONGEST = 8, 64  # bytes: less costs as little in a library, more takes several copies
FARTHEST = 65_535  # bytes
SEEN = 6  # times, on average, that a piece comes where it can be copied from: few must be written out
COPY = 2  # kind of an element: a copy with two bytes for how far it is


class SnappyPieces:
    """Pieces by their numbers; a row of the table is one."""

    def __init__(self, pieces: NDArray[np.uint8]) -> None:
        self._pieces, self.length = [row.tobytes() for row in pieces], pieces.shape[1]

    @staticmethod
    def suit(pieces: NDArray[np.uint8]) -> bool:
        """Whether such pieces are packed well."""
        return SHORTEST <= pieces.shape[1] <= LONGEST and SEEN * pieces.size <= FARTHEST

    def packed(self, head: tuple[bytes, int], numbers: NDArray[np.integer], tail: bytes) -> tuple[bytes, int]:
        """(a packed text, its size before packing): what the elements of `head` bring, so many bytes, the pieces, the
        tail."""
        away = self._away(numbers)
        elements = np.empty((len(numbers), 3), dtype=np.uint8)
        elements[:, 0] = self.length - 1 << 2 | COPY
        elements[:, 1] = away
        elements[:, 2] = away >> 8
        parts, done = [head[0]], 0
        for row in np.flatnonzero(away > FARTHEST).tolist():
            parts += [elements[done:row].tobytes(), literal(self._pieces[int(numbers[row])])]
            done = row + 1
        parts += [elements[done:].tobytes(), literal(tail)]
        whole = head[1] + self.length * len(numbers) + len(tail)
        return b"".join([varint(whole), *parts]), whole

    def _away(self, numbers: NDArray[np.integer]) -> NDArray[np.int32]:
        """How many bytes before every piece the same one stands; too many where there is none."""
        rows = np.argsort(numbers.astype(np.uint16), kind="stable")  # by radix
        found = numbers.take(rows)
        gap = np.full(len(rows), FARTHEST + 1, dtype=np.int32)
        np.subtract(rows[1:], rows[:-1], out=gap[1:], where=found[1:] == found[:-1], casting="unsafe")
        np.multiply(gap, self.length, out=gap, where=gap <= FARTHEST)
        away = np.empty_like(gap)
        away[rows] = gap
        return away


def literal(data: bytes) -> bytes:
    """An element that brings these bytes; none for no bytes."""
    if not data:
        return b""
    size = len(data) - 1
    if size < 60:
        return bytes([size << 2]) + data
    width = (size.bit_length() + 7) // 8
    return bytes([59 + width << 2]) + size.to_bytes(width, "little") + data


def repeated(unit: bytes, size: int) -> bytes:
    """Elements that bring so many bytes, which are the unit again and again."""
    copies, rest = divmod(max(size - len(unit), 0), LONGEST)
    far = len(unit).to_bytes(2, "little")
    last = bytes([rest - 1 << 2 | COPY]) + far if rest else b""
    return literal(unit[:size]) + (bytes([LONGEST - 1 << 2 | COPY]) + far) * copies + last
