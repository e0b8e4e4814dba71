"""Estimates and sharp bounds from a release that publishes sensitive values by group (pp.md section 11).

Every group holds distinct values, once each, and the records of value u were given at random to the F_u groups that
hold u. With M[u, s] = (1/F_u) sum over groups with u and s of 1/|g|, a record of value u sits in a group whose average
of w is (M w)_u in the mean. So w with M w = h makes `sum over rows of the group average of w` unbiased for the
sum of h over the true values: these are the weights W(g).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
from numpy.typing import NDArray

from ..model.public import Asked, Codes, Estimated, Floats, Integers, Observed

VARIANCE_GROUPS = 200_000  # moments of W are taken over at most this many groups, which are in random order
SINGULAR = 1e-6  # a functional is identified when M w = h leaves a smaller residual


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Group g holds the values `codes[start[g]:start[g + 1]]`."""

    start: Integers
    codes: Codes
    values: int

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def sizes(self) -> Integers:
        return np.diff(self.start)

    def mean(self, w: Floats, groups: NDArray[np.int64]) -> Floats:
        """(groups, columns of w): the average of w over each group's values."""
        flat, owner, sizes = self.slots(groups)
        if len(sizes) and (sizes == sizes[0]).all():
            return w[flat].reshape(len(groups), int(sizes[0]), -1).mean(axis=1)
        ones = sp.csr_array((1.0 / sizes[owner], (owner, flat)), shape=(len(groups), self.values))
        return np.asarray(ones @ w)

    def slots(self, groups: NDArray[np.int64]) -> tuple[Codes, NDArray[np.int64], Integers]:
        """(value, number of the group in `groups`) of every slot, and the sizes."""
        sizes = self.start[groups + 1] - self.start[groups]
        owner = np.repeat(np.arange(len(groups)), sizes)
        offset = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.codes[self.start[groups][owner] + offset], owner, sizes


def groups_of(group: NDArray[np.int64], codes: Codes, values: int) -> Groups:
    """The groups of sensitive.parquet, whose rows are sorted by group."""
    count = int(group.max()) + 1 if len(group) else 0
    start = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(group, minlength=count), out=start[1:])
    return Groups(start=start, codes=codes, values=values)


class Channel:
    """M of a release, factorised once."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.true_counts = np.bincount(groups.codes, minlength=groups.values)  # published: every value is in the bundle
        together = np.zeros((groups.values, groups.values))
        for size, members in _by_size(groups):
            for i in range(size):
                together[np.arange(groups.values), np.arange(groups.values)] += (
                    np.bincount(members[:, i], minlength=groups.values) / size
                )
                for j in range(i + 1, size):
                    flat = members[:, i].astype(np.int64) * groups.values + members[:, j]
                    pair = np.bincount(flat, minlength=groups.values**2).reshape(together.shape) / size
                    together += pair + pair.T
        self.present = np.flatnonzero(self.true_counts)
        C = together[np.ix_(self.present, self.present)]
        self.M = C / self.true_counts[self.present][:, None]
        # M = F^-1 C with C symmetric: eigenvalues of F^-1/2 C F^-1/2 tell which directions the release identifies.
        root = np.sqrt(self.true_counts[self.present].astype(float))
        self._root = root
        eigen, vectors = la.eigh(C / root[:, None] / root[None, :])
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


def _by_size(groups: Groups) -> Iterator[tuple[int, Codes]]:
    """The groups of each size as (number, size) arrays of values."""
    sizes = groups.sizes
    for size in np.unique(sizes):
        chosen = groups.start[:-1][sizes == size]
        yield int(size), groups.codes[chosen[:, None] + np.arange(size)]


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
    # Observed groups once; every entry points to its group.
    seen, place = np.unique(observed.part, return_inverse=True)
    pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
    value = np.zeros((observed.keys, F))
    for b in range(B):
        entries = np.flatnonzero(pattern == b)
        if len(entries):
            W = groups.mean(w[b].T, seen)
            first = observed.moments[entries][:, asked.products[0, asked.measure]]
            np.add.at(value, key[entries], first * W[place[entries]])
    known = np.ones(F, dtype=bool) if plain else np.all([p[1] for p in pairs], axis=0) if B else np.ones(F, dtype=bool)
    minimum, maximum = _bounds(groups, observed, asked, h, seen, place)
    variance, covariance = variances(channel, _Sums(channel, observed, seen, place), asked, h, w, observed.keys)
    caveats = []
    if plain:
        variance, covariance = np.full_like(variance, np.nan), np.zeros_like(covariance)
        low, high = minimum, maximum
        caveats.append("plain estimate: biased when the condition goes with the sensitive value; only the bounds hold")
    else:
        value[:, ~known], variance[:, ~known] = np.nan, np.nan
        half = asked.z * np.sqrt(variance)
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


def _bounds(
    groups: Groups, observed: Observed, asked: Asked, h: Floats, seen: NDArray[np.int64], place: NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """[ sum max(0, c_g(P) + c_g(A) - |g|), sum min(c_g(P), c_g(A)) ] for counts; no bound for other functionals."""
    shape = (observed.keys, asked.functionals)
    low, high = np.zeros(shape), np.zeros(shape)
    counting = (asked.measure == 0) & asked.binary
    low[:, ~counting], high[:, ~counting] = -np.inf, np.inf
    pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
    size = (groups.start[seen + 1] - groups.start[seen]).astype(float)[:, None]
    for b in range(len(h)):
        entries = np.flatnonzero(pattern == b)
        if len(entries) and counting.any():
            inside = np.rint(groups.mean(h[b][counting].T, seen) * size)[place[entries]]  # c_g(A)
            rows = observed.moments[entries, :1]
            at = np.ix_(np.arange(observed.keys), counting)
            least, most = np.zeros((observed.keys, inside.shape[1])), np.zeros((observed.keys, inside.shape[1]))
            np.add.at(least, key[entries], np.maximum(0.0, rows + inside - size[place[entries]]))
            np.add.at(most, key[entries], np.minimum(rows, inside))
            low[at] += least
            high[at] += most
    return low, high


def variances(
    channel: Channel, sums: Callable[[int, int], Floats], asked: Asked, h: Floats, w: Floats, keys: int
) -> tuple[Floats, Floats]:
    """Variances (K, F) and covariances (K, P) under the random assignment of records to groups.

    `sums(b, column)` is (K, values): a moment by true value in the strata of pattern b, as estimated or as it is.
    For the F_u records of value u, in strata b with sums S_b of their g and S_bb of g^2, the total of
    g W_b(group) over a random assignment has covariance, for functionals i and j,
        sum_b,b' ( [b = b'] S_bb - S_b S_b' / F_u ) F_u / (F_u - 1) Cov_u(W_bi, W_b'j),
    Cov_u over the groups that hold u. With g = 1 and one stratum this is x_u (F_u - x_u) / (F_u - 1) Cov_u.
    """
    K, F, P, B = keys, asked.functionals, len(asked.pairs), len(h)
    variance, covariance = np.zeros((K, F)), np.zeros((K, P))
    wanted = [(f, f) for f in range(F)] + [(int(a), int(b)) for a, b in asked.pairs]
    counts = channel.true_counts.astype(float)
    factor = np.where(counts > 1, counts / np.maximum(counts - 1, 1), 0.0)
    moments = _Moments(channel, w)
    for column, (i, j) in enumerate(wanted):
        out = variance[:, i] if column < F else covariance[:, column - F]
        gi, gj = asked.measure[i], asked.measure[j]
        for b in range(B):
            for c in range(B):
                if not (h[b, i].any() and h[c, j].any()):
                    continue
                cross = -sums(b, asked.products[0, gi]) * sums(c, asked.products[0, gj]) / np.maximum(counts, 1)
                if b == c:
                    squares = sums(b, asked.products[gi, gj])
                    cross = np.maximum(squares + cross, 0.0) if i == j else squares + cross
                out += (cross * factor) @ moments.covariance(b, i, c, j)
    return np.maximum(variance, 0.0), covariance


class _Moments:
    """Covariance of two weight functions over the groups that hold each value; from at most VARIANCE_GROUPS groups."""

    def __init__(self, channel: Channel, w: Floats) -> None:
        groups = channel.groups
        some = np.arange(min(len(groups), VARIANCE_GROUPS))
        self._values, self._groups, self._w = groups.values, groups, w
        self._some = some
        self._flat, self._owner, _ = groups.slots(some)
        self._held = np.maximum(np.bincount(self._flat, minlength=groups.values), 1)
        self._kept: dict[tuple[int, int], tuple[Floats, Floats]] = {}

    def _weight(self, b: int, i: int) -> tuple[Floats, Floats]:
        if (b, i) not in self._kept:
            W = self._groups.mean(self._w[b, i][:, None], self._some)[:, 0]
            self._kept[(b, i)] = (W, self._average(W))
        return self._kept[(b, i)]

    def _average(self, W: Floats) -> Floats:
        return np.bincount(self._flat, weights=W[self._owner], minlength=self._values) / self._held

    def covariance(self, b: int, i: int, c: int, j: int) -> Floats:
        """Cov_u(W_bi, W_cj) for every value u."""
        (W, mean), (V, other) = self._weight(b, i), self._weight(c, j)
        return self._average(W * V) - mean * other


class _Sums:
    """Estimated sums of a moment over the true values, per output row and pattern."""

    def __init__(self, channel: Channel, observed: Observed, seen: NDArray[np.int64], place: NDArray[np.intp]) -> None:
        self._channel, self._observed, self._place = channel, observed, place
        self._flat, self._owner, sizes = channel.groups.slots(seen)
        self._share = 1.0 / sizes
        self._seen = len(seen)
        self._kept: dict[tuple[int, int], Floats] = {}

    def __call__(self, b: int, column: int) -> Floats:
        """(K, values): x^ cut to [0, F_u] for counts, to at least 0 for other moments."""
        if (b, int(column)) not in self._kept:
            self._kept[(b, int(column))] = self._compute(b, int(column))
        return self._kept[(b, int(column))]

    def _compute(self, b: int, column: int) -> Floats:
        observed, channel = self._observed, self._channel
        entries = np.flatnonzero(observed.pattern[observed.stratum] == b)
        key = observed.key[observed.stratum][entries]
        per_group = sp.csr_array(
            (observed.moments[entries, column] * self._share[self._place[entries]], (key, self._place[entries])),
            shape=(observed.keys, self._seen),
        )
        holds = sp.csr_array(
            (np.ones(len(self._flat)), (self._owner, self._flat)), shape=(self._seen, channel.groups.values)
        )
        x = channel.back((per_group @ holds).toarray())
        if column == 0:
            return np.clip(x, 0.0, channel.true_counts)
        return x


def expected_se(channel: Channel, share: float) -> Floats:
    """Standard error of each value's count among a share of the rows chosen without regard to the value."""
    counts = channel.true_counts.astype(float)
    w, identified = channel.weights(np.eye(channel.groups.values))
    moments = _Moments(channel, w[None])
    scale = np.where(counts > 1, share * (1 - share) * counts**2 / np.maximum(counts - 1, 1), 0.0)
    se = np.array([np.sqrt(max(float(scale @ moments.covariance(0, s, 0, s)), 0.0)) for s in range(len(counts))])
    return np.where(identified, se, np.nan)
