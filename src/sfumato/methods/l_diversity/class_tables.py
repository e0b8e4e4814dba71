"""The classes of a node with their counts of sensitive values, added up from the smallest finer table at hand.

A class of a node is a union of classes of every node below it, so that counts are added up from those instead of from
the cells; most nodes that a search looks at have a thousandth of the classes that the table has cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .hierarchy import Hierarchy, Ints

MOST_KEPT = 8_000_000  # counts, of all tables that are kept


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CellCounts:
    """Cells, or classes by the codes of one of their cells, and their counts above 0 by sensitive value. Private.

    Most cells hold few values: a table of cells by values would be mostly zeros.
    """

    codes: Ints  # (cells, columns), column by column in memory
    cell: NDArray[np.int32]
    value: NDArray[np.int32]
    weight: NDArray[np.float64]
    rows: NDArray[np.float64]  # of every cell
    values: int

    @classmethod
    def of_table(cls, codes: Ints, table: Ints) -> CellCounts:
        """From a table of cells by values."""
        counts = table.reshape(-1)
        at = np.flatnonzero(counts)
        cell = at // table.shape[1]  # np.nonzero of the table itself takes several times as long
        return cls.of_entries(codes, cell, at - cell * table.shape[1], counts[at], table.shape[1])

    @classmethod
    def of_entries(
        cls, codes: Ints, cell: NDArray[np.integer], value: NDArray[np.integer], count: Ints, values: int
    ) -> CellCounts:
        """From the cell, the value and the rows of every entry."""
        weight = count.astype(np.float64)
        return cls(
            codes=np.asfortranarray(codes),
            cell=cell.astype(np.int32),
            value=value.astype(np.int32),
            weight=weight,
            rows=np.bincount(cell, weights=weight, minlength=len(codes)).astype(np.float64),
            values=values,
        )

    def by_class(self, where: Ints, classes: int) -> Ints:
        """(classes, values), where each cell lies in one of the classes."""
        flat = where[self.cell] * self.values + self.value
        table = np.bincount(flat, weights=self.weight, minlength=classes * self.values)
        return table.astype(np.int64).reshape(classes, self.values)

    def around(self, codes: Ints, hierarchies: Sequence[Hierarchy]) -> Ints:
        """(*levels of every hierarchy, values): at every node of the lattice, the class that holds these codes."""
        key, shape = np.zeros(len(self.codes), dtype=np.int64), []
        for column, code, hierarchy in zip(self.codes.T, codes.tolist(), hierarchies, strict=True):
            # levels at which a value has another label; at the top, too, where that has several
            apart = np.sum([level != level[code] for level in hierarchy.levels], axis=0)
            shape.append(len(hierarchy.levels) + (len(hierarchy.labels[-1]) > 1))
            key *= shape[-1]
            key += apart[column]
        flat = key[self.cell] * self.values + self.value
        table = np.bincount(flat, weights=self.weight, minlength=math.prod(shape) * self.values).astype(np.int64)
        table = table.reshape(*shape, self.values)[tuple(slice(len(hierarchy.levels)) for hierarchy in hierarchies)]
        found = np.ascontiguousarray(table)
        for axis, levels in enumerate(found.shape[:-1]):
            along = found.reshape(math.prod(found.shape[:axis]), levels, -1)
            for k in range(1, levels):
                along[:, k] += along[:, k - 1]  # np.cumsum takes ten times as long
        return found

    def of_values(self) -> Ints:
        """Rows of every value."""
        return np.bincount(self.value, weights=self.weight, minlength=self.values).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Classes:
    """The classes of a node, as unions of classes of a finer one. Private."""

    node: tuple[int, ...]
    source: CellCounts
    where: Ints  # the class that each class of the source lies in
    number: int

    @property
    def worth_keeping(self) -> bool:
        """Whether there are so few of them that counts of coarser ones are better added up from them."""
        return 2 * self.number <= len(self.source.codes)

    def smallest(self) -> int:
        """Rows of the smallest class that has any."""
        rows = np.bincount(self.where, weights=self.source.rows, minlength=self.number)
        return int(rows[rows > 0].min()) if rows.any() else 0


class ClassTables:
    """Counts by class and sensitive value at any node of a lattice."""

    def __init__(self, cells: CellCounts, hierarchies: Sequence[Hierarchy]) -> None:
        self.hierarchies = hierarchies
        self._nodes = np.zeros((1, len(hierarchies)), dtype=np.intp)
        self._kept, self._size = [cells], 0

    def classes(self, node: tuple[int, ...]) -> Classes:
        """The classes of a node, in the order of their labels."""
        below = np.flatnonzero((self._nodes <= np.asarray(node)).all(axis=1))
        source = min((self._kept[i] for i in below.tolist()), key=lambda kept: len(kept.weight))
        where, n = class_of(source.codes, self.hierarchies, node)
        return Classes(node=node, source=source, where=where, number=n)

    def counted(self, classes: Classes) -> NDArray[np.int64]:
        """(classes, sensitive values)."""
        table = classes.source.by_class(classes.where, classes.number)
        if classes.worth_keeping:
            self._keep(classes.node, classes.source, classes.where, table)
        return table

    def _keep(self, node: Sequence[int], source: CellCounts, where: Ints, table: NDArray[np.int64]) -> None:
        """Remembers a table that is much smaller than the one it was made of, while there is room."""
        one = np.zeros(len(table), dtype=np.intp)
        one[where] = np.arange(len(where))
        found = CellCounts.of_table(source.codes[one], table)
        if self._size + len(found.weight) <= MOST_KEPT:
            self._nodes = np.vstack([self._nodes, np.asarray(node, dtype=np.intp)])
            self._kept.append(found)
            self._size += len(found.weight)


def class_of(codes: Ints, hierarchies: Sequence[Hierarchy], levels: Sequence[int]) -> tuple[Ints, int]:
    """The equivalence class of every row of codes at a node, and the number of classes."""
    key = np.zeros(len(codes), dtype=np.int64)
    span = 1
    for j, (hierarchy, level) in enumerate(zip(hierarchies, levels, strict=True)):
        size = len(hierarchy.labels[level])
        if size == 1:  # one label for all
            continue
        if span > (1 << 40) // size:  # keep the mixed-radix key small
            key = np.unique(key, return_inverse=True)[1].reshape(-1)
            span = int(key.max()) + 1 if len(key) else 1
        key = key * size + hierarchy.levels[level][codes[:, j]]
        span *= size
    if span <= 4 * len(codes):
        used = np.bincount(key, minlength=span) > 0
        return (np.cumsum(used) - 1)[key], int(used.sum())
    classes, inverse = np.unique(key, return_inverse=True)
    return inverse.reshape(-1), len(classes)
