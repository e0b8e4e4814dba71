"""Sums over the true rows of a release that publishes values by group. docs/explanation/inference.md, section 3.

The F_u records of value u were given at random, without replacement, to the F_u groups that hold u. A row of group g
adds the group's average of w, and w = M^-1 h makes the sum unbiased. Over the random assignment the covariance is

    sum_u F_u / (F_u - 1) { sum_c N[c, u] w_c' K_u w_c - S_u' K_u S_u / F_u },     S_u = sum_c N[c, u] w_c,

with K_u the covariance of 1[s in g] / |g| over the groups that hold u. Everything but N is published.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import UnsupportedQuery
from ...model.public import Evidence
from ..shared.linear_functionals import Cells, DependentRows, Floats, Functions, runs
from .groups import Groups, released_groups, triples

MOST_VALUES = 200  # K is V^3 numbers
SINGULAR = 1e-6  # eigenvalues below this share of the largest belong to values that the groups do not tell apart


class GroupedValues:
    """Groups with M, its inverse and K over all of them."""

    def __init__(self, groups: Groups) -> None:
        values = groups.values
        if values > MOST_VALUES:
            raise UnsupportedQuery(
                f"the column has {values} values; covariances from groups are worked out for up to {MOST_VALUES}",
                hint="Ask for counts, sums and averages by SQL, or have the column published with fewer values.",
            )
        self.groups, self.values = groups, values
        pairs, held = groups.together, triples(groups, 1 / np.maximum(groups.sizes, 1) ** 2)
        self.true_counts = groups.true_counts
        safe = np.maximum(self.true_counts, 1.0)
        self.M = pairs / safe[:, None]
        self.K = held / safe[:, None, None] - self.M[:, :, None] * self.M[:, None, :]
        self.inverse, self.identified = self._invert(pairs)

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
        cells, groups = self.cells, self.groups.groups

        def count(a: int, b: int) -> Floats:
            by_group = groups.rows_by_group(cells.cell, cells.cells, cells.part, cells.moments[:, a, b])
            return np.asarray((by_group @ groups.shares).toarray() @ self.groups.inverse, dtype=np.float64)

        return {(a, b): count(a, b) for b in range(cells.measures) for a in range(b + 1)}


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
