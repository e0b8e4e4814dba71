"""The rows of a release part by part, each as the number of its cell: distinct combinations of some columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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


def part_cells(part: NDArray[np.int64], cell: NDArray[np.integer], cells: int) -> PartCells:
    """The rows, of which part and cell are given, part by part."""
    packed = part << 16  # of a part and a cell one word, sorted faster than places are
    packed |= cell
    packed.sort()
    start = np.concatenate([[0], np.cumsum(np.bincount(part))]).astype(np.int64)
    return PartCells(cell=packed.astype(np.uint16), start=start, cells=cells)
