"""Sums over the rows of one question that asks the same of all of them: how many are in each group says it all.

Groups that hold a value and have so many rows are alike, so that shares and certain bounds of single values come from
one table: groups by rows and value. docs/explanation/anatomy.md
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...model.array_counts import count_up, joint_numbers
from ...model.part_cells import PartCounts
from ...model.public import Floats, Observed
from .group_cells import held_by
from .held_values import Groups

MOST_CELLS = 1 << 17  # of a table over rows and two places


class SeenCounts:
    """The same as of entries, where there is one of them at most."""

    def __init__(self, groups: Groups, inside: PartCounts) -> None:
        if len(inside) > len(groups):
            raise IndexError("a row is in a group that holds no values")
        self._groups, self._inside = groups, inside
        self._size, others = groups.usual
        self._others = others[others < len(inside)]  # these are looked at one by one
        self._most = int(inside.rows.max(initial=0))
        self._levels = np.arange(self._most + 1)
        self._rows = inside.rows.astype(np.min_scalar_type(self._most + 1))
        self._rows[self._others] = self._most + 1

    def are_of(self, observed: Observed) -> bool:
        """Whether these are the entries."""
        return observed.inside is self._inside

    def shares(self, observed: Observed, column: int) -> Floats:
        """(T, values): every row in equal parts to the values of its group; there are counts only, column 0."""
        assert column == 0
        found = self._levels @ self._by_value / max(1, self._size)
        rows, sizes = self._inside.rows[self._others], self._groups.sizes[self._others]
        for member in self._groups.members[:, self._others]:
            found += np.bincount(member, weights=rows / np.maximum(sizes, 1), minlength=len(found) + 1)[:-1]
        return np.tile(found, (observed.strata, 1))

    def ends(self, observed: Observed, patterns: NDArray[np.bool_], h: Floats) -> tuple[Floats, Floats]:
        """(K,), (K,): least and most rows that have a value that is asked for, of the one pattern that there is."""
        asked = np.flatnonzero(h)
        if len(asked) == 1:
            held, groups = np.arange(2), np.stack([np.zeros(len(self._levels)), self._by_value[:, asked[0]]], axis=1)
        else:
            held, groups = self._by_held(h)
        low, high = _ends(self._levels[:, None], held, self._size)
        few, rows = self._others, self._inside.rows[self._others].astype(np.int64)
        inside = np.isin(self._groups.members[:, few], asked).sum(axis=0)
        more_low, more_high = _ends(rows, inside, self._groups.sizes[few])
        return np.array([(low * groups).sum() + more_low.sum()]), np.array([(high * groups).sum() + more_high.sum()])

    def ends_by_value(self, observed: Observed, patterns: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """(K, values), (K, values): the same for each value by itself."""
        found = [self.ends(observed, patterns, one) for one in np.eye(self._groups.values)]
        return np.stack([low for low, _ in found], axis=1), np.stack([high for _, high in found], axis=1)

    @cached_property
    def _by_value(self) -> Floats:
        """(rows, values): how many groups of the usual size have so many rows and hold a value."""
        return self._counted(self._groups.members[: self._size], self._groups.values + 1)[:, :-1]

    def _by_held(self, h: Floats) -> tuple[NDArray[np.intp], Floats]:
        """(0, 1 .., groups of the usual size by rows and by how many of the asked values they hold)."""
        held = held_by(self._groups, h).astype(np.intp)
        size = int(held.max(initial=0)) + 1
        return np.arange(size), self._counted(held[None], size)

    def _counted(self, places: NDArray[np.integer], width: int) -> Floats:
        """(rows, width): how often a number comes in some places of the groups of the usual size with so many rows.

        Two places are counted at once where the table of both stays near: half as many additions.
        """
        levels = self._most + 2
        found = np.zeros((levels, width), dtype=np.int64)
        together = 2 if levels * width**2 <= MOST_CELLS else 1
        for first in range(0, len(places), together):
            some = places[first : first + together]
            size = levels * width ** len(some)
            table = np.zeros(size, dtype=np.int64)
            count_up(table, joint_numbers([self._rows, *some], [width] * len(some), len(self._rows), size))
            shaped = table.reshape(levels, *(width,) * len(some))
            for axis in range(len(some)):
                found += shaped.sum(axis=tuple({1, 2} - {axis + 1})[: len(some) - 1])
        return found[:-1].astype(np.float64)


def _ends(
    rows: NDArray[np.integer], held: NDArray[np.integer], size: int | NDArray[np.integer]
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Least and most rows of a group that have a value that is asked for; of a group that holds none, none."""
    return np.where(held > 0, np.maximum(0, rows + held - size), 0), np.minimum(rows, held)
