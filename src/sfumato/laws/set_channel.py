"""A set channel: instead of a value, publish a set of values taken from a published list.

    Pr[Z | x] = n_Z (1 + (gamma - 1) [x in Z]) / (N + (gamma - 1) K)

Every row of the channel has two levels whose ratio is gamma, so no reader's odds grow by more than gamma
(docs/explanation/set-channels.md, sections 1 and 2). All probabilities are exact rationals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..model.public import Codes, Floats, Integers, Listed, SetWeights

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
    shown = Q / (Q @ pi)[:, None]
    r = np.sqrt(pi)
    scaled = r[:, None] * (Q.T @ shown) * r  # eigenvalues in (0, 1]: 1 for r, whatever the channel
    values, vectors = np.linalg.eigh((scaled + scaled.T) / 2)
    if values[0] < LEAST_CONDITION:
        raise SpecError("the listed sets cannot tell all values apart; list more of them", field="sets")
    half = vectors.T * r  # M^-1 = diag(r) V diag(1 / values) V' diag(r)
    inverse = half.T @ (half / values[:, None])
    return SetAnswers(matrix=Q, prior=pi, inverse=inverse, unit_weights=shown @ inverse)


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


# The set channels of a release side by side, one per sub-table: what applying, answering and verifying share.
#
# The sets of all sub-tables are numbered through, so that the number of a published set tells its sub-table as well.


# --- set draw ---------------------------------------------------------------------------------------------------------
# Draws from a set channel with whole numbers alone: what runs is the stated channel, not a rounded one.
#
# A coin tells whether a row shows a set that holds its value, or any set; a table of the one or the other then gives a
# set by its weight. Weighted draws use alias tables in integers: c columns of capacity T (the total weight) hold every
# weight c times; a column is shared by at most two sets. One column number below c, one number below T, one comparison.


SetIds = NDArray[np.int32]
CHUNK = 1 << 16  # rows drawn at a time: the scratch arrays stay in the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AliasTables:
    """Alias tables, all of `width` columns and capacity `total`: own set below `cut`, else the other."""

    total: int
    width: int
    own: SetIds  # (tables * width,)
    other: SetIds
    cut: NDArray[np.int64]
    plain: bool  # no column is shared: the column alone decides

    def __len__(self) -> int:
        return len(self.own) // self.width


@dataclass(frozen=True, kw_only=True, eq=False)
class SetSampler:
    """Everything a draw needs: the keep probability in units of 2^-32, the sets of each value, all sets."""

    size: int
    keep_units: int
    holding: AliasTables  # table x: the listed sets that hold x
    everything: AliasTables

    def draw(self, codes: NDArray[np.integer], rng: np.random.Generator) -> SetIds:
        """One set id per row, independently."""
        alone = self._alone
        return alone.draw(codes, alone.every, alone.keep, rng)

    @cached_property
    def _alone(self) -> JoinedSamplers:
        return JoinedSamplers([self])


class JoinedSamplers:
    """The draws of several channels, row by row from the channel that the row is of. Their tables are numbered through:
    of each channel those of its values, in their order, and behind them the one of all its sets."""

    def __init__(self, samplers: Sequence[SetSampler]) -> None:
        tables = [table for one in samplers for table in (one.holding, one.everything)]
        # one column is written twice: a draw of one outcome would take no random number, unlike its neighbours
        twice = [(2 if table.width == 1 else 1, table) for table in tables]
        self._width = np.repeat([n * table.width for n, table in twice], [len(table) for table in tables])
        self._column = np.cumsum(self._width) - self._width  # the first of every table
        self._total = np.repeat([table.total for table in tables], [len(table) for table in tables])
        self._own = np.concatenate([table.own.repeat(n) for n, table in twice])
        self._other = np.concatenate([table.other.repeat(n) for n, table in twice])
        self._cut = np.concatenate([table.cut.repeat(n) for n, table in twice])
        self._plain = all(table.plain for table in tables)
        first = np.cumsum([0, *(len(table) for table in tables)])
        self.every: NDArray[np.intp] = first[1::2]  # of every channel: the table of all its sets
        self.keep = np.array([one.keep_units for one in samplers], dtype=np.uint32)

    def draw(
        self,
        holding: NDArray[np.integer],
        every: NDArray[np.intp],
        keep: NDArray[np.uint32],
        rng: np.random.Generator,
    ) -> SetIds:
        """One set id of its channel per row: with chance `keep`, in units of 2^-32, from the table `holding` of the
        row, else from its table `every`; both may be one for all rows. Memory for the result and a fixed amount."""
        shown = np.empty(len(holding), dtype=np.int32)
        every, keep = np.broadcast_to(every, shown.shape), np.broadcast_to(keep, shown.shape)
        for rows in (slice(start, start + CHUNK) for start in range(0, len(shown), CHUNK)):
            kept = rng.integers(0, 2**32, size=len(shown[rows]), dtype=np.uint32) < keep[rows]
            shown[rows] = self._from(np.where(kept, holding[rows].astype(np.intp, copy=False), every[rows]), rng)
        return shown

    def _from(self, table: NDArray[np.intp], rng: np.random.Generator) -> SetIds:
        """One set of every table."""
        at = self._column.take(table) + rng.integers(0, self._width.take(table), dtype=np.uint32)
        if self._plain:
            return self._own.take(at)
        level = rng.integers(0, self._total.take(table))
        return np.where(level < self._cut.take(at), self._own.take(at), self._other.take(at))


def sampler(channel: SetChannel) -> SetSampler:
    """The draw of a channel, tables built once."""
    members, weights = channel.members, channel.weights.tolist()
    holders = [np.flatnonzero(members[:, x]).tolist() for x in range(channel.size)]
    return SetSampler(
        size=channel.size,
        keep_units=channel.keep_units,
        holding=_alias_tables(holders, weights, channel.coverage),
        everything=_alias_tables([list(range(len(weights)))], weights, channel.total),
    )


def _alias_tables(lists: Sequence[Sequence[int]], weights: Sequence[int], total: int) -> AliasTables:
    """A table per list of set ids; each list weighs `total`. Short lists get columns without a set of their own."""
    width = max(len(ids) for ids in lists)
    own = np.zeros((len(lists), width), dtype=np.int32)
    other = np.zeros((len(lists), width), dtype=np.int32)
    cut = np.zeros((len(lists), width), dtype=np.int64)
    for row, ids in enumerate(lists):
        own[row], other[row], cut[row] = _alias(ids, [weights[z] for z in ids], total, width)
    return AliasTables(
        total=total,
        width=width,
        own=own.ravel(),
        other=other.ravel(),
        cut=cut.ravel(),
        plain=bool((cut == total).all()),
    )


def _alias(
    ids: Sequence[int], weights: Sequence[int], total: int, width: int
) -> tuple[list[int], list[int], list[int]]:
    """Walker's table in whole numbers: `width` columns of capacity `total` hold width * weight of every set."""
    left = [width * weight for weight in weights] + [0] * (width - len(ids))
    own = [*ids, *([ids[0]] * (width - len(ids)))]
    other, cut = list(own), [total] * width
    poor = [j for j in range(width) if left[j] < total]
    rich = [j for j in range(width) if left[j] > total]
    while poor:
        j = poor.pop()
        giver = rich[-1]
        other[j], cut[j] = own[giver], left[j]
        left[giver] -= total - left[j]
        if left[giver] <= total:
            rich.pop()
            if left[giver] < total:
                poor.append(giver)
    return own, other, cut


# --- set tables -------------------------------------------------------------------------------------------------------


MOST_CELLS = 50_000_000  # k m: a stranger's list must fit into memory


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedList:
    """A list of sets as a plan states it: the sets themselves, or base blocks that stand for all their cyclic shifts.

    Sets are ascending positions among the values of the table or sub-table.
    """

    sets: tuple[tuple[int, ...], ...]
    cyclic: bool
    weights: tuple[int, ...] = ()  # one for each set; none: every set weighs 1

    def channel(self, size: int, gamma: Fraction) -> SetChannel:
        """The set channel over `size` values; SpecError where the list is not one of a set channel."""
        if len(self.sets) * (size if self.cyclic else 1) * size > MOST_CELLS:
            raise SpecError(f"a list of more than {MOST_CELLS:,} sets times values is not read", field="sets")
        if self.cyclic:
            if self.weights:
                raise SpecError("sets that stand for their shifts weigh 1", field="weights")
            return channel_of_blocks(size, gamma, self.sets)
        return channel_of_sets(size, gamma, self.sets, self.weights or None)


class SetTables:
    """Channels of sub-tables; a channel that serves several is one object, worked out once."""

    def __init__(self, values: Sequence[Codes], channels: Sequence[SetChannel]) -> None:
        self.values, self.channels = tuple(values), tuple(channels)
        self.start: Integers = np.cumsum([0, *(len(c.members) for c in channels)])
        self._answers: dict[int, SetAnswers] = {}

    def __len__(self) -> int:
        return len(self.channels)

    def answers(self, i: int) -> SetAnswers:
        """The weights of sub-table i."""
        key = id(self.channels[i])
        if key not in self._answers:
            self._answers[key] = set_answers(self.channels[i])
        return self._answers[key]

    def part_of(self, set_id: NDArray[np.integer]) -> NDArray[np.intp]:
        """The sub-table of each set."""
        return np.searchsorted(self.start, set_id, side="right") - 1

    def draw(self, codes: Codes, part: NDArray[np.integer] | None, rng: np.random.Generator) -> Codes:
        """The number of a set for every row, from the channel of its sub-table; rows are independent."""
        draws = self._samplers
        if part is None:
            return draws.draw(codes, draws.every, draws.keep, rng)
        at: NDArray[np.intp] = part.astype(np.intp, copy=False)
        width, held = self._held
        table = np.searchsorted(held, at * width + codes) + at  # behind those of each sub-table comes that of all sets
        return draws.draw(table, draws.every[at], draws.keep[at], rng) + self.start[at].astype(np.int32)

    @cached_property
    def _samplers(self) -> JoinedSamplers:
        made = {id(channel): sampler(channel) for channel in self.channels}
        return JoinedSamplers([made[id(channel)] for channel in self.channels])

    @cached_property
    def _held(self) -> tuple[int, NDArray[np.intp]]:
        """(values, the pairs of sub-table and value that occur as ascending numbers)."""
        width = max(int(values[-1]) for values in self.values) + 1
        return width, np.concatenate([i * width + values.astype(np.intp) for i, values in enumerate(self.values)])

    def listed(self, columns: Sequence[str]) -> Listed:
        """The list that a release states for the unit of these columns: all sets, as domain codes."""
        sizes = np.concatenate([c.members.sum(axis=1) for c in self.channels])
        members = [v[np.nonzero(c.members)[1]] for v, c in zip(self.values, self.channels, strict=True)]
        return Listed(
            column=f"{'_'.join(columns)}_set",
            start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            members=np.concatenate(members).astype(np.int32),
        )

    def weights(self) -> SetWeights:
        """One row per set and value of its sub-table."""
        ids, values, weight, variance = [], [], [], []
        made: dict[int, tuple[Floats, Floats]] = {}  # of every channel, whichever sub-tables it serves
        for i, held in enumerate(self.values):
            answers, k, key = self.answers(i), len(self.channels[i].members), id(self.channels[i])
            if key not in made:
                unit = np.eye(len(held))
                made[key] = answers.weights(unit).T.ravel(), answers.weights(answers.variance(unit)).T.ravel()
            ids.append(np.repeat(np.arange(k) + self.start[i], len(held)))
            values.append(np.tile(held, k))
            weight.append(made[key][0])
            variance.append(made[key][1])
        return SetWeights(
            set_id=np.concatenate(ids),
            value=np.concatenate(values).astype(np.int32),
            member=np.concatenate([channel.members.ravel() for channel in self.channels]).astype(np.bool_),
            weight=np.concatenate(weight),
            variance_weight=np.concatenate(variance),
        )

    def standard_errors(self, true_counts: Sequence[Integers], size: int) -> Floats:
        """The standard error of the estimated total of every value; `true_counts[i]` are those of sub-table i."""
        variance = np.zeros(size)
        for i, counts in enumerate(true_counts):
            own = self.answers(i).variance(np.eye(len(self.values[i]))) @ counts
            np.add.at(variance, self.values[i], own)
        return np.sqrt(np.maximum(variance, 0.0))
