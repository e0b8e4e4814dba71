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

from sfumato.errors import SpecError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
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
