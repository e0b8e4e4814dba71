"""Draws from a set channel with whole numbers alone: what runs is the stated channel, not a rounded one.

A coin tells whether a row shows a set that holds its value, or any set; a table of the one or the other then gives a
set by its weight. Weighted draws use alias tables in integers: c columns of capacity T (the total weight) hold every
weight c times; a column is shared by at most two sets. One column number below c, one number below T, one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...stats.shuffling import either
from .set_channel import SetChannel

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
            shown[rows] = self._from(either(kept, holding[rows].astype(np.intp, copy=False), every[rows]), rng)
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
        return either(level < self._cut.take(at), self._own.take(at), self._other.take(at))


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
