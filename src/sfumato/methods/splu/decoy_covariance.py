"""Covariances of questions to a decoy release whose channel is rebuilt from its totals.

The error of question i is, to first order, what its rows in P add with a known channel, less J_i . eps with eps the
noise of the published totals. What the totals explain of the first part is taken out, and the totals come back with
their own covariance T = diag(f)(I - M), moving the question by D_i = E_i - J(h_i) + J(E_i):

    Cov(i, j) = rows_ij - (X_i E_j + E_i X_j - E_i G E_j) + D_i' T D_j.

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


class RebuiltCovariance:
    """Covariances of pairs of questions about one decoy column."""

    def __init__(self, channel: DecoyChannel, parts: Sequence[DecoyRows], asked: Asked, rows: int) -> None:
        self._channel, self._parts, self._asked, self._rows = channel, parts, asked, rows
        self._kept: dict[int, Moved] = {}

    def of(self, i: int, j: int) -> Floats:
        """(K,) covariance of two questions, whatever pattern of conditions each is about."""
        explained, by_totals = self.beyond_rows(i, j)
        return self._rows_alone(i, j) - explained + by_totals

    def beyond_rows(self, i: int, j: int) -> tuple[Floats, Floats]:
        """(K,) twice: what the totals explain of the rows' covariance, and what the totals' own noise adds."""
        first, second = self._moved(i), self._moved(j)
        explained = (first.with_totals * second.explained + first.explained * second.with_totals).sum(axis=1)
        explained -= (first.explained * self._spread_of_totals(second.explained)).sum(axis=1)
        return explained, self._by_totals(first.by_totals, second.by_totals)

    @cached_property
    def _inverse(self) -> Floats | None:
        """G+; None where the values are too many for a table."""
        matrix = self._channel.matrix
        if not isinstance(matrix, FullMatrix):
            return None
        B, f = matrix.inverse, self._channel.published
        G = B.T @ (f[:, None] * B) - np.diag(f @ B)
        return np.asarray(np.linalg.pinv((G + G.T) / 2, rcond=RANK, hermitian=True))

    def _spread_of_totals(self, h: Floats) -> Floats:
        """G h: covariance of the estimated totals, were the rows independent, applied to rows of numbers."""
        matrix, f = self._channel.matrix, self._channel.published[:, None]
        return np.asarray((matrix.estimate(f * matrix.weights(h.T)) - matrix.estimate(f) * h.T).T)

    def _by_totals(self, left: Floats, right: Floats) -> Floats:
        """left' T right, made symmetric."""
        f, matrix = self._channel.counts, self._channel.matrix
        through = left * matrix.forward(right.T).T + right * matrix.forward(left.T).T
        return np.asarray((left * right - through / 2) @ f)

    def _rows_alone(self, i: int, j: int) -> Floats:
        """(K,): sum over the rows inside both conditions of g_i g_j (w_i w_j - w_ij)."""
        asked, matrix = self._asked, self._channel.matrix
        at = asked.products[asked.measure[i], asked.measure[j]]
        found = np.zeros(len(self._parts[0].rows))
        for part in self._parts:
            if part.uncertain[i] and part.uncertain[j]:
                hi, hj = part.coefficients[[i, j]].toarray()
                found += part.moments[at] @ (matrix.weights(hi) * matrix.weights(hj) - matrix.weights(hi * hj))
        return found

    def _moved(self, i: int) -> Moved:
        if i in self._kept:
            return self._kept[i]
        if len(self._kept) > 3:  # pairs come one after the other: a sum and its count
            self._kept.clear()
        channel, matrix, g = self._channel, self._channel.matrix, self._asked.measure[i]
        f, keep = channel.published, 1.0 / channel.size
        X, E, falls, asked = (np.zeros((len(self._parts[0].rows), len(f))) for _ in range(4))
        for part in self._parts:
            if not part.uncertain[i]:
                continue
            h = part.coefficients[[i]].toarray()
            w = matrix.weights(h.T).T
            Y = part.moments[self._asked.products[0, g]].toarray()
            N = matrix.estimate(Y.T).T
            mine = matrix.estimate((Y * w).T).T - N * h
            X += mine
            asked += N * h
            falls += slope(Y * w, N * h, N * w, f, self._rows, keep)
            if self._inverse is None:
                own = float((h * self._spread_of_totals(h)).sum())
                E += h * (mine @ h.T / own if own > 0 else 0.0)
        if self._inverse is not None:
            E = X @ self._inverse
            # a constant is explained by the number of rows, which has no error
            E += ((asked.sum(axis=1) - E @ f) / self._rows)[:, None]
        through = matrix.weights(E.T).T
        D = E - falls + slope(f * through, f * E, f * through, f, self._rows, keep)
        self._kept[i] = Moved(X, E, D)
        return self._kept[i]
