"""Answers from a decoy release: tables of published rows, weights, covariances, and any linear question."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..errors import QueryError, UnsupportedQuery
from ..model.public import Asked, Estimated, Floats, Observed
from ..stats.intervals import Line, binomial_total_interval, cut, tail_interval
from .decoy_channel import DecoyChannel, FullMatrix, Matrix
from .functionals import Cells, CodedUnit, DependentRows, Functions, IndependentRows, KroneckerWeights, Target, runs

# --- decoy estimate ---------------------------------------------------------------------------------------------------
# Totals and conditioned counts from a decoy release, with their variances (docs/explanation/splu.md, section 5).
#
# A question is a number c per sensitive value (an indicator for COUNT, the value itself for SUM) and a condition P on
# the other columns. With weights w = M^-1 c and w2 = M^-1 c^2 over published values and counts y inside P, the
# estimate is w . y and its variance w^2 . y - w2 . y, both unbiased. The same for the rows outside P; the two must add
# up to c . f', which is far more precise.


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Unclipped estimates and their variances, of equal shape."""

    value: Floats
    variance: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A question asked of all rows: its estimate and variance by weights, the total read off, and its variance."""

    value: Floats
    variance: Floats
    total: Floats
    total_variance: Floats


def calibrate(inside: Estimates, cross: Floats, whole: Whole) -> Estimates:
    """The estimate inside P moved so that P and the rest add up to the total.

    Moved by l times (total - whole estimate) with l = cov(inside, whole) / var(whole), which leaves the variance
    V - l cross + l^2 Var(total). For a count cross = V_P, so l = V_P / (V_P + V_rest) and the variance is
    (1-l)^2 V_P + l^2 V_rest + l^2 f'(1 - 1/size) [docs/explanation/splu.md, 5.2]; for all rows the total itself.
    """
    share = np.divide(cross, whole.variance, out=np.zeros(np.shape(cross)), where=whole.variance > 0)
    value = inside.value + share * (whole.total - whole.value)
    variance = np.maximum(0.0, inside.variance - share * cross) + share**2 * whole.total_variance
    return Estimates(value=value, variance=variance)


# --- published tables -------------------------------------------------------------------------------------------------
# The published rows of a decoy release as tables over the values that occur in it, one for each pattern.


JOINT_VALUES = 2_000_000  # combinations of values of several columns that can be told apart in one question


@dataclass(frozen=True, slots=True)
class DecoyRows:
    """The published rows of one pattern of untouched leaves: `moments[j]` is a (keys, joint values) table."""

    moments: tuple[csr_array, ...]
    rows: Floats  # (K,)
    coefficients: csr_array  # (F, joint values), over published values only
    uncertain: NDArray[np.bool_]  # (F,) coefficients differ between values; the others are plain sums of g
    unseen: NDArray[np.bool_]  # (F,) the question also asks for values that were never published

    def only(self, keys: NDArray[np.intp]) -> DecoyRows:
        """The same of some keys."""
        return replace(self, moments=tuple(table[keys] for table in self.moments), rows=self.rows[keys])


def observations(channels: tuple[DecoyChannel, ...], observed: Observed, asked: Asked) -> list[DecoyRows]:
    """What was observed, over the values that occur in the release, one entry per pattern."""
    shape = tuple(len(c.active) for c in channels)
    width = int(np.prod(shape, dtype=np.int64))
    if len(channels) > 1 and width > JOINT_VALUES:
        raise QueryError(
            f"the question combines {' x '.join(map(str, shape))} sensitive values, too many to tell apart at once",
            hint="Ask about one of the columns, or group its values.",
        )
    codes = np.unravel_index(observed.value, asked.shape)
    place = np.zeros(len(observed.value), np.int64)
    grid = np.zeros(1, np.int64)
    for channel, code, size in zip(channels, codes, asked.shape, strict=True):
        position = np.zeros(size, np.int64)
        position[channel.active] = np.arange(len(channel.active))
        place = place * len(channel.active) + position[code]
        grid = (grid[:, None] * size + channel.active[None, :]).ravel()
    seen = np.zeros(int(np.prod(asked.shape)), bool)
    seen[grid] = True
    pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
    found = []
    for b, H in enumerate(asked.coefficients):
        at = np.flatnonzero(pattern == b)
        tables = tuple(
            csr_array((moment, (key[at], place[at])), shape=(observed.keys, width)) for moment in observed.moments[at].T
        )
        rows = np.asarray(tables[0].sum(axis=1), dtype=np.float64)
        unseen = abs(H) @ (~seen).astype(float) > 0
        found.append(DecoyRows(tables, rows, H[:, grid], _differ(H), unseen))
    return found


def _differ(H: csr_array) -> NDArray[np.bool_]:
    """Rows whose entries are not all the same number."""
    filled, width = np.diff(H.indptr), H.shape[1]
    top, bottom = H.max(axis=1).toarray(), H.min(axis=1).toarray()
    return (filled > 0) & ((filled < width) | (top > bottom))


# --- decoy weights ----------------------------------------------------------------------------------------------------
# Weights of joint values under the product of several columns' channels.


RESIDUAL = 1e-6  # a question is identified when M w = h up to this


class DecoyWeights:
    """Weights of questions under the product of the columns' channels; joint values are numbered row by row."""

    def __init__(self, channels: tuple[DecoyChannel, ...]) -> None:
        self.channels, self.shape = channels, tuple(len(c.active) for c in channels)
        self.known = all(c.identifiable.all() for c in channels)
        self.published = channels[0].published

    def of(self, values: Floats) -> Floats:
        """M^-1 h for columns h."""
        return self._by_column(values, lambda matrix, x: matrix.weights(x))

    def estimate(self, observed: Floats) -> Floats:
        """(M^T)^-1 y for columns y."""
        return self._by_column(observed, lambda matrix, y: matrix.estimate(y))

    def squares(self, observed: Floats) -> Floats:
        """(B o B) y with B = (M^T)^-1, entry by entry, for columns y."""
        return self._by_column(observed, lambda matrix, y: matrix.squares(y))

    def forward(self, values: Floats) -> Floats:
        """M c for columns c."""
        return self._by_column(values, lambda matrix, c: matrix.forward(c))

    def _by_column(self, values: Floats, apply: Callable[[Matrix, Floats], Floats]) -> Floats:
        """Columns of joint values through the matrix of every sensitive column in turn."""
        table = values.reshape(*self.shape, -1)
        for axis, channel in enumerate(self.channels):
            moved = np.moveaxis(table, axis, 0)
            flat = apply(channel.matrix, moved.reshape(len(moved), -1))
            table = np.moveaxis(flat.reshape(moved.shape), 0, axis)
        return table.reshape(values.shape)

    def of_axis(self, values: Floats, axis: int) -> Floats:
        """M_u^-1 h along one column alone, for one vector h."""
        moved = np.moveaxis(values.reshape(self.shape), axis, 0)
        flat = self.channels[axis].matrix.weights(moved.reshape(len(moved), -1))
        return np.moveaxis(flat.reshape(moved.shape), 0, axis).ravel()

    def margin(self, tables: Floats, axis: int) -> Floats:
        """(K, V_u): rows of joint tables added up over all columns but one."""
        others = tuple(1 + a for a in range(len(self.shape)) if a != axis)
        return np.asarray(tables.reshape(len(tables), *self.shape).sum(axis=others))

    def identified(self, values: Floats, weights: Floats) -> NDArray[np.bool_]:
        """Which columns the channel tells apart: M w = h."""
        if self.known:
            return np.ones(values.shape[1], bool)
        gap = np.abs(self.forward(weights) - values).max(axis=0, initial=0.0)
        bounded = all(np.isfinite(c.condition) or c.identifiable.any() for c in self.channels)
        return (gap <= RESIDUAL * np.maximum(1.0, np.abs(values).max(axis=0, initial=0.0))) & bounded


# --- decoy covariance -------------------------------------------------------------------------------------------------
# Covariances of questions to a decoy release whose channel is rebuilt from its totals.
#
# The error of question i is, to first order, what its rows in P add with a known channel, less J_i . eps with eps the
# noise of the published totals. What the totals explain of the first part is taken out, and the totals come back with
# their own covariance T = diag(f)(I - M), moving the question by D_i = E_i - J(h_i) + J(E_i):
#
#     Cov(i, j) = rows_ij - (X_i E_j + E_i X_j - E_i G E_j) + D_i' T D_j.
#
# Columns are randomised independently of each other, so each adds its own terms: the noise of one column's totals tells
# of a question about several columns what it tells of its mean over the others.
#
# As in `functionals.py` with E = G+ X, and with J, which models leave out: over random functions it moves their
# standard errors by one percent. Where values are too many for a table, E_i is the regression on the question's own
# total; docs/explanation/inference.md, section 3.


RANK = 1e-10  # singular values of G below this share of the largest are those of values that cannot be told apart


class Moved(NamedTuple):
    """Of one question in every key, (K, V) each."""

    with_totals: Floats  # X: covariance with the estimated totals
    explained: Floats  # E: what the totals explain of it
    by_totals: Floats  # D: how it moves with the published totals


def slope(shown: Floats, direct: Floats, weighed: Floats, published: Floats, rows: float, keep: float) -> Floats:
    """J from sums of Y w, N h and N w by value: w (Y - N / gamma) / f' + N (h - w / gamma) / (rows - f')."""
    seen = np.divide(shown - keep * weighed, published, out=np.zeros_like(shown), where=published > 0)
    return seen + (direct - keep * weighed) / np.maximum(rows - published, 1.0)


class TotalsOfColumn:
    """The published totals of one column: how they vary, and what they explain."""

    def __init__(self, channel: DecoyChannel, rows: int) -> None:
        self.channel, self.rows, self.keep = channel, rows, 1.0 / channel.size

    @cached_property
    def inverse(self) -> Floats | None:
        """G+; None where the values are too many for a table."""
        matrix = self.channel.matrix
        if not isinstance(matrix, FullMatrix):
            return None
        B, f = matrix.inverse, self.channel.published
        G = B.T @ (f[:, None] * B) - np.diag(f @ B)
        return np.asarray(np.linalg.pinv((G + G.T) / 2, rcond=RANK, hermitian=True))

    def spread(self, h: Floats) -> Floats:
        """G h: covariance of the estimated totals, were the rows independent, applied to rows of numbers."""
        matrix, f = self.channel.matrix, self.channel.published[:, None]
        return np.asarray((matrix.estimate(f * matrix.weights(h.T)) - matrix.estimate(f) * h.T).T)

    def own(self, left: Floats, right: Floats) -> Floats:
        """left' T right, made symmetric."""
        f, matrix = self.channel.counts, self.channel.matrix
        through = left * matrix.forward(right.T).T + right * matrix.forward(left.T).T
        return np.asarray((left * right - through / 2) @ f)

    def moved(self, X: Floats, falls: Floats, asked: Floats, h: Floats) -> Moved:
        """From X, J(h), the estimate itself (K,), and h (1, V) as this column sees it on average."""
        f, matrix = self.channel.published, self.channel.matrix
        if self.inverse is None:
            along = float((h * self.spread(h)).sum())
            E = h * (X @ h.T / along if along > 0 else 0.0)
        else:
            E = X @ self.inverse
            # a constant is explained by the number of rows, which has no error
            E += ((asked - E @ f) / self.rows)[:, None]
        through = matrix.weights(E.T).T
        D = E - falls + slope(f * through, f * E, f * through, f, self.rows, self.keep)
        return Moved(X, E, D)


class RebuiltCovariance:
    """Covariances of pairs of questions about decoy columns; their noise is independent of each other's."""

    def __init__(self, weights: DecoyWeights, parts: Sequence[DecoyRows], asked: Asked, rows: int) -> None:
        self._weights, self._parts, self._asked, self._rows = weights, parts, asked, rows
        self._totals = tuple(TotalsOfColumn(channel, rows) for channel in weights.channels)
        self._kept: dict[int, tuple[Moved, ...]] = {}

    def of(self, i: int, j: int) -> Floats:
        """(K,) covariance of two questions, whatever pattern of conditions each is about."""
        explained, by_totals = self.beyond_rows(i, j)
        return self.rows_alone(i, j) - explained + by_totals

    def beyond_rows(self, i: int, j: int) -> tuple[Floats, Floats]:
        """(K,) twice: what the totals explain of the rows' covariance, and what the totals' own noise adds."""
        keys = len(self._parts[0].rows)
        explained, by_totals = np.zeros(keys), np.zeros(keys)
        for totals, first, second in zip(self._totals, self._moved(i), self._moved(j), strict=True):
            explained += (first.with_totals * second.explained + first.explained * second.with_totals).sum(axis=1)
            explained -= (first.explained * totals.spread(second.explained)).sum(axis=1)
            by_totals += totals.own(first.by_totals, second.by_totals)
        return explained, by_totals

    def rows_alone(self, i: int, j: int) -> Floats:
        """(K,): sum over the rows inside both conditions of g_i g_j (w_i w_j - w_ij)."""
        asked, weights = self._asked, self._weights
        at = asked.products[asked.measure[i], asked.measure[j]]
        found = np.zeros(len(self._parts[0].rows))
        for part in self._parts:
            if part.uncertain[i] and part.uncertain[j]:
                h = part.coefficients[[i, j]].toarray().T
                w = weights.of(np.column_stack([h, h[:, 0] * h[:, 1]]))
                found += part.moments[at] @ (w[:, 0] * w[:, 1] - w[:, 2])
        return found

    def _moved(self, i: int) -> tuple[Moved, ...]:
        if i in self._kept:
            return self._kept[i]
        if len(self._kept) > 3:  # pairs come one after the other: a sum and its count
            self._kept.clear()
        keys, g = len(self._parts[0].rows), self._asked.measure[i]
        X, falls = ([np.zeros((keys, len(t.channel.published))) for t in self._totals] for _ in range(2))
        asked, mean = np.zeros(keys), [np.zeros((1, len(t.channel.published))) for t in self._totals]
        for part in self._parts:
            if not part.uncertain[i]:
                continue
            h = part.coefficients[[i]].toarray()
            w = self._weights.of(h.T).T
            Y = part.moments[self._asked.products[0, g]].toarray()
            N = self._weights.estimate(Y.T).T
            asked += (N * h).sum(axis=1)
            for u, totals in enumerate(self._totals):
                shown, direct, weighed = (
                    self._weights.margin(table, u) for table in (Y * w, N * h, N * self._weights.of_axis(h[0], u))
                )
                X[u] += totals.channel.matrix.estimate(shown.T).T - direct
                falls[u] += slope(shown, direct, weighed, totals.channel.published, self._rows, totals.keep)
                mean[u] += self._averaged(h, u)
        self._kept[i] = tuple(t.moved(X[u], falls[u], asked, mean[u]) for u, t in enumerate(self._totals))
        return self._kept[i]

    def _averaged(self, h: Floats, axis: int) -> Floats:
        """(1, V_u): h averaged over the other columns, as often as their values were published."""
        table = h.reshape(1, *self._weights.shape)
        for a, totals in enumerate(self._totals):
            if a != axis:
                share = totals.channel.published / self._rows
                table = np.moveaxis(np.moveaxis(table, 1 + a, -1) @ share[:, None], -1, 1 + a)
        return np.asarray(table.reshape(1, -1))


# --- listed values ----------------------------------------------------------------------------------------------------
# What a channel rebuilt from the published histogram adds to the variance of a question about several values.
#
# The vector form of what `estimate.py` adds for one value; derivation: docs/explanation/intervals.md section 5.


def rebuilt(channel: DecoyChannel, h: Floats, w: Floats, shown: Floats, all_rows: float) -> Floats:
    """- 2 j'S_P w + j'S j - a'(S - T) a for every condition, with `a` taken along h.

    `h` and its weights `w` are vectors over the values; columns of `shown` are the published sums inside a condition.
    S_P w = y w - M'(x^ h) and S = diag f' - M' diag(f') M, so that no table of values by values is built.
    """
    e, f, matrix = 1.0 / channel.size, channel.published[:, None], channel.matrix
    estimate = matrix.estimate(shown)
    j = slope(w[:, None] * shown, h[:, None] * estimate, w[:, None] * estimate, f, all_rows, e)
    # u'S_P w = sum u y w - sum (M u) x^ h
    through, along = matrix.forward(j), matrix.forward(h)
    cross = (j * shown * w[:, None]).sum(axis=0) - (through * estimate * h[:, None]).sum(axis=0)
    own = (j**2 * f).sum(axis=0) - (through**2 * f).sum(axis=0)
    # a = alpha h with alpha = h'(S_P w - S j) / h'S h
    inside = (shown * (w * h)[:, None]).sum(axis=0) - (estimate * (h * along)[:, None]).sum(axis=0)
    between = (f * h[:, None] * j).sum(axis=0) - (f * along[:, None] * through).sum(axis=0)
    published = f[:, 0]
    rows = float(published @ h**2 - published @ along**2)
    draws = float(published @ (h**2 - h * along))
    alpha = (inside - between) / rows if rows > 0 else np.zeros_like(inside)
    return np.asarray(-2.0 * cross + own - alpha**2 * (rows - draws))


# Sums over the true rows of a decoy release. docs/explanation/inference.md, section 3.
#
# The channel M is rebuilt from the published histogram f', which is a fixed point of it: f' M = f'. So the estimated
# counts always add up to f', the estimate knows the totals better than independent rows would, and its covariance is
# that of the randomisation, less what the totals explain, plus the variance of the totals themselves:
#
#     S = S_rows - X' G+ X + X' G+ T G+ X,   G_c = B' diag(Y_c) B - diag(N_c),  G = sum G_c,  X = sum G_c h_c,
#     T = diag(f) (I - M), made symmetric.
#
# Several columns have independent channels: B is their Kronecker product, and the totals of every column add terms of
# their own, with X the covariance of that column's totals with the sums.


GAP = 1e-6  # relative gap between the estimated and the published totals that calibration closes


MOST_VALUES = 2_000  # the channel is worked out in full


def check_units(units: Sequence[CodedUnit]) -> None:
    """Refuse what the covariance is not worked out for."""
    for unit in units:
        if len(unit.classes) > MOST_VALUES:
            raise UnsupportedQuery(
                f"the column has {len(unit.classes)} values; models read up to {MOST_VALUES}",
                hint="Ask for counts, sums and averages by SQL, or have the column published with fewer values.",
            )


def decoy_functionals(
    channels: Sequence[DecoyChannel], cells: Cells, units: Sequence[CodedUnit], rows: int, said: tuple[str, ...] = ()
) -> DecoyFunctionals:
    """Under rebuilt channels, one for each unit; UnsupportedQuery where they do not tell all values apart.

    `said` are the caveats of what hangs on the channels.
    """
    if not all(channel.identifiable.all() for channel in channels):
        raise UnsupportedQuery("not identifiable: some values are in so many groups that nothing tells who has them")
    columns = [_Column(channel, len(unit.classes), rows) for channel, unit in zip(channels, units, strict=True)]
    return DecoyFunctionals(cells, columns, said)


class _Column:
    """One column's channel over its declared values, and its published totals."""

    def __init__(self, channel: DecoyChannel, values: int, rows: int) -> None:
        one, active = np.eye(len(channel.active)), channel.active
        B, M = np.zeros((values, values)), np.eye(values)
        B[np.ix_(active, active)] = channel.matrix.weights(one)
        M[np.ix_(active, active)] = channel.matrix.forward(one)
        published, f = np.zeros(values), np.zeros(values)
        published[active], f[active] = channel.published, channel.counts
        T = f[:, None] * (np.eye(values) - M)
        estimated = published @ B
        G = B.T @ (published[:, None] * B) - np.diag(estimated)
        self.B, self.T = B, (T + T.T) / 2
        self.G_inverse = np.linalg.pinv((G + G.T) / 2, rcond=RANK, hermitian=True)
        gap = published - estimated
        self.move = self.G_inverse @ gap if np.abs(gap).max(initial=0.0) > GAP * max(1, rows) else None


class DecoyFunctionals(DependentRows):
    """Counts and covariances under the channels of decoy columns."""

    def __init__(self, cells: Cells, columns: Sequence[_Column], caveats: tuple[str, ...]) -> None:
        self.cells, self._columns, self.caveats = cells, columns, caveats
        self._shape = tuple(len(column.B) for column in columns)
        self._weights = KroneckerWeights(axes=tuple(column.B for column in columns), shape=self._shape)
        self._rows = IndependentRows(cells, self._weights)
        self._kept: dict[tuple[int, int], Floats] = {}

    @property
    def values(self) -> int:
        return self._rows.values

    def counts(self, a: int = 0, b: int = 0) -> Floats:
        """N; where a published histogram was capped, moved by G_c G+ (f' - sum N) so that it adds up to f'.

        Of several columns, each moves them by their covariance with its own totals.
        """
        key = (min(a, b), max(a, b))
        if all(column.move is None for column in self._columns):
            return self._rows.counts(*key)
        if key not in self._kept:
            plain, Y = self._rows.counts(*key), self._rows.published(*key)
            found = plain
            for u, column in enumerate(self._columns):
                if column.move is not None:
                    shown, true = (self._along(t, u) for t in (Y, plain))
                    found = found + self._weights.back(self._flat(shown * (column.B @ column.move), u))
                    found = found - self._flat(true * column.move, u)
            self._kept[key] = found
        return self._kept[key]

    def variance_slopes(self, functions: Functions, target: Target) -> Floats:
        return self._rows.variance_slopes(functions, target)

    def _of_table(self, functions: Functions) -> Floats:
        found = self._rows.covariance(functions, "table")
        for column, X in zip(self._columns, self._with_totals(functions), strict=True):
            explained = column.G_inverse @ X
            found = found - X.T @ explained + explained.T @ column.T @ explained
        return (found + found.T) / 2

    def _with_totals(self, functions: Functions) -> list[Floats]:
        """(V_u, F) each: covariance of a column's estimated totals with the functions; B' (Y w) - N h by its value."""
        through, direct = ([np.zeros((size, functions.size)) for size in self._shape] for _ in range(2))
        for at in runs(self.cells.cells, functions.size * self.values):
            for a, h in functions.planes(at).items():
                seen = np.einsum("ck,cfk->fk", self._rows.published(0, a)[at], self._weights.forward(h), optimize=True)
                held = np.einsum("cv,cfv->fv", self._rows.counts(0, a)[at], h, optimize=True)
                for u in range(len(self._shape)):
                    through[u] += self._margin(seen, u).T
                    direct[u] += self._margin(held, u).T
        return [column.B.T @ t - d for column, t, d in zip(self._columns, through, direct, strict=True)]

    def _along(self, table: Floats, axis: int) -> Floats:
        """Rows of joint tables with one column's axis last."""
        return np.moveaxis(table.reshape(len(table), *self._shape), 1 + axis, -1)

    def _flat(self, table: Floats, axis: int) -> Floats:
        """The inverse of `_along`."""
        return np.moveaxis(table, -1, 1 + axis).reshape(len(table), math.prod(self._shape))

    def _margin(self, table: Floats, axis: int) -> Floats:
        return self._along(table, axis).reshape(len(table), -1, self._shape[axis]).sum(axis=1)


# --- rare values ------------------------------------------------------------------------------------------------------
# Variance and third cumulant of a decoy release's count of one value, as functions of the true count.
#
# The reader rebuilds the channel from the published histogram, which is itself noisy: a count inside a condition P
# errs with the published rows in P *and* with the total of the value. Both are in the formulas below, which need seven
# numbers for each (condition, value) and no table of values by values. Derivation: docs/explanation/intervals.md
# section 5.
#
# With e = 1 / gamma the chance that a record shows its own value:
#
#     y        rows in P that show the value           f'   rows of the release that show it
#     x^       the estimate of its records in P        n    rows in P
#     squares  sum over the rows in P of w^2           N    rows of the release
#     b        the weight of a row that shows it


FLOOR = 0.25  # of the variance that the rows showing the value have by themselves
SUM_FLOOR = 0.5  # of the variance that a sum has from its value's total alone


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RareCells:
    """The seven numbers of every (condition, value), in arrays of one shape, and what the channel says of others."""

    shown: Floats  # y
    estimate: Floats  # x^
    squares: Floats  # sum of w^2 over the rows in P
    weight: Floats  # b
    published: Floats  # f'; 0 for a value that was never published
    rows: Floats  # n
    all_rows: float  # N
    other: Floats  # variance that a record without the value adds, on average over the release
    size: int  # gamma
    told: Floats | float = 1.0  # the share of v(x) that all totals together leave, where P is nearly everything
    slope: Floats = field(init=False)  # j, by how much the estimate falls when one more row anywhere shows the value

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope", self.slope_at(self.shown, self.estimate))

    @property
    def keep(self) -> float:
        """e, the chance that a record shows its own value."""
        return 1.0 / self.size

    def slope_at(self, shown: Floats, estimate: Floats) -> Floats:
        """j = b (y - x^ e) / f' + x^ (1 - b e) / (N - f'): the derivative of the weights by f', applied to P."""
        e, b, f = self.keep, self.weight, self.published
        first, second = b * (shown - estimate * e), estimate * (1.0 - b * e)
        return _over(first, f) + _over(second, self.all_rows - f)

    @property
    def totals(self) -> tuple[Floats, Floats]:
        """(Sss, Tss): variance of f' as the release's rows would have it, and as the slots' draws have it."""
        e, f = self.keep, self.published
        return f * (1.0 - e**2) - (1.0 - e) ** 2 * f**2 / self.all_rows, f * (1.0 - e)

    def rebuilt(self, shown: Floats, estimate: Floats, j: Floats) -> Floats:
        """What a channel rebuilt from f' adds to the variance: - 2 j c + j^2 Sss - a^2 (Sss - Tss), c = b y - x e."""
        rows, draws = self.totals
        c = self.weight * shown - estimate * self.keep
        a = _over(c - j * rows, rows)
        return np.asarray(-2.0 * j * c + j**2 * rows - a**2 * (rows - draws))

    def expected(self, x: Floats) -> tuple[Floats, Floats]:
        """(p, r): rows inside and outside P that show the value, expected at a true count x inside."""
        inside = np.maximum(self.shown + (x - self.estimate) * self.keep, x * self.keep)
        return inside, np.maximum(np.maximum(self.published, x) - inside, 0.0)

    def variance(self, x: Floats) -> Floats:
        """v(x), at least a quarter of what the rows that show the value have by themselves."""
        e, b, j = self.keep, self.weight, self.slope
        inside, outside = self.expected(x)
        own = (1.0 - b * e) ** 2 / (1.0 - e)
        # the rows in P, as if the channel were known: sum of w^2 less x, with the unseen part of P moved to x
        plain = np.maximum(self.squares - b**2 * self.shown, 0.0) + b**2 * inside - x
        plain = plain + (x - self.estimate) * (own - self.other)
        found = plain + self.rebuilt(inside, x, j)
        return self.told * np.maximum(found, FLOOR * (1.0 - e) * ((b - j) ** 2 * inside + j**2 * outside))

    def third(self, x: Floats) -> Floats:
        """k(x): a row that shows the value moves the estimate by b - j inside P and by -j outside."""
        e, b, j = self.keep, self.weight, self.slope
        inside, outside = self.expected(x)
        gain = e * (1.0 - e) * (1.0 - 2.0 * e) - e
        elsewhere = np.maximum(np.maximum(self.published, x) - x, 0.0)
        return np.asarray(self.told**1.5 * ((b - j) ** 3 * (inside + x * gain) - j**3 * (outside + elsewhere * gain)))

    def with_variance(self, found: Floats) -> RareCells:
        """The same cells with `found` for the variance at the estimate where that is less, NaN: as it is.

        No less than FLOOR of what their total varies by; the skewness stays, as far as v is from it.
        """
        here = self.variance(np.clip(self.estimate, 0.0, self.rows))
        least = FLOOR * self.totals[1]
        told = _over(np.maximum(np.nan_to_num(found, nan=np.inf), least), here)
        return replace(self, told=np.where(here > 0, np.minimum(told, 1.0), 1.0))

    def sum_variance(
        self, estimate: Floats, own: Floats, squares: Floats, counted: Floats, explained: Floats, by_totals: Floats
    ) -> Floats:
        """Variance of a sum of g: `squares` of g over the rows in P, `counted` its estimate over those that count.

        other G2 + (own - other) E2 with E2 cut to what is possible, less what the totals explain of it, plus what their
        own noise adds (`covariance.py`); at least half of what the value's total alone does to `estimate`.
        """
        plain = self.other * squares + (own - self.other) * np.clip(counted, 0.0, squares)
        found = np.maximum(plain - explained, 0.0) + by_totals
        return np.maximum(found, SUM_FLOOR * self.totals[1] * _over(estimate, self.published) ** 2)

    def most(self, alpha: float) -> Floats:
        """No more records than rows in P, nor than the exact upper end of the value's total."""
        return np.minimum(self.rows, binomial_total_interval(self.published, self.size, alpha)[1])


def _over(top: Floats, bottom: Floats) -> Floats:
    """top / bottom, 0 where the bottom is."""
    top, bottom = np.broadcast_arrays(top, bottom)
    return np.asarray(np.divide(top, bottom, out=np.zeros_like(top, dtype=np.float64), where=bottom > 0))


def rare_value_interval(cells: RareCells, alpha: float, *, full: bool = False) -> tuple[Floats, Floats]:
    """Both ends for the true count of every cell; `full` tails for intervals that must hold together."""
    unit = np.abs(cells.weight) if full else np.zeros_like(cells.weight)
    return tail_interval(cells.estimate, cells.variance, cells.third, alpha, 0.0, cells.most(alpha), unit)


# --- decoy answers ----------------------------------------------------------------------------------------------------
# Answers from a decoy release: any linear question, with variance, interval and covariances.
#
# A question is a number h per (joint) sensitive value and a measure g of the untouched columns: sum over the rows
# inside P of g(row) h(true value). With weights w = M^-1 h over published values, `sum of g w` estimates it without
# bias [docs/explanation/splu.md, 5.2]. A question about one column is calibrated with the column's published totals,
# and its variance knows that the channel was rebuilt from them [docs/explanation/intervals.md, 5]. Several columns
# multiply their weights and have the variance `sum of g^2 (w^2 - w2)`, w2 = M^-1 h^2, less what the totals of every
# column tell of it (`covariance.py`): a difference of counts in two columns is known as well as these counts.


CELLS = 4_000_000  # numbers of a table held at once
NEARLY_ALL = 0.85  # of the rows in P: then the noise of all totals is looked at together
SET_FLOOR = 0.25  # of the variance with a known channel, for questions about several values


@dataclass(frozen=True, slots=True)
class _Piece:
    """Questions of one measure in one pattern, before calibration; `whole` is the same asked of all rows."""

    at: NDArray[np.intp]  # numbers of the questions
    measure: int
    inside: Estimates  # (K, questions)
    cross: Floats  # covariance with `whole`
    whole: Whole | None  # None for several columns: no total of their combinations is known
    known: NDArray[np.bool_]
    single: bool  # each asks about one value
    own: Floats  # variance that a record adds which the question counts
    other: Floats  # ... and one that it does not count, on average over the release
    every: Floats  # ... and one of the release, whether counted or not, the coefficients included
    squares: Floats  # (K,) sum of g^2 over the rows inside P
    code: NDArray[np.integer]  # of single values: which, ...
    scale: Floats  # ... times what, ...
    shown: Floats  # ... (K, questions) the sum of g over the rows that show it, ...
    weighed: Floats  # ... of w^2 over all rows, ...
    counted: Floats  # ... and the estimated sum of g^2 over the rows that have it
    told: Floats | float = 1.0  # of several columns: the share of the rows' own variance that the totals leave


class _Answering:
    """One question set, answered pattern by pattern."""

    def __init__(self, channels: tuple[DecoyChannel, ...], rows: int, observed: Observed, asked: Asked) -> None:
        self.weights, self.rows, self.asked = DecoyWeights(channels), rows, asked
        self.channel = channels[0] if len(channels) == 1 else None
        self.parts = observations(channels, observed, asked)
        K, F = observed.keys, asked.functionals
        self.uncertain = np.array([part.uncertain for part in self.parts], dtype=bool).reshape(len(self.parts), F)
        self.alone = self.uncertain.sum(axis=0) == 1  # one pattern carries all of the uncertainty
        # Joint values one by one: the totals of the columns tell next to nothing of them.
        filled = np.array([np.diff(part.coefficients.indptr) for part in self.parts]).reshape(len(self.parts), F)
        self.joint = np.asarray((filled <= 1).all(axis=0)) & (self.channel is None)
        self.value, self.variance = np.zeros((K, F)), np.zeros((K, F))
        self.rebuilt = RebuiltCovariance(self.weights, self.parts, asked, rows)
        self.down, self.up = np.full((K, F), np.nan), np.full((K, F), np.nan)  # ends that need no cutting
        self.known = np.ones((K, F), bool)
        self.channelled = False  # whether some answer is more than published totals
        self.foreseen = np.zeros((K, F))  # variance that the channel has on average, for where rows are too few to tell

    def run(self) -> None:
        """Add up all patterns."""
        for b, (part, uncertain) in enumerate(zip(self.parts, self.uncertain, strict=True)):
            filled, width = np.diff(part.coefficients.indptr), max(1, part.coefficients.shape[1])
            single = (filled == 1) & uncertain & ~part.unseen
            for g in np.unique(self.asked.measure):
                mine = self.asked.measure == g
                for at in _chunks(np.flatnonzero(single & mine), max(1, CELLS // max(1, len(part.rows)))):
                    self._add(b, self._each(part, at, int(g)))
                for at in _chunks(np.flatnonzero((filled > 0) & uncertain & ~single & mine), max(1, CELLS // width)):
                    self._add(b, self._any(part, at, int(g)))
                plain = np.flatnonzero((filled > 0) & ~uncertain & mine)  # the same number for every value
                sums = part.moments[self.asked.products[0, g]].sum(axis=1)
                self.value[:, plain] += np.outer(sums, part.coefficients[plain].max(axis=1).toarray())
            if self.channel is not None:
                for f in np.flatnonzero(part.unseen & (filled == 0)):
                    self._never_published(part, int(f), self.channel.size)
        for f in np.flatnonzero(self.uncertain.sum(axis=0) > 1):
            together = self.rebuilt.of(int(f), int(f))
            self.variance[:, f] = np.where(together > 0, together, self.variance[:, f])
        if self.channel is None:  # the unbiased estimate of a variance falls below 0 among few rows: it is not 0
            self.variance = np.where(self.variance > 0, self.variance, self.foreseen)

    def _never_published(self, part: DecoyRows, f: int, size: int) -> None:
        """Counts from 0 to the upper end of a total that was published 0 times, sums as much of the usual g."""
        g, rows = self.asked.measure[f], np.maximum(part.rows, 1.0)
        most = np.minimum(binomial_total_interval(np.zeros(1), size, self.asked.alpha)[1], part.rows)
        usual = np.sqrt(part.moments[self.asked.products[g, g]].sum(axis=1) / rows)
        if g == 0 and self.alone[f]:
            self.down[:, f], self.up[:, f] = 0.0, most
        else:
            self.variance[:, f] = np.maximum(self.variance[:, f], (most * usual / self.asked.z) ** 2)

    def _each(self, part: DecoyRows, at: NDArray[np.intp], g: int) -> _Piece:
        """Questions about one value each, without weights: a GROUP BY of thousands of values is cheap."""
        H, weights = part.coefficients[at], self.weights
        s, c = H.indices, H.data
        first, second = part.moments[self.asked.products[0, g]], part.moments[self.asked.products[g, g]]
        value, variance, cross, shown, squares, counted = (np.zeros((len(part.rows), len(at))) for _ in range(6))
        for keys in _chunks(np.arange(len(part.rows)), max(1, CELLS // max(1, H.shape[1]))):
            seen = first[keys].toarray().T
            x, xx = weights.estimate(seen), weights.squares(seen)
            y, yy = x, xx
            if g != 0:
                of_squares = second[keys].toarray().T
                y, yy = weights.estimate(of_squares), weights.squares(of_squares)
            shown[keys], squares[keys], counted[keys] = seen[s].T, xx[s].T, y[s].T
            value[keys] = (x[s] * c[:, None]).T
            variance[keys] = ((yy[s] - y[s]) * c[:, None] ** 2).T
            cross[keys] = ((xx[s] - x[s]) * c[:, None] ** 2).T
        whole, known = None, np.ones(len(at), bool)
        for channel, code in zip(weights.channels, np.unravel_index(s, weights.shape), strict=True):
            known &= channel.identifiable[code]
        if self.channel is not None:
            total, every_row = self.channel.published[s], self.channel.published[:, None]
            x, xx = weights.estimate(every_row), weights.squares(every_row)
            whole = Whole(
                value=c * x[s, 0],
                variance=np.maximum(0.0, c**2 * (xx - x)[s, 0]),
                total=c * total,
                total_variance=c**2 * total * (1 - 1 / self.channel.size),
            )
        inside = Estimates(value=value, variance=np.maximum(0.0, variance))
        own, other, every = self._spread_each(s)
        spread = own, other, c**2 * every, second.sum(axis=1)
        return _Piece(at, g, inside, cross, whole, known, True, *spread, s, c, shown, squares, counted)

    def _spread_each(self, s: NDArray[np.integer]) -> tuple[Floats, Floats, Floats]:
        """Variance of w(published) for a record with and without the value asked for, and for any.

        A record of s shows s with chance 1/gamma and weight b; the other weights have the mean that makes w unbiased
        and are close to it. Over all records the mean of w^2 is sum_j f'_j w_j^2 / N, because f' M = f'.
        """
        has, both, part = np.ones(len(s)), np.ones(len(s)), np.ones(len(s))
        for channel, code in zip(self.weights.channels, np.unravel_index(s, self.weights.shape), strict=True):
            keep, b, share = 1 / channel.size, channel.matrix.own_weights()[code], channel.published / self.rows
            has *= keep * b**2 + (1 - keep * b) ** 2 / (1 - keep)
            both *= channel.matrix.squares(share)[code]
            part *= share[code]
        own, other = np.maximum(has - 1, 0.0), np.maximum(both - part * has, 0.0) / np.maximum(1 - part, 1e-9)
        return own, other, part * own + (1 - part) * other

    def _any(self, part: DecoyRows, at: NDArray[np.intp], g: int) -> _Piece:
        """Questions about several values, by their weights."""
        h = part.coefficients[at].toarray().T
        w = self.weights.of(h)
        v = w**2 - self.weights.of(h**2)
        first, second = part.moments[self.asked.products[0, g]], part.moments[self.asked.products[g, g]]
        whole = None
        if self.channel is not None:
            y = self.channel.published
            whole = Whole(
                value=y @ w,
                variance=np.maximum(0.0, y @ v),
                total=y @ h,
                total_variance=self.channel.total_variance(h),
            )
        own, other, every = self._spread_any(h, w)
        variance, counted = np.maximum(0.0, second @ v), second @ w
        if self.asked.binary:  # steadier for a skewed measure (docs/explanation/intervals.md, 7), never 0 for a count
            most = second.sum(axis=1)[:, None]
            steady = other * most + (own - other) * np.clip(counted, 0.0, most)
            variance = steady if g else np.maximum(variance, SET_FLOOR * steady)
        told = np.ones_like(variance)
        if self.channel is None:
            for q, f in enumerate(at):
                explained, by_totals = self.rebuilt.beyond_rows(int(f), int(f))
                known_part = np.maximum(variance[:, q] - explained, 0.0) + by_totals
                told[:, q] = np.divide(known_part, variance[:, q], out=told[:, q], where=variance[:, q] > 0)
            told = np.clip(told, 0.0, 1.0)
            variance = told * variance
        else:
            keys, near = self._nearly_all(part)
            usual = first.sum(axis=1)[keys] / part.rows[keys]
            for q, f in enumerate(at):
                plain = variance[:, q].copy()
                # the terms nearly cancel where P is nearly everything: a share of the plain variance stays
                extra = self._rebuilt(self.channel, h[:, q], w[:, q], first)
                variance[:, q] = np.maximum(plain + extra, SET_FLOOR * plain)
                if near is not None and whole is not None and self.alone[f]:
                    explained, by_totals = near.beyond_rows(int(f), int(f))
                    left = np.maximum(plain[keys] - explained, 0.0) + by_totals
                    left = np.maximum(left, SET_FLOOR * whole.total_variance[q] * usual**2)
                    variance[keys, q] = np.minimum(variance[keys, q], left)
        inside = Estimates(value=first @ w, variance=variance)
        known = self.weights.identified(h, w)
        none, squares = np.empty(0), second.sum(axis=1)
        return _Piece(
            at, g, inside, first @ v, whole, known, False,
            own, other, every, squares, np.empty(0, np.intp), none, none, none, counted, told,
        )  # fmt: skip

    def _rebuilt(self, channel: DecoyChannel, h: Floats, w: Floats, first: csr_array) -> Floats:
        found = np.zeros(first.shape[0])
        for keys in _chunks(np.arange(first.shape[0]), max(1, CELLS // max(1, len(h)))):
            found[keys] = rebuilt(channel, h, w, first[keys].toarray().T, self.rows)
        return found

    def _spread_any(self, h: Floats, w: Floats) -> tuple[Floats, Floats, Floats]:
        """The same for a set of values: averages over the records in it and outside it, as the release has them."""
        share = np.ones(1)
        for channel in self.weights.channels:
            share = np.outer(share, channel.published / self.rows).ravel()
        spread = np.maximum(self.weights.forward(w**2) - h**2, 0.0)
        inside, outside = share @ h, share @ (1 - h)
        own = np.divide(share @ (h * spread), inside, out=np.zeros(len(inside)), where=inside > 0)
        other = np.divide(share @ ((1 - h) * spread), outside, out=np.zeros(len(inside)), where=outside > 0)
        return own, other, share @ spread

    def _add(self, b: int, piece: _Piece) -> None:
        """Calibrate and add up; all rows of the release are answered by the totals themselves."""
        at, found, known, whole = piece.at, piece.inside, piece.known[None, :], piece.whole
        everything = np.zeros(found.value.shape, bool)
        cells = None
        if whole is not None:
            counting = self.asked.measure[at] == 0
            # A count's variance lies between 0 and the whole's, so it takes between none and all of the gap.
            cross = np.where(counting, np.clip(piece.cross, 0.0, whole.variance), piece.cross)
            moved = calibrate(found, cross, whole)
            everything = (self.parts[b].rows == self.rows)[:, None] & counting & self.alone[at]
            variance = found.variance
            if piece.single:
                cells = self._cells(b, piece, moved.value / piece.scale)
                variance = self._variance(b, piece, cells) * piece.scale**2
            found = Estimates(
                value=np.where(everything, whole.total, moved.value),
                variance=np.where(everything, whole.total_variance, variance),
            )
        self.value[:, at] += found.value
        self.variance[:, at] += found.variance
        self.known[:, at] &= known | everything
        self.channelled |= bool((known & ~everything).any())
        rows = self.parts[b].rows[:, None]
        if self.asked.binary and piece.measure == 0:
            inside = np.clip(found.value, 0.0, rows)
            self.foreseen[:, at] += piece.told * (inside * piece.own + (rows - inside) * piece.other)
            low, high = self._interval(b, piece, found, cells, everything)
            self.down[:, at] = np.where(self.alone[at], low - found.value, np.nan)
            self.up[:, at] = np.where(self.alone[at], high - found.value, np.nan)
        else:
            self.foreseen[:, at] += piece.squares[:, None] * piece.every

    def _cells(self, b: int, piece: _Piece, estimate: Floats) -> RareCells:
        """The numbers of single values, (K, questions) each."""
        assert self.channel is not None
        channel, shape = self.channel, estimate.shape
        rows = self.parts[b].rows[:, None]
        own = channel.matrix.own_weights()[piece.code]
        whole = [np.broadcast_to(x, shape) for x in (own, channel.published[piece.code], rows, piece.other)]
        weight, published, rows, other = whole
        cells = RareCells(
            shown=piece.shown,
            estimate=estimate,
            squares=piece.weighed,
            weight=weight,
            published=published,
            rows=rows,
            all_rows=float(self.rows),
            other=other,
            size=channel.size,
        )
        return cells.with_variance(self._by_all_totals(b, piece)) if piece.measure == 0 else cells

    def _nearly_all(self, part: DecoyRows) -> tuple[NDArray[np.intp], RebuiltCovariance | None]:
        """(keys of a pattern that hold nearly all rows, the covariances of their questions), if there are any.

        There a variance is a small difference of large terms, and the questions' own totals tell too little of it: the
        noise of the other totals moves an estimate as much, and the opposite way (docs/explanation/intervals.md, 5).
        """
        keys = np.flatnonzero(part.rows > NEARLY_ALL * self.rows)
        if not len(keys) or self.channel is None or not isinstance(self.channel.matrix, FullMatrix):
            return keys[:0], None
        parts = [other.only(keys) for other in self.parts]
        return keys, RebuiltCovariance(self.weights, parts, self.asked, self.rows)

    def _by_all_totals(self, b: int, piece: _Piece) -> Floats:
        """(K, questions) variances of counts of single values where P is nearly everything, NaN elsewhere."""
        found = np.full((len(self.parts[b].rows), len(piece.at)), np.nan)
        keys, near = self._nearly_all(self.parts[b])
        if near is not None:
            for q in np.flatnonzero(self.alone[piece.at] & (self.parts[b].rows[keys] < self.rows).any()):
                found[keys, q] = near.of(int(piece.at[q]), int(piece.at[q])) / piece.scale[q] ** 2
        return found

    def _variance(self, b: int, piece: _Piece, cells: RareCells) -> Floats:
        """Of counts at the estimate moved to what is possible; of sums by the squares of g."""
        if piece.measure == 0:
            return cells.variance(np.clip(cells.estimate, 0.0, cells.rows))
        moments, column = self.parts[b].moments, self.asked.products
        first, second = (
            np.asarray(moments[column[g, piece.measure]].sum(axis=1), np.float64)[:, None] for g in (0, piece.measure)
        )
        least, most = np.minimum(first, 0.0), np.maximum(first, 0.0)
        estimate = np.clip(cells.estimate, least, most)
        explained, by_totals = np.zeros((2, *estimate.shape))
        for q, f in enumerate(piece.at):
            explained[:, q], by_totals[:, q] = self.rebuilt.beyond_rows(int(f), int(f))
        beyond = explained / piece.scale**2, by_totals / piece.scale**2
        return cells.sum_variance(estimate, piece.own, second, piece.counted, *beyond)

    def _interval(
        self, b: int, piece: _Piece, found: Estimates, cells: RareCells | None, everything: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """Ends for counts, among what is possible: inverted tests for single values, exact ones for their totals."""
        asked, rows, whole = self.asked, self.parts[b].rows[:, None], piece.whole
        if cells is not None and whole is not None and self.channel is not None:
            low, high = rare_value_interval(cells, asked.alpha, full=asked.full)
            least, most = binomial_total_interval(np.maximum(whole.total, 0.0), self.channel.size, asked.alpha)
            return np.where(everything, least, low), np.where(everything, np.minimum(most, rows), high)
        half = asked.z * np.sqrt(found.variance)
        if whole is not None:  # sets of values: no more records than the upper end of their total
            wide = asked.z * np.sqrt(whole.total_variance)
            most = np.minimum(whole.total + wide, rows)
            return cut(found.value - half, found.value + half, np.zeros_like(most), most)
        # Several columns: a plain variance is noisy among few rows, so that of an average composition is its floor.
        slope, inside = piece.own - piece.other, np.clip(found.value, 0.0, rows)
        base = np.maximum(found.variance, piece.told * (rows * piece.other + slope * inside))
        v = Line(constant=base - slope * inside, slope=np.broadcast_to(slope, base.shape))
        return tail_interval(found.value, v, Line(constant=0.0), asked.alpha, 0.0, rows)

    def covariances(self) -> Floats:
        """(K, P) covariances of the pairs asked for: correlations by one formula, of errors as they are stated."""
        found = np.zeros((len(self.value), len(self.asked.pairs)))
        for p, (i, j) in enumerate(self.asked.pairs):
            if self.joint[i] and self.joint[j]:
                found[:, p] = self.rebuilt.rows_alone(int(i), int(j))
                continue
            together = self.rebuilt.of(int(i), int(j))
            own = np.maximum(self.rebuilt.of(int(i), int(i)), 0.0) * np.maximum(self.rebuilt.of(int(j), int(j)), 0.0)
            stated = self.variance[:, i] * self.variance[:, j]
            found[:, p] = together * np.sqrt(np.divide(stated, own, out=np.zeros_like(own), where=own > 0))
        return found


def estimate(
    channels: tuple[DecoyChannel, ...], rows: int, observed: Observed, asked: Asked, said: tuple[str, ...] = ()
) -> Estimated:
    """Calibrated estimates with their intervals; NaN where the release does not identify an answer.

    `said` are caveats of answers that hang on the channels.
    """
    work = _Answering(channels, rows, observed, asked)
    work.run()
    half = asked.z * np.sqrt(work.variance)
    low = work.value + np.where(np.isnan(work.down), -half, work.down)
    high = work.value + np.where(np.isnan(work.up), half, work.up)
    value, variance = work.value, work.variance
    caveats = said if work.channelled else ()
    if not work.known.all():
        value, variance, low, high = (np.where(work.known, x, np.nan) for x in (value, variance, low, high))
        unknown = "not identifiable: some values are in so many groups that the release does not tell who has them"
        caveats = (unknown, *caveats)
    return Estimated(
        value=value,
        variance=variance,
        low=low,
        high=high,
        covariance=work.covariances(),
        caveats=caveats,
        inverted=~np.isnan(work.down),
    )


def _chunks(numbers: NDArray[np.intp], step: int) -> list[NDArray[np.intp]]:
    return [numbers[i : i + step] for i in range(0, len(numbers), step)]


# The SPLU paper's own reconstruction and answers, for comparison: labelled biased, without an interval.


# --- two state --------------------------------------------------------------------------------------------------------
# The SPLU paper's own reconstruction, for comparison: one average rate a for all other values. Biased.
#
# A record without s publishes s at a rate that depends on its true value; these formulas use the average. When P leans
# to some values the answer is off and its interval does not know it (docs/explanation/splu.md, section 8).
# States are the bits (P, s_1 .. s_w), P the highest.


Variant = Literal["paper", "corrected"]

PAPER_STOP = 0.01
CORRECTED_STOP = 1e-6
LEAST_CELL = 1e-3  # records; smaller cells may decay for ever and do not delay the stop
PAPER_ROUNDS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Estimated records per state (last axis), and the rounds each question took."""

    states: Floats
    rounds: NDArray[np.int64]


def rate(total: Floats, rows: Floats, size: int, variant: Variant) -> Floats:
    """a: the chance that a record without s publishes s; the paper's f / N forgets that the record lacks s.

    Corrected: (size - 1) f / (size (N - f)), so that f / size + (N - f) a = f.
    """
    return total / rows if variant == "paper" else (size - 1) * total / (size * (rows - total))


def two_state(published: Floats, inside: Floats, rows_inside: Floats, rows: Floats, size: int) -> tuple[Floats, Floats]:
    """The closed form for one value and its variance: est = (y3 - a n_P) / (1/size - a)."""
    a = rate(published, rows, size, "corrected")
    value = (inside - a * rows_inside) / (1 / size - a)
    x3 = np.clip(value, 0.0, np.minimum(rows_inside, published))
    x1, x2 = published - x3, rows_inside - x3
    x0 = rows - rows_inside - x1
    c = x2 * (size - 1) * rows / (size * (rows - published) ** 2)
    keep, enter = (1 / size) * (1 - 1 / size), a * (1 - a)
    v3, v1 = x3 * keep + x2 * enter, x1 * keep + x0 * enter
    return value, ((1 - c) ** 2 * v3 + c**2 * v1) / (1 / size - a) ** 2


def iterate(
    observed: Floats, sizes: tuple[int, ...], variant: Variant, *, stop: float | None = None, rounds: int = PAPER_ROUNDS
) -> Reconstruction:
    """Iterative Bayesian reconstruction, [SPLU, eq. 13], from x = y; the rates are rebuilt from x each round.

    `observed[..., i]` counts the published rows in state i; leading axes are questions, solved side by side. A state
    that starts at 0 stays 0. `paper` stops at 1 % relative change of every state, `corrected` at 1e-6 of those above
    0.001 records.
    """
    limit = stop if stop is not None else (PAPER_STOP if variant == "paper" else CORRECTED_STOP)
    least = LEAST_CELL if variant == "corrected" else 0.0
    flat = np.asarray(observed, np.float64).reshape(-1, np.shape(observed)[-1])
    states, taken = flat.copy(), np.full(len(flat), rounds)
    running = np.arange(len(flat))
    for done in range(1, rounds + 1):
        x, y = states[running], flat[running]
        M = _transitions(x, sizes, variant)
        reached = np.einsum("qi,qij->qj", x, M)
        share = np.divide(y, reached, out=np.zeros_like(y), where=reached > 0)
        new = x * np.einsum("qij,qj->qi", M, share)
        change = np.divide(np.abs(new - x), x, out=np.zeros_like(x), where=x > least).max(axis=1)
        states[running] = new
        taken[running[change <= limit]] = done
        running = running[change > limit]
        if not len(running):
            break
    shape = np.shape(observed)
    return Reconstruction(states=states.reshape(shape), rounds=taken.reshape(shape[:-1]))


def _transitions(states: Floats, sizes: tuple[int, ...], variant: Variant) -> Floats:
    """I (x) M_1 (x) ... (x) M_w for each question; M_j has rows without / with s_j, columns published other / s_j."""
    questions, count = states.shape
    rows = states.sum(axis=1)
    found = np.broadcast_to(np.eye(2), (questions, 2, 2))
    for j, size in enumerate(sizes):
        has = (np.arange(count) >> (len(sizes) - 1 - j)) & 1 == 1
        a = rate(states[:, has].sum(axis=1), rows, size, variant)
        keep = np.full(questions, 1 / size)
        step = np.stack([np.stack([1 - a, a], axis=1), np.stack([1 - keep, keep], axis=1)], axis=1)
        width = 2 * found.shape[1]
        found = np.einsum("qab,qcd->qacbd", found, step).reshape(questions, width, width)
    return found


# --- decoy comparison -------------------------------------------------------------------------------------------------
# The SPLU paper's own answers to the same questions, for comparison: labelled biased, without an interval.


ESTIMATORS = ("paper", "corrected", "two-state")
PAPER_CAVEAT = (
    "{name} estimator: one average rate for all other values, so the answer is biased when the condition goes with the "
    "sensitive value, and no interval knows it"
)
LIMITED = "{name} estimator: answers counts of one value of each sensitive column only"


def paper_estimate(
    channels: tuple[DecoyChannel, ...], joint: Floats, observed: Observed, asked: Asked, name: str
) -> Estimated:
    """Counts of one value (of each column) by the published iteration; NaN for other questions.

    `joint` is the published table of the asked columns over the whole release, one axis per column.
    """
    shape = (observed.keys, asked.functionals)
    value, variance = np.full(shape, np.nan), np.full(shape, np.nan)
    parts = observations(channels, observed, asked)
    uncertain = np.array([part.uncertain for part in parts], dtype=bool).reshape(len(parts), asked.functionals)
    alone = (uncertain.sum(axis=0) == 1) & (asked.measure == 0)
    for part, mine in zip(parts, uncertain, strict=True):
        single = (np.diff(part.coefficients.indptr) == 1) & mine & alone & ~part.unseen
        at = np.flatnonzero(single)
        if len(at) and asked.binary:
            value[:, at], variance[:, at] = _answers(channels, joint, part, at, name)
    caveats = [PAPER_CAVEAT.format(name=name)]
    if np.isnan(value).any():
        caveats.append(LIMITED.format(name=name))
    half = asked.z * np.sqrt(variance) if name == "two-state" else np.full(shape, np.inf)
    blank = np.isnan(value)
    return Estimated(
        value=value,
        variance=variance,
        low=np.where(blank, np.nan, value - half),
        high=np.where(blank, np.nan, value + half),
        covariance=np.full((observed.keys, len(asked.pairs)), np.nan),
        caveats=tuple(caveats),
    )


def _answers(
    channels: tuple[DecoyChannel, ...], joint: Floats, part: DecoyRows, at: NDArray[np.intp], name: str
) -> tuple[Floats, Floats]:
    """(K, questions) values and variances."""
    inside = part.moments[0].toarray().T.reshape(*joint.shape, -1)
    outside = joint[..., None] - inside
    codes = np.unravel_index(part.coefficients[at].indices, joint.shape)
    sizes = tuple(channel.size for channel in channels)
    # (questions, K, states): the bit of P is the highest
    states = np.stack(
        [np.stack([*_states(outside, code), *_states(inside, code)], axis=-1) for code in zip(*codes, strict=True)]
    )
    if name == "two-state" and len(channels) == 1:
        rows = states.sum(axis=-1)
        published, n = states[..., 1] + states[..., 3], states[..., 2] + states[..., 3]
        value, variance = two_state(published, states[..., 3], n, rows, sizes[0])
        return value.T, variance.T
    variant: Variant = "paper" if name == "paper" else "corrected"
    found = iterate(states, sizes, variant).states[..., -1]
    return found.T, np.full(found.T.shape, np.nan)


def _states(table: Floats, codes: tuple[int, ...]) -> list[Floats]:
    """Counts of every combination of "has / lacks the asked value" over the leading axes; lacking first."""
    if not codes:
        return [table]
    has = table[codes[0]]
    return [*_states(table.sum(axis=0) - has, codes[1:]), *_states(has, codes[1:])]
