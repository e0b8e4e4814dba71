"""The published rows of a decoy release as tables, the weights of joint values, and covariances of questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..errors import QueryError, UnsupportedQuery
from ..model.public import Asked, Floats, Observed
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
