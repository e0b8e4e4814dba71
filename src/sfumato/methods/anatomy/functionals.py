"""Sums over the true rows of a release that publishes values by group. docs/explanation/inference.md, section 3.

The F_u records of value u were given at random, without replacement, to the F_u groups that hold u. A row of group g
adds the group's average of w, and w = M^-1 h makes the sum unbiased. Over the random assignment the covariance is

    sum_u F_u / (F_u - 1) { sum_c N[c, u] w_c' K_u w_c - S_u' K_u S_u / F_u },     S_u = sum_c N[c, u] w_c,

with K_u the covariance of 1[s in g] / |g| over the groups that hold u. Everything but N is published.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

import numpy as np

from ...errors import UnsupportedQuery
from ...model.part_cells import LyingCells, PartCells
from ...model.public import Evidence
from ..shared.linear_functionals import Cells, DependentRows, Floats, Functions, runs
from .group_cells import shares_by_cell
from .held_values import Groups, inverse_sizes, released_groups
from .values_together import triples_of

BLOCK = 1 << 18  # rows that are looked at together: they stay near
MOST_VALUES = 200  # K is V^3 numbers
SINGULAR = 1e-6  # eigenvalues below this share of the largest belong to values that the groups do not tell apart


class GroupedValues:
    """Groups with M, its inverse and K over all of them."""

    def __init__(self, groups: Groups) -> None:
        members, sizes, values = groups.members, groups.sizes, groups.values
        if values > MOST_VALUES:
            raise UnsupportedQuery(
                f"the column has {values} values; covariances from groups are worked out for up to {MOST_VALUES}",
                hint="Ask for counts, sums and averages by SQL, or have the column published with fewer values.",
            )
        self.members, self.sizes, self.values = members, sizes, values
        self._groups = groups
        self._shares: weakref.WeakKeyDictionary[PartCells, Floats] = weakref.WeakKeyDictionary()
        pairs, held = groups.together, triples_of(members, sizes, inverse_sizes(groups) ** 2, values)
        self.true_counts = groups.true_counts
        safe = np.maximum(self.true_counts, 1.0)
        self.M = pairs / safe[:, None]
        self.K = held / safe[:, None, None] - self.M[:, :, None] * self.M[:, None, :]
        self.inverse, self.identified = self._invert(pairs)

    def shares_of(self, inside: PartCells) -> Floats:
        """(cells, values): the rows of a cell, each in equal parts to the values of its group; added up once."""
        if inside not in self._shares:
            self._shares[inside] = shares_by_cell(self._groups, inside)
        return self._shares[inside]

    def _invert(self, pairs: Floats) -> tuple[Floats, bool]:
        """M^-1 over the values that occur, by the symmetric F^-1/2 C F^-1/2; and whether it is regular."""
        there = np.flatnonzero(self.true_counts)
        root = np.sqrt(self.true_counts[there])
        eigen, vectors = np.linalg.eigh(pairs[np.ix_(there, there)] / root[:, None] / root[None, :])
        keep = eigen > SINGULAR * float(eigen[-1])
        core = (vectors[:, keep] / eigen[keep]) @ vectors[:, keep].T
        inverse = np.zeros((self.values, self.values))
        inverse[np.ix_(there, there)] = core / root[:, None] * root[None, :]
        return inverse, bool(keep.all())


def grouped_values(evidence: Evidence, l: int) -> GroupedValues:
    """The groups of a release, worked out once."""
    if "grouped values" not in evidence.memo:
        evidence.memo["grouped values"] = GroupedValues(released_groups(evidence, l))
    found = evidence.memo["grouped values"]
    assert isinstance(found, GroupedValues)
    return checked(found)


def checked(groups: GroupedValues) -> GroupedValues:
    """The groups; UnsupportedQuery where they do not tell all values apart."""
    if not groups.identified:
        raise UnsupportedQuery("not identifiable: the groups of this release do not tell some of the values apart")
    return groups


class _Assigned(DependentRows):
    """Covariances over the random assignment of records to groups."""

    def __init__(self, cells: Cells, groups: GroupedValues) -> None:
        self.cells, self.groups = cells, groups

    @property
    def values(self) -> int:
        return self.groups.values

    def _of_table(self, functions: Functions) -> Floats:
        return assignment_covariance(self.groups, self.counts, functions, self.cells.cells)


class GroupFunctionals(_Assigned):
    """Counts over the random assignment of records to groups; `cells.part` is the group."""

    def __init__(self, cells: Cells, groups: GroupedValues) -> None:
        super().__init__(cells, groups)
        self._counts: dict[tuple[int, int], Floats] = {}

    def counts(self, a: int = 0, b: int = 0) -> Floats:
        key = (min(a, b), max(a, b))
        if key not in self._counts:
            self._counts = self._all_counts()
        return self._counts[key]

    def _all_counts(self) -> dict[tuple[int, int], Floats]:
        """All of them at once: whose rows share a group with which values is looked up once."""
        cells = self.cells
        found = self._by_row() if cells.lying is None else self._by_cell(cells.lying)
        return {key: shared.reshape(cells.cells, -1) @ self.groups.inverse for key, shared in found.items()}

    def _by_cell(self, lying: LyingCells) -> dict[tuple[int, int], Floats]:
        """From how cells lie in the groups; each row of one has the mean of its numbers."""
        cells, values = self.cells, self.groups.values
        mine = self.groups.shares_of(lying.inside)[lying.number] / cells.moments[:, :1, 0]
        place, size = (cells.cell[:, None] * values + np.arange(values)).ravel(), cells.cells * values

        def added(moment: Floats) -> Floats:
            found = np.bincount(place, weights=(mine * moment[:, None]).ravel(), minlength=size)
            return np.asarray(found, dtype=np.float64)

        return {(a, b): added(cells.moments[:, a, b]) for b in range(cells.measures) for a in range(b + 1)}

    def _by_row(self) -> dict[tuple[int, int], Floats]:
        """Row by row."""
        cells, groups = self.cells, self.groups
        width = groups.values + 1
        size = cells.cells * width
        shared = {(a, b): np.zeros(size) for b in range(cells.measures) for a in range(b + 1)}
        step = max(BLOCK, 4 * size)  # each block adds as many numbers as there are
        for first in range(0, len(cells.cell), step):
            at = slice(first, first + step)
            start, part = cells.cell[at] * width, cells.part[at]
            weights = {(a, b): cells.moments[at, a, b] / groups.sizes[part] for a, b in shared}
            for row in groups.members:
                place = start + row[part]
                for key, weight in weights.items():
                    shared[key] += np.bincount(place, weights=weight, minlength=size)
        return {key: found.reshape(cells.cells, width)[:, :-1] for key, found in shared.items()}


class AssignmentFunctionals(_Assigned):
    """Counts of the original table, and the covariances to expect over the random assignment to planned groups."""

    def __init__(self, cells: Cells, groups: GroupedValues, kept: Floats) -> None:
        """`cells.value` is the true code; `kept[u]` the share of the records of u that are not left out."""
        super().__init__(cells, groups)
        self._kept = kept

    def counts(self, a: int = 0, b: int = 0) -> Floats:
        return self.cells.table(self.cells.value, self.values, a, b) * self._kept


def assignment_covariance(
    groups: GroupedValues, counts: Callable[[int, int], Floats], functions: Functions, cells: int
) -> Floats:
    """(F, F) over the random assignment, for counts (a, b) -> (cells, values) of g_a g_b; exact where they are true."""
    V, F, size = groups.values, functions.size, groups.true_counts
    factor = np.where(size > 1, size / np.maximum(size - 1, 1), 0.0)
    flat = (factor[:, None, None] * groups.K).reshape(V, V * V)
    within, totals = np.zeros((F, F)), np.zeros((V, V, F))
    for at in runs(cells, max(V * V, F * V)):
        weights = {a: h @ groups.inverse.T for a, h in functions.planes(at).items()}
        for a, left in weights.items():
            totals += np.einsum("cu,cfs->usf", counts(0, a)[at], left, optimize=True)
            for b, right in weights.items():
                K = (counts(a, b)[at] @ flat).reshape(-1, V, V)
                within += np.einsum("cfs,csg->fg", left, K @ right.transpose(0, 2, 1), optimize=True)
    scale = factor / np.maximum(size, 1)
    between = np.einsum("u,usf,ust,utg->fg", scale, totals, groups.K, totals, optimize=True)
    found = within - between
    return (found + found.T) / 2
