"""The groups of a release: which values each holds, and how often values share one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...errors import ReleaseError
from ...model.public import Codes, Evidence, Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """`held[g, u]` is 1 where group g holds value u: a sparse table of groups and values."""

    held: csr_array

    def __len__(self) -> int:
        return int(self.held.shape[0])

    @property
    def values(self) -> int:
        """How many values there are, held or not."""
        return int(self.held.shape[1])

    @cached_property
    def sizes(self) -> NDArray[np.integer]:
        """How many values each group holds."""
        return np.diff(self.held.indptr)

    @cached_property
    def shares(self) -> csr_array:
        """(groups, values): a row of a group in equal parts to the values of the group."""
        shared = np.repeat(1 / np.maximum(self.sizes, 1), self.sizes)
        return csr_array((shared, self.held.indices, self.held.indptr), shape=self.held.shape)

    @cached_property
    def together(self) -> Floats:
        """(values, values): the sum of 1 / |g| over the groups with both values; on the diagonal, with one."""
        return np.asarray((self.held.T @ self.shares).toarray(), dtype=np.float64)

    @cached_property
    def true_counts(self) -> Floats:
        """How many groups hold each value: every value is published, so that these are its records."""
        return self.by_value(np.ones(len(self)))

    def mean(self, w: Floats) -> Floats:
        """Average of w over the values of each group."""
        return np.asarray(self.shares @ w, dtype=np.float64)

    def by_value(self, weight: Floats) -> Floats:
        """For each value, the sum of the weights of the groups that hold it."""
        return np.asarray(self.held.T @ weight, dtype=np.float64)

    def first(self, most: int) -> Groups:
        """At most so many of the groups."""
        return Groups(held=self.held[:most])

    def rows_by_group(
        self, row: NDArray[np.integer], rows: int, group: NDArray[np.integer], weight: Floats
    ) -> csr_array:
        """(rows, groups): weights of entries, each in a row and a group; IndexError for a group that holds no value."""
        if len(group) and not 0 <= int(group.min()) <= int(group.max()) < len(self):
            raise IndexError("a row is in a group that holds no values")
        order = np.argsort(row.astype(np.min_scalar_type(max(rows, 1))), kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))])
        return csr_array((weight[order], group[order], start), shape=(rows, len(self)))


def triples(groups: Groups, weight: Floats) -> Floats:
    """[u, s, t]: the sum of the weights of the groups with u, s and t, which may be the same."""
    found = np.zeros((groups.values,) * 3)
    by_value = groups.held.tocsc()
    for u in range(groups.values):
        with_u = by_value.indices[by_value.indptr[u] : by_value.indptr[u + 1]]
        some = groups.held[with_u]
        weighted = csr_array(
            (np.repeat(weight[with_u], np.diff(some.indptr)), some.indices, some.indptr), shape=some.shape
        )
        found[u] = (some.T @ weighted).toarray()
    return found


def groups_of(group: NDArray[np.integer], codes: Codes, values: int) -> Groups:
    """The groups of sensitive.parquet, whose rows are sorted by group."""
    start = np.concatenate([[0], np.cumsum(np.bincount(group))])
    return Groups(held=csr_array((np.ones(len(codes)), codes.astype(np.int32), start), shape=(len(start) - 1, values)))


def released_groups(evidence: Evidence, l: int) -> Groups:
    """The groups of a release, laid out once; ReleaseError where they are not the ones that l and the rows make.

    There are rows // l of them, of at least l values each. So none has 2 l: what is worked out over pairs of values of
    a group would take the square of a larger one.
    """
    if "groups" not in evidence.memo:
        found = groups_of(evidence.side["group_id"], evidence.side["unit0"], len(evidence.domains[0]))
        whole = len(found) == evidence.rows // l and int(found.sizes.sum()) == evidence.rows
        if not whole or int(found.sizes.min(initial=l)) < l:
            raise ReleaseError(
                f"sensitive.parquet has other groups than {evidence.rows} rows make with l = {l}; it is damaged"
            )
        evidence.memo["groups"] = found
    found = evidence.memo["groups"]
    assert isinstance(found, Groups)
    return found
