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
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError, QueryError, ReleaseError
from ..model.public import Asked, Estimated, Floats, Observed
from ..stats.joint_codes import sum_by_group
from .block_tree import BlockTree, check_plan, families

Ints = NDArray[np.int64]
Exact = NDArray[Any]  # int64, or Python integers where those could overflow
Bounds = tuple[Fraction, Fraction]

SAFE = 2**62
EXACT = 2**53  # up to here a float is the whole number that it seems to be


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
    """Bounds for one release; the sorted tables of the functions h are kept."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.copies = int(blocks.count.sum())
        self.sizes = blocks.sizes
        self._kept: dict[tuple[int, ...], tuple[Ordered, Ordered]] = {}

    def tables(self, h: WholeNumbers) -> tuple[Ordered, Ordered]:
        """The blocks by least h ascending, and by largest h descending (keys negated)."""
        key = tuple(h.whole.tolist())
        if key not in self._kept:
            tree = self.blocks.tree
            self._kept[key] = (
                order_blocks(self.blocks, node_least(tree, h.whole)[0]),
                order_blocks(self.blocks, node_least(tree, -h.whole)[0]),
            )
        return self._kept[key]

    def totals(self, selection: Selection, h: WholeNumbers) -> list[Bounds]:
        """Bounds on the sum of h over the selected rows, for every output row."""
        if not len(selection.group):
            return [(Fraction(0), Fraction(0))] * selection.keys
        up, down = self.tables(h)
        low, high = selection.per_key(up.sums(selection)), -selection.per_key(down.sums(selection))
        return [
            (Fraction(int(a), h.denominator), Fraction(int(b), h.denominator)) for a, b in zip(low, high, strict=True)
        ]

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
        low = least_ratio(partial(self._world, blocks, parts))
        flipped = [(s, WholeNumbers(whole=-top.whole, denominator=top.denominator), bottom) for s, top, bottom in parts]
        high = least_ratio(partial(self._world, blocks, flipped))
        return None if low is None or high is None else (low, -high)

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


def least_ratio(world: Callable[[Fraction | None], tuple[Fraction, Fraction]]) -> Fraction | None:
    """The least top / bottom over worlds with a positive bottom, by Dinkelbach's search; None where there is none.

    `world(trial)` gives top and bottom of a world with the least top - trial x bottom, `world(None)` of one with the
    largest bottom. Every step lowers the trial to the ratio of the world just found or proves it least, exactly.
    """
    top, bottom = world(None)
    if bottom == 0:
        return None
    while True:
        trial = top / bottom
        top, bottom = world(trial)
        if top - trial * bottom >= 0:
            return trial


def _pooled(ordered: Ordered, selection: Selection, position: int) -> Any:
    """The `position`-th smallest key after pooling the `rows` smallest keys of every group."""
    taken = ordered.taken(selection)
    order = np.argsort(ordered.keys, kind="stable")
    return ordered.keys[order[np.searchsorted(np.cumsum(taken[order]), position, side="left")]]


# --- picked rows ------------------------------------------------------------------------------------------------------
# Certain bounds on sums and averages of an untouched column over the rows that a condition on the blocks picks.
#
# Of the s rows of a group that a question selects, the condition picks some c: COUNT's own bounds say how few and how
# many, and the blocks do not tell which, so every choice of so many rows is a world. A row has a number g of its own,
# and adds g a1 where it is picked and g a0 where it is not. So the least sum takes the rows with the smallest g (a1 -
# a0): all that are below 0, but not fewer and not more than may be picked. Exact, in whole numbers over one
# denominator.


# what a row adds to the sum above (times its number) and to the count below: where it is picked and where it is not
Outcome = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Picked:
    """Rows of one pattern, pair by pair (of output row and group), each pair sorted by number.

    `rank` is the place of an entry's number among `numbers`, `count` how many rows have it.
    """

    numbers: WholeNumbers  # different ones, ascending
    rank: Ints
    count: Ints
    pair: Ints
    selection: Selection  # output row, group and rows of every pair
    fewest: Ints  # rows of every pair that are picked at least, and at most
    most: Ints
    yes: Outcome
    no: Outcome

    @property
    def gain(self) -> Outcome:
        """What a row adds by being picked, above and below."""
        return self.yes[0] - self.no[0], self.yes[1] - self.no[1]

    def of(self, key: int) -> Picked:
        """The part that belongs to one output row."""
        pairs = np.flatnonzero(self.selection.key == key)
        first, last = np.searchsorted(self.pair, [pairs[0], pairs[-1] + 1]) if len(pairs) else (0, 0)
        return replace(
            self,
            rank=self.rank[first:last],
            count=self.count[first:last],
            pair=self.pair[first:last] - (pairs[0] if len(pairs) else 0),
            selection=self.selection.of(key),
            fewest=self.fewest[pairs],
            most=self.most[pairs],
        )

    def totals(self) -> Exact:
        """The sum of the numbers of every pair's rows."""
        return sum_by_group(self.numbers.whole[self.rank] * self.count, self.pair, len(self.fewest))

    def sums(self, wanted: Ints, *, largest: bool) -> Exact:
        """The sum of the `wanted` smallest numbers of every pair, or of the largest."""
        if largest:
            return self.totals() - self.sums(self.selection.rows - wanted, largest=False)
        reached = np.cumsum(self.count)
        before = (reached - self.count) - (np.cumsum(self.selection.rows) - self.selection.rows)[self.pair]
        taken = np.clip(wanted[self.pair] - before, 0, self.count)
        return sum_by_group(self.numbers.whole[self.rank] * taken, self.pair, len(self.fewest))

    def least(self, trial: Fraction | None) -> tuple[Exact, Ints]:
        """(sum of the picked numbers, how many are picked) of every pair, where above - trial x below is least.

        None: where below is largest.
        """
        above, below = self.gain
        if trial is None:
            wanted = self.most if below > 0 else self.fewest
        else:
            ranks = range(len(self.numbers.whole))
            value = self.numbers.denominator

            def score(rank: int) -> Fraction:
                return Fraction(int(self.numbers.whole[rank]), value) * above - trial * below

            if above >= 0:  # scores ascend with the numbers
                helpful = self.rank < bisect_left(ranks, Fraction(0), key=score)
            else:
                helpful = self.rank >= bisect_left(ranks, True, key=lambda rank: score(rank) < 0)
            wanted = sum_by_group(self.count[helpful], self.pair[helpful], len(self.fewest))
            wanted = np.clip(wanted, self.fewest, self.most)
        return self.sums(wanted, largest=above < 0), wanted

    def flipped(self) -> Picked:
        """The same with everything above negated: its least is the largest."""
        return replace(self, yes=(-self.yes[0], self.yes[1]), no=(-self.no[0], self.no[1]))

    @property
    def certain(self) -> bool:
        """Whether it does not matter which rows are picked."""
        above, below = self.gain
        return below == 0 and (above == 0 or not self.numbers.whole.any())


def picked(
    bounder: Bounder, observed: Observed, pattern: int, measure: int, above: Floats, below: Floats
) -> Picked | None:
    """The rows of a pattern, of which a row adds number x `above` and `below` by its value; None: more than two ways.

    `above` and `below` are over the leaves.
    """
    ways = list(dict.fromkeys(zip(above.tolist(), below.tolist(), strict=True)))
    if len(ways) > 2 or observed.numbers is None or min(below.min(), 0) < 0:
        return None
    no, yes = (ways[0], ways[-1])
    inside = (above == yes[0]) & (below == yes[1])
    mine = np.flatnonzero((observed.pattern[observed.stratum] == pattern) & (np.rint(observed.moments[:, 0]) > 0))
    key, group = observed.key[observed.stratum[mine]].astype(np.int64), observed.part[mine]
    stride = int(group.max(initial=0)) + 1
    pairs, pair = np.unique(key * stride + group, return_inverse=True)
    different, rank = np.unique(observed.numbers[mine, measure], return_inverse=True)
    order = np.lexsort((rank, pair))
    count = np.rint(observed.moments[mine, 0]).astype(np.int64)[order]
    rows = sum_by_group(count, pair[order], len(pairs))
    selection = Selection(key=pairs // stride, group=pairs % stride, rows=rows, keys=observed.keys)
    fewest, most = bounder.picks(selection, inside)
    return Picked(
        numbers=exact_numbers(different, int(rows.sum())),
        rank=rank[order],
        count=count,
        pair=pair[order],
        selection=selection,
        fewest=fewest,
        most=most,
        yes=(Fraction(yes[0]), Fraction(yes[1])),
        no=(Fraction(no[0]), Fraction(no[1])),
    )


def sum_bounds(parts: Sequence[Picked], keys: int) -> tuple[list[Fraction], list[Fraction]]:
    """Bounds on the sum above, for every output row; parts are added as if they did not compete for blocks."""
    return _least_sums(parts, keys), [-x for x in _least_sums([part.flipped() for part in parts], keys)]


def _least_sums(parts: Sequence[Picked], keys: int) -> list[Fraction]:
    out = [Fraction(0)] * keys
    for part in parts:
        found = part.selection.per_key(part.least(Fraction(0))[0])
        unpicked = part.selection.per_key(part.totals())
        for k in np.unique(part.selection.key).tolist():
            whole = part.gain[0] * int(found[k]) + part.no[0] * int(unpicked[k])
            out[k] += whole / part.numbers.denominator
    return out


def ratio_bounds(parts: Sequence[Picked]) -> tuple[Fraction, Fraction] | None:
    """Bounds on above / below in the worlds where that is not 0, of parts of one output row; None if there is none."""
    low = least_ratio(partial(_world, parts))
    high = least_ratio(partial(_world, [part.flipped() for part in parts]))
    return None if low is None or high is None else (low, -high)


def may_be_empty(parts: Sequence[Picked]) -> bool:
    """Whether the count below may be 0."""
    least = Fraction(0)
    for part in parts:
        gain = part.gain[1]
        least += part.no[1] * int(part.selection.rows.sum())
        least += gain * int((part.fewest if gain > 0 else part.most).sum())
    return least <= 0


def _world(parts: Sequence[Picked], trial: Fraction | None) -> tuple[Fraction, Fraction]:
    """Sums above and below in a world with the least above - trial x below (None: the largest below)."""
    top, bottom = Fraction(0), Fraction(0)
    for part in parts:
        found, wanted = part.least(trial)
        whole = part.gain[0] * int(found.sum()) + part.no[0] * int(part.totals().sum())
        top += whole / part.numbers.denominator
        bottom += part.gain[1] * int(wanted.sum()) + part.no[1] * int(part.selection.rows.sum())
    return top, bottom


# --- blockwise --------------------------------------------------------------------------------------------------------
# Answers from published blocks: the linear functionals of a question, ratios and order statistics, as bounds.
#
# A question's strata select rows of groups; patterns of the untouched leaves may give different rows different
# functions of the sensitive value. Rows of one pattern are bounded exactly; several patterns are bounded one by one
# and added, which is never too narrow. Bounds leave as floats rounded outward.


OUTER = "bounds may be wider than needed: conditions on other columns give rows of a group different questions"
SOMETIMES_NULL = "an average may be NULL: in some possible tables no row has the value asked for"
ROW_BY_ROW = "bounds of a sum are wide: each row is bounded by itself"
CELLS = 2**24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenBlocks:
    """Published blocks, ready to answer."""

    bounder: Bounder
    order: NDArray[np.int64]  # leaf position -> place in the domain
    rows: NDArray[np.int64]  # of every group

    def numbers(self, of_value: Floats) -> WholeNumbers:
        """A function of the value, given over the domain, as exact numbers over the leaves."""
        return exact_numbers(of_value[self.order], self.bounder.copies)

    def check(self, weights: Sequence[NDArray[np.int64]], group_part: NDArray[np.int64]) -> None:
        """Raise PlanError unless every group's blocks are P-private for its weights and cover its rows."""
        blocks = self.bounder.blocks
        if (blocks.sizes < self.rows).any():
            raise PlanError("a group has fewer blocks than rows")
        step = max(1, CELLS // blocks.tree.nodes)
        for first in range(0, blocks.groups, step):
            last = min(first + step, blocks.groups)
            inside = slice(*np.searchsorted(blocks.group, [first, last]))
            plans = sum_by_group(
                blocks.count[inside],
                (blocks.group[inside] - first, blocks.node[inside]),
                (last - first, blocks.tree.nodes),
            )
            for part, w in enumerate(weights):
                mine = plans[group_part[first:last] == part]
                plenty = np.full((len(mine), blocks.tree.leaves), int(mine.sum()) + 1)
                check_plan(blocks.tree, w, mine, plenty, sizes=mine.sum(axis=1))


def open_blocks(
    tree: BlockTree, order: NDArray[np.int64], side: Mapping[str, NDArray[Any]], rows: NDArray[np.int64]
) -> OpenBlocks:
    """The release whose sensitive.parquet is `side`; refuses groups, blocks and counts that cannot be."""
    columns = [np.asarray(side.get(name)) for name in ("group_id", "block", "count")]
    if any(not np.issubdtype(column.dtype, np.integer) for column in columns):  # a missing cell makes them floats
        raise ReleaseError("sensitive.parquet needs whole numbers in group_id, block and count")
    group, node, count = (column.astype(np.int64) for column in columns)
    groups = len(rows)
    if sorted(order.tolist()) != list(range(tree.leaves)):
        raise ReleaseError("release.json orders the values of the domain in a way that does not fit the hierarchy")
    for column, limit in ((group, groups), (node, tree.nodes)):
        if len(column) and (column.min() < 0 or column.max() >= limit):
            raise ReleaseError("sensitive.parquet names a group or a block that release.json does not describe")
    if (count < 1).any() or (rows < 0).any():
        raise ReleaseError("sensitive.parquet or release.json holds a count below 1")
    at = np.argsort(group, kind="stable")
    blocks = Blocks(tree=tree, group=group[at], node=node[at], count=count[at], groups=groups)
    if (blocks.sizes < rows).any():
        raise ReleaseError("a group of sensitive.parquet has fewer blocks than rows")
    return OpenBlocks(bounder=Bounder(blocks), order=order, rows=rows)


def estimate(release: OpenBlocks, observed: Observed, asked: Asked) -> Estimated:
    """Bounds on every functional; no estimate. Where only the trivial limits hold there are none (NaN)."""
    shape = (observed.keys, asked.functionals)
    low, high = np.zeros(shape), np.zeros(shape)
    several = loose = False
    selections = [_selection(observed, b) for b in range(len(asked.coefficients))]
    for f in range(asked.functionals):
        if asked.measure[f] != 0:
            low[:, f], high[:, f], unknown, competing = _numbers_of_rows(release, observed, asked, f)
            loose |= unknown
            several |= competing
            continue
        uncertain, parts = 0, []
        for b, selection in enumerate(selections):
            h = _over_domain(asked, b, f)
            if len(selection.group) and h.any():
                uncertain += bool(np.ptp(h))
                parts.append((selection, h))
        low[:, f], high[:, f] = _sums(release, parts, np.ones(observed.keys, dtype=np.int64))
        several |= uncertain > 1
    nothing = np.full(shape, np.nan)
    return Estimated(
        value=nothing,
        variance=nothing,
        low=nothing,
        high=nothing,
        covariance=np.zeros((observed.keys, len(asked.pairs))),
        minimum=low,
        maximum=high,
        caveats=(*((OUTER,) if several else ()), *((ROW_BY_ROW,) if loose else ())),
    )


def ratios(
    release: OpenBlocks, observed: Observed, asked: Asked, top: Sequence[int], bottom: Sequence[int]
) -> tuple[Floats, Floats, tuple[str, ...]] | None:
    """Bounds on top / bottom, (output rows, groups of unit keys); None where none are known."""
    combos, per_group = asked.groups, asked.functionals // asked.groups
    if len(top) != 1 or len(bottom) != 1 or asked.measure[bottom[0]]:
        return None
    if asked.measure[top[0]]:
        return _averages(release, observed, asked, top[0], bottom[0])
    low, high = np.full((observed.keys, combos), np.nan), np.full((observed.keys, combos), np.nan)
    selections = [_selection(observed, b) for b in range(len(asked.coefficients))]
    sometimes = several = False
    for c in range(combos):
        functions = [
            (_over_domain(asked, b, c * per_group + top[0]), _over_domain(asked, b, c * per_group + bottom[0]))
            for b in range(len(selections))
        ]
        used = [b for b, (a, d) in enumerate(functions) if len(selections[b].group) and (a.any() or d.any())]
        several |= sum(bool(np.ptp(functions[b][0]) or np.ptp(functions[b][1])) for b in used) > 1
        if all((functions[b][1] == 1).all() for b in used):  # a known number of rows: bounds on the total, divided
            rows = sum((selections[b].per_key(selections[b].rows) for b in used), np.zeros(observed.keys, np.int64))
            low[:, c], high[:, c] = _sums(release, [(selections[b], functions[b][0]) for b in used], rows)
            continue
        numbers = {b: (release.numbers(functions[b][0]), release.numbers(functions[b][1])) for b in used}
        for k in range(observed.keys):
            parts = [(mine, *numbers[b]) for b in used if len((mine := selections[b].of(k)).group)]
            found = release.bounder.ratio(parts) if parts else None
            if found is not None:
                low[k, c], high[k, c] = _down(found[0]), _up(found[1])
            sometimes |= any((n.whole == 0).any() for _, _, n in parts)
    return low, high, (*((SOMETIMES_NULL,) if sometimes else ()), *((OUTER,) if several else ()))


def _numbers_of_rows(
    release: OpenBlocks, observed: Observed, asked: Asked, functional: int
) -> tuple[Floats, Floats, bool, bool]:
    """Bounds on a sum of another column by the value of this one, for every output row ("picked rows" above).

    And whether only the trivial limits are known, and whether rows compete for blocks.
    """
    parts = _parts(release, observed, asked, functional, None)
    if parts is None:
        nothing = np.full(observed.keys, np.nan)
        return nothing, nothing, True, False
    low, high = sum_bounds(parts, observed.keys)
    return (
        np.array([_down(x) for x in low]),
        np.array([_up(x) for x in high]),
        False,
        sum(not part.certain for part in parts) > 1,
    )


def _averages(
    release: OpenBlocks, observed: Observed, asked: Asked, top: int, bottom: int
) -> tuple[Floats, Floats, tuple[str, ...]] | None:
    """Bounds on an average of another column over the rows that a condition on this one picks."""
    shape, per_group = (observed.keys, asked.groups), asked.functionals // asked.groups
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    sometimes = several = False
    for c in range(asked.groups):
        parts = _parts(release, observed, asked, c * per_group + top, c * per_group + bottom)
        if parts is None:
            return None
        several |= sum(not part.certain for part in parts) > 1
        for k in range(observed.keys):
            mine = [part.of(k) for part in parts]
            found = ratio_bounds(mine)
            if found is not None:
                low[k, c], high[k, c] = _down(found[0]), _up(found[1])
                sometimes |= may_be_empty(mine)
    return low, high, (*((SOMETIMES_NULL,) if sometimes else ()), *((OUTER,) if several else ()))


def _parts(release: OpenBlocks, observed: Observed, asked: Asked, top: int, bottom: int | None) -> list[Picked] | None:
    """The rows of every pattern that adds something; None where the values tell more than two kinds of rows apart."""
    parts = []
    for b in np.unique(observed.pattern).tolist():
        above = _over_domain(asked, b, top)[release.order]
        below = np.zeros_like(above) if bottom is None else _over_domain(asked, b, bottom)[release.order]
        if above.any() or below.any():
            part = picked(release.bounder, observed, b, int(asked.measure[top]), above, below)
            if part is None:
                return None
            parts.append(part)
    return parts


def _sums(
    release: OpenBlocks, parts: Sequence[tuple[Selection, Floats]], over: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Bounds on the added totals of the parts, divided by `over` and rounded outward; NaN where that is 0."""
    low, high = [Fraction(0)] * len(over), [Fraction(0)] * len(over)
    for selection, h in parts:
        for k, (least, most) in enumerate(release.bounder.totals(selection, release.numbers(h))):
            low[k] += least
            high[k] += most
    counts = over.tolist()
    return (
        np.array([_down(x / n) if n else np.nan for x, n in zip(low, counts, strict=True)]),
        np.array([_up(x / n) if n else np.nan for x, n in zip(high, counts, strict=True)]),
    )


def order_statistics(
    release: OpenBlocks, observed: Observed, asked: Asked, functional: int, kind: str, share: float | None
) -> tuple[Floats, Floats, tuple[str, ...]]:
    """Bounds on MIN, MAX or a quantile of one expression over all selected rows, (output rows, 1)."""
    low, high = np.full((observed.keys, 1), np.nan), np.full((observed.keys, 1), np.nan)
    used = [b for b in range(len(asked.coefficients)) if len(_selection(observed, b).group)]
    if not used:
        return low, high, ()
    h = release.numbers(_over_domain(asked, used[0], functional))
    everything = _selection(observed, None)
    for k in range(observed.keys):
        mine = everything.of(k)
        rows = int(mine.rows.sum())
        if not rows:
            continue
        if kind in ("min", "max"):
            found = release.bounder.order_statistic(mine, h, 1 if kind == "min" else rows)
        else:
            found = release.bounder.quantile(mine, h, Fraction(str(share)), continuous=kind != "quantile_disc")
        assert found is not None
        low[k, 0], high[k, 0] = _down(found[0]), _up(found[1])
    return low, high, ()


def _over_domain(asked: Asked, pattern: int, functional: int) -> Floats:
    """The coefficients of a functional for every value of the domain."""
    row = asked.coefficients[pattern][[functional], :].toarray()[0]
    return np.asarray(row[asked.classes[0]], dtype=np.float64)


def _selection(observed: Observed, pattern: int | None) -> Selection:
    """The rows that the question selects (of one pattern), added up by output row and group."""
    mine = np.arange(len(observed.stratum))
    if pattern is not None:
        mine = np.flatnonzero(observed.pattern[observed.stratum] == pattern)
    key, group = observed.key[observed.stratum[mine]], observed.part[mine]
    rows = np.rint(observed.moments[mine, 0]).astype(np.int64)
    stride = int(group.max(initial=0)) + 1
    pairs, place = np.unique(key.astype(np.int64) * stride + group, return_inverse=True)
    total = sum_by_group(rows, place, len(pairs))
    some = total > 0
    return Selection(key=pairs[some] // stride, group=pairs[some] % stride, rows=total[some], keys=observed.keys)


def _down(x: Fraction) -> float:
    """The nearest float that is not above x."""
    near = float(x)
    return math.nextafter(near, -math.inf) if Fraction(near) > x else near


def _up(x: Fraction) -> float:
    """The nearest float that is not below x."""
    return -_down(-x)
