"""The rows of a release part by part, each as the number of its cell: distinct combinations of some columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .array_counts import count_up

BLOCK = 1 << 17  # rows that are looked at together: they stay near
CODE_BITS = 20  # of a word for a row, above which is its part
MASK = (1 << CODE_BITS) - 1
MOST_CELLS = (1 << 16) - 1  # two bytes, one number of which says that there is no row
ROW_BYTES = 10  # a word while rows are sorted, and the number of the cell
MOST_ROWS = 32  # of a part: its rows are compared with each other


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class PartCells:
    """Rows of part g lie in the cells `cell[start[g]:start[g + 1]]`, in no order."""

    cell: NDArray[np.unsignedinteger]  # of every row, in a byte or two
    start: NDArray[np.integer]  # (parts + 1,)
    cells: int  # how many there are

    def __len__(self) -> int:
        return len(self.start) - 1

    def rows_of(self, parts: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
        """(most rows of a part, parts): the cells of the rows of some parts; `cells`, which is none, where a part has
        fewer rows."""
        first = self.start[parts]
        size = self.start[parts + 1] - first
        found = np.full((int(size.max(initial=0)), len(parts)), self.cells, dtype=self.cell.dtype)
        least = int(size.min(initial=len(found)))
        for j, row in enumerate(found):
            there = slice(None) if j < least else np.flatnonzero(size > j)
            row[there] = self.cell[first[there] + j]
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartCounts:
    """Rows of one cell, all that were observed, by part."""

    rows: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.rows)


def part_counts(pieces: Iterable[NDArray[np.integer]]) -> tuple[int, PartCounts | None]:
    """(all rows, those of each part) of rows whose parts come piece by piece; None where a part has too many."""
    count, rows = np.zeros(0, dtype=np.uint8), 0
    for part in pieces:
        last = int(part.max(initial=-1))
        if last >= len(count):
            count = np.append(count, np.zeros(last + 1 - len(count), dtype=np.uint8))
        count_up(count, (part,))
        rows += len(part)
    whole = int(count.sum(dtype=np.int64)) == rows  # a byte that ran over has lost some
    return rows, PartCounts(rows=count) if whole else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LyingCells:
    """How entries lie in the parts, where each of them is a cell of `inside`: rows of one have the same numbers."""

    inside: PartCells
    number: NDArray[np.integer]  # (R,) of the entry's cell


def part_cells(part: NDArray[np.integer], cell: NDArray[np.integer], cells: int) -> PartCells:
    """The rows, of which part and cell are given, part by part."""
    return SortedCodes([[(part, cell)]], len(part), cells).rows(np.arange(cells), cells)


Pieces = Iterable[tuple[NDArray[np.integer], NDArray[np.integer]]]


class SortedCodes:
    """Rows whose part and code come piece by piece, in the order of both: nothing but one word for each of them is as
    long as the table. Codes are below `size`, at most 2^20. A thread reads each range of parts."""

    def __init__(self, ranges: Sequence[Pieces], rows: int, size: int) -> None:
        """`ranges`: parts of each are above those of the one before; at most so many rows in all."""
        self._size = size
        with ThreadPoolExecutor(max_workers=len(ranges)) as workers:
            self._words = list(workers.map(partial(_sorted_words, rows=rows), ranges))

    def counts(self) -> NDArray[np.int64]:
        """Rows of every code."""
        found = np.zeros(self._size, dtype=np.int64)
        for words in self._words:
            count_up(found, (words[first : first + BLOCK] & MASK for first in range(0, len(words), BLOCK)))
        return found

    def rows(self, cell_of: NDArray[np.integer], cells: int) -> PartCells:
        """The rows part by part; a row lies in the cell `cell_of[code]`, of so many."""
        small, rows = cell_of.astype(np.min_scalar_type(cells)), sum(map(len, self._words))
        last = max((int(words[-1]) >> CODE_BITS for words in self._words if len(words)), default=-1)
        start = np.zeros(last + 2, dtype=np.min_scalar_type(rows))
        cell, end = np.empty(rows, dtype=small.dtype), 0
        with ThreadPoolExecutor(max_workers=len(self._words)) as workers:
            waiting = []
            for words in self._words:
                waiting.append(workers.submit(_laid_out, words, small, cell[end : end + len(words)], start))
                end += len(words)
            for one in waiting:
                one.result()
        return PartCells(cell=cell, start=np.cumsum(start, out=start, dtype=start.dtype), cells=cells)


def _sorted_words(pieces: Pieces, rows: int) -> NDArray[np.int64]:
    words, end = np.empty(rows, dtype=np.int64), 0
    for part, code in pieces:
        here = words[end : end + len(part)]
        np.left_shift(part, CODE_BITS, out=here, dtype=np.int64)  # words are sorted faster than places are
        here |= code
        end += len(part)
    words = words[:end]
    words.sort()
    return words


def _laid_out(
    words: NDArray[np.int64],
    small: NDArray[np.unsignedinteger],
    cell: NDArray[np.unsignedinteger],
    start: NDArray[np.unsignedinteger],
) -> None:
    """Nothing; `cell` is that of every row, and `start[g + 1]` how many rows part g has, of the parts that are here."""
    for first in range(0, len(words), BLOCK):
        block = words[first : first + BLOCK]
        np.take(small, block & MASK, out=cell[first : first + BLOCK], mode="clip")
        part = block >> CODE_BITS
        sizes = np.bincount(part - part[0]).astype(start.dtype)
        start[int(part[0]) + 1 :][: len(sizes)] += sizes
