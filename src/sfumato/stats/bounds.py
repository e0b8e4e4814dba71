"""Certain bounds on aggregates of a column published as blocks: the exact extremes over all possible worlds.

A release says, per group, how many rows it has (n) and which n + k blocks stand for their values; a question selects s
of the n rows by columns that are published unchanged. A world picks s different blocks for them and one value inside
each block. Everything below is exact: values are kept as whole numbers over one denominator, totals in int64 where they
fit and in Python integers elsewhere, averages as fractions.

Blocks come as parallel arrays (group, node, count). `Ordered` sorts them once by a key and answers "the sum of the s
smallest keys of each group" with a binary search per group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError
from sfumato.stats.hierarchy import Hierarchy

Ints = NDArray[np.int64]
Exact = NDArray[Any]  # int64, or Python integers where those could overflow
Bounds = tuple[Fraction, Fraction]
MaybeBounds = tuple[Fraction, Fraction] | None  # None: NULL in every world

SAFE = 2**62


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blocks:
    """Published blocks: `count` copies of `node` in `group`, sorted by group; `numbers / denominator` is the domain."""

    tree: Hierarchy
    numbers: Exact  # the domain's values times the denominator; leaf positions where the column is categorical
    denominator: int
    group: Ints
    node: Ints
    count: Ints
    groups: int

    @property
    def low(self) -> Exact:
        """The lowest value of every node."""
        return self.numbers[self.tree.start]

    @property
    def high(self) -> Exact:
        """The highest value of every node."""
        return self.numbers[self.tree.stop - 1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ordered:
    """Blocks sorted by (group, key) with running counts and totals: the prefix table of every group at once."""

    group: Ints
    node: Ints
    count: Ints
    keys: Exact
    reached: Ints  # blocks up to and including each entry, over all groups
    totals: Exact  # sum of keys of those blocks
    start: Ints  # blocks before each group, one more entry than groups
    before: Exact  # totals before each group

    def sums(self, selected: Ints) -> Exact:
        """For each group the sum of its `selected` smallest keys."""
        if not len(self.keys):
            return np.zeros(len(selected), dtype=np.int64)
        goal = self.start[:-1] + selected
        at = np.where(selected > 0, np.searchsorted(self.reached, goal, side="left"), 0)
        # everything up to the entry that holds the last block wanted, less what is too much of it
        total = self.totals[at] - (self.reached[at] - goal) * self.keys[at] - self.before
        return np.where(selected > 0, total, 0)

    def taken(self, selected: Ints) -> Ints:
        """How many copies of each entry are among the `selected` smallest of its group."""
        before = self.reached - self.count - self.start[self.group]
        return np.clip(selected[self.group] - before, 0, self.count)


def make_blocks(tree: Hierarchy, values: Sequence[int | float | Fraction] | None, plans: Ints) -> Blocks:
    """The blocks of a table of plans (groups x nodes)."""
    group, node = np.nonzero(plans)
    return sparse_blocks(tree, values, group, node, plans[group, node], groups=len(plans))


def sparse_blocks(
    tree: Hierarchy,
    values: Sequence[int | float | Fraction] | None,
    group: Ints,
    node: Ints,
    count: Ints,
    *,
    groups: int,
) -> Blocks:
    """The blocks given as parallel arrays in any order; `values` None means a categorical column."""
    exact = [Fraction(v) for v in (range(tree.leaves) if values is None else values)]
    denominator = math.lcm(*(v.denominator for v in exact))
    scaled = [v.numerator * (denominator // v.denominator) for v in exact]
    order = np.argsort(group, kind="stable")
    largest = max((abs(v) for v in scaled), default=0) * max(1, int(count.sum()))
    return Blocks(
        tree=tree,
        numbers=np.array(scaled, dtype=np.int64 if largest < SAFE else object),
        denominator=denominator,
        group=np.asarray(group, dtype=np.int64)[order],
        node=np.asarray(node, dtype=np.int64)[order],
        count=np.asarray(count, dtype=np.int64)[order],
        groups=groups,
    )


def order_blocks(blocks: Blocks, keys: Exact) -> Ordered:
    """The blocks in ascending order of `keys` (one per node) inside each group."""
    rank = np.empty(len(keys), dtype=np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    order = np.lexsort((rank[blocks.node], blocks.group))
    node, count = blocks.node[order], blocks.count[order]
    key = keys[node]
    totals = np.cumsum(key * count)
    per_group = np.zeros(blocks.groups + 1, dtype=np.int64)
    np.add.at(per_group, blocks.group + 1, count)
    entries = np.concatenate(([0], np.cumsum(np.bincount(blocks.group, minlength=blocks.groups))))[:-1]
    padded = np.concatenate((np.zeros(1, dtype=totals.dtype), totals))
    return Ordered(
        group=blocks.group[order],
        node=node,
        count=count,
        keys=key,
        reached=np.cumsum(count),
        totals=totals,
        start=np.cumsum(per_group),
        before=padded[entries],
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Condition:
    """A set A of domain values, seen from every node: does its block touch A, lie inside A, and where."""

    touches: NDArray[np.bool_]
    inside: NDArray[np.bool_]
    least: Exact  # the smallest value of A in the block, where it touches A
    largest: Exact


def condition(blocks: Blocks, members: NDArray[np.bool_]) -> Condition:
    """The condition 'value in A' at every node; `members` marks the leaf positions in A."""
    tree, leaves = blocks.tree, blocks.tree.leaves
    if members.shape != (leaves,):
        raise QueryError(f"a condition needs {leaves} marks, one per value of the domain, got {members.shape}")
    prefix = np.concatenate(([0], np.cumsum(members)))
    hits = prefix[tree.stop] - prefix[tree.start]
    places = np.flatnonzero(members)
    padded = np.append(places, leaves - 1)
    return Condition(
        touches=hits > 0,
        inside=hits == tree.stop - tree.start,
        least=blocks.numbers[padded[prefix[tree.start]]],
        largest=blocks.numbers[padded[np.maximum(prefix[tree.stop] - 1, 0)]],
    )


class Bounder:
    """Bounds for one release; the tables for questions without a sensitive predicate are built once."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.ascending = order_blocks(blocks, blocks.low)
        self.descending = order_blocks(blocks, -blocks.high)

    def _fraction(self, number: Any, over: int = 1) -> Fraction:
        return Fraction(int(number), self.blocks.denominator * over)

    def total(self, selected: Ints) -> Bounds:
        """Bounds on SUM: the smallest lower ends and the largest upper ends of as many blocks as rows."""
        return self._fraction(self.ascending.sums(selected).sum()), self._fraction(
            -self.descending.sums(selected).sum()
        )

    def mean(self, selected: Ints) -> MaybeBounds:
        """Bounds on AVG; None when nothing is selected."""
        rows = int(selected.sum())
        if rows == 0:
            return None
        low, high = self.total(selected)
        return low / rows, high / rows

    def minimum(self, selected: Ints) -> MaybeBounds:
        """Bounds on MIN; None when nothing is selected."""
        return self.order_statistic(selected, 1)

    def maximum(self, selected: Ints) -> MaybeBounds:
        """Bounds on MAX; None when nothing is selected."""
        return self.order_statistic(selected, int(selected.sum()))

    def order_statistic(self, selected: Ints, position: int) -> MaybeBounds:
        """Bounds on the `position`-th smallest value (from 1) of the selected rows; None when nothing is selected.

        The lowest world gives every row of a group one of its s smallest lower ends, the highest one of its s largest
        upper ends; pooled over the groups, the position-th of each is the bound.
        """
        rows = int(selected.sum())
        if rows == 0:
            return None
        if not 1 <= position <= rows:
            raise QueryError(f"position {position} is outside 1..{rows}")
        low = _pooled(self.ascending, selected, position)
        high = -_pooled(self.descending, selected, rows + 1 - position)
        return self._fraction(low), self._fraction(high)

    def quantile(self, selected: Ints, share: Fraction, *, continuous: bool) -> MaybeBounds:
        """Bounds on DuckDB's quantile_cont (interpolated) or quantile_disc of the selected rows."""
        rows = int(selected.sum())
        if rows == 0:
            return None
        if not continuous:
            return self.order_statistic(selected, max(1, math.ceil(share * rows)))
        place = share * (rows - 1)
        below = int(place)
        first = self.order_statistic(selected, below + 1)
        second = self.order_statistic(selected, min(below + 2, rows))
        assert first is not None
        assert second is not None
        part = place - below  # both ends are attained in one and the same world
        return (1 - part) * first[0] + part * second[0], (1 - part) * first[1] + part * second[1]

    def count_where(self, selected: Ints, where: Condition) -> tuple[int, int]:
        """Bounds on COUNT of selected rows with a value in A."""
        inside = self._per_group(where.inside)
        touching = self._per_group(where.touches)
        every = np.diff(self.ascending.start)
        low = np.maximum(0, selected - (every - inside))
        return int(low.sum()), int(np.minimum(selected, touching).sum())

    def total_where(self, selected: Ints, where: Condition) -> Bounds:
        """Bounds on SUM over selected rows with a value in A."""
        low = _option(where, where.least)
        high = _option(where, -where.largest)
        return (
            self._fraction(order_blocks(self.blocks, low).sums(selected).sum()),
            self._fraction(-order_blocks(self.blocks, high).sums(selected).sum()),
        )

    def mean_where(self, selected: Ints, where: Condition) -> MaybeBounds:
        """Bounds on AVG over selected rows with a value in A, in the worlds that have such a row; None if none has."""
        low = self._least_mean(selected, where, where.least)
        high = self._least_mean(selected, where, -where.largest)
        return None if low is None or high is None else (low, -high)

    def _least_mean(self, selected: Ints, where: Condition, values: Exact) -> Fraction | None:
        """The least average, by Dinkelbach's search: for a trial average, the world with the least excess over it.

        A block in A counts value - trial, one outside counts 0. Every step either lowers the trial to the average of
        the world just found or proves it least; all comparisons are between whole numbers.
        """
        if not self.count_where(selected, where)[1]:
            return None
        values = values.astype(object)  # times a row count: beyond int64 for wide domains
        trial = Fraction(int(max(values[where.touches]) + 1))  # above every value: the world with most rows in A
        while True:
            excess = values * trial.denominator - trial.numerator
            ordered = order_blocks(self.blocks, _option(where, excess))
            taken = ordered.taken(selected)
            gain = int((taken * ordered.keys).sum())
            if gain == 0:
                return trial / self.blocks.denominator
            counted = where.touches & (where.inside | (excess < 0))
            rows = int(taken[counted[ordered.node]].sum())
            trial = (Fraction(gain, rows) + trial.numerator) / trial.denominator

    def _per_group(self, chosen: NDArray[np.bool_]) -> Ints:
        """How many blocks of each group are copies of the chosen nodes."""
        out = np.zeros(self.blocks.groups, dtype=np.int64)
        keep = chosen[self.blocks.node]
        np.add.at(out, self.blocks.group[keep], self.blocks.count[keep])
        return out


def _option(where: Condition, value: Exact) -> Exact:
    """The least a block adds: its `value` in A, or 0 where it touches A and may lie outside, or does not touch it."""
    return np.where(where.inside, value, np.where(where.touches, np.minimum(value, 0), 0))


def _pooled(ordered: Ordered, selected: Ints, position: int) -> Any:
    """The `position`-th smallest key after pooling the `selected` smallest keys of every group."""
    taken = ordered.taken(selected)
    order = np.argsort(ordered.keys, kind="stable")
    return ordered.keys[order[np.searchsorted(np.cumsum(taken[order]), position, side="left")]]
