"""Draws from a set channel with whole numbers alone: what runs is the stated channel, not a rounded one.

Weighted draws use alias tables in integers: c columns of capacity T (the total weight) hold every weight c times;
a column is shared by at most two sets. One column number below c, one number below T, one comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...stats.row_choice import either
from .set_channel import SetChannel

SetIds = NDArray[np.int32]
CHUNK = 1 << 16  # rows drawn at a time: the scratch arrays stay in the processor's cache


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AliasTables:
    """One alias table per row, all of `width` columns and capacity `total`: own set below `cut`, else the other."""

    total: int
    width: int
    own: SetIds  # (tables * width,)
    other: SetIds
    cut: NDArray[np.int64]
    plain: bool  # no column is shared: the column alone decides

    def draw(self, table: NDArray[np.integer] | None, rows: int, rng: np.random.Generator) -> SetIds:
        """One set per row from table `table[row]` (the first where None)."""
        column = rng.integers(0, self.width, size=rows, dtype=np.uint32)
        at = column.astype(np.intp)
        if table is not None:
            at += table * np.intp(self.width)
        if self.plain:
            return self.own.take(at)
        level = rng.integers(0, self.total, size=rows, dtype=np.int64)
        return either(level < self.cut.take(at), self.own.take(at), self.other.take(at))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetSampler:
    """Everything a draw needs: the keep probability in units of 2^-32, the sets of each value, all sets."""

    size: int
    keep_units: int
    holding: AliasTables  # table x: the listed sets that hold x
    everything: AliasTables

    def draw(self, codes: NDArray[np.integer], rng: np.random.Generator) -> SetIds:
        """One set id per row, independently; memory for the result and a fixed amount of scratch."""
        shown = np.empty(len(codes), dtype=np.int32)
        for start in range(0, len(codes), CHUNK):
            part = codes[start : start + CHUNK]
            kept = rng.integers(0, 2**32, size=len(part), dtype=np.uint32) < np.uint64(self.keep_units)
            mine = self.holding.draw(part, len(part), rng)
            free = self.everything.draw(None, len(part), rng)
            shown[start : start + CHUNK] = either(kept, mine, free)
        return shown


class _Joined:
    """Alias tables of several channels, one behind the other."""

    def __init__(self, tables: Sequence[AliasTables]) -> None:
        # one column is written twice: a draw of one outcome would take no random number, unlike its neighbours
        twice = [(2 if table.width == 1 else 1, table) for table in tables]
        self._width = np.array([n * table.width for n, table in twice], dtype=np.uint32)
        self._total = np.array([table.total for table in tables])
        self._own = np.concatenate([table.own.repeat(n) for n, table in twice])
        self._other = np.concatenate([table.other.repeat(n) for n, table in twice])
        self._cut = np.concatenate([table.cut.repeat(n) for n, table in twice])
        self._first = np.cumsum([0, *(n * len(table.own) for n, table in twice)])
        self._plain = all(table.plain for table in tables)

    def draw(self, kind: NDArray[np.integer], table: NDArray[np.integer] | None, rng: np.random.Generator) -> SetIds:
        """One set per row, from table `table[row]` (the first where None) of channel `kind[row]`."""
        width, at = self._width.take(kind), self._first.take(kind)
        if table is not None:
            at += table * width
        at += rng.integers(0, width, dtype=np.uint32)
        if self._plain:
            return self._own.take(at)
        level = rng.integers(0, self._total.take(kind))
        return either(level < self._cut.take(at), self._own.take(at), self._other.take(at))


class JoinedSamplers:
    """The draws of several channels, row by row from the channel that the row is of."""

    def __init__(self, samplers: Sequence[SetSampler]) -> None:
        self._keep_units = np.array([one.keep_units for one in samplers], dtype=np.uint32)
        self._holding = _Joined([one.holding for one in samplers])
        self._everything = _Joined([one.everything for one in samplers])

    def draw(self, codes: NDArray[np.integer], kind: NDArray[np.integer], rng: np.random.Generator) -> SetIds:
        """One set id of its channel per row, as of `SetSampler`."""
        shown = np.empty(len(codes), dtype=np.int32)
        for rows in (slice(start, start + CHUNK) for start in range(0, len(codes), CHUNK)):
            mine, here = kind[rows], codes[rows]
            kept = rng.integers(0, 2**32, size=len(here), dtype=np.uint32) < self._keep_units.take(mine)
            held, free = self._holding.draw(mine, here, rng), self._everything.draw(mine, None, rng)
            shown[rows] = either(kept, held, free)
        return shown


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
