"""The channel of a release that publishes sensitive values by group (docs/explanation/anatomy.md).

Every group holds distinct values, once each, and the records of value u were given at random to the F_u groups that
hold u. With M[u, s] = (1/F_u) sum over groups with u and s of 1/|g|, a record of value u sits in a group whose average
of w is (M w)_u in the mean. So w with M w = h makes `sum over rows of the group average of w` unbiased for the
sum of h over the true values: these are the weights W(g).

With B[g, u] = 1/sqrt|g| where group g holds u, and F_u groups that hold u, M = F^-1 B'B is similar to the symmetric
S = F^-1/2 B'B F^-1/2, whose large eigenvalues tell which directions the release identifies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, diags_array

from ..errors import ReleaseError, UnsupportedQuery
from ..model.public import Codes, Evidence, Floats, Integers

# --- groups -----------------------------------------------------------------------------------------------------------
# The groups of a release: which values each holds, and how often values share one.


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


# --- channel ----------------------------------------------------------------------------------------------------------


MOST_SOLVED = 6_000  # values or groups: M is their square, and singular takes 2.2 GiB and 110 s
VARIANCE_GROUPS = 200_000  # moments of W are taken over at most this many groups, which are in random order
FEW_WEIGHTS = 2  # functions of values in a question: of more, moments come from triples of values, counted once
MOST_VALUES = 128  # triples are V^3 numbers
MOST_WORK = 300_000_000  # triples of values that groups hold
SINGULAR = 1e-6  # share of the largest eigenvalue below which a direction is not identified


class Channel:
    """M of a release, factorised once."""

    def __init__(self, groups: Groups) -> None:
        if min(len(groups), groups.values) > MOST_SOLVED:
            raise UnsupportedQuery(
                f"{len(groups)} groups of {groups.values} values are too many to solve for, which is done for up to "
                f"{MOST_SOLVED} of one or the other",
                hint="Have the column published with fewer values, or larger groups.",
            )
        self.groups = groups
        self.true_counts = groups.true_counts.astype(np.int64)
        self.present = np.flatnonzero(self.true_counts)
        self._root = np.sqrt(self.true_counts[self.present].astype(float))
        self._shares = mean_shares(groups, self.present, self.true_counts[self.present])
        self._moments: Moments | None = None

    @cached_property
    def sampled(self) -> Groups:
        """At most VARIANCE_GROUPS of the groups, which are in random order."""
        return self.groups.first(VARIANCE_GROUPS)

    @cached_property
    def held(self) -> Floats:
        """How many of these hold each value, or 1."""
        return np.maximum(self.sampled.true_counts, 1)

    @cached_property
    def spread(self) -> Floats | None:
        """K[u, s, t]: covariance of 1[s in g] / |g| and 1[t in g] / |g| over the groups with u; None: too many values.

        With it a covariance of weights is w' K_u w, whatever the number of groups.
        """
        some = self.sampled
        if some.values > MOST_VALUES or int((some.sizes.astype(np.int64) ** 3).sum()) > MOST_WORK:
            return None
        mean = some.together / self.held[:, None]
        square = triples(some, 1 / np.maximum(some.sizes, 1) ** 2) / self.held[:, None, None]
        return np.asarray(square - mean[:, :, None] * mean[:, None, :], dtype=np.float64)

    def weights(self, h: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """(w with M w = h over all values, identified?) for each row of h (F, values)."""
        inside = h[:, self.present]
        w = self._shares.solve(inside * self._root) / self._root
        scale = np.maximum(1.0, np.abs(inside).max(axis=1, initial=0.0))
        identified = np.abs(self._shares.mean(w) - inside).max(axis=1, initial=0.0) <= SINGULAR * scale
        full = np.zeros_like(h)
        full[:, self.present] = w
        return full, identified

    def mean(self, w: Floats) -> Floats:
        """M w over all values, for each row of w; 0 for a value that no group holds."""
        found = np.zeros_like(w)
        found[:, self.present] = self._shares.mean(w[:, self.present])
        return found

    def back(self, a: Floats) -> Floats:
        """x^ = (M^T)^-1 a for each row of a (.., values)."""
        x = np.zeros_like(a)
        # (M^T)^-1 = F^1/2 S^-1 F^-1/2
        inside = a[..., self.present].reshape(-1, len(self.present)) / self._root
        x[..., self.present] = (self._shares.solve(inside) * self._root).reshape(*a.shape[:-1], -1)
        return x

    def moments(self, w: Floats) -> Moments:
        """Moments of these weights; the grouping sets of a question ask for the same ones in turn."""
        if self._moments is None or not self._moments.are_of(w):
            self._moments = Moments(self, w)
        return self._moments


class Moments:
    """Covariance of two weight functions over the groups that hold each value; from at most VARIANCE_GROUPS groups."""

    def __init__(self, channel: Channel, w: Floats) -> None:
        self._groups, self._w = channel.sampled, w
        self._spread = channel.spread if w.shape[0] * w.shape[1] > FEW_WEIGHTS else None
        self._held = channel.held
        self._kept: dict[tuple[int, int], tuple[Floats, Floats]] = {}
        self._found: dict[tuple[int, int, int, int], Floats] = {}

    def are_of(self, w: Floats) -> bool:
        """Whether these are the weights."""
        return np.array_equal(self._w, w)

    def _weight(self, b: int, i: int) -> tuple[Floats, Floats]:
        if (b, i) not in self._kept:
            W = self._groups.mean(self._w[b, i])
            self._kept[(b, i)] = (W, self._average(W))
        return self._kept[(b, i)]

    def _average(self, W: Floats) -> Floats:
        return self._groups.by_value(W) / self._held

    def covariance(self, b: int, i: int, c: int, j: int) -> Floats:
        """Cov_u(W_bi, W_cj) for every value u."""
        if self._spread is not None:
            return np.asarray((self._spread @ self._w[c, j]) @ self._w[b, i], dtype=np.float64)
        key = (b, i, c, j)
        if key not in self._found:
            (W, mean), (V, other) = self._weight(b, i), self._weight(c, j)
            self._found[key] = self._average(W * V) - mean * other
        return self._found[key]


def expected_se(channel: Channel, share: float) -> Floats:
    """Standard error of each value's count among a share of the rows chosen without regard to the value."""
    counts = channel.true_counts.astype(float)
    w, identified = channel.weights(np.eye(channel.groups.values))
    moments = Moments(channel, w[None])
    scale = np.where(counts > 1, share * (1 - share) * counts**2 / np.maximum(counts - 1, 1), 0.0)
    se = np.array([np.sqrt(max(float(scale @ moments.covariance(0, s, 0, s)), 0.0)) for s in range(len(counts))])
    return np.where(identified, se, np.nan)


class MeanShares(Protocol):
    """M over the values that there are; rows of the arguments are functions of these values."""

    def mean(self, w: Floats) -> Floats:
        """M w for each row of w."""

    def solve(self, x: Floats) -> Floats:
        """S^-1 x for each row of x, on the directions that are identified."""


def mean_shares(groups: Groups, present: Integers, true_counts: Integers) -> MeanShares:
    """M of the groups; the cheaper form of it, by values or by groups."""
    if len(groups) < len(present):
        return _ByGroups(groups, present, true_counts)
    return _ByValues(groups, present, true_counts)


class _ByValues:
    """M as a square of numbers for the values."""

    def __init__(self, groups: Groups, present: Integers, true_counts: Integers) -> None:
        C = groups.together[np.ix_(present, present)]
        self._M = C / true_counts[:, None]
        root = np.sqrt(true_counts.astype(float))
        self._inverse = _inverted(C / root[:, None] / root[None, :])

    def mean(self, w: Floats) -> Floats:
        return w @ self._M.T

    def solve(self, x: Floats) -> Floats:
        return x @ self._inverse


class _ByGroups:
    """Fewer groups than values: S = N'N has the eigenvalues of G = N N' = U L U', and S^-1 = N' G^-2 N.

    G^-2 = U L^-2 U' on the directions that are identified. Where all are, which is the rule, G is factorised as
    a triangle by its transpose instead.
    """

    def __init__(self, groups: Groups, present: Integers, true_counts: Integers) -> None:
        scale = diags_array(1 / np.sqrt(groups.sizes.astype(float)))
        self._B = csr_array(scale @ groups.held[:, present])
        self._N = csr_array(self._B / np.sqrt(true_counts))
        self._true_counts = true_counts
        self._twice = _inverted_twice(np.asarray((self._N @ self._N.T).toarray(), dtype=float))

    def mean(self, w: Floats) -> Floats:
        found: Floats = np.asarray(self._B.T @ np.asarray(self._B @ w.T)).T / self._true_counts
        return found

    def solve(self, x: Floats) -> Floats:
        found: Floats = np.asarray(self._N.T @ self._twice(np.asarray(self._N @ x.T))).T
        return found


def _inverted(S: Floats) -> Floats:
    """S^-1 on the directions that are identified; where all are, which is the rule, as any matrix is inverted.

    After an eigen-decomposition of more than some 20 values OpenBLAS keeps a core busy for 0.1 s, waiting for more.
    """
    if _all_identified(S):
        inverse = np.linalg.inv(S)
        return np.asarray((inverse + inverse.T) / 2)
    eigen, vectors = np.linalg.eigh(S)
    keep = _identified(eigen)
    return np.asarray((vectors[:, keep] / eigen[keep]) @ vectors[:, keep].T)


def _inverted_twice(G: Floats) -> Callable[[Floats], Floats]:
    """G^-2 y of columns y, on the directions that are identified."""
    if _all_identified(G):
        factor = cho_factor(G)
        return lambda y: np.asarray(cho_solve(factor, cho_solve(factor, y)))
    eigen, vectors = np.linalg.eigh(G)
    keep = _identified(eigen)
    root = vectors[:, keep] / eigen[keep]
    return lambda y: root @ (root.T @ y)


def _all_identified(G: Floats) -> bool:
    """Whether certainly all eigenvalues are: what is left of G without the share of a bound on the largest of them, its
    largest sum of a row, is positive definite if and only if all are above that share."""
    share = SINGULAR * max(float(np.abs(G).sum(axis=1).max(initial=0.0)), SINGULAR)
    try:
        np.linalg.cholesky(G - share * np.eye(len(G)))
    except np.linalg.LinAlgError:
        return False
    return True


def _identified(eigen: Floats) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which of the ascending eigenvalues are not 0 but for rounding."""
    return eigen > SINGULAR * max(float(eigen[-1]), SINGULAR) if len(eigen) else np.zeros(0, dtype=bool)
