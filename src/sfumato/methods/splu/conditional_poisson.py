"""Samples of fixed size with given inclusion probabilities: odds and pair probabilities.

A row of a uniformly random 0/1 table with given margins is, for many rows, a conditional Poisson sample: independent
coins with odds w, given that `size` fall on heads (docs/explanation/splu.md, 5.1). With e_k the elementary symmetric
polynomials of w,

    Pr(s) = w_s e_{size-1}(w without s) / e_size,    Pr(u and s) = w_u w_s e_{size-2}(w without u, s) / e_size.

Leaving a value out by e_k(without s) = e_k - w_s e_{k-1}(without s) is stable while Pr(s) is small, because each step
multiplies the error by odds below 1. The few values above `FREQUENT` (at most size / FREQUENT) are multiplied out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FREQUENT = 0.25  # inclusion probability above which a value is left out by multiplication, not by subtraction
ROUNDS = 2_000
TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMatrix:
    """A[u, s] = Pr(u and s), A[u, u] = Pr(u), as diagonal + W Q W^T of small rank."""

    inclusion: Floats
    diagonal: Floats
    factor: Floats  # W, (values, rank)
    core: Floats  # Q, (rank, rank)

    def apply(self, vectors: Floats) -> Floats:
        """A v for each column v, O(values * rank)."""
        scaled = self.diagonal * vectors if vectors.ndim == 1 else self.diagonal[:, None] * vectors
        return scaled + self.factor @ (self.core @ (self.factor.T @ vectors))

    def dense(self) -> Floats:
        """A in full, for few values."""
        return np.diag(self.diagonal) + self.factor @ self.core @ self.factor.T


def fit_odds(inclusion: Floats, size: int) -> Floats:
    """Odds w, summing to `size`, whose conditional Poisson sample of `size` has these inclusion probabilities.

    The probabilities lie strictly between 0 and 1 and sum to `size`. Fixed point of
    w_s = pi_s / (1 - pi_s) * e_size(w without s) / e_{size-1}(w without s); usually under ten rounds.
    """
    frequent = inclusion > FREQUENT
    wanted = inclusion / (1 - inclusion)
    odds = wanted.copy()
    for _ in range(ROUNDS):
        odds *= size / odds.sum()  # the sample does not depend on the scale, the size of e_k does
        without = leave_one_out(odds, size, frequent)
        ratio = wanted * without[:, size] / without[:, size - 1] / odds
        odds *= ratio
        if np.ptp(ratio) <= TOLERANCE * ratio.max():
            break
    return odds * (size / odds.sum())


def pair_matrix(inclusion: Floats, size: int) -> PairMatrix:
    """The pair probabilities of the conditional Poisson sample with these inclusion probabilities.

    For rare values A = D + U K U^T with U[s, i] = (-1)^i w_s^(i+1), K[i, j] = e_{size-2-i-j} / e_size. Rows and columns
    of frequent values, where D can vanish, are written out and enter the low-rank part.
    """
    odds = fit_odds(inclusion, size)
    frequent = inclusion > FREQUENT
    rare = ~frequent
    total = symmetric_polynomials(odds, size)
    hankel = np.array([[total[size - 2 - i - j] if i + j <= size - 2 else 0.0 for j in range(size - 1)]
                       for i in range(size - 1)]) / total[size]  # fmt: skip
    powers = -np.power(-odds[:, None], np.arange(1, size)[None, :]) * rare[:, None]

    once = leave_one_out(odds, size, frequent)
    twice = _divide(once, odds, size - 1)  # e_k without u, divided by (1 + w_u t) once more
    diagonal = np.where(rare, odds * twice[:, size - 1] / total[size], inclusion)

    rows = _frequent_rows(odds, size, np.flatnonzero(frequent), total[size], inclusion)  # (frequent, values)
    count = len(rows)
    unit = np.zeros((len(odds), count))
    unit[np.flatnonzero(frequent), np.arange(count)] = 1
    inner = rows[:, frequent] - np.diag(inclusion[frequent])
    eye, none = np.eye(count), np.zeros((count, size - 1))
    core = np.block([[inner, eye, none], [eye, np.zeros((count, count)), none], [none.T, none.T, hankel]])
    factor = np.hstack([unit, (rows * rare).T, powers])
    return PairMatrix(inclusion=inclusion, diagonal=diagonal, factor=factor, core=core)


def symmetric_polynomials(odds: Floats, degree: int) -> Floats:
    """e_0 .. e_degree of the odds, by a balanced product of the factors 1 + w t (all terms positive: stable)."""
    level = np.ones((len(odds), 2))
    level[:, 1] = odds
    while len(level) > 1:
        if len(level) % 2:
            level = np.vstack([level, np.eye(1, level.shape[1])])
        left, right = level[::2], level[1::2]
        width = min(degree + 1, 2 * level.shape[1] - 1)
        level = np.zeros((len(left), width))
        for k in range(min(width, left.shape[1])):
            stop = min(width, k + right.shape[1])
            level[:, k:stop] += left[:, k : k + 1] * right[:, : stop - k]
    found = np.zeros(degree + 1)
    if len(level):
        found[: min(degree + 1, level.shape[1])] = level[0, : degree + 1]
    else:
        found[0] = 1
    return found


def leave_one_out(odds: Floats, degree: int, frequent: NDArray[np.bool_]) -> Floats:
    """Row s holds e_0 .. e_degree of the odds without s."""
    total = symmetric_polynomials(odds, degree)
    found = _divide(np.broadcast_to(total, (len(odds), degree + 1)), odds, degree)
    where = np.flatnonzero(frequent)
    if len(where):
        found[where] = _without_each(symmetric_polynomials(odds[~frequent], degree), odds[where])
    return found


def _divide(polynomials: Floats, odds: Floats, degree: int) -> Floats:
    """Row s divided by 1 + w_s t, up to t^degree."""
    found = np.empty((len(odds), degree + 1))
    found[:, 0] = polynomials[:, 0]
    for k in range(1, degree + 1):
        found[:, k] = polynomials[:, k] - odds * found[:, k - 1]
    return found


def _without_each(base: Floats, odds: Floats) -> Floats:
    """Row i: base times the factors 1 + w t of all odds but the i-th."""
    degree = len(base) - 1

    def times(polynomial: Floats, w: float) -> Floats:
        return np.concatenate((polynomial[:1], polynomial[1:] + w * polynomial[:-1]))

    before, after = [base], [np.eye(1, degree + 1)[0]]
    for w in odds[:-1]:
        before.append(times(before[-1], w))
    for w in odds[:0:-1]:
        after.append(times(after[-1], w))
    return np.array([np.convolve(b, a)[: degree + 1] for b, a in zip(before, reversed(after), strict=True)])


def _frequent_rows(odds: Floats, size: int, frequent: NDArray[np.intp], top: float, inclusion: Floats) -> Floats:
    """A[u, :] for each frequent u, all terms positive or left out stably."""
    rare = np.ones(len(odds), bool)
    rare[frequent] = False
    base = symmetric_polynomials(odds[rare], size)
    rows = np.zeros((len(frequent), len(odds)))
    for i, u in enumerate(frequent):
        others = np.delete(frequent, i)
        without_u = _without_each(base, odds[frequent])[i]
        pair = _divide(np.broadcast_to(without_u, (len(odds), size + 1)), odds, size - 2)[:, size - 2]
        if len(others):
            pair[others] = _without_each(base, odds[others])[:, size - 2]
        rows[i] = odds[u] * odds * pair / top
        rows[i, u] = inclusion[u]
    return rows
