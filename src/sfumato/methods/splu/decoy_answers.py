"""Answers from a decoy release: any linear question, with variance, interval and covariances.

A question is a number h per (joint) sensitive value and a measure g of the untouched columns: sum over the rows inside
P of g(row) h(true value). With weights w = M^-1 h over published values, `sum of g w` estimates it without bias, and
`sum of g^2 (w^2 - w2)`, w2 = M^-1 h^2, its variance [docs/explanation/splu.md, 5.2]. A question about one column is
calibrated with the column's published totals. Several columns multiply their weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...errors import QueryError
from ...model.public import Asked, Estimated, Floats, Observed
from ...stats.intervals import score_interval
from .decoy_channel import DecoyChannel
from .decoy_estimate import Estimates, Whole, calibrate, joint_weights, total_interval

CELLS = 4_000_000  # numbers of a table held at once
JOINT_VALUES = 2_000_000  # combinations of values of several columns that can be told apart in one question
FEW_ROWS = 1_000  # below this many rows inside P the interval of a count is a score interval
RESIDUAL = 1e-6  # a question is identified when M w = h up to this


@dataclass(frozen=True, slots=True)
class Observation:
    """The published rows of one pattern of untouched leaves: `moments[j]` is a (keys, joint values) table."""

    moments: tuple[sp.csr_array, ...]
    rows: Floats  # (K,)
    coefficients: sp.csr_array  # (F, joint values), over published values only
    uncertain: NDArray[np.bool_]  # (F,) coefficients differ between values; the others are plain sums of g
    unseen: NDArray[np.bool_]  # (F,) the question also asks for values that were never published


def observations(channels: tuple[DecoyChannel, ...], observed: Observed, asked: Asked) -> list[Observation]:
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
            sp.csr_array((observed.moments[at, j], (key[at], place[at])), shape=(observed.keys, width))
            for j in range(observed.moments.shape[1])
        )
        rows = np.asarray(tables[0].sum(axis=1), np.float64).ravel()
        unseen = np.asarray(abs(H) @ (~seen).astype(float)) > 0
        found.append(Observation(tables, rows, sp.csr_array(H[:, grid]), _differ(H), unseen))
    return found


def _differ(H: sp.csr_array) -> NDArray[np.bool_]:
    """Rows whose entries are not all the same number."""
    filled, width = np.diff(H.indptr), H.shape[1]
    top, bottom = (np.asarray(f(axis=1).toarray()).ravel() for f in (H.max, H.min))
    return (filled > 0) & ((filled < width) | (top > bottom))


class Weights:
    """Weights of questions under the product of the columns' channels."""

    def __init__(self, channels: tuple[DecoyChannel, ...]) -> None:
        self.channels, self.shape = channels, tuple(len(c.active) for c in channels)
        self.known = all(c.identifiable.all() for c in channels)
        self.published = channels[0].published

    def of(self, values: Floats) -> Floats:
        """M^-1 h for columns h."""
        table = values.reshape(*self.shape, -1)
        return joint_weights(self.channels, table).reshape(values.shape)

    def forward(self, values: Floats) -> Floats:
        """M c for columns c."""
        table = values.reshape(*self.shape, -1)
        for axis, channel in enumerate(self.channels):
            moved = np.moveaxis(table, axis, 0)
            flat = channel.matrix.forward(moved.reshape(len(moved), -1))
            table = np.moveaxis(flat.reshape(moved.shape), 0, axis)
        return table.reshape(values.shape)

    def identified(self, values: Floats, weights: Floats) -> NDArray[np.bool_]:
        """Which columns the channel tells apart: M w = h."""
        if self.known:
            return np.ones(values.shape[1], bool)
        gap = np.abs(self.forward(weights) - values).max(axis=0, initial=0.0)
        bounded = all(np.isfinite(c.condition) or c.identifiable.any() for c in self.channels)
        return (gap <= RESIDUAL * np.maximum(1.0, np.abs(values).max(axis=0, initial=0.0))) & bounded

    def each(self, observed: Floats) -> tuple[Floats, Floats]:
        """((M^T)^-1 y, (B o B) y) over all joint values, for columns y."""
        value = square = observed.reshape(*self.shape, -1)
        for axis, channel in enumerate(self.channels):
            moved = [np.moveaxis(t, axis, 0) for t in (value, square)]
            size = moved[0].shape
            value = np.moveaxis(channel.matrix.estimate(moved[0].reshape(size[0], -1)).reshape(size), 0, axis)
            square = np.moveaxis(channel.matrix.squares(moved[1].reshape(size[0], -1)).reshape(size), 0, axis)
        return value.reshape(observed.shape), square.reshape(observed.shape)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Questions of one measure in one pattern, before calibration; `whole` is the same asked of all rows."""

    at: NDArray[np.intp]  # numbers of the questions
    inside: Estimates  # (K, questions)
    cross: Floats  # covariance with `whole`
    whole: Whole | None  # None for several columns: no total of their combinations is known
    known: NDArray[np.bool_]
    single: bool  # each asks about one value
    own: Floats  # variance that a record adds which the question counts
    other: Floats  # ... and one that it does not count, on average over the release


class _Answering:
    """One question set, answered pattern by pattern."""

    def __init__(self, channels: tuple[DecoyChannel, ...], rows: int, observed: Observed, asked: Asked) -> None:
        self.weights, self.rows, self.asked = Weights(channels), rows, asked
        self.channel = channels[0] if len(channels) == 1 else None
        self.parts = observations(channels, observed, asked)
        K, F = observed.keys, asked.functionals
        self.uncertain = np.array([part.uncertain for part in self.parts], dtype=bool).reshape(len(self.parts), F)
        self.alone = self.uncertain.sum(axis=0) == 1  # one pattern carries all of the uncertainty
        self.value, self.variance = np.zeros((K, F)), np.zeros((K, F))
        self.share = np.zeros((len(self.parts), K, F))  # of the gap to the total that each pattern took
        self.down, self.up = np.full((K, F), np.nan), np.full((K, F), np.nan)  # ends of intervals that are not normal
        self.known = np.ones((K, F), bool)

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
            never = np.flatnonzero(part.unseen & (filled == 0) & (self.asked.measure == 0) & self.alone)
            if self.channel is not None and len(never):
                self.down[:, never], self.up[:, never] = total_interval(np.zeros(1), self.channel.size, self.asked.z)
        for f in np.flatnonzero(self.uncertain.sum(axis=0) > 1):
            self.variance[:, f] = np.maximum(0.0, self._covariance(int(f), int(f)))

    def _each(self, part: Observation, at: NDArray[np.intp], g: int) -> _Piece:
        """Questions about one value each, without weights: a GROUP BY of thousands of values is cheap."""
        H, weights = part.coefficients[at], self.weights
        s, c = H.indices, H.data
        first, second = part.moments[self.asked.products[0, g]], part.moments[self.asked.products[g, g]]
        value, variance, cross = (np.zeros((len(part.rows), len(at))) for _ in range(3))
        for keys in _chunks(np.arange(len(part.rows)), max(1, CELLS // max(1, H.shape[1]))):
            x, xx = weights.each(first[keys].toarray().T)
            y, yy = (x, xx) if g == 0 else weights.each(second[keys].toarray().T)
            value[keys] = (x[s] * c[:, None]).T
            variance[keys] = ((yy[s] - y[s]) * c[:, None] ** 2).T
            cross[keys] = ((xx[s] - x[s]) * c[:, None] ** 2).T
        whole, known = None, np.ones(len(at), bool)
        for channel, code in zip(weights.channels, np.unravel_index(s, weights.shape), strict=True):
            known &= channel.identifiable[code]
        if self.channel is not None:
            x, xx = weights.each(self.channel.published[:, None])
            total = self.channel.published[s]
            whole = Whole(
                value=c * x[s, 0],
                variance=np.maximum(0.0, c**2 * (xx - x)[s, 0]),
                total=c * total,
                total_variance=c**2 * total * (1 - 1 / self.channel.size),
            )
        inside = Estimates(value=value, variance=np.maximum(0.0, variance))
        return _Piece(at, inside, cross, whole, known, True, *self._spread_each(s))

    def _spread_each(self, s: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Variance of w(published) for a record with and without the value asked for.

        A record of s shows s with chance 1/gamma and weight b; the other weights have the mean that makes w unbiased
        and are close to it. Over all records the mean of w^2 is sum_j f'_j w_j^2 / N, because f' M = f'.
        """
        has, both, part = np.ones(len(s)), np.ones(len(s)), np.ones(len(s))
        for channel, code in zip(self.weights.channels, np.unravel_index(s, self.weights.shape), strict=True):
            keep, b, share = 1 / channel.size, channel.matrix.own_weights()[code], channel.published / self.rows
            has *= keep * b**2 + (1 - keep * b) ** 2 / (1 - keep)
            both *= channel.matrix.squares(share)[code]
            part *= share[code]
        return np.maximum(has - 1, 0.0), np.maximum(both - part * has, 0.0) / np.maximum(1 - part, 1e-9)

    def _any(self, part: Observation, at: NDArray[np.intp], g: int) -> _Piece:
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
        inside = Estimates(value=first @ w, variance=np.maximum(0.0, second @ v))
        known = self.weights.identified(h, w)
        return _Piece(at, inside, first @ v, whole, known, False, *self._spread_any(h, w))

    def _spread_any(self, h: Floats, w: Floats) -> tuple[Floats, Floats]:
        """The same for a set of values: averages over the records in it and outside it, as the release has them."""
        share = np.ones(1)
        for channel in self.weights.channels:
            share = np.outer(share, channel.published / self.rows).ravel()
        spread = np.maximum(self.weights.forward(w**2) - h**2, 0.0)
        inside, outside = share @ h, share @ (1 - h)
        own = np.divide(share @ (h * spread), inside, out=np.zeros(len(inside)), where=inside > 0)
        other = np.divide(share @ ((1 - h) * spread), outside, out=np.zeros(len(inside)), where=outside > 0)
        return own, other

    def _add(self, b: int, piece: _Piece) -> None:
        """Calibrate and add up; all rows of the release are answered by the totals themselves."""
        at, found, known, whole = piece.at, piece.inside, piece.known[None, :], piece.whole
        everything = np.zeros(found.value.shape, bool)
        if whole is not None:
            counting = self.asked.measure[at] == 0
            # A count's variance lies between 0 and the whole's, so it takes between none and all of the gap.
            cross = np.where(counting, np.clip(piece.cross, 0.0, whole.variance), piece.cross)
            found, self.share[b][:, at] = calibrate(found, cross, whole)
            everything = (self.parts[b].rows == self.rows)[:, None] & counting & self.alone[at]
            found = Estimates(
                value=np.where(everything, whole.total, found.value),
                variance=np.where(everything, whole.total_variance, found.variance),
            )
        self.value[:, at] += found.value
        self.variance[:, at] += found.variance
        self.known[:, at] &= known | everything
        if self.asked.binary:
            self._interval(b, piece, found, everything)

    def _interval(self, b: int, piece: _Piece, found: Estimates, everything: NDArray[np.bool_]) -> None:
        """Ends for counts: score sets among few rows and for totals, and at most the total's upper end.

        Among few rows the plain variance is too noisy. Then it is the set of counts x with (value - x)^2 <= z^2 Var(x),
        Var(x) = x own + (n - x) other, times (1 - share) and plus share^2 Var(total) for the calibration.
        """
        at, rows, z, whole = piece.at, self.parts[b].rows[:, None], self.asked.z, piece.whole
        share, half = self.share[b][:, at], z * np.sqrt(found.variance)
        v0 = (1 - share) * rows * piece.other + (0.0 if whole is None else share**2 * whole.total_variance)
        score = score_interval(found.value, v0, (1 - share) * (piece.own - piece.other), z)
        low, high = (
            np.where(rows < FEW_ROWS, s, n)
            for s, n in zip(score, (found.value - half, found.value + half), strict=True)
        )
        if whole is not None and self.channel is not None:
            least, most = total_interval(np.maximum(whole.total, 0.0), self.channel.size, z)
            if not piece.single:
                wide = z * np.sqrt(whole.total_variance)
                least, most = whole.total - wide, whole.total + wide
            low = np.where(everything, least, np.minimum(low, most))
            high = np.where(everything, most, np.minimum(high, most))
        counted = self.alone[at] & (self.asked.measure[at] == 0)
        self.down[:, at] = np.where(counted, low - found.value, np.nan)
        self.up[:, at] = np.where(counted, high - found.value, np.nan)

    def covariances(self) -> Floats:
        """(K, P) covariances of the pairs asked for."""
        found = np.zeros((len(self.value), len(self.asked.pairs)))
        for p, (i, j) in enumerate(self.asked.pairs):
            found[:, p] = self._covariance(int(i), int(j))
        return found

    def _covariance(self, i: int, j: int) -> Floats:
        """(K,) covariance of two questions, calibration included, summed over pairs of patterns.

        In pattern b question i is sum over rows of (g_i [row in P_b] - l_i) w_i, plus l_i times the total. So it is
        [b = c] sum_b g_i g_j v - l_j sum_b g_i v - l_i sum_c g_j v + l_i l_j (sum over all rows of v + Cov(totals)),
        with v = w_i w_j - w_ij, sum_b over the rows inside P and pattern b.
        """
        gi, gj, column = self.asked.measure[i], self.asked.measure[j], self.asked.products
        found = np.zeros(len(self.value))
        for b in np.flatnonzero(self.uncertain[:, i]):
            for c in np.flatnonzero(self.uncertain[:, j]):
                first, second = self.parts[b], self.parts[c]
                hi, hj = (p.coefficients[[f]].toarray().T for p, f in ((first, i), (second, j)))
                if self.channel is None and b != c:
                    continue
                v = self.weights.of(hi) * self.weights.of(hj) - self.weights.of(hi * hj)
                if b == c:
                    found += (first.moments[column[gi, gj]] @ v)[:, 0]
                if self.channel is not None:
                    li, lj, channel = self.share[b][:, i], self.share[c][:, j], self.channel
                    totals = channel.counts @ (hi * hj - hi * channel.matrix.forward(hj))[:, 0]
                    found -= (
                        lj * (first.moments[column[0, gi]] @ v)[:, 0] + li * (second.moments[column[0, gj]] @ v)[:, 0]
                    )
                    found += li * lj * (float(channel.published @ v[:, 0]) + float(totals))
        return found


def estimate(channels: tuple[DecoyChannel, ...], rows: int, observed: Observed, asked: Asked) -> Estimated:
    """Calibrated estimates with their intervals; NaN where the release does not identify an answer."""
    work = _Answering(channels, rows, observed, asked)
    work.run()
    half = asked.z * np.sqrt(work.variance)
    low = work.value + np.where(np.isnan(work.down), -half, work.down)
    high = work.value + np.where(np.isnan(work.up), half, work.up)
    value, variance = work.value, work.variance
    caveats: tuple[str, ...] = ()
    if not work.known.all():
        value, variance, low, high = (np.where(work.known, x, np.nan) for x in (value, variance, low, high))
        caveats = ("not identifiable: some values are in so many groups that the release does not tell who has them",)
    return Estimated(value=value, variance=variance, low=low, high=high, covariance=work.covariances(), caveats=caveats)


def _chunks(numbers: NDArray[np.intp], step: int) -> list[NDArray[np.intp]]:
    return [numbers[i : i + step] for i in range(0, len(numbers), step)]
