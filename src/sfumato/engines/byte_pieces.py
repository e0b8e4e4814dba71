"""Pieces of bytes, of which many are copied one behind the other by their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
RARE = 32  # one piece in so many may have another length than most, where those are copied as numbers


class Pieces:
    """An array cut into pieces of these lengths."""

    def __init__(self, whole: NDArray[Any], length: NDArray[np.integer]) -> None:
        self._whole, self._item, self._length = whole, whole.itemsize, length.astype(np.int64)
        self._start = np.concatenate([[0], np.cumsum(self._length)])
        alike = len(length) > 0 and bool((length == length[0]).all())
        self.table: NDArray[Any] | None = whole.reshape(len(length), -1) if alike else None  # a row is a piece
        self._tables: dict[int, NDArray[Any]] = {}

    def copied(self, numbers: pa.Array) -> Bytes:
        """The bytes of these pieces, one after the other."""
        z = numbers.to_numpy()
        if self.table is not None:
            return _rows(self.table, z)
        often = np.bincount(z, minlength=len(self._length))
        usual = int(np.bincount(self._length, weights=often).argmax())
        odd = np.flatnonzero((self._length != usual).take(z))
        if len(odd) * RARE > len(z):
            return self._by_library(numbers)
        found, size = _rows(self._padded(usual), z), usual * self._item
        if not len(odd):
            return found
        parts, done = list[Bytes](), 0
        for row in odd.tolist():
            parts += [found[done * size : row * size], self._piece(int(z[row]))]
            done = row + 1
        return np.concatenate([*parts, found[done * size :]])

    def _piece(self, number: int) -> Bytes:
        return self._whole[self._start[number] : self._start[number + 1]].view(np.uint8)

    def _padded(self, length: int) -> NDArray[Any]:
        """A table with the pieces of one length in the rows of their numbers."""
        if length not in self._tables:
            table = np.zeros((len(self._length), length), dtype=self._whole.dtype)
            these = np.flatnonzero(self._length == length)
            table[these] = self._whole[self._start[these, None] + np.arange(length)]
            self._tables[length] = table
        return self._tables[length]

    def _by_library(self, numbers: pa.Array) -> Bytes:
        buffers = [None, pa.py_buffer(self._start * self._item), pa.py_buffer(self._whole)]
        pieces = pa.Array.from_buffers(pa.large_binary(), len(self._length), buffers)
        _, ends, data = pc.take(pieces, numbers).buffers()
        size = int(np.frombuffer(ends, dtype=np.int64)[len(numbers)])
        return np.frombuffer(data, dtype=np.uint8, count=size) if size else np.zeros(0, dtype=np.uint8)


def _rows(table: NDArray[Any], z: NDArray[np.integer]) -> Bytes:
    """The bytes of these rows; those that are as wide as a number is are copied as numbers."""
    width = table.shape[1] * table.itemsize
    if width in {1, 2, 4, 8}:
        return table.view(f"u{width}").ravel().take(z).view(np.uint8)
    return np.take(table, z, axis=0).ravel().view(np.uint8)
