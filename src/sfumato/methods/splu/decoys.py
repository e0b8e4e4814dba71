"""What the slots of a grouping publish: the counts K that a streaming pass needs, and the channel they come from.

Every slot draws uniformly from the values of its group, its own included [docs/explanation/splu.md, 3.2]. Only
K[u, s], the number of slots of value u that publish s, matters to the rows: records of u take the K[u, .] values in
random order, which has the law of seating records first and drawing afterwards. K is private and dies with the run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..shared.grouping import Codes, Counts, Grouping

DENSE_CELLS = 4_000_000  # up to this many (true, published) cells are counted in a table, above by sorting
WAITING_KEYS = 12_000_000  # drawn slots held before they are sorted (8 bytes each)
CHUNK_ROWS = 500_000  # groups drawn at once


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCounts:
    """K by true value: value u publishes `published[k]` exactly `counts[k]` times, k in offsets[u]:offsets[u + 1]."""

    values: int
    offsets: NDArray[np.int64]
    published: Codes
    counts: Counts

    def of(self, value: int) -> tuple[Codes, Counts]:
        """The values that the records of `value` publish, and how many records publish each."""
        part = slice(self.offsets[value], self.offsets[value + 1])
        return self.published[part], self.counts[part]

    def true_counts(self) -> Counts:
        """Records of each true value."""
        return np.add.reduceat(np.append(self.counts, 0), self.offsets[:-1]) * (np.diff(self.offsets) > 0)

    def published_counts(self) -> Counts:
        """Rows that will be published with each value: f'."""
        return np.bincount(self.published, weights=self.counts, minlength=self.values).astype(np.int64)

    def table(self) -> Counts:
        """K as a dense table, for few values."""
        found = np.zeros((self.values, self.values), np.int64)
        found[np.repeat(np.arange(self.values), np.diff(self.offsets)), self.published] = self.counts
        return found


def draw_slots(grouping: Grouping, rng: np.random.Generator) -> SlotCounts:
    """K for one random draw of every slot. O(N) time; memory for a chunk of groups and the cells of K that occur."""
    cells, counts = _Tally(grouping.values), grouping.values
    special = np.unique(grouping.leftover_groups)
    start = 0
    for block in grouping.blocks:
        for _ in range(block.copies):
            inside = special[(special >= start) & (special < start + len(block.rows))] - start
            plain = np.delete(block.rows, inside, axis=0) if len(inside) else block.rows
            for first in range(0, len(plain), CHUNK_ROWS):
                rows = plain[first : first + CHUNK_ROWS]
                choice = rng.integers(0, grouping.size, size=rows.shape, dtype=np.uint8)
                cells.add(rows, np.take_along_axis(rows, choice.astype(np.intp), axis=1))
            start += len(block.rows)
    for group in special:
        decoys = host_values(grouping, int(group))
        cells.add(decoys, rng.choice(decoys, size=len(decoys)))
    key, count = cells.total()
    true, published = np.divmod(key, counts)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(true, minlength=counts)))).astype(np.int64)
    return SlotCounts(values=counts, offsets=offsets, published=published.astype(np.int32), counts=count)


def host_values(grouping: Grouping, group: int) -> Codes:
    """All values of a group that hosts leftovers."""
    extra = grouping.leftover_values[grouping.leftover_groups == group]
    return np.concatenate((grouping.rows(np.array([group]))[0], extra))


def slot_table(grouping: Grouping) -> NDArray[np.float64]:
    """E K: for each pair of values the sum of 1 / |g| over the groups that hold both; row u over f_u is the channel.

    A table of values by values, so for few values: tests, and the replay of small tables.
    """
    values = grouping.values
    found = np.zeros((values, values))
    for block in grouping.blocks:
        rows = block.rows.astype(np.int64)
        for i in range(grouping.size):
            key = (rows[:, i : i + 1] * values + rows).ravel()
            found += np.bincount(key, minlength=values * values).reshape(values, values) * (
                block.copies / grouping.size
            )
    for group in np.unique(grouping.leftover_groups):
        plain, decoys = grouping.rows(np.array([group]))[0], host_values(grouping, int(group))
        found[np.ix_(plain, plain)] -= 1 / len(plain)
        found[np.ix_(decoys, decoys)] += 1 / len(decoys)
    return found


class _Tally:
    """Counts of (true, published) cells: a table while it is small, else keys sorted and merged in large batches."""

    def __init__(self, values: int) -> None:
        self.values = values
        self.dense = np.zeros(values * values, np.int64) if values * values <= DENSE_CELLS else None
        self.keys, self.counts = np.empty(0, np.int64), np.empty(0, np.int64)
        self.waiting: list[NDArray[np.int64]] = []

    def add(self, true: Codes, published: Codes) -> None:
        key = true.ravel().astype(np.int64) * self.values + published.ravel()
        if self.dense is not None:
            self.dense += np.bincount(key, minlength=len(self.dense))
            return
        self.waiting.append(key)
        if sum(map(len, self.waiting)) > WAITING_KEYS:
            self._merge()

    def _merge(self) -> None:
        new, count = np.unique(np.concatenate((*self.waiting, self.keys)), return_counts=True)
        count[np.searchsorted(new, self.keys)] += self.counts - 1
        self.keys, self.counts, self.waiting = new, count, []

    def total(self) -> tuple[NDArray[np.int64], Counts]:
        if self.dense is None:
            self._merge()
            return self.keys, self.counts
        keys = np.flatnonzero(self.dense)
        return keys, self.dense[keys]
