"""Estimates and sharp bounds from a release that publishes sensitive values by group (docs/explanation/anatomy.md).

Every group holds distinct values, once each, and the records of value u were given at random to the F_u groups that
hold u. With M[u, s] = (1/F_u) sum over groups with u and s of 1/|g|, a record of value u sits in a group whose average
of w is (M w)_u in the mean. So w with M w = h makes `sum over rows of the group average of w` unbiased for the
sum of h over the true values: these are the weights W(g).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.public import Asked, Codes, Estimated, Floats, Observed

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
        size, width = groups.values + 1, len(groups.members)
        self.true_counts = groups.by_value(np.ones(len(groups))).astype(np.int64)  # every value is in the bundle
        together = np.zeros((size, size))
        for i in range(width):
            for j in range(i, width):
                flat = groups.members[i] * size + groups.members[j]
                pair = np.bincount(flat, weights=1 / groups.sizes, minlength=size**2).reshape(size, size)
                together += pair if i == j else pair + pair.T
        together = together[:-1, :-1]
        self.present = np.flatnonzero(self.true_counts)
        C = together[np.ix_(self.present, self.present)]
        self.M = C / self.true_counts[self.present][:, None]
        # M = F^-1 C with C symmetric: eigenvalues of F^-1/2 C F^-1/2 tell which directions the release identifies.
        root = np.sqrt(self.true_counts[self.present].astype(float))
        self._root = root
        eigen, vectors = np.linalg.eigh(C / root[:, None] / root[None, :])
        keep = eigen > SINGULAR * max(float(eigen[-1]), SINGULAR) if len(eigen) else np.zeros(0, dtype=bool)
        self._inverse = (vectors[:, keep] / eigen[keep]) @ vectors[:, keep].T

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
    entries = _Entries(groups, observed)
    value = np.zeros((observed.keys, F))
    for f, found in enumerate(kinds(h)):
        for b, where in found:
            at = entries.of(where)
            moment = observed.moments[at, asked.products[0, asked.measure[f]]]
            weights = moment * groups.mean(w[b, f], observed.part[at])
            value[:, f] += np.bincount(entries.key[at], weights=weights, minlength=observed.keys)
    known = np.ones(F, dtype=bool) if plain else np.all([p[1] for p in pairs], axis=0) if B else np.ones(F, dtype=bool)
    minimum, maximum = _bounds(groups, observed, asked, h, entries)
    variance, covariance = variances(channel, _GroupSums(channel, observed, entries), asked, h, w, observed.keys)
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
    found: Kinds = []
    for f in range(h.shape[1]):
        rows, first, kind = np.unique(h[:, f], axis=0, return_index=True, return_inverse=True)
        kind = kind.reshape(-1)
        found.append([(int(first[k]), kind == k) for k in range(len(rows)) if rows[k].any()])
    return found


class _Entries:
    """Which observed entries belong to some patterns, and to which output row."""

    def __init__(self, groups: Groups, observed: Observed) -> None:
        self.key, self._pattern = observed.key[observed.stratum], observed.pattern[observed.stratum]
        self._used = np.unique(observed.pattern)
        # Groups are in random order, so those with small numbers are a random sample of them.
        self.sampled = observed.part < VARIANCE_GROUPS
        self.scale = len(groups) / min(len(groups), VARIANCE_GROUPS)

    def of(self, patterns: NDArray[np.bool_]) -> NDArray[np.intp] | slice:
        return slice(None) if patterns[self._used].all() else np.flatnonzero(patterns[self._pattern])


def _bounds(groups: Groups, observed: Observed, asked: Asked, h: Floats, entries: _Entries) -> tuple[Floats, Floats]:
    """[ sum max(0, c_g(P) + c_g(A) - |g|), sum min(c_g(P), c_g(A)) ] for counts; no bound for other functionals."""
    shape = (observed.keys, asked.functionals)
    low, high = np.zeros(shape), np.zeros(shape)
    counting = (asked.measure == 0) & asked.indicator
    low[:, ~counting], high[:, ~counting] = -np.inf, np.inf
    for f, found in enumerate(kinds(h)):
        for b, where in found if counting[f] else ():
            at = entries.of(where)
            rows, parts, key = observed.moments[at, 0], observed.part[at], entries.key[at]
            inside = groups.total(h[b, f], parts)  # c_g(A)
            room = np.maximum(0.0, rows - groups.sizes[parts] + inside)
            low[:, f] += np.bincount(key, weights=room, minlength=observed.keys)
            high[:, f] += np.bincount(key, weights=np.minimum(rows, inside), minlength=observed.keys)
    return low, high


def variances(channel: Channel, sums: Sums, asked: Asked, h: Floats, w: Floats, keys: int) -> tuple[Floats, Floats]:
    """Variances (K, F) and covariances (K, P) under the random assignment of records to groups.

    `sums(patterns, column)` is (K, values): a moment by true value in the strata of some patterns, as estimated or
    as it is. Below, b stands for the patterns in which a functional has the same coefficients.
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
    moments, found = _Moments(channel, w), kinds(h)
    for column, (i, j) in enumerate(wanted):
        out = variance[:, i] if column < F else covariance[:, column - F]
        gi, gj = asked.measure[i], asked.measure[j]
        for b, in_b in found[i]:
            for c, in_c in found[j]:
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
        self._groups, self._w = channel.groups, w
        self._some = slice(0, VARIANCE_GROUPS)
        ones = np.ones(len(self._groups.sizes[self._some]))
        self._held = np.maximum(self._groups.by_value(ones, self._some), 1)
        self._kept: dict[tuple[int, int], tuple[Floats, Floats]] = {}

    def _weight(self, b: int, i: int) -> tuple[Floats, Floats]:
        if (b, i) not in self._kept:
            W = self._groups.mean(self._w[b, i], self._some)
            self._kept[(b, i)] = (W, self._average(W))
        return self._kept[(b, i)]

    def _average(self, W: Floats) -> Floats:
        return self._groups.by_value(W, self._some) / self._held

    def covariance(self, b: int, i: int, c: int, j: int) -> Floats:
        """Cov_u(W_bi, W_cj) for every value u."""
        (W, mean), (V, other) = self._weight(b, i), self._weight(c, j)
        return self._average(W * V) - mean * other


class _GroupSums:
    """Estimated sums of a moment by true value, per output row, over some patterns; from a sample of the groups."""

    def __init__(self, channel: Channel, observed: Observed, entries: _Entries) -> None:
        self._channel, self._observed, self._entries = channel, observed, entries
        self._kept: dict[tuple[bytes, int], Floats] = {}

    def __call__(self, patterns: NDArray[np.bool_], column: int) -> Floats:
        """(K, values): x^ cut to [0, F_u] for counts."""
        key = (patterns.tobytes(), int(column))
        if key not in self._kept:
            self._kept[key] = self._compute(patterns, int(column))
        return self._kept[key]

    def _compute(self, patterns: NDArray[np.bool_], column: int) -> Floats:
        observed, groups, entries = self._observed, self._channel.groups, self._entries
        at = entries.of(patterns)
        chosen = entries.sampled[at]
        part, key = observed.part[at][chosen], entries.key[at][chosen]
        weight = observed.moments[at, column][chosen] * entries.scale / groups.sizes[part]
        size = groups.values + 1
        a = np.zeros(observed.keys * size)
        for row in groups.members:
            a += np.bincount(key * size + row[part], weights=weight, minlength=len(a))
        x = self._channel.back(a.reshape(observed.keys, size)[:, :-1])
        if column:
            return x
        most = self._channel.true_counts
        return np.where(most - x < 1e-9 * most, most, np.maximum(x, 0.0))  # all records of a value: no error left


def expected_se(channel: Channel, share: float) -> Floats:
    """Standard error of each value's count among a share of the rows chosen without regard to the value."""
    counts = channel.true_counts.astype(float)
    w, identified = channel.weights(np.eye(channel.groups.values))
    moments = _Moments(channel, w[None])
    scale = np.where(counts > 1, share * (1 - share) * counts**2 / np.maximum(counts - 1, 1), 0.0)
    se = np.array([np.sqrt(max(float(scale @ moments.covariance(0, s, 0, s)), 0.0)) for s in range(len(counts))])
    return np.where(identified, se, np.nan)
