"""Sums over cells that lie in the groups of a release: each is known for all questions about the same columns.

Whose rows share a group with which values does not depend on what is asked. So the shares of a question are sums of
those of its cells, and its bounds look at the rows of the few groups that hold a value which is asked for.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.part_cells import PartCells
from ...model.public import Floats, Observed
from .held_values import Groups, small

BLOCK = 1 << 16  # groups that are looked at together: their rows stay near
MOST_KEPT = 4  # selections of groups that are kept, of at most so many rows together:
MOST_SELECTED_ROWS = 100_000_000


def shares_by_cell(groups: Groups, inside: PartCells) -> Floats:
    """(cells, values): the rows of a cell, each in equal parts to the values of its group.

    Nearly all groups have one size, so that rows are counted; what those of others weigh more or less is added.
    """
    if len(inside) > len(groups):
        raise IndexError("a row is in a group that holds no values")
    width = groups.values + 1
    size, others = groups.usual
    found = np.zeros(inside.cells * width, dtype=np.int64)
    step = max(BLOCK, len(found) // 2)  # each block adds as many numbers as there are
    for a in range(0, len(inside), step):
        b = min(a + step, len(inside))
        start = inside.cell[inside.start[a] : inside.start[b]].astype(np.intp) * width
        rows = np.diff(inside.start[a : b + 1])
        each = int(rows[0])
        alike = bool((rows == each).all())
        for member in groups.members[:size, a:b]:
            place = start.reshape(-1, each) + member[:, None] if alike and each else start + np.repeat(member, rows)
            found += np.bincount(place.ravel(), minlength=len(found))
    shares = np.append(found / max(1, size), np.zeros(width))  # where a group has no further row
    few = others[others < len(inside)]
    for row in inside.rows_of(few).astype(np.intp):
        for j, member in enumerate(groups.members[:, few]):
            more = 1 / np.maximum(groups.sizes[few], 1) - (1 / size if j < size else 0.0)
            shares += np.bincount(row * width + member, weights=more, minlength=len(shares))
    return np.asarray(shares.reshape(-1, width)[:-1, :-1], dtype=np.float64)


def held_by(groups: Groups, h: Floats) -> NDArray[Any]:
    """How many of the values that h asks for every group holds; whole numbers in few bytes."""
    values = np.flatnonzero(h)
    if len(values) != 1 or h[values[0]] != 1:
        return small(groups.total(h))
    found = np.zeros(len(groups), dtype=np.uint8)
    for member in groups.members:  # a value is in a group once at most
        found |= member == values[0]
    return found


class SeenCells:
    """Sums over the entries of one question, which are cells."""

    def __init__(
        self, groups: Groups, by_cell: Floats, inside: PartCells, cell: NDArray[np.intp], observed: Observed
    ) -> None:
        self._groups, self._by_cell, self._inside, self._cell = groups, by_cell, inside, cell
        self._of = tuple(weakref.ref(array) for array in (observed.stratum, observed.moments))
        self._shares: dict[int, Floats] = {}
        self._selected: dict[bytes, tuple[NDArray[Any], NDArray[np.int32], NDArray[np.unsignedinteger]]] = {}

    def are_of(self, observed: Observed) -> bool:
        """Whether these are the entries."""
        arrays = (observed.stratum, observed.moments)
        same = all(kept() is array for kept, array in zip(self._of, arrays, strict=True))
        return same and observed.inside is self._inside and observed.cell is self._cell

    def shares(self, observed: Observed, column: int) -> Floats:
        """(T, values): every row's moment in equal parts to the values of its group, by stratum."""
        if column not in self._shares:
            mine = self._by_cell[self._cell]
            if column:  # rows of one cell have the same numbers
                mine = mine * (observed.moments[:, column] / observed.moments[:, 0])[:, None]
            place = observed.stratum[:, None] * self._groups.values + np.arange(self._groups.values)
            size = observed.strata * self._groups.values
            flat = np.bincount(place.ravel(), weights=mine.ravel(), minlength=size)
            self._shares[column] = flat.reshape(observed.strata, self._groups.values).astype(np.float64)
        return self._shares[column]

    def in_groups(
        self, observed: Observed, patterns: NDArray[np.bool_], h: Floats
    ) -> Iterator[tuple[NDArray[np.integer], NDArray[np.integer], NDArray[Any], NDArray[Any]]]:
        """(output row, group, rows) of every pair of the two with rows of some patterns, each pair once, where the
        group holds a value that is asked for; and how many such values every group holds. Some groups at a time: what
        is as long as their rows stays near."""
        held, groups, cells = self._rows_of(h)
        mine = np.flatnonzero(patterns[observed.pattern][observed.stratum])
        key_of = np.full(self._inside.cells + 1, -1, dtype=np.int32)  # -1: not counted
        key_of[self._cell[mine]] = observed.key[observed.stratum[mine]]
        counted = (key_of == 0).astype(np.uint8)
        step = max(BLOCK, observed.keys * self._groups.values)  # each block adds as many numbers as there are
        for first in range(0, len(groups), step):
            part, lying = groups[first : first + step], cells[:, first : first + step]
            if observed.keys == 1:
                rows = counted[lying].sum(axis=0, dtype=np.uint8)
                there = np.flatnonzero(rows)
                yield np.zeros(len(there), dtype=np.intp), part[there], rows[there], held
            else:
                yield *_pairs(key_of[lying], part), held

    def _rows_of(self, h: Floats) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.unsignedinteger]]:
        """(values of every group that are asked for, groups that hold one, cells of their rows)."""
        name = h.tobytes()
        if name not in self._selected:
            held = held_by(self._groups, h)
            groups = np.flatnonzero(held[: len(self._inside)]).astype(np.int32)
            cells = self._inside.rows_of(groups)
            rows = cells.size + sum(kept.size for _, _, kept in self._selected.values())
            if len(self._selected) >= MOST_KEPT or rows > MOST_SELECTED_ROWS:
                self._selected = {}
            self._selected[name] = held, groups, cells
        return self._selected[name]


def _pairs(
    key: NDArray[np.int32], groups: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
    """(key, group, rows) of every pair of the two with rows, of which `key` tells the keys; below 0: none."""
    first, count = key >= 0, np.ones(key.shape, dtype=np.uint8)
    for i in range(1, len(key)):
        for j in range(i):
            same = key[i] == key[j]
            count[j] += same
            first[i] &= ~same
    at = np.flatnonzero(first)
    return key.ravel()[at], groups[at % max(1, len(groups))], count.ravel()[at]
