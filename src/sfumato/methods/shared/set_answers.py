"""Unbiased answers from published sets: weights, their covariance, and its unbiased estimate.

Q is the channel (k sets, m values), pi a public prior the weights are tuned to, d = Q pi, M = Q' diag(1/d) Q.
A functional h (a number per value) is answered by the sum over rows of omega_h(Z) = Q_Z M^-1 h' / d_Z, whose mean for
a record of value x is h(x) whatever pi and the data are. docs/explanation/set-channels.md, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import SpecError

from .set_channel import Floats, SetChannel

CYCLIC_FROM = 200  # values from which on all shifts of a few blocks are answered by Fourier transforms
LEAST_CONDITION = 1e-10  # of M scaled by the prior, whose largest eigenvalue is 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetAnswers:
    """What a reader computes once per channel. Arrays of functionals are (F, m), weights (F, k), per value (F, m)."""

    matrix: Floats  # Q, (k, m)
    prior: Floats  # pi, (m,)
    inverse: Floats  # M^-1, (m, m)
    unit_weights: Floats  # (k, m): omega of every single value

    def weights(self, functionals: Floats) -> Floats:
        """omega_h(Z), (F, k): what a row that shows Z adds to the answer of h."""
        return functionals @ self.unit_weights.T

    def covariance(self, first: Floats, second: Floats) -> Floats:
        """v_hk(x), (F, m): covariance of omega_h and omega_k for one record of value x, pair by pair."""
        return (self.weights(first) * self.weights(second)) @ self.matrix - first * second

    def variance(self, functionals: Floats) -> Floats:
        """v_hh(x), (F, m)."""
        return self.covariance(functionals, functionals)

    def third_cumulant(self, functionals: Floats) -> Floats:
        """E[(omega_h - h(x))^3 | x], (F, m)."""
        omega = self.weights(functionals)
        second, third = omega**2 @ self.matrix, omega**3 @ self.matrix
        return third - 3 * functionals * second + 2 * functionals**3

    def total_variance(self, gram: Floats) -> float:
        """Variance of all questions W added up, G = W'W, for one record, mean over true values by the prior."""
        return float((self.inverse * gram).sum() - self.prior @ np.diag(gram))

    def worst_variance(self, questions: Floats) -> float:
        """The largest over true values of the questions' variances added up."""
        return float(self.variance(questions).sum(axis=0).max())


@dataclass(frozen=True, slots=True, kw_only=True)
class CountCumulants:
    """Variance and third cumulant of one record's weight, for 0/1 functionals: means inside and outside, each (F,).

    A count over n rows, x of which hold a value inside, has about variance n v0 + x (v1 - v0) and third cumulant
    n k0 + x (k1 - k0): exactly so where all values inside are alike, and all outside.
    """

    v0: Floats
    v1: Floats
    k0: Floats
    k1: Floats


def set_answers(channel: SetChannel, prior: Floats | None = None) -> SetAnswers:
    """The answers of a channel, weights tuned to `prior` (flat where None; every share above 0)."""
    pi = checked_prior(channel.size, prior)
    Q = channel.matrix()
    if prior is None and channel.size >= CYCLIC_FROM and channel.cyclic:
        return _cyclic_answers(Q, pi)
    shown = Q / (Q @ pi)[:, None]
    r = np.sqrt(pi)
    scaled = r[:, None] * (Q.T @ shown) * r  # eigenvalues in (0, 1]: 1 for r, whatever the channel
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    _check_condition(values[0])
    half = vectors.T * r  # M^-1 = diag(r) V diag(1 / values) V' diag(r)
    inverse = half.T @ (half / values[:, None])
    return SetAnswers(matrix=Q, prior=pi, inverse=inverse, unit_weights=shown @ inverse)


def _cyclic_answers(Q: Floats, pi: Floats) -> SetAnswers:
    """The same for base blocks with all their shifts and a flat prior, by Fourier transforms of the blocks.

    Row t of block b is q_b(x - t) and d is one number d_b in a block. So M is circulant, of eigenvalues
    sum over b of |q_b^(f)|^2 / d_b, and the weights of block b are shifts of the transform's inverse of q_b^ / M^ d_b.
    """
    m = len(pi)
    seen = np.fft.rfft(Q[::m]) / Q[::m].mean(axis=1)[:, None]  # (b, f): q_b^ / d_b
    M = (np.fft.rfft(Q[::m]).conj() * seen).real.sum(axis=0)
    _check_condition(M.min() / m)
    inverse, weights = np.fft.irfft(1 / M, m), np.fft.irfft(seen / M, m)
    return SetAnswers(
        matrix=Q, prior=pi, inverse=_shifts(inverse), unit_weights=np.concatenate([_shifts(row) for row in weights])
    )


def _shifts(row: Floats) -> Floats:
    """(m, m): row t is the given one moved on by t."""
    twice = np.concatenate([row, row])
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(twice, len(row))[:0:-1])


def _check_condition(least: float) -> None:
    """Nothing; SpecError where the least eigenvalue of M scaled by the prior says that values look alike."""
    if least < LEAST_CONDITION:
        raise SpecError("the listed sets cannot tell all values apart; list more of them", field="sets")


def checked_prior(size: int, prior: Floats | None) -> Floats:
    """The prior as shares of all `size` values, flat where None; anything else is refused."""
    pi = np.full(size, 1 / size) if prior is None else np.asarray(prior, dtype=np.float64)
    if pi.shape != (size,) or not (pi > 0).all() or abs(pi.sum() - 1) > 1e-9:
        raise SpecError("the prior must give every value of the domain a share above 0, adding up to 1", field="prior")
    return pi


def count_cumulants(answers: SetAnswers, functionals: Floats) -> CountCumulants:
    """`CountCumulants` of indicator functionals, (F, m) of 0 and 1; an empty side takes the other's numbers."""
    inside = functionals * answers.prior
    outside = (1 - functionals) * answers.prior
    variance, third = answers.variance(functionals), answers.third_cumulant(functionals)
    v1, v0 = _mean(variance, inside), _mean(variance, outside)
    k1, k0 = _mean(third, inside), _mean(third, outside)
    none, every = inside.sum(axis=1) == 0, outside.sum(axis=1) == 0
    return CountCumulants(
        v0=np.where(every, v1, v0), v1=np.where(none, v0, v1), k0=np.where(every, k1, k0), k1=np.where(none, k0, k1)
    )


def _mean(values: Floats, weights: Floats) -> NDArray[np.float64]:
    total = weights.sum(axis=1)
    return np.divide((values * weights).sum(axis=1), total, out=np.zeros_like(total), where=total > 0)
