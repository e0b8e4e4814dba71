"""Sums over cells that lie in the groups of a release: each is known for all questions about the same columns.

Whose rows share a group with which values does not depend on what is asked. So the shares of a question are sums of
those of its cells, and its bounds look at the rows of the few groups that hold a value which is asked for.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.array_counts import count_places, count_up
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
    few = len(groups.members) * len(inside.cell) < 1 << 32  # the fewer bytes, the nearer
    found: NDArray[np.integer] = np.zeros(inside.cells * width, dtype=np.uint32 if few else np.int64)
    kind = np.min_scalar_type(len(found))
    for a in range(0, len(inside), BLOCK):
        b = min(a + BLOCK, len(inside))
        start = inside.cell[inside.start[a] : inside.start[b]].astype(kind) * kind.type(width)
        rows = np.diff(inside.start[a : b + 1])
        each = int(rows[0])
        alike = bool((rows == each).all())
        for member in groups.members[:size, a:b]:
            place = start.reshape(-1, each) + member[:, None] if alike and each else start + np.repeat(member, rows)
            count_up(found, (place.ravel(),))
    shares = np.append(found / max(1, size), np.zeros(width))  # where a group has no further row
    larger = others[others < len(inside)]
    for row in inside.rows_of(larger).astype(np.intp):
        for j, member in enumerate(groups.members[:, larger]):
            more = 1 / np.maximum(groups.sizes[larger], 1) - (1 / size if j < size else 0.0)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holding:
    """Groups with c(A) > 0: their numbers, c(A), |g| - c(A), and the cells of their rows."""

    groups: NDArray[np.int32]
    held: NDArray[Any]
    beyond: NDArray[np.uint8]
    cells: NDArray[np.unsignedinteger]


class SeenCells:
    """Sums over the entries of one question, which are cells."""

    def __init__(
        self, groups: Groups, by_cell: Floats, inside: PartCells, cell: NDArray[np.intp], observed: Observed
    ) -> None:
        self._groups, self._by_cell, self._inside, self._cell = groups, by_cell, inside, cell
        self._of = tuple(weakref.ref(array) for array in (observed.stratum, observed.moments))
        self._shares: dict[int, Floats] = {}
        self._selected: dict[bytes, _Holding] = {}

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

    def ends(self, observed: Observed, patterns: NDArray[np.bool_], h: Floats) -> tuple[Floats, Floats]:
        """(K,), (K,): least and most rows of some patterns that have a value that is asked for."""
        least, most = np.zeros(observed.keys + 1, dtype=np.int64), np.zeros(observed.keys + 1, dtype=np.int64)
        holding = self._holding(h)
        for at, key, before in self._ordered(observed, patterns, holding.cells):
            beyond = holding.beyond[at]
            first = int(beyond.min())  # no row before it has so many before it
            least += np.bincount(key[first:][before[first:] >= beyond], minlength=len(least))
            count_places(most, key * (before < holding.held[at]))
        return least[1:].astype(np.float64), most[1:].astype(np.float64)

    def ends_by_value(self, observed: Observed, patterns: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """(K, values), (K, values): the same for each value by itself, which a group holds once at most."""
        rows = observed.keys + 1
        least, most = np.zeros((rows, self._groups.values)), np.zeros((rows, self._groups.values))
        holding = self._holding(np.ones(self._groups.values))
        for at, key, before in self._ordered(observed, patterns, holding.cells):
            part = holding.groups[at]
            least += self._rows_by_value(part, key, rows, before >= _beyond(self._groups.sizes[part], 1))
            most += self._rows_by_value(part, key, rows, before == 0)
        return least[1:], most[1:]

    def _rows_by_value(
        self, part: NDArray[np.integer], key: NDArray[np.integer], rows: int, which: NDArray[np.bool_]
    ) -> Floats:
        place, at = np.nonzero(which)
        return self._groups.by_row_and_value(key[place, at], rows, part[at], np.ones(len(at)))

    def _ordered(
        self, observed: Observed, patterns: NDArray[np.bool_], cells: NDArray[np.unsignedinteger]
    ) -> Iterator[tuple[slice, NDArray[np.unsignedinteger], NDArray[np.uint8]]]:
        """(groups; output rows of their rows of some patterns; how many rows of the group before each go to the same).

        Certain bounds are sums over output rows and groups of max(0, c(P) + c(A) - |g|) and min(c(P), c(A)). So of the
        c(P) rows the first c(A) count for the most, and those after the first |g| - c(A) for the least: rows are
        counted, nothing is made of pairs of an output row and a group. Output rows are numbered from 1 on; 0 is none.
        Some groups at a time, whose rows stay near and lie where those before did.
        """
        mine = np.flatnonzero(patterns[observed.pattern][observed.stratum])
        key_of = np.zeros(self._inside.cells + 1, dtype=np.min_scalar_type(observed.keys))
        key_of[self._cell[mine]] = observed.key[observed.stratum[mine]] + 1
        step = max(BLOCK, observed.keys)  # each block adds as many numbers as there are
        keys = np.empty(len(cells) * min(step, cells.shape[1]), dtype=key_of.dtype)
        for first in range(0, cells.shape[1], step):
            lying = np.ascontiguousarray(cells[:, first : first + step])
            key = keys[: lying.size].reshape(lying.shape)
            np.take(key_of, lying, out=key, mode="clip")
            before = np.zeros(key.shape, dtype=np.uint8)
            for i in range(1, len(key)):
                for j in range(i):
                    before[i] += key[i] == key[j]
            yield slice(first, first + step), key, before

    def _holding(self, h: Floats) -> _Holding:
        """The groups that hold a value that is asked for."""
        name = h.tobytes()
        if name not in self._selected:
            held = held_by(self._groups, h)
            groups = np.flatnonzero(held[: len(self._inside)]).astype(np.int32)
            cells, held = self._inside.rows_of(groups), held[groups]
            rows = cells.size + sum(kept.cells.size for kept in self._selected.values())
            if len(self._selected) >= MOST_KEPT or rows > MOST_SELECTED_ROWS:
                self._selected = {}
            beyond = _beyond(self._groups.sizes[groups], held)
            self._selected[name] = _Holding(groups=groups, held=held, beyond=beyond, cells=cells)
        return self._selected[name]


def _beyond(sizes: NDArray[np.integer], held: NDArray[Any] | int) -> NDArray[np.uint8]:
    """|g| - c(A), at most what a byte holds: parts have fewer rows."""
    return (sizes.astype(np.int64) - held).clip(0, 255).astype(np.uint8)
