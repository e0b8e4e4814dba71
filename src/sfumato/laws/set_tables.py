"""The set channels of a release side by side, one per sub-table: what applying, answering and verifying share.

The sets of all sub-tables are numbered through, so that the number of a published set tells its sub-table as well.
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
from .set_channel import SetAnswers, SetChannel, channel_of_blocks, channel_of_sets, set_answers

# --- set draw ---------------------------------------------------------------------------------------------------------
# Draws from a set channel with whole numbers alone: what runs is the stated channel, not a rounded one.
#
# A coin tells whether a row shows a set that holds its value, or any set; a table of the one or the other then gives a
# set by its weight. Weighted draws use alias tables in integers: c columns of capacity T (the total weight) hold every
# weight c times; a column is shared by at most two sets. One column number below c, one number below T, one comparison.


SetIds = NDArray[np.int32]
CHUNK = 1 << 16  # rows drawn at a time: the scratch arrays stay in the processor's cache
HALF = np.uint64(32)  # bits


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
        width = np.repeat([n * table.width for n, table in twice], [len(table) for table in tables]).astype(np.uint64)
        self._place = np.cumsum(width) - width << HALF | width  # of a table: its first column, and how many
        self._total = np.repeat([table.total for table in tables], [len(table) for table in tables])
        self._own = np.concatenate([table.own.repeat(n) for n, table in twice])
        self._other = np.concatenate([table.other.repeat(n) for n, table in twice])
        self._cut = np.concatenate([table.cut.repeat(n) for n, table in twice])
        self._plain = all(table.plain for table in tables)
        first = np.cumsum([0, *(len(table) for table in tables)])
        self.first: NDArray[np.intp] = first[:-1:2]  # of every channel: the table of its first value
        self.every: NDArray[np.intp] = first[1::2]  # ... the table of all its sets
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
        place = self._place.take(table)
        width = place.astype(np.uint32)  # the lower half
        place >>= HALF
        place += rng.integers(0, width, dtype=np.uint32)
        at = place.view(np.int64)
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
MOST_PLACES = 1 << 22  # pairs of sub-table and value that are looked up in a table; more are searched for


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Draws:
    """The draws of all channels, and what they ask of every sub-table."""

    samplers: JoinedSamplers
    first: NDArray[np.intp]  # number of the table of its first value
    every: NDArray[np.intp]  # ... of the table of all its sets
    keep: NDArray[np.uint32]
    start: NDArray[np.int32]  # number of its first set


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
        draws = self._draws
        if part is None:
            return draws.samplers.draw(codes, draws.every, draws.keep, rng)
        at: NDArray[np.intp] = part.astype(np.intp, copy=False)
        shown = draws.samplers.draw(self._tables(codes, at), draws.every.take(at), draws.keep.take(at), rng)
        shown += draws.start.take(at)
        return shown

    @cached_property
    def _draws(self) -> _Draws:
        """A channel that serves several sub-tables has its tables once."""
        channels = {id(channel): channel for channel in self.channels}
        numbers = {key: k for k, key in enumerate(channels)}
        joined, kind = JoinedSamplers([*map(sampler, channels.values())]), [numbers[id(c)] for c in self.channels]
        return _Draws(
            samplers=joined,
            first=joined.first[kind],
            every=joined.every[kind],
            keep=joined.keep[kind],
            start=self.start[:-1].astype(np.int32),
        )

    def _tables(self, codes: Codes, part: NDArray[np.intp]) -> NDArray[np.intp]:
        """The table of each row's value in the channel of its sub-table."""
        width, held, everywhere = self._held
        cells = part * width
        cells += codes
        if everywhere is not None:
            return everywhere.take(cells)
        first = np.cumsum([0, *map(len, self.values)])
        return np.searchsorted(held, cells) - first[part] + self._draws.first[part]

    @cached_property
    def _held(self) -> tuple[int, NDArray[np.intp], NDArray[np.intp] | None]:
        """(values, the pairs of sub-table and value that occur as ascending numbers, their tables by number if few)."""
        width = max(int(values[-1]) for values in self.values) + 1
        held = np.concatenate([i * width + values.astype(np.intp) for i, values in enumerate(self.values)])
        if len(self) * width > MOST_PLACES:
            return width, held, None
        everywhere = np.zeros(len(self) * width, dtype=np.intp)
        tables = zip(self._draws.first.tolist(), self.values, strict=True)
        everywhere[held] = np.concatenate([first + np.arange(len(values)) for first, values in tables])
        return width, held, everywhere

    @cached_property
    def _members(self) -> tuple[Integers, Codes]:
        """(start, members) of all sets, as domain codes."""
        sizes = np.concatenate([c.members.sum(axis=1) for c in self.channels])
        members = [v[np.nonzero(c.members)[1]] for v, c in zip(self.values, self.channels, strict=True)]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), np.concatenate(members).astype(np.int32)

    def listed(self, columns: Sequence[str]) -> Listed:
        """The list that a release states for the unit of these columns."""
        start, members = self._members
        return Listed(column=set_column(columns), start=start, members=members)

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


def set_column(columns: Sequence[str]) -> str:
    """The column of data.parquet that numbers the published sets."""
    return f"{'_'.join(columns)}_set"
