"""Where the cells of a column stand among the values of its domain."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import DataError
from ..model.public import Codes

RANGE = 1 << 16  # whole numbers that lie as close are looked up without hashing


class Positions:
    """Different values, null perhaps among them, and the place of each."""

    def __init__(self, distinct: pa.Array) -> None:
        self._distinct = distinct
        self._low, self._place = 0, np.empty(0, dtype=np.int32)
        if pa.types.is_integer(distinct.type) and len(distinct) and not distinct.null_count:
            values = distinct.to_pylist()
            if max(values) - min(values) < RANGE:
                self._low = min(values)
                self._place = np.full(max(values) - self._low + 1, -1, dtype=np.int32)
                self._place[[value - self._low for value in values]] = np.arange(len(values))
        self._in_order = bool((self._place == np.arange(len(self._place))).all())  # a difference is a place

    def of(self, column: pa.Array | pa.ChunkedArray) -> Codes:
        """The place of every cell, -1 where it is not among the values; null matches null."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if column.type != self._distinct.type:
            try:
                column = column.cast(self._distinct.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # the library's own message may quote a cell
                kinds = f"values of type {column.type}, its domain {self._distinct.type}"
                raise DataError(f"a column holds {kinds}") from None
        if len(self._place) and len(column) and not column.null_count:
            cells: NDArray[np.integer] = column.to_numpy()
            if self._low <= int(cells.min()) and int(cells.max()) < self._low + len(self._place):
                steps = above(cells, self._low)
                return steps.astype(np.int32) if self._in_order else self._place[steps]
        found = pc.index_in(column, value_set=self._distinct)
        return (pc.fill_null(found, -1) if found.null_count else found).to_numpy(zero_copy_only=False)


def above(cells: NDArray[np.integer], low: int) -> NDArray[np.unsignedinteger]:
    """How far whole numbers lie above the lowest of them, whatever their signs."""
    unsigned = np.dtype(f"u{cells.dtype.itemsize}")  # its differences are right where signed ones wrap around
    return cells.view(unsigned) - unsigned.type(low % (1 << 8 * cells.dtype.itemsize))
