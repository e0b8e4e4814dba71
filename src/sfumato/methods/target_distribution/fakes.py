"""Fake values: which to add so that a group needs the least width, and how many each group gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import SpecError
from ...laws.block_tree import BlockTree, Counts, bound_width, node_counts, plan, unit_sums

# --- fake stacks ------------------------------------------------------------------------------------------------------
# Nodes of a tree that have the same shape, worked on at once: thousands of small nodes are a few stacks of them.
#
# Rows of a stack are its nodes times the groups of the batch, node by node. What is computed is in `fakes`.


Costs = NDArray[np.float64]

SLAB = 512  # rows of a convolution at a time: what is looked at stays in the cache
STACKED = 2**20  # cells of what is looked at to share the fakes of a stack out, unless one node takes more


@dataclass(slots=True, kw_only=True)
class NodeRange:
    """Which numbers of blocks and fakes one inner node must answer for."""

    lowest: Counts  # per group: the smallest c considered
    width: int  # how many values of c are considered
    most: int  # values of k kept are 0 .. most; beyond, nothing changes
    inner: dict[int, int] = field(default_factory=dict)  # children with children of their own: fakes that matter there
    leaves: list[int] = field(default_factory=list)  # leaf children; all these children have weight


@dataclass(slots=True, kw_only=True)
class _Child:
    """One inner child of every node of a stack; all of them lie in one other stack."""

    stack: Stack
    rows: NDArray[np.intp]  # there
    weight: Counts
    most: int  # fakes that matter in it


@dataclass(slots=True, kw_only=True)
class Stack:
    """Nodes of one shape; arrays have one entry for each row, unless another shape is told."""

    width: int
    most: int
    lowest: Counts
    have: Counts
    unit: Counts
    span: Costs
    children: tuple[_Child, ...]
    leaf: NDArray[np.intp]  # nodes x leaf children: their positions
    leaf_have: Counts  # rows x leaf children
    leaf_weight: Counts
    best: Costs = field(default_factory=lambda: np.empty(0))  # running minimum over c of G - W c span: rows x c x k
    partial: list[Costs] = field(default_factory=list)  # convolutions of the first 1, 2, .. inner children

    def solve(self, most: int) -> None:
        """Fills `best` and `partial`; the stacks of the children are solved."""
        units = self.lowest[:, None] + np.arange(self.width)  # rows x c
        total = np.zeros((*units.shape, 1))
        for i, child in enumerate(self.children):
            cost = child.stack.values(child.rows, child.most, units * child.weight[:, None])
            self.partial.append(cost)
            total = convolve(total, cost, most) if i else cost
            if i:
                self.partial.append(total)
        need = self._leaf_need(units).sum(axis=2) if self.leaf.shape[1] else None
        total = _shift(total, need, self.most)
        gain = self.unit * self.span
        best = total - (gain[:, None] * units)[:, :, None]
        self.best = np.minimum.accumulate(best, axis=1, out=best)

    def _leaf_need(self, units: Counts) -> Counts:
        """How many fakes each leaf child lacks for c units (last axis: leaf children)."""
        return np.maximum(units[..., None] * self.leaf_weight[:, None] - self.leaf_have[:, None], 0)

    def value(self, rows: NDArray[np.intp], k: Counts, blocks: Counts) -> Costs:
        """F(node, k, blocks) of some rows, elementwise: rows x .."""
        have, unit, lowest, span, row = (
            a[:, None] for a in (self.have[rows], self.unit[rows], self.lowest[rows], self.span[rows], rows)
        )
        at = np.minimum(blocks // unit - lowest, self.width - 1)  # the largest c that the blocks allow
        value = self.best[row, at, np.minimum(k, self.most)] + blocks * span
        return np.where(blocks <= have + k, value, np.inf)

    def values(self, rows: NDArray[np.intp], most: int, blocks: Counts) -> Costs:
        """F(node, k, blocks) of some rows for k = 0 .. most: rows x c x k."""
        at = np.minimum(blocks // self.unit[rows, None] - self.lowest[rows, None], self.width - 1)
        found = _ended(self.best[rows[:, None], at], most)
        found += (blocks * self.span[rows, None])[:, :, None]
        found[np.arange(most + 1) < (blocks - self.have[rows, None])[:, :, None]] = np.inf
        return found

    def share_out(self, k: Counts, blocks: Counts) -> tuple[list[tuple[Counts, Counts]], Counts]:
        """(fakes and blocks of every inner child, fakes of the leaf children: rows x states x leaf children)."""
        row = np.arange(len(k))[:, None]
        top = np.minimum(blocks // self.unit[:, None] - self.lowest[:, None], self.width - 1)
        useful = np.minimum(k, self.most)
        reached = self.best[row, top, useful]
        # the running minimum falls to `reached` first where c is the argmin
        running = np.swapaxes(self.best, 1, 2)[row, useful]  # rows x states x c
        at = np.minimum((running > reached[:, :, None]).sum(axis=2), top)
        units = self.lowest[:, None] + at
        need = self._leaf_need(units)
        left = k - need.sum(axis=2)
        given: list[tuple[Counts, Counts]] = []
        for i in range(len(self.children) - 1, 0, -1):
            # partial holds F_0, F_1, F_0*F_1, F_2, F_0*F_1*F_2, ..
            x = _split(self.partial[2 * i - 1][row, at], self.partial[2 * i - 2][row, at], left)
            given.append((x, units * self.children[i].weight[:, None]))
            left = left - x
        if self.children:
            given.append((left, units * self.children[0].weight[:, None]))
        else:
            need[:, :, 0] += left  # more fakes than the least cost needs: they wait at the first value
        return given[::-1], need


def stacks_of(
    tree: BlockTree,
    weights: Counts,
    spans: Costs,
    *,
    inside: Counts,
    unit: Counts,
    nodes: Mapping[int, NodeRange],
    states: int,
) -> tuple[Stack, ...]:
    """The nodes in stacks, every stack after those of its children; the last is that of the root."""
    groups = len(inside)
    held: list[list[int]] = []  # nodes of every stack
    place: dict[int, tuple[int, int]] = {}  # node -> stack, place in it
    latest: dict[object, int] = {}  # shape -> the stack that is being filled
    for node in sorted(nodes, reverse=True):  # children have larger numbers than their parent
        one = nodes[node]
        shape = (
            one.width,
            one.most,
            len(one.leaves),
            tuple((place[child][0], most) for child, most in one.inner.items()),
        )
        room = STACKED // max(1, groups * states * max(one.width, *(m + 1 for m in one.inner.values()), 1))
        if shape not in latest or len(held[latest[shape]]) >= room:
            latest[shape] = len(held)
            held.append([])
        place[node] = latest[shape], len(held[latest[shape]])
        held[latest[shape]].append(node)
    made: list[Stack] = []
    number = np.arange(groups)

    def rows(places: list[int]) -> NDArray[np.intp]:
        return (np.array(places)[:, None] * groups + number).ravel()

    def by_row(counts: Counts) -> Counts:
        return np.repeat(counts, groups, axis=0)

    for here in held:
        first = nodes[here[0]]
        inner = [[list(nodes[node].inner)[i] for node in here] for i in range(len(first.inner))]
        leaves = np.array([nodes[node].leaves for node in here], dtype=np.intp).reshape(len(here), len(first.leaves))
        of_leaves = inside[:, leaves].transpose(1, 0, 2)  # nodes x groups x leaf children
        made.append(
            Stack(
                width=first.width,
                most=first.most,
                lowest=np.concatenate([nodes[node].lowest for node in here]),
                have=inside[:, here].T.ravel(),
                unit=by_row(unit[here]),
                span=np.repeat(spans[here].astype(np.float64), groups),
                children=tuple(
                    _Child(
                        stack=made[place[some[0]][0]],
                        rows=rows([place[child][1] for child in some]),
                        weight=by_row(weights[some]),
                        most=first.inner[some[0]],
                    )
                    for some in inner
                ),
                leaf=tree.start[leaves],
                leaf_have=of_leaves.reshape(len(here) * groups, len(first.leaves)),
                leaf_weight=by_row(weights[leaves]),
            )
        )
    return tuple(made)


def convolve(a: Costs, b: Costs, most: int) -> Costs:
    """out[.., k] = min over x of a[.., x] + b[.., k - x] for k up to `most`; both stay as they end beyond their ends.

    Some rows at a time, side by side: numpy's loops go over many rows, not over the few values of k.
    """
    if a.shape[-1] > b.shape[-1]:
        a, b = b, a
    ends = a.shape[-1] - 1, b.shape[-1] - 1
    size = min(sum(ends), most) + 1
    shared = min(size, ends[1] + 1)
    first, second = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    out = np.empty((len(first), size))
    room = np.empty((size, min(SLAB, len(out))))
    for at in range(0, len(out), SLAB):
        left, right = (np.ascontiguousarray(x[at : at + SLAB].T) for x in (first, second))
        best, spare = np.empty((size, left.shape[1])), room[:, : left.shape[1]]
        np.add(right[:shared], left[0], out=best[:shared])
        best[shared:] = best[shared - 1]
        for x in np.flatnonzero(np.isfinite(left[1:]).any(axis=1)) + 1:
            until = min(size, x + ends[1] + 1)
            term = spare[: until - x]
            np.add(right[: until - x], left[x], out=term)
            np.minimum(best[x:until], term, out=best[x:until])
            if until < size:
                np.minimum(best[until:], term[-1], out=best[until:])
        out[at : at + SLAB] = best.T
    return out.reshape(*a.shape[:-1], size)


def _ended(cost: Costs, most: int) -> Costs:
    """The costs for k = 0 .. most; they stay as they end beyond their end."""
    size = cost.shape[-1]
    if most < size:
        return cost[..., : most + 1]
    return np.concatenate([cost, np.repeat(cost[..., -1:], most + 1 - size, axis=-1)], axis=-1)


def _shift(cost: Costs, need: Counts | None, most: int) -> Costs:
    """cost[.., k - need] for k up to `most`, infinite where k < need; the cost stays as it ends beyond its end."""
    if need is None:
        return _ended(cost, most)
    k = np.arange(most + 1) - need[..., None]
    found = cost if cost.shape[-1] == 1 else np.take_along_axis(cost, np.clip(k, 0, cost.shape[-1] - 1), axis=-1)
    return np.where(k >= 0, found, np.inf)


def _split(child: Costs, rest: Costs, k: Counts) -> Counts:
    """The x that attains min of child[.., x] + rest[.., k - x]: the smallest such x."""
    x = np.arange(child.shape[-1])
    other = k[..., None] - x
    found = np.take_along_axis(rest, np.clip(other, 0, rest.shape[-1] - 1), axis=-1)
    return np.where(other >= 0, child + found, np.inf).argmin(axis=-1)


# --- fakes ------------------------------------------------------------------------------------------------------------


__all__ = ["Costs", "FakeTable"]


class FakeTable:
    """F for every node, k = 0 .. most and the block counts that can be asked for, for a batch of groups.

    Cost: O(c k^2) time and O(c k) memory at a node and per group, where k goes to the number of blocks that the node
    can be asked for, at most `most`, and c spans at most about `most` + 2 values wherever a node is short of values.
    """

    def __init__(self, tree: BlockTree, weights: Counts, spans: Costs, true_counts: Counts, most: int) -> None:
        self.tree, self.weights, self.spans, self.most = tree, weights, spans, most
        self.inside = node_counts(tree, true_counts)
        self.unit = unit_sums(tree, weights)
        self.nodes: dict[int, NodeRange] = {}
        self._stacks: tuple[Stack, ...] = ()
        self._ranges()

    def _ranges(self) -> None:
        """Decide, from the root down, which multiples c each inner node must answer for."""
        groups = len(self.inside)
        rows = self.inside[:, 0]
        asked: dict[int, tuple[Counts, Counts]] = {0: (rows, rows + self.most)}  # least and largest m per node
        for node in np.flatnonzero((self.tree.children > 0) & (self.unit > 0)).tolist():
            if node not in asked:
                continue
            least, largest = asked.pop(node)
            children = [v for v in _children(self.tree, node) if self.weights[v] > 0]
            w = self.weights[children]
            have = self.inside[:, children]
            unit = int(self.unit[node])
            lowest = np.minimum(least // unit, _least_multiple(have, 0, w))
            highest = np.minimum(largest // unit, _least_multiple(have, self.most, w))
            width = int((highest - lowest).max()) + 1 if groups else 1
            top = int(lowest.max(initial=0)) + width - 1
            kept = NodeRange(lowest=lowest, width=width, most=min(self.most, unit * top))
            for child, weight in zip(children, w.tolist(), strict=True):
                if self.tree.children[child]:
                    kept.inner[child] = min(self.most, weight * top)  # it is not asked for more blocks
                    asked[child] = (weight * lowest, weight * (lowest + width - 1))
                else:
                    kept.leaves.append(child)
            self.nodes[node] = kept

    @property
    def work(self) -> int:
        """How many cells the dynamic programme updates (c x k x x over all nodes and groups)."""
        updated = 0
        for kept in self.nodes.values():
            sizes = [most + 1 for most in kept.inner.values()]
            updated += kept.width * (kept.most + 1)
            reached = sizes[0] if sizes else 1
            for size in sizes[1:]:  # pairs (x, y) of a convolution with x + y <= most
                full = reached + size - 1
                larger = min(full, self.most + 1)
                updated += kept.width * (reached * size - (full - larger) * (full - larger + 1) // 2)
                reached = larger
        return len(self.inside) * updated

    @property
    def cells(self) -> int:
        """How many numbers are kept until the fakes are read off."""
        kept = sum(n.width * (1 + 2 * len(n.inner)) * (n.most + 1) for n in self.nodes.values())
        return len(self.inside) * kept

    def solve(self) -> Costs:
        """F(root, k, n + k) for every group and k = 0 .. most."""
        k, blocks = self._asked()
        if not self.nodes:  # a single value: blocks of it cost nothing
            return np.zeros(k.shape)
        self._stacks = stacks_of(
            self.tree,
            self.weights,
            self.spans,
            inside=self.inside,
            unit=self.unit,
            nodes=self.nodes,
            states=self.most + 1,
        )
        for stack in self._stacks:
            stack.solve(self.most)
        return self._stacks[-1].value(np.arange(len(k)), k, blocks)

    def _asked(self) -> tuple[Counts, Counts]:
        """(fakes, blocks) at the root, groups x states."""
        rows, ks = self.inside[:, 0], np.arange(self.most + 1)
        blocks = rows[:, None] + ks
        return np.broadcast_to(ks, blocks.shape), blocks

    def fakes(self) -> Counts:
        """How many fakes of each value an optimal choice of exactly k adds: groups x (most + 1) x leaves."""
        k, blocks = self._asked()
        groups, states = k.shape
        found = np.zeros((groups, states, self.tree.leaves), dtype=np.int64)
        asked = {id(self._stacks[-1]): (k, blocks)} if self._stacks else {}
        for stack in reversed(self._stacks):
            given, leaves = stack.share_out(*asked.pop(id(stack)))
            by_node = leaves.reshape(
                len(stack.leaf), groups, states, stack.leaf.shape[1]
            )  # nodes x groups x states x leaf children
            found[:, :, stack.leaf] = by_node.transpose(1, 2, 0, 3)
            for child, (some, those) in zip(stack.children, given, strict=True):
                if id(child.stack) not in asked:
                    shape = (len(child.stack.lowest), states)
                    asked[id(child.stack)] = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
                into = asked[id(child.stack)]
                into[0][child.rows], into[1][child.rows] = some, those
        return found


def _least_multiple(have: Counts, more: int, weights: Counts) -> Counts:
    """By group the least of (have + more) // weight over the children; dividing is slow, and keeps the order."""
    if (weights == weights[0]).all():
        return np.asarray((have.min(axis=1) + more) // weights[0])
    return np.asarray(((have + more) // weights).min(axis=1))


def _children(tree: BlockTree, node: int) -> range:
    part = tree.child_slice(node)
    return range(part.start, part.stop)


# --- fake choice ------------------------------------------------------------------------------------------------------
# How many fakes each group gets, and which: the best of 0 .. t by a rule, within a limit on the work.
#
# Rules: `width` takes the narrowest bounds on the whole group's total (ties: fewer fakes), because fakes also add
# width; `paper` takes the least sum of spans. Beyond the limit every group keeps its exact optimum for the k it may
# still use, and t is capped at the largest number that fits: large groups lose first, small ones stay as they were.


Rule = Literal["width", "paper"]

WORK_LIMIT = 120_000_000  # cell updates over all groups: half a second
MAX_CELLS = 2**25  # float64 cells kept at a time by each of the workers
WORKERS = 2
FEW_BATCHES = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FakeChoice:
    """The fakes of every group, how many were allowed, and how many could be tried within the work limit."""

    fakes: Counts  # groups x leaves
    allowed: Counts
    tried: Counts

    @property
    def notice(self) -> str | None:
        """One line for the custodian when the work limit lowered the number of fakes, else None."""
        lowered = self.tried < self.allowed
        if not lowered.any():
            return None
        return (
            f"fakes were planned up to {int(self.tried[lowered].max())} instead of up to "
            f"{int(self.allowed[lowered].max())} in {int(lowered.sum())} groups, to stay within the work limit"
        )


def allowed_fakes(rows: Counts, share: Fraction | float) -> Counts:
    """t = floor(share x n) for a share below 1, or the same whole number for every group with rows."""
    try:
        exact = Fraction(str(share))  # a float as it is written: 0.29 of 100 rows is 29
    except ValueError:
        exact = Fraction(-1)
    if exact < 0 or (exact >= 1 and exact.denominator != 1):
        raise SpecError(f"fakes must be a share from 0 to 1 or a whole number of values, got {share}", field="fakes")
    if exact >= 1:
        return np.where(rows > 0, int(exact), 0).astype(np.int64)
    return rows * exact.numerator // exact.denominator


def choose_fakes(
    tree: BlockTree,
    weights: Counts,
    true_counts: Counts,
    *,
    spans: Costs,
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    allowed: Counts,
    rule: Rule = "width",
    work_limit: int = WORK_LIMIT,
) -> FakeChoice:
    """The best fakes of every group under the rule; `ends` are the lowest and highest value of every node."""
    if rule not in ("width", "paper"):
        raise SpecError(f"rule must be 'width' or 'paper', got {rule!r}", field="rule")
    fakes = np.zeros_like(true_counts)
    allowed = allowed if tree.leaves > 1 else np.zeros_like(allowed)
    tried = np.minimum(allowed, _cap(tree, weights, true_counts, allowed, work_limit))

    def choose(batch: NDArray[np.int64]) -> None:
        most = int(tried[batch].max())
        table = FakeTable(tree, weights, spans, true_counts[batch], most)
        score = table.solve()
        options = table.fakes()
        if rule == "width":
            score = _widths(tree, weights, ends, true_counts[batch], options)
        score[np.arange(most + 1) > tried[batch][:, None]] = np.inf
        best = score.argmin(axis=1)  # the first of equals: fewer fakes
        fakes[batch] = options[np.arange(len(batch)), best]

    with ThreadPoolExecutor(max_workers=WORKERS) as workers:
        for _ in workers.map(choose, _batches(tried, tree.nodes)):
            pass
    return FakeChoice(fakes=fakes, allowed=allowed, tried=tried)


def _widths(
    tree: BlockTree,
    weights: Counts,
    ends: tuple[NDArray[np.float64], NDArray[np.float64]],
    true_counts: Counts,
    options: Counts,
) -> Costs:
    """The width of the bounds on each group's total for every k (groups x k)."""
    groups, ks, leaves = options.shape
    plans = plan(tree, weights, (true_counts[:, None, :] + options).reshape(-1, leaves))
    rows = np.repeat(true_counts.sum(axis=1), ks)
    return bound_width(plans, *ends, rows).reshape(groups, ks)


def _batches(most: Counts, nodes: int) -> Iterator[NDArray[np.int64]]:
    """Groups with a similar number of fakes, few enough at a time to bound the memory."""
    order = np.argsort(most, kind="stable")
    order = order[most[order] > 0]
    at = 0
    while at < len(order):
        least = int(most[order[at]])
        top = least + least // 4
        size = max(1, MAX_CELLS // (nodes * (top + 1) * (top + 3)))
        end = min(at + size, int(np.searchsorted(most[order], top, side="right")))
        yield order[at:end]
        at = end


def _cap(tree: BlockTree, weights: Counts, true_counts: Counts, allowed: Counts, work_limit: int) -> int:
    """The largest number of fakes that all groups together may try within the work limit."""

    def work(cap: int) -> int:
        capped = np.minimum(allowed, cap)
        return sum(
            FakeTable(tree, weights, spans, true_counts[batch], int(capped[batch].max())).work
            for batch in _batches(capped, tree.nodes)
        )

    spans = np.zeros(tree.nodes)  # costs do not change the work
    low, most = 0, int(allowed.max(initial=0))
    # To foresee the work of many fakes in many batches is work itself: those are doubled from below.
    high = most if len(list(_batches(allowed, tree.nodes))) <= FEW_BATCHES else 1
    while work(high) <= work_limit:
        if high == most:
            return most
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if work(middle) <= work_limit else (low, middle)
    return low
