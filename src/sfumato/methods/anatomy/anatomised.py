"""Estimates and sharp bounds from a release that publishes sensitive values by group (docs/explanation/anatomy.md).

Every group holds distinct values, once each, and the records of value u were given at random to the F_u groups that
hold u. With M[u, s] = (1/F_u) sum over groups with u and s of 1/|g|, a record of value u sits in a group whose average
of w is (M w)_u in the mean. So w with M w = h makes `sum over rows of the group average of w` unbiased for the
sum of h over the true values: these are the weights W(g).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import UnsupportedQuery
from ...model.public import Asked, Estimated, Floats, Observed
from .group_sums import Entries, GroupSums, Kinds, Sums, bounds, kinds
from .held_values import Groups, groups_of, inverse_sizes
from .mean_shares import SINGULAR, mean_shares
from .values_together import few_enough, pairs_of, triples_of

MOST_SOLVED = 6_000  # values or groups: M is their square, and singular takes 2.2 GiB and 110 s
VARIANCE_GROUPS = 200_000  # moments of W are taken over at most this many groups, which are in random order
FEW_WEIGHTS = 2  # functions of values in a question: of more, moments come from triples of values, counted once
__all__ = ["Channel", "Groups", "estimate", "expected_se", "groups_of", "kinds", "variances"]


class Channel:
    """M of a release, factorised once."""

    def __init__(self, groups: Groups) -> None:
        if min(len(groups), groups.values) > MOST_SOLVED:
            raise UnsupportedQuery(
                f"{len(groups)} groups of {groups.values} values are too many to solve for, which is done for up to "
                f"{MOST_SOLVED} of one or the other",
                hint="Have the column published with fewer values, or larger groups.",
            )
        self.groups, self.entries = groups, Entries(groups)
        self.true_counts = groups.true_counts.astype(np.int64)
        self.present = np.flatnonzero(self.true_counts)
        self._root = np.sqrt(self.true_counts[self.present].astype(float))
        self._shares = mean_shares(groups, self.present, self.true_counts[self.present])
        self._moments: _Moments | None = None

    @cached_property
    def sampled(self) -> Groups:
        """At most VARIANCE_GROUPS of the groups."""
        groups, some = self.groups, slice(0, VARIANCE_GROUPS)
        return Groups(members=groups.members[:, some], sizes=groups.sizes[some], values=groups.values)

    @cached_property
    def held(self) -> Floats:
        """How many of these hold each value, or 1."""
        return np.maximum(self.sampled.by_value(), 1)

    @cached_property
    def spread(self) -> Floats | None:
        """K[u, s, t]: covariance of 1[s in g] / |g| and 1[t in g] / |g| over the groups with u; None: too many values.

        With it a covariance of weights is w' K_u w, whatever the number of groups.
        """
        some = self.sampled
        if not few_enough(len(some), len(some.members), some.values):
            return None
        share = inverse_sizes(some)
        mean = pairs_of(some.members, some.sizes, share, some.values) / self.held[:, None]
        square = triples_of(some.members, some.sizes, share**2, some.values) / self.held[:, None, None]
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

    def moments(self, w: Floats) -> _Moments:
        """Moments of these weights; the grouping sets of a question ask for the same ones in turn."""
        if self._moments is None or not self._moments.are_of(w):
            self._moments = _Moments(self, w)
        return self._moments


def estimate(channel: Channel, observed: Observed, asked: Asked) -> Estimated:
    """Debiased estimates with their variance under the random assignment, and bounds that always hold.

    `asked.options["estimator"] == "plain"` gives the published estimate instead: W(g) is the average of h itself.
    It is biased when the condition goes with the sensitive value, and its error is not known.
    """
    groups, F, B = channel.groups, asked.functionals, len(asked.coefficients)
    plain = asked.options.get("estimator") == "plain"
    h = np.stack([H.toarray() for H in asked.coefficients]) if B else np.zeros((0, F, groups.values))
    pairs = [channel.weights(h[b]) for b in range(B)]
    w = h if plain else np.array([p[0] for p in pairs]).reshape(h.shape)
    sums, alike = GroupSums(channel.entries, channel, observed), kinds(h)
    value = np.zeros((observed.keys, F))
    for f, found in enumerate(alike):
        for b, where in found:  # sum over rows of the group average of w, value by value of the groups
            value[:, f] += sums.shares(where, int(asked.products[0, asked.measure[f]])) @ w[b, f]
    known = np.ones(F, dtype=bool) if plain else np.all([p[1] for p in pairs], axis=0) if B else np.ones(F, dtype=bool)
    minimum, maximum = bounds(sums, asked, h, alike)
    variance, covariance = variances(channel, sums, asked, w, alike, observed.keys)
    caveats = []
    if plain:
        variance, covariance = np.full_like(variance, np.nan), np.zeros_like(covariance)
        low, high = minimum, maximum
        caveats.append("plain estimate: biased when the condition goes with the sensitive value; only the bounds hold")
    else:
        value[:, ~known], variance[:, ~known] = np.nan, np.nan
        guard = np.zeros(F)
        if asked.full:  # the far tails of few rows are those of single weights (docs/explanation/intervals.md, 8)
            largest = [[np.abs(groups.mean(w[b, f], slice(None))).max(initial=0.0) for f in range(F)] for b in range(B)]
            guard = asked.z**2 * np.max(largest, axis=0, initial=0.0) ** 2 / 4.0
        half = asked.z * np.sqrt(variance + guard)
        low, high = value - half, value + half
        # estimated counts that are cut to none or all of a value's records leave no variance, and are not certain
        unsure = known & (variance == 0) & (minimum < maximum)
        low, high = np.where(unsure, minimum, low), np.where(unsure, maximum, high)
        if not known.all():
            caveats.append("not identifiable: the groups of this release do not tell some of the values apart")
    return Estimated(
        value=value,
        variance=variance,
        low=low,
        high=high,
        covariance=covariance,
        minimum=minimum,
        maximum=maximum,
        caveats=tuple(caveats),
    )


def variances(channel: Channel, sums: Sums, asked: Asked, w: Floats, alike: Kinds, keys: int) -> tuple[Floats, Floats]:
    """Variances (K, F) and covariances (K, P) under the random assignment of records to groups.

    `sums(patterns, column)` is (K, values): a moment by true value in the strata of some patterns, as estimated or
    as it is. Below, b stands for the patterns in which a functional has the same coefficients (`alike`).
    For the F_u records of value u, in strata b with sums S_b of their g and S_bb of g^2, the total of
    g W_b(group) over a random assignment has covariance, for functionals i and j,
        sum_b,b' ( [b = b'] S_bb - S_b S_b' / F_u ) F_u / (F_u - 1) Cov_u(W_bi, W_b'j),
    Cov_u over the groups that hold u. With g = 1 and one stratum this is x_u (F_u - x_u) / (F_u - 1) Cov_u.
    """
    K, F, P = keys, asked.functionals, len(asked.pairs)
    variance, covariance = np.zeros((K, F)), np.zeros((K, P))
    wanted = [(f, f) for f in range(F)] + [(int(a), int(b)) for a, b in asked.pairs]
    counts = channel.true_counts.astype(float)
    factor = np.where(counts > 1, counts / np.maximum(counts - 1, 1), 0.0)
    moments = channel.moments(w)
    for column, (i, j) in enumerate(wanted):
        out = variance[:, i] if column < F else covariance[:, column - F]
        gi, gj = asked.measure[i], asked.measure[j]
        for b, in_b in alike[i]:
            for c, in_c in alike[j]:
                first, second = sums(in_b, asked.products[0, gi]), sums(in_c, asked.products[0, gj])
                cross = -first * second / np.maximum(counts, 1)
                both = in_b & in_c
                if both.any():
                    cross += sums(both, asked.products[gi, gj])
                if i == j and b == c:
                    cross = np.maximum(cross, 0.0)
                out += (cross * factor) @ moments.covariance(b, i, c, j)
    return np.maximum(variance, 0.0), covariance


class _Moments:
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
    moments = _Moments(channel, w[None])
    scale = np.where(counts > 1, share * (1 - share) * counts**2 / np.maximum(counts - 1, 1), 0.0)
    se = np.array([np.sqrt(max(float(scale @ moments.covariance(0, s, 0, s)), 0.0)) for s in range(len(counts))])
    return np.where(identified, se, np.nan)
