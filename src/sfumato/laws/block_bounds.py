"""Certain bounds on aggregates of a column published as blocks: the exact extremes over all possible worlds.

A release says, per group, how many rows it has (n) and which n + k blocks stand for their values; a question selects s
of the n rows by columns that are published unchanged. A world picks s different blocks for them and one value inside
each block. COUNT, SUM and their filtered forms are totals of a function h of the value (1, the value, 0 outside the
filter): a block adds between the least and the largest h inside it, so the extremes are sums of the s smallest and of
the s largest of these. Everything is exact: h is kept as whole numbers over one denominator, in int64 where sums fit
and in Python integers elsewhere.

Blocks come as parallel arrays (group, node, count). `Ordered` sorts them once by a key and answers "the sum of the s
smallest keys of each group" with a binary search per group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError
from ..stats.joint_codes import sum_by_group
from .block_plans import families
from .block_tree import BlockTree

Ints = NDArray[np.int64]
Exact = NDArray[Any]  # int64, or Python integers where those could overflow
Bounds = tuple[Fraction, Fraction]

SAFE = 2**62
EXACT = 2**53  # up to here a float is the whole number that it seems to be
KEPT = 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WholeNumbers:
    """A function of the value: `whole[leaf] / denominator` for every leaf position."""

    whole: Exact
    denominator: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blocks:
    """Published blocks: `count` copies of `node` in `group`, sorted by group."""

    tree: BlockTree
    group: Ints
    node: Ints
    count: Ints
    groups: int

    @property
    def sizes(self) -> Ints:
        """How many blocks each group has (rows and fakes)."""
        return sum_by_group(self.count, self.group, self.groups)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """Selected rows: `rows[i]` of them in `group[i]`, for output row `key[i]` out of `keys`."""

    key: Ints
    group: Ints
    rows: Ints
    keys: int

    def per_key(self, amounts: Exact) -> Exact:
        """Amounts of the pairs added up by output row."""
        return sum_by_group(amounts, self.key, self.keys)

    def of(self, key: int) -> Selection:
        """The part that belongs to one output row."""
        mine = self.key == key
        return Selection(
            key=np.zeros(int(mine.sum()), dtype=np.int64), group=self.group[mine], rows=self.rows[mine], keys=1
        )


def one_answer(rows: Iterable[int]) -> Selection:
    """A selection for a single output row, with the number of selected rows of every group."""
    counts = np.asarray(list(rows), dtype=np.int64)
    at = np.flatnonzero(counts)
    return Selection(key=np.zeros(len(at), dtype=np.int64), group=at, rows=counts[at], keys=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ordered:
    """Blocks sorted by (group, key) with running counts and totals: the prefix table of every group at once."""

    group: Ints
    node: Ints
    count: Ints
    keys: Exact
    reached: Ints  # blocks up to and including each entry, over all groups
    totals: Exact  # sum of keys of those blocks
    start: Ints  # blocks before each group
    before: Exact  # totals before each group

    def sums(self, selection: Selection) -> Exact:
        """For each pair the sum of the `rows` smallest keys of its group (rows >= 1)."""
        goal = self.start[selection.group] + selection.rows
        at = np.searchsorted(self.reached, goal, side="left")
        # everything up to the entry that holds the last block wanted, less what is too much of it
        return self.totals[at] - (self.reached[at] - goal) * self.keys[at] - self.before[selection.group]

    def taken(self, selection: Selection) -> Ints:
        """How many copies of each entry are among the `rows` smallest of its group (one output row)."""
        rows = sum_by_group(selection.rows, selection.group, len(self.start))
        before = self.reached - self.count - self.start[self.group]
        return np.clip(rows[self.group] - before, 0, self.count)


def make_blocks(tree: BlockTree, plans: Ints) -> Blocks:
    """The blocks of a table of plans (groups x nodes)."""
    group, node = np.nonzero(plans)
    return Blocks(tree=tree, group=group, node=node, count=plans[group, node], groups=len(plans))


def exact_numbers(values: Sequence[int | float | Fraction] | NDArray[Any], copies: int) -> WholeNumbers:
    """Numbers as whole numbers over one denominator; int64 if `copies` of the largest still fit."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fi" and _whole(values, copies):
        return WholeNumbers(whole=values.astype(np.int64), denominator=1)
    exact = [Fraction(v) for v in (values.tolist() if isinstance(values, np.ndarray) else values)]
    denominator = math.lcm(*(v.denominator for v in exact))
    whole = [v.numerator * (denominator // v.denominator) for v in exact]
    fits = max((abs(v) for v in whole), default=0) * max(1, copies) < SAFE
    return WholeNumbers(whole=np.array(whole, dtype=np.int64 if fits else object), denominator=denominator)


def _whole(values: NDArray[Any], copies: int) -> bool:
    """Whether these are whole numbers as they stand, `copies` of the largest of which fit: most are 0 and 1."""
    largest = float(np.abs(values).max(initial=0))
    return largest * max(1, copies) < EXACT and bool((values == np.trunc(values)).all())


def order_blocks(blocks: Blocks, keys: Exact) -> Ordered:
    """The blocks in ascending order of `keys` (one per node) inside each group."""
    rank = np.empty(len(keys), dtype=np.int64)
    rank[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    order = np.lexsort((rank[blocks.node], blocks.group))
    group, node, count = blocks.group[order], blocks.node[order], blocks.count[order]
    totals = np.cumsum(keys[node] * count)
    sizes = blocks.sizes
    entries = np.cumsum(np.bincount(group, minlength=blocks.groups)) - np.bincount(group, minlength=blocks.groups)
    return Ordered(
        group=group,
        node=node,
        count=count,
        keys=keys[node],
        reached=np.cumsum(count),
        totals=totals,
        start=np.cumsum(sizes) - sizes,
        before=np.concatenate((np.zeros(1, dtype=totals.dtype), totals))[entries],
    )


def node_least(tree: BlockTree, of_leaf: Exact) -> tuple[Exact, Ints]:
    """For every node the least number among its leaves, and a leaf position that has it."""
    least = np.zeros(tree.nodes, dtype=of_leaf.dtype)
    where = np.zeros(tree.nodes, dtype=np.int64)
    leaf = tree.children == 0
    least[leaf], where[leaf] = of_leaf[tree.start[leaf]], tree.start[leaf]
    for parents, children, offsets in reversed(list(families(tree))):
        least[parents] = np.minimum.reduceat(least[children], offsets)
        attained = least[children] == np.repeat(least[parents], tree.children[parents])
        where[parents] = np.maximum.reduceat(np.where(attained, where[children], -1), offsets)
    return least, where


class Bounder:
    """Bounds for one release; the sorted tables of recent functions h are kept."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.copies = int(blocks.count.sum())
        self.sizes = blocks.sizes
        self._kept: dict[tuple[int, ...], tuple[Ordered, Ordered]] = {}

    def tables(self, h: WholeNumbers) -> tuple[Ordered, Ordered]:
        """The blocks by least h ascending, and by largest h descending (keys negated)."""
        key = tuple(h.whole.tolist())
        if key not in self._kept:
            if len(self._kept) >= KEPT:
                self._kept.pop(next(iter(self._kept)))
            tree = self.blocks.tree
            self._kept[key] = (
                order_blocks(self.blocks, node_least(tree, h.whole)[0]),
                order_blocks(self.blocks, node_least(tree, -h.whole)[0]),
            )
        return self._kept[key]

    def totals(self, selection: Selection, h: WholeNumbers) -> list[Bounds]:
        """Bounds on the sum of h over the selected rows, for every output row."""
        low, high = self.whole_totals(selection, h)
        return [
            (Fraction(int(a), h.denominator), Fraction(int(b), h.denominator)) for a, b in zip(low, high, strict=True)
        ]

    def whole_totals(self, selection: Selection, h: WholeNumbers) -> tuple[Exact, Exact]:
        """The same as whole numbers over the denominator of h."""
        if not len(selection.group):
            return np.zeros(selection.keys, dtype=np.int64), np.zeros(selection.keys, dtype=np.int64)
        if h.whole.dtype == np.int64 and ((h.whole == 0) | (h.whole == 1)).all():
            return self._counts(selection, h)
        up, down = self.tables(h)
        return selection.per_key(up.sums(selection)), -selection.per_key(down.sums(selection))

    def _counts(self, selection: Selection, h: WholeNumbers) -> tuple[Exact, Exact]:
        """Bounds on a count without sorting: between max(0, s - (n+k - must)) and min(s, may)."""
        low, high = self.picks(selection, h.whole == 1)
        return selection.per_key(low), selection.per_key(high)

    def picks(self, selection: Selection, inside: NDArray[np.bool_]) -> tuple[Ints, Ints]:
        """For each pair how many of its rows have a value inside a set of leaves, at least and at most."""
        blocks, h = self.blocks, inside.astype(np.int64)
        least, _ = node_least(blocks.tree, h)
        most, _ = node_least(blocks.tree, -h)
        must, may = np.zeros(blocks.groups, dtype=np.int64), np.zeros(blocks.groups, dtype=np.int64)
        np.add.at(must, blocks.group, blocks.count * least[blocks.node])
        np.add.at(may, blocks.group, blocks.count * -most[blocks.node])
        free = (self.sizes - must)[selection.group]
        return np.maximum(0, selection.rows - free), np.minimum(selection.rows, may[selection.group])

    def order_statistic(self, selection: Selection, h: WholeNumbers, position: int) -> Bounds | None:
        """Bounds on the `position`-th smallest h (from 1) of the selected rows; None when nothing is selected.

        The lowest world gives every row of a group one of its s smallest lower ends, the highest one of its s largest
        upper ends; pooled over the groups, the position-th of each is the bound.
        """
        rows = int(selection.rows.sum())
        if rows == 0:
            return None
        if not 1 <= position <= rows:
            raise QueryError(f"position {position} is outside 1..{rows}")
        up, down = self.tables(h)
        low, high = _pooled(up, selection, position), -_pooled(down, selection, rows + 1 - position)
        return Fraction(int(low), h.denominator), Fraction(int(high), h.denominator)

    def quantile(
        self, selection: Selection, h: WholeNumbers, share: Fraction, *, continuous: bool = True
    ) -> Bounds | None:
        """Bounds on DuckDB's quantile_cont (interpolated) or quantile_disc of h over the selected rows."""
        rows = int(selection.rows.sum())
        if rows == 0:
            return None
        if not continuous:
            return self.order_statistic(selection, h, max(1, math.ceil(share * rows)))
        place = share * (rows - 1)
        below = int(place)
        part = place - below
        first = self.order_statistic(selection, h, below + 1)
        second = self.order_statistic(selection, h, min(below + 2, rows))
        assert first is not None
        assert second is not None
        # both ends are attained in one and the same world
        return (1 - part) * first[0] + part * second[0], (1 - part) * first[1] + part * second[1]

    def ratio(self, parts: Sequence[tuple[Selection, WholeNumbers, WholeNumbers]]) -> Bounds | None:
        """Bounds on (sum of top) / (sum of bottom >= 0) in the worlds with a positive bottom; None if none has.

        Each part is a selection for one output row with its functions top and bottom. Parts are bounded as if they did
        not compete for blocks: exact for one part, and never too narrow for more.
        """
        touched = np.zeros(self.blocks.groups, dtype=bool)
        for selection, _, _ in parts:
            touched[selection.group] = True
        mine = touched[self.blocks.group]
        blocks = replace(
            self.blocks, group=self.blocks.group[mine], node=self.blocks.node[mine], count=self.blocks.count[mine]
        )
        low = self._least_ratio(blocks, parts)
        flipped = [(s, WholeNumbers(whole=-top.whole, denominator=top.denominator), bottom) for s, top, bottom in parts]
        high = self._least_ratio(blocks, flipped)
        return None if low is None or high is None else (low, -high)

    def _least_ratio(
        self, blocks: Blocks, parts: Sequence[tuple[Selection, WholeNumbers, WholeNumbers]]
    ) -> Fraction | None:
        """The least ratio, by Dinkelbach's search: for a trial ratio, the world with the least top - trial x bottom.

        Every step lowers the trial to the ratio of the world just found or proves it least, in exact arithmetic. The
        first world has the largest bottom.
        """
        top, bottom = self._world(blocks, parts, None)
        if bottom == 0:
            return None
        while True:
            trial = top / bottom
            top, bottom = self._world(blocks, parts, trial)
            if top - trial * bottom >= 0:
                return trial

    def _world(
        self, blocks: Blocks, parts: Sequence[tuple[Selection, WholeNumbers, WholeNumbers]], trial: Fraction | None
    ) -> tuple[Fraction, Fraction]:
        """Sums of top and bottom in a world with the least top - trial x bottom (None: the largest bottom)."""
        sums = [Fraction(0), Fraction(0)]
        for selection, top, bottom in parts:
            a, b = top.whole.astype(object), bottom.whole.astype(object)
            if trial is None:
                score = -b
            else:  # (a / da - trial b / db) times da db and the trial's denominator
                score = a * (bottom.denominator * trial.denominator) - b * (trial.numerator * top.denominator)
            least, leaf = node_least(blocks.tree, score)
            ordered = order_blocks(blocks, least)
            taken, at = ordered.taken(selection), leaf[ordered.node]
            sums[0] += Fraction(int((taken * a[at]).sum()), top.denominator)
            sums[1] += Fraction(int((taken * b[at]).sum()), bottom.denominator)
        return sums[0], sums[1]


def _pooled(ordered: Ordered, selection: Selection, position: int) -> Any:
    """The `position`-th smallest key after pooling the `rows` smallest keys of every group."""
    taken = ordered.taken(selection)
    order = np.argsort(ordered.keys, kind="stable")
    return ordered.keys[order[np.searchsorted(np.cumsum(taken[order]), position, side="left")]]
