"""The rows of a release part by part, each as the number of its cell: distinct combinations of some columns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 17  # rows that are looked at together: they stay near


MOST_CELLS = (1 << 16) - 1  # two bytes, one number of which says that there is no row
MOST_ROWS = 32  # of a part: its rows are compared with each other


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class PartCells:
    """Rows of part g lie in the cells `cell[start[g]:start[g + 1]]`, in no order."""

    cell: NDArray[np.uint16]  # of every row
    start: NDArray[np.int64]  # (parts + 1,)
    cells: int  # how many there are

    def __len__(self) -> int:
        return len(self.start) - 1

    def rows_of(self, parts: NDArray[np.integer]) -> NDArray[np.uint16]:
        """(most rows of a part, parts): the cells of the rows of some parts; `cells`, which is none, where a part has
        fewer rows."""
        first = self.start[parts]
        size = self.start[parts + 1] - first
        found = np.full((int(size.max(initial=0)), len(parts)), self.cells, dtype=np.uint16)
        least = int(size.min(initial=len(found)))
        for j, row in enumerate(found):
            there = slice(None) if j < least else np.flatnonzero(size > j)
            row[there] = self.cell[first[there] + j]
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LyingCells:
    """How entries lie in the parts, where each of them is a cell of `inside`: rows of one have the same numbers."""

    inside: PartCells
    number: NDArray[np.integer]  # (R,) of the entry's cell


def part_cells(part: NDArray[np.integer], cell: NDArray[np.integer], cells: int) -> PartCells:
    """The rows, of which part and cell are given, part by part."""
    return streamed_cells([(part, cell)], len(part), cells)


def streamed_cells(
    pieces: Iterable[tuple[NDArray[np.integer], NDArray[np.integer]]], rows: int, cells: int
) -> PartCells:
    """The same of parts and cells that come piece by piece: nothing but the packed words is as long as the table."""
    packed, end = np.empty(rows, dtype=np.int64), 0
    for part, cell in pieces:
        here = packed[end : end + len(part)]
        np.left_shift(
            part, 16, out=here, dtype=np.int64
        )  # of a part and a cell one word, sorted faster than places are
        here |= cell
        end += len(part)
    packed = packed[:end]
    packed.sort()
    start = np.zeros(int(packed[-1] >> 16) + 2 if end else 1, dtype=np.int64)
    for first in range(0, end, BLOCK):
        block = packed[first : first + BLOCK] >> 16
        sizes = np.bincount(block - block[0])
        start[int(block[0]) + 1 :][: len(sizes)] += sizes
    return PartCells(cell=packed.astype(np.uint16), start=np.cumsum(start, out=start), cells=cells)
