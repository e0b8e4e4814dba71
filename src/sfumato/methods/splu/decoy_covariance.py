"""Covariances of questions to a decoy release whose channel is rebuilt from its totals.

The error of question i is, to first order, what its rows in P add with a known channel, less J_i . eps with eps the
noise of the published totals. What the totals explain of the first part is taken out, and the totals come back with
their own covariance T = diag(f)(I - M), moving the question by D_i = E_i - J(h_i) + J(E_i):

    Cov(i, j) = rows_ij - (X_i E_j + E_i X_j - E_i G E_j) + D_i' T D_j.

Columns are randomised independently of each other, so each adds its own terms: the noise of one column's totals tells
of a question about several columns what it tells of its mean over the others.

As in `functionals.py` with E = G+ X, and with J, which models leave out: over random functions it moves their standard
errors by one percent. Where values are too many for a table, E_i is the regression on the question's own total;
docs/explanation/inference.md, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...model.public import Asked, Floats
from .decoy_channel import DecoyChannel, FullMatrix
from .decoy_weights import DecoyWeights
from .published_tables import DecoyRows

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
