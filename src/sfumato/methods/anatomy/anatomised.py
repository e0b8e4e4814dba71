"""Estimates and sharp bounds from a release that publishes sensitive values by group (docs/explanation/anatomy.md).

Every group holds distinct values, once each, and the records of value u were given at random to the F_u groups that
hold u. With M[u, s] = (1/F_u) sum over groups with u and s of 1/|g|, a record of value u sits in a group whose average
of w is (M w)_u in the mean. So w with M w = h makes `sum over rows of the group average of w` unbiased for the
sum of h over the true values: these are the weights W(g).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...model.public import Asked, Codes, Estimated, Floats, Observed
from .values_together import few_enough, pairs_of, triples_of

VARIANCE_GROUPS = 200_000  # moments of W are taken over at most this many groups, which are in random order
SINGULAR = 1e-6  # a functional is identified when M w = h leaves a smaller residual


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Group g holds the values `members[:, g]`; short groups are filled up with `values`, which is no value's code."""

    members: NDArray[np.intp]  # (largest size, groups), one contiguous row per place in the group
    sizes: Floats
    values: int

    def __len__(self) -> int:
        return len(self.sizes)

    def total(self, w: Floats, groups: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """Sum of w over the values of each group; a group that is asked for many times is looked at once."""
        if not isinstance(groups, slice) and len(groups) > len(self):
            return self.total(w)[groups]
        padded = np.append(w, 0.0)
        result = np.zeros(len(self.sizes[groups]))
        for row in self.members:
            result += padded[row[groups]]
        return result

    def mean(self, w: Floats, groups: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """Average of w over the values of each group."""
        return self.total(w, groups) / self.sizes[groups]

    def by_value(self, weight: Floats, groups: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """For each value, the sum of the weights of the groups that hold it."""
        result = np.zeros(self.values + 1)
        for row in self.members:
            result += np.bincount(row[groups], weights=weight, minlength=self.values + 1)
        return result[:-1]


def groups_of(group: NDArray[np.int64], codes: Codes, values: int) -> Groups:
    """The groups of sensitive.parquet, whose rows are sorted by group."""
    sizes = np.bincount(group)
    width, start = int(sizes.max(initial=0)), np.cumsum(sizes) - sizes
    members = np.full((width, len(sizes)), values, dtype=np.intp)
    for j in range(width):
        there = sizes > j
        members[j, there] = codes[start[there] + j]
    return Groups(members=members, sizes=sizes.astype(float), values=values)


class Channel:
    """M of a release, factorised once."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.true_counts = groups.by_value(np.ones(len(groups))).astype(np.int64)  # every value is in the bundle
        together = pairs_of(groups.members, 1 / groups.sizes, groups.values)
        self.present = np.flatnonzero(self.true_counts)
        C = together[np.ix_(self.present, self.present)]
        self.M = C / self.true_counts[self.present][:, None]
        # M = F^-1 C with C symmetric: eigenvalues of F^-1/2 C F^-1/2 tell which directions the release identifies.
        root = np.sqrt(self.true_counts[self.present].astype(float))
        self._root = root
        eigen, vectors = np.linalg.eigh(C / root[:, None] / root[None, :])
        keep = eigen > SINGULAR * max(float(eigen[-1]), SINGULAR) if len(eigen) else np.zeros(0, dtype=bool)
        self._inverse = (vectors[:, keep] / eigen[keep]) @ vectors[:, keep].T

    @cached_property
    def sampled(self) -> Groups:
        """At most VARIANCE_GROUPS of the groups."""
        groups, some = self.groups, slice(0, VARIANCE_GROUPS)
        return Groups(members=groups.members[:, some], sizes=groups.sizes[some], values=groups.values)

    @cached_property
    def spread(self) -> Floats | None:
        """K[u, s, t]: covariance of 1[s in g] / |g| and 1[t in g] / |g| over the groups with u; None: too many values.

        With it a covariance of weights is w' K_u w, whatever the number of groups.
        """
        some = self.sampled
        if not few_enough(len(some), len(some.members), some.values):
            return None
        held = np.maximum(some.by_value(np.ones(len(some))), 1)
        mean = pairs_of(some.members, 1 / some.sizes, some.values) / held[:, None]
        square = triples_of(some.members, 1 / some.sizes**2, some.values) / held[:, None, None]
        return np.asarray(square - mean[:, :, None] * mean[:, None, :], dtype=np.float64)

    def weights(self, h: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """(w with M w = h over all values, identified?) for each row of h (F, values)."""
        inside = h[:, self.present].T
        w = (self._inverse @ (self._root[:, None] * inside)) / self._root[:, None]
        scale = np.maximum(1.0, np.abs(inside).max(axis=0, initial=0.0))
        identified = np.abs(self.M @ w - inside).max(axis=0, initial=0.0) <= SINGULAR * scale
        full = np.zeros_like(h)
        full[:, self.present] = w.T
        return full, identified

    def back(self, a: Floats) -> Floats:
        """x^ = (M^T)^-1 a for each row of a (.., values)."""
        x = np.zeros_like(a)
        # (M^T)^-1 = F^1/2 S^-1 F^-1/2 with S = F^-1/2 C F^-1/2
        x[..., self.present] = ((a[..., self.present] / self._root) @ self._inverse) * self._root
        return x


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
    sums, alike = _GroupSums(channel, observed), kinds(h)
    value = np.zeros((observed.keys, F))
    for f, found in enumerate(alike):
        for b, where in found:  # sum over rows of the group average of w, value by value of the groups
            value[:, f] += sums.shares(where, int(asked.products[0, asked.measure[f]])) @ w[b, f]
    known = np.ones(F, dtype=bool) if plain else np.all([p[1] for p in pairs], axis=0) if B else np.ones(F, dtype=bool)
    minimum, maximum = _bounds(groups, observed, asked, h, alike)
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


Kinds = list[list[tuple[int, NDArray[np.bool_]]]]
Sums = Callable[[NDArray[np.bool_], int], Floats]


def kinds(h: Floats) -> Kinds:
    """For each functional, the patterns that share nonzero coefficients: (one of them, which patterns).

    A question with many conditions has many patterns and, for one functional, few different coefficients.
    """
    if len(h) == 1:
        every = np.ones(1, dtype=bool)
        return [[(0, every)] if row.any() else [] for row in h[0]]
    found: Kinds = []
    for f in range(h.shape[1]):
        rows, first, kind = np.unique(h[:, f], axis=0, return_index=True, return_inverse=True)
        kind = kind.reshape(-1)
        found.append([(int(first[k]), kind == k) for k in range(len(rows)) if rows[k].any()])
    return found


class _Entries:
    """Observed entries of some patterns: output row, group, moments."""

    def __init__(self, observed: Observed, patterns: NDArray[np.bool_]) -> None:
        key, pattern = observed.key[observed.stratum], observed.pattern[observed.stratum]
        at = slice(None) if patterns[np.unique(observed.pattern)].all() else np.flatnonzero(patterns[pattern])
        self.key, self.part, self.moments, self.keys = key[at], observed.part[at], observed.moments[at], observed.keys

    def by_value(self, groups: Groups, weight: Floats) -> Floats:
        """(K, values): the sum of the weights of the entries whose group holds a value."""
        size = groups.values + 1
        start, found = self.key * size, np.zeros(self.keys * size)
        for row in groups.members:
            found += np.bincount(start + row[self.part], weights=weight, minlength=len(found))
        return found.reshape(self.keys, size)[:, :-1]


def _bounds(groups: Groups, observed: Observed, asked: Asked, h: Floats, alike: Kinds) -> tuple[Floats, Floats]:
    """[ sum max(0, c_g(P) + c_g(A) - |g|), sum min(c_g(P), c_g(A)) ] for counts; no bound for other functionals."""
    shape = (observed.keys, asked.functionals)
    low, high = np.zeros(shape), np.zeros(shape)
    counting = (asked.measure == 0) & asked.indicator
    low[:, ~counting], high[:, ~counting] = -np.inf, np.inf
    places: dict[bytes, tuple[NDArray[np.bool_], list[tuple[int, int]]]] = {}  # functionals by the patterns they ask
    for f in np.flatnonzero(counting).tolist():
        for b, where in alike[f]:
            places.setdefault(where.tobytes(), (where, []))[1].append((f, b))
    for where, asking in places.values():
        entries = _Entries(observed, where)
        rows, sizes = entries.moments[:, 0], groups.sizes[entries.part]
        single = [(f, b) for f, b in asking if h[b, f].sum() == 1]
        together = len(single) > len(groups.members)  # one pass for all of them, by value
        if together:
            # A is one value s, so that c_g(A) = 1[s in g]: the sums are of 1[P = g] and 1[P > 0] over groups with s.
            least = entries.by_value(groups, np.maximum(0.0, rows - sizes + 1))
            most = entries.by_value(groups, np.minimum(rows, 1.0))
            for f, b in single:
                low[:, f] += least[:, h[b, f].argmax()]
                high[:, f] += most[:, h[b, f].argmax()]
        for f, b in set(asking).difference(single) if together else asking:
            at = groups.total(h[b, f])[entries.part]  # c_g(A); a group without A adds nothing to either sum
            some = np.flatnonzero(at)
            key, count, inside = entries.key[some], rows[some], at[some]
            room = np.maximum(0.0, count - sizes[some] + inside)
            low[:, f] += np.bincount(key, weights=room, minlength=observed.keys)
            high[:, f] += np.bincount(key, weights=np.minimum(count, inside), minlength=observed.keys)
    return low, high


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
    moments = _Moments(channel, w)
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
        self._groups, self._spread, self._w = channel.sampled, channel.spread, w
        self._held = np.maximum(self._groups.by_value(np.ones(len(self._groups))), 1)
        self._kept: dict[tuple[int, int], tuple[Floats, Floats]] = {}

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
        (W, mean), (V, other) = self._weight(b, i), self._weight(c, j)
        return self._average(W * V) - mean * other


class _GroupSums:
    """Sums of a moment per output row over some patterns: by the values of the groups, and by true value, estimated."""

    def __init__(self, channel: Channel, observed: Observed) -> None:
        self._channel, self._observed = channel, observed
        self._shares: dict[tuple[bytes, int], Floats] = {}
        self._kept: dict[tuple[bytes, int], Floats] = {}

    def shares(self, patterns: NDArray[np.bool_], column: int) -> Floats:
        """(K, values): every entry's moment in equal parts to the values of its group."""
        key = (patterns.tobytes(), int(column))
        if key not in self._shares:
            entries, groups = _Entries(self._observed, patterns), self._channel.groups
            self._shares[key] = entries.by_value(groups, entries.moments[:, column] / groups.sizes[entries.part])
        return self._shares[key]

    def __call__(self, patterns: NDArray[np.bool_], column: int) -> Floats:
        """(K, values): x^ cut to [0, F_u] for counts."""
        key = (patterns.tobytes(), int(column))
        if key not in self._kept:
            x = self._channel.back(self.shares(patterns, column))
            most = self._channel.true_counts
            # all records of a value: no error left
            self._kept[key] = x if column else np.where(most - x < 1e-9 * most, most, np.maximum(x, 0.0))
        return self._kept[key]


def expected_se(channel: Channel, share: float) -> Floats:
    """Standard error of each value's count among a share of the rows chosen without regard to the value."""
    counts = channel.true_counts.astype(float)
    w, identified = channel.weights(np.eye(channel.groups.values))
    moments = _Moments(channel, w[None])
    scale = np.where(counts > 1, share * (1 - share) * counts**2 / np.maximum(counts - 1, 1), 0.0)
    se = np.array([np.sqrt(max(float(scale @ moments.covariance(0, s, 0, s)), 0.0)) for s in range(len(counts))])
    return np.where(identified, se, np.nan)
