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
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array, diags_array

from ...errors import UnsupportedQuery
from ...model.public import Floats, Integers
from .groups import Groups, triples

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
