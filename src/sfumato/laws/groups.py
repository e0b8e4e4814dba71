"""groups: every true value is published, inside a group of l or more records whose values all differ.

Rows name their group; sensitive.parquet lists the values of each. Groups are uniformly random among all groupings with
distinct values, and answers are debiased by the release's own channel: docs/explanation/anatomy.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from ..errors import ReleaseError, UnsupportedQuery, VerificationError
from ..model.private import Batch, Profile, Released, Work
from ..model.public import Asked, Codes, Domain, Estimated, Evidence, Floats, Integers, Likelihood, Observed, Published
from .contract import Law
from .expected import Foresight
from .functionals import Cells, CodedUnit, DependentRows, Functionals, Functions, runs
from .published import one_unit, silent

# The channel of a release that publishes sensitive values by group (docs/explanation/anatomy.md).
#
# Every group holds distinct values, once each, and the records of value u were given at random to the F_u groups that
# hold u. With M[u, s] = (1/F_u) sum over groups with u and s of 1/|g|, a record of value u sits in a group whose
# average of w is (M w)_u in the mean. So w with M w = h makes `sum over rows of the group average of w` unbiased for
# the sum of h over the true values: these are the weights W(g).
#
# With B[g, u] = 1/sqrt|g| where group g holds u, and F_u groups that hold u, M = F^-1 B'B is similar to the symmetric
# S = F^-1/2 B'B F^-1/2, whose large eigenvalues tell which directions the release identifies.


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


MOST_SOLVED = 6_000  # values or groups: M is their square, and takes 2.2 GiB and 110 s
VARIANCE_GROUPS = 200_000  # moments of W are taken over at most this many groups, which are in random order
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
        self._sampled = Groups(held=groups.held[:VARIANCE_GROUPS])  # groups are in random order

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

    def covariance(self, first: Floats, second: Floats) -> Floats:
        """For every value u, the covariance of two weight functions W over the groups that hold u."""
        W, V = self._sampled.mean(first), self._sampled.mean(second)
        return self._average(W * V) - self._average(W) * self._average(V)

    def _average(self, W: Floats) -> Floats:
        """For each value, the average over the groups that hold it."""
        return self._sampled.by_value(W) / np.maximum(self._sampled.true_counts, 1)


def expected_se(channel: Channel, share: float) -> Floats:
    """Standard error of each value's count among a share of the rows chosen without regard to the value."""
    counts = channel.true_counts.astype(float)
    w, identified = channel.weights(np.eye(channel.groups.values))
    scale = np.where(counts > 1, share * (1 - share) * counts**2 / np.maximum(counts - 1, 1), 0.0)
    se = np.array([np.sqrt(max(float(scale @ channel.covariance(w[s], w[s])), 0.0)) for s in range(len(counts))])
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
        self._inverse = _inverse(C / root[:, None] / root[None, :], 1)

    def mean(self, w: Floats) -> Floats:
        return w @ self._M.T

    def solve(self, x: Floats) -> Floats:
        return x @ self._inverse


class _ByGroups:
    """Fewer groups than values: S = N'N has the eigenvalues of G = N N', and S^-1 = N' G^-2 N."""

    def __init__(self, groups: Groups, present: Integers, true_counts: Integers) -> None:
        scale = diags_array(1 / np.sqrt(groups.sizes.astype(float)))
        self._B = csr_array(scale @ groups.held[:, present])
        self._N = csr_array(self._B / np.sqrt(true_counts))
        self._true_counts = true_counts
        self._twice = _inverse(np.asarray((self._N @ self._N.T).toarray(), dtype=float), 2)

    def mean(self, w: Floats) -> Floats:
        found: Floats = np.asarray(self._B.T @ np.asarray(self._B @ w.T)).T / self._true_counts
        return found

    def solve(self, x: Floats) -> Floats:
        found: Floats = np.asarray(self._N.T @ (self._twice @ np.asarray(self._N @ x.T))).T
        return found


def _inverse(S: Floats, power: int) -> Floats:
    """S^-power on the directions that are identified: their eigenvalues are not 0 but for rounding."""
    eigen, vectors = np.linalg.eigh(S)
    keep = eigen > SINGULAR * max(float(eigen[-1]), SINGULAR) if len(eigen) else np.zeros(0, dtype=bool)
    return np.asarray((vectors[:, keep] / eigen[keep] ** power) @ vectors[:, keep].T)


# Estimates and sharp bounds from a release that publishes sensitive values by group (docs/explanation/anatomy.md).
#
# Observed entries say how many rows of a stratum lie in a group. As a sparse table of strata and groups they give all
# that is asked: times the table of groups and values, what every row shares with the values of its group; added up by
# output row, how many of its rows lie in each group, which bounds need of the groups that hold a value that is asked
# for.


Kinds = list[list[tuple[int, NDArray[np.bool_]]]]
Sums = Callable[[NDArray[np.bool_], int], Floats]


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
    sums, alike = GroupSums(channel, observed), kinds(h)
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
            largest = [[np.abs(groups.mean(w[b, f])).max(initial=0.0) for f in range(F)] for b in range(B)]
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
                out += (cross * factor) @ channel.covariance(w[b, i], w[c, j])
    return np.maximum(variance, 0.0), covariance


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


class GroupSums:
    """Sums of a moment per output row over some patterns: by the values of the groups, and by true value, estimated."""

    def __init__(self, channel: Channel, observed: Observed) -> None:
        self.observed, self._channel, self._groups = observed, channel, channel.groups
        self._shares: dict[tuple[bytes, int], Floats] = {}
        self._kept: dict[tuple[bytes, int], Floats] = {}

    def shares(self, patterns: NDArray[np.bool_], column: int) -> Floats:
        """(K, values): every entry's moment in equal parts to the values of its group."""
        name = (patterns.tobytes(), int(column))
        if name not in self._shares:
            by_stratum = self._once(("shares", column), lambda: self._by_group(column) @ self._groups.shares)
            self._shares[name] = np.asarray((self._strata(patterns) @ by_stratum).toarray(), dtype=np.float64)
        return self._shares[name]

    def __call__(self, patterns: NDArray[np.bool_], column: int) -> Floats:
        """(K, values): x^ cut to [0, F_u] for counts."""
        name = (patterns.tobytes(), int(column))
        if name not in self._kept:
            x = self._channel.back(self.shares(patterns, column))
            most = self._channel.true_counts
            # all records of a value, or none: no error left
            near = np.where(most - x < 1e-9 * most, most, np.where(x < 1e-9 * most, 0.0, x))
            self._kept[name] = x if column else near
        return self._kept[name]

    def ends(self, patterns: NDArray[np.bool_], h: Floats) -> tuple[Floats, Floats]:
        """(K,), (K,): sums over groups of max(0, c(P) + c(A) - |g|) and min(c(P), c(A)), A the values that h asks for:
        the least and the most rows of some patterns that have one of them."""
        held = self._groups.held @ h
        rows, some = self._rows_holding(patterns, held > 0)
        inside, size = held[some][rows.indices], self._groups.sizes[some][rows.indices]
        least, most = np.maximum(0.0, rows.data + inside - size), np.minimum(rows.data, inside)
        key = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        low, high = (np.bincount(key, weights=x, minlength=rows.shape[0]).astype(np.float64) for x in (least, most))
        return low, high

    def ends_by_value(self, patterns: NDArray[np.bool_], values: NDArray[np.intp]) -> tuple[Floats, Floats]:
        """(K, values), (K, values): the same of each of some values by itself.

        c(A) = 1[s in g], so that these are the groups with s all of whose rows are there, and those with any.
        """
        asked = self._once(("values", values.tobytes()), lambda: self._groups.held[:, values])
        rows, some = self._rows_holding(patterns, np.diff(asked.indptr) > 0)
        full = (rows.data >= self._groups.sizes[some][rows.indices]).astype(np.float64)
        found = []
        for counted in (full, (rows.data > 0).astype(np.float64)):
            there = csr_array((counted, rows.indices, rows.indptr), shape=rows.shape)
            found.append(np.asarray((there @ asked[some]).toarray(), dtype=np.float64))
        return found[0], found[1]

    def _rows_holding(
        self, patterns: NDArray[np.bool_], holding: NDArray[np.bool_]
    ) -> tuple[csr_array, NDArray[np.intp]]:
        """(rows of every output row in some groups, which groups these are)."""
        some = np.flatnonzero(holding)
        by_stratum = self._once(("rows", holding.tobytes()), lambda: self._by_group(0)[:, some])
        return self._strata(patterns) @ by_stratum, some

    def _by_group(self, column: int) -> csr_array:
        """(strata, groups): a moment of every stratum in every group."""
        seen = self.observed
        return self._once(
            ("moment", column),
            lambda: self._groups.rows_by_group(seen.stratum, seen.strata, seen.part, seen.moments[:, column]),
        )

    def _strata(self, patterns: NDArray[np.bool_]) -> csr_array:
        """(K, strata): 1 where a stratum of some patterns belongs to an output row."""
        at = np.flatnonzero(patterns[self.observed.pattern])
        return csr_array(
            (np.ones(len(at)), (self.observed.key[at], at)), shape=(self.observed.keys, self.observed.strata)
        )

    def _once(self, name: object, made: Callable[[], csr_array]) -> csr_array:
        """What is the same for all grouping sets of a question, made once."""
        if name not in self.observed.memo:
            self.observed.memo[name] = made()
        return cast(csr_array, self.observed.memo[name])


def bounds(sums: GroupSums, asked: Asked, h: Floats, alike: Kinds) -> tuple[Floats, Floats]:
    """[ sum max(0, c_g(P) + c_g(A) - |g|), sum min(c_g(P), c_g(A)) ] for counts; no bound for other functionals."""
    shape = (sums.observed.keys, asked.functionals)
    low, high = np.zeros(shape), np.zeros(shape)
    counting = (asked.measure == 0) & asked.indicator
    low[:, ~counting], high[:, ~counting] = -np.inf, np.inf
    places: dict[bytes, tuple[NDArray[np.bool_], list[tuple[int, int]]]] = {}  # functionals by the patterns they ask
    for f in np.flatnonzero(counting).tolist():
        for b, where in alike[f]:
            places.setdefault(where.tobytes(), (where, []))[1].append((f, b))
    for where, asking in places.values():
        single = [(f, b) for f, b in asking if h[b, f].sum() == 1]
        if single:
            columns = [f for f, _ in single]
            least, most = sums.ends_by_value(where, np.array([h[b, f].argmax() for f, b in single]))
            low[:, columns] += least
            high[:, columns] += most
        for f, b in set(asking).difference(single):
            fewest, all_there = sums.ends(where, h[b, f])
            low[:, f] += fewest
            high[:, f] += all_there
    return low, high


# --- functionals ------------------------------------------------------------------------------------------------------
# Sums over the true rows of a release that publishes values by group. docs/explanation/inference.md, section 3.
#
# The F_u records of value u were given at random, without replacement, to the F_u groups that hold u. A row of group g
# adds the group's average of w, and w = M^-1 h makes the sum unbiased. Over the random assignment the covariance is
#
#     sum_u F_u / (F_u - 1) { sum_c N[c, u] w_c' K_u w_c - S_u' K_u S_u / F_u },     S_u = sum_c N[c, u] w_c,
#
# with K_u the covariance of 1[s in g] / |g| over the groups that hold u. Everything but N is published.


MOST_COVARIED = 200  # K is V^3 numbers


class GroupedValues:
    """Groups with M, its inverse and K over all of them."""

    def __init__(self, groups: Groups) -> None:
        values = groups.values
        if values > MOST_COVARIED:
            raise UnsupportedQuery(
                f"the column has {values} values; covariances from groups are worked out for up to {MOST_COVARIED}",
                hint="Ask for counts, sums and averages by SQL, or have the column published with fewer values.",
            )
        self.groups, self.values = groups, values
        channel, held = Channel(groups), triples(groups, 1 / np.maximum(groups.sizes, 1) ** 2)
        self.true_counts = groups.true_counts
        self.M = channel.mean(np.eye(values)).T
        safe = np.maximum(self.true_counts, 1.0)
        self.K = held / safe[:, None, None] - self.M[:, :, None] * self.M[:, None, :]
        weights, identified = channel.weights(np.eye(values))
        self.inverse, self.identified = weights.T, bool(identified.all())


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
        key, cells, groups = (min(a, b), max(a, b)), self.cells, self.groups.groups
        if key not in self._counts:
            by_group = groups.rows_by_group(cells.cell, cells.cells, cells.part, cells.moments[:, key[0], key[1]])
            shares = np.asarray((by_group @ groups.shares).toarray(), dtype=np.float64)
            self._counts[key] = shares @ self.groups.inverse
        return self._counts[key]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctGroups(Law):
    """How many groups there are, and how many values each holds at least."""

    name = "groups"
    formula = "M w = h over the groups' own channel; Var = sum over values u of x(F-x)/(F-1) times the variance of w"
    withheld = True
    plan_draws = True
    estimators = ("plain",)
    part = "group_id"

    l: int
    groups: int
    suppressed: int = 0  # records of frequent values

    def __post_init__(self) -> None:
        if self.l < 2:
            raise ValueError("l is below 2")
        if self.suppressed < 0:
            raise ValueError("a negative number of rows was left out")

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """The sensitive columns go, the number of the group comes."""
        (label,) = batch.labels
        stay = label >= 0 if self.suppressed else None
        return Released(codes=(None,), extra={"group_id": label.astype(np.int32, copy=False)}, stay=stay)

    def _channel(self, evidence: Evidence) -> Channel:
        """The release's own channel, worked out once."""
        if "channel" not in evidence.memo:
            evidence.memo["channel"] = Channel(released_groups(evidence, self.l))
        found = evidence.memo["channel"]
        assert isinstance(found, Channel)
        return found

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Debiased by the release's own channel; certain bounds beside it."""
        return estimate(self._channel(evidence), observed, asked)

    def functionals(self, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
        """By the random assignment of records to the groups that hold their value."""
        return GroupFunctionals(cells, grouped_values(evidence, self.l))

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood:
        """The values of every group."""
        counts = np.zeros((self.groups, len(evidence.domains[0])))
        np.add.at(counts, (np.asarray(evidence.side["group_id"]), np.asarray(evidence.side["unit0"])), 1)
        return silent(counts, exact=True)

    def check(self, published: Published) -> None:
        """Every group holds at least l values, each once, and as many values as rows; there are rows / l groups."""
        one_unit(published)
        if self.groups != published.rows // self.l:  # before anything is laid out by their number
            raise VerificationError(
                f"{published.rows} rows make {published.rows // self.l} groups of {self.l}, not these"
            )
        values = self._sizes(published)
        numbers, rows = published.group_sizes()
        members = np.zeros(self.groups, dtype=np.int64)
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < self.groups:
            raise VerificationError("a row names a group that release.json does not count")
        members[numbers] = rows
        if not np.array_equal(members, values):
            raise VerificationError("a group has another number of rows than of values")

    def _sizes(self, published: Published) -> Integers:
        """How many values each group holds; VerificationError where they are too few, not in order, or twice there."""
        side, domain = published.evidence.side, published.evidence.domains[0]
        if set(side) != {"group_id", "unit0"}:
            raise VerificationError("sensitive.parquet holds other columns than the group and the sensitive ones")
        group, code = side["group_id"], side["unit0"]
        if len(group) and not 0 <= int(group.min()) <= int(group.max()) < self.groups:
            raise VerificationError("sensitive.parquet names a group that release.json does not count")
        values = np.bincount(group, minlength=self.groups)
        if (values < self.l).any():
            raise VerificationError(f"{int((values < self.l).sum())} groups hold fewer than {self.l} values")
        step = int(np.diff(group.astype(np.int64) * len(domain) + code).min(initial=1))  # from one pair to the next
        if step < 0:
            raise VerificationError("sensitive.parquet is not in the order of groups and values, which tells nothing")
        if step == 0:  # in this order equal ones are neighbours
            raise VerificationError("a group holds a value twice")
        held = np.bincount(code, minlength=len(domain)) > 0
        if not held.all() and not (self.suppressed or domain.declared):
            raise VerificationError("the domain was taken from the data, and lists a value that no group has")
        return values

    def foresee(self, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """By the channel of the planned groups."""
        m = len(profile.domains[0])
        planned = groups_of(work.side["group_id"].astype(np.int64), work.side["unit0"], m)
        made = Channel(planned)
        kept = np.divide(made.true_counts, np.maximum(profile.true_counts(), 1))  # below 1 where suppressed

        def answer(observed: Observed, asked: Asked) -> Estimated:
            plain = asked.options.get("estimator") == "plain"
            h = np.stack([H.toarray() for H in asked.coefficients])
            w = h if plain else np.stack([made.weights(x)[0] for x in h])
            pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
            known: dict[tuple[bytes, int], Floats] = {}

            def sums(patterns: NDArray[np.bool_], column: int) -> Floats:
                name = (patterns.tobytes(), int(column))
                if name not in known:
                    at = np.flatnonzero(patterns[pattern])
                    weight, cell = observed.moments[at, column], key[at] * m + observed.value[at]
                    flat = np.bincount(cell, weights=weight, minlength=observed.keys * m)
                    known[name] = np.asarray(flat.reshape(observed.keys, m) * kept, dtype=np.float64)
                return known[name]

            value, alike = np.zeros((observed.keys, asked.functionals)), kinds(h)
            for f, found in enumerate(alike):
                for b, where in found:
                    (mean,) = made.mean(w[b, f : f + 1])  # of W over the groups that hold a value
                    value[:, f] += sums(where, int(asked.products[0, asked.measure[f]])) @ mean
            variance, covariance = variances(made, sums, asked, w, alike, observed.keys)
            half = asked.z * np.sqrt(variance)
            return Estimated(value=value, variance=variance, low=value - half, high=value + half, covariance=covariance)

        def sums_of_rows(cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
            return AssignmentFunctionals(cells, checked(GroupedValues(planned)), kept)

        return Foresight(lump=False, answer=answer, functionals=sums_of_rows)
