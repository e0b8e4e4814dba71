"""A set channel: instead of a value, publish a set of values taken from a published list.

    Pr[Z | x] = n_Z (1 + (gamma - 1) [x in Z]) / (N + (gamma - 1) K)

Every row of the channel has two levels whose ratio is gamma, so no reader's odds grow by more than gamma
(docs/explanation/set-channels.md, sections 1 and 2). All probabilities are exact rationals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..model.public import Floats, Integers

Members = NDArray[np.bool_]  # (k, m): whether set Z holds value x

UNIT = 2**32  # the keep probability is a multiple of 1 / UNIT
MOST_WEIGHT = 2**53  # sums of weights stay exact in every arithmetic that meets them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetChannel:
    """The listed sets over a domain of m values, their whole-number weights, and gamma.

    A value x is published as one of the listed sets that hold it with probability `keep`, else as one of all listed
    sets; both draws go by weight. Every value must lie in sets of the same total weight K: else the formula above
    would not sum to one.
    """

    gamma: Fraction  # the limit; the channel that runs reaches `gamma_run`, never more
    members: Members
    weights: Integers

    def __post_init__(self) -> None:
        if self.gamma <= 1:
            raise SpecError(f"gamma must be above 1, got {self.gamma}", field="gamma")
        if self.members.ndim != 2 or min(self.members.shape) < 1 or self.members.shape[1] < 2:
            raise SpecError("a set channel needs a domain of at least two values and at least one set", field="sets")
        if self.weights.shape != self.members.shape[:1] or (self.weights < 1).any():
            raise SpecError("every listed set needs a whole-number weight of at least 1", field="weights")
        if sum(self.weights.tolist()) > MOST_WEIGHT:
            raise SpecError("the weights of the listed sets add up to more than 2^53", field="weights")
        held = self.members.sum(axis=1)
        if (held == 0).any() or (held == self.size).any():
            raise SpecError("a listed set is empty or holds every value", field="sets")
        if len(np.unique(np.packbits(self.members, axis=1), axis=0)) < len(self.members):
            raise SpecError("a set is listed twice", field="sets")
        coverage = self.weights @ self.members  # whole numbers
        if (coverage != coverage[0]).any():
            raise SpecError("the listed sets do not cover all values by the same weight", field="sets")

    @property
    def size(self) -> int:
        """m, the number of values."""
        return int(self.members.shape[1])

    @property
    def total(self) -> int:
        """N, the weight of all listed sets."""
        return int(self.weights.sum())

    @property
    def coverage(self) -> int:
        """K, the weight of the listed sets that hold a value, whichever."""
        return int(self.weights @ self.members[:, 0])

    @property
    def keep_units(self) -> int:
        """The keep probability in units of 2^-32, rounded down: what is lost mixes in noise that ignores the value."""
        # keep = (gamma - 1) K / (N + (gamma - 1) K)
        lifted = (self.gamma - 1) * self.coverage
        return int(lifted / (self.total + lifted) * UNIT)

    @property
    def keep(self) -> Fraction:
        """The keep probability of the channel that runs."""
        return Fraction(self.keep_units, UNIT)

    @property
    def gamma_run(self) -> Fraction:
        """The exact ratio of the two levels of the channel that runs; at most `gamma`."""
        # (keep / K + (1 - keep) / N) : (1 - keep) / N
        return 1 + self.keep * self.total / (self.coverage * (1 - self.keep))

    def probability(self, set_id: int, value: int) -> Fraction:
        """Pr[Z | x] of the channel that runs, exactly."""
        n = int(self.weights[set_id])
        inside = self.keep * n / self.coverage if self.members[set_id, value] else Fraction(0)
        return inside + (1 - self.keep) * n / self.total

    def matrix(self) -> Floats:
        """Q, (k, m): Pr[Z | x] of the channel that runs, as floating point numbers."""
        inside, everywhere = float(self.keep / self.coverage), float((1 - self.keep) / self.total)
        return self.weights[:, None] * (inside * self.members + everywhere)

    @property
    def cyclic(self) -> bool:
        """Whether the sets are all cyclic shifts of a few, block by block as `shifted` lists them, of equal weight."""
        k, m = self.members.shape
        if k % m or (self.weights != self.weights[0]).any():
            return False
        twice = np.concatenate([self.members[::m]] * 2, axis=1)
        return all(np.array_equal(self.members[t::m], twice[:, m - t : 2 * m - t]) for t in range(m))

    def posterior(self, prior: Fraction) -> Fraction:
        """The largest chance of any predicate after one published set, for a reader who gave it `prior` before."""
        gamma = self.gamma_run
        return prior * gamma / (prior * gamma + 1 - prior)

    def sets(self) -> tuple[tuple[int, ...], ...]:
        """The listed sets as ascending codes."""
        return tuple(tuple(np.flatnonzero(row).tolist()) for row in self.members)


def membership(size: int, sets: Sequence[Sequence[int]]) -> Members:
    """(k, m) truth table of sets given as strictly ascending codes; anything else is refused."""
    members = np.zeros((len(sets), size), dtype=bool)
    for row, codes in zip(members, sets, strict=True):
        held = np.asarray(codes, dtype=np.int64)
        if held.size and (held[0] < 0 or held[-1] >= size or (np.diff(held) <= 0).any()):
            raise SpecError(f"the codes of a listed set must ascend within 0..{size - 1}", field="sets")
        row[held] = True
    return members


def shifted(size: int, blocks: Sequence[Sequence[int]]) -> Members:
    """Truth table of base blocks and all their cyclic shifts: set b m + t is block b moved on by t, modulo m."""
    base = membership(size, blocks)
    back = (np.arange(size) - np.arange(size)[:, None]) % size  # (t, x): the value that shift t brings to x
    return base[:, back].reshape(-1, size)


def channel_of_sets(
    size: int, gamma: Fraction, sets: Sequence[Sequence[int]], weights: Sequence[int] | None = None
) -> SetChannel:
    """The channel of listed sets; weights are 1 unless given."""
    members = membership(size, sets)
    return SetChannel(
        gamma=gamma,
        members=members,
        weights=np.ones(len(members), dtype=np.int64) if weights is None else _whole(weights),
    )


def channel_of_blocks(size: int, gamma: Fraction, blocks: Sequence[Sequence[int]]) -> SetChannel:
    """The channel of base blocks with all their cyclic shifts, every set of weight 1."""
    members = shifted(size, blocks)
    return SetChannel(gamma=gamma, members=members, weights=np.ones(len(members), dtype=np.int64))


def _whole(weights: Sequence[int]) -> Integers:
    if any(not 1 <= weight <= MOST_WEIGHT for weight in weights):
        raise SpecError("every listed set needs a whole-number weight of at least 1", field="weights")
    return np.array([int(weight) for weight in weights], dtype=np.int64)


# --- set answers ------------------------------------------------------------------------------------------------------
# Unbiased answers from published sets: weights, their covariance, and its unbiased estimate.
#
# Q is the channel (k sets, m values), pi a public prior the weights are tuned to, d = Q pi, M = Q' diag(1/d) Q.
# A functional h (a number per value) is answered by the sum over rows of omega_h(Z) = Q_Z M^-1 h' / d_Z, whose mean for
# a record of value x is h(x) whatever pi and the data are. docs/explanation/set-channels.md, section 5.


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
