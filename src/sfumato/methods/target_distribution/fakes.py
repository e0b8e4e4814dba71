"""Fake values for the target-distribution method: which k values to add so that a group needs the least width.

F(v, k, m) is the least cost of m blocks inside node v once k fakes were added there; the N(v) + k - m values left over
move up. With W the sum of the child weights at v,

    F(v, k, m) = m span(v) + min over c <= m // W of [ G(v, c, k) - W c span(v) ],
    G(v, c, k) = min over x_1 + .. + x_j = k of the sum of F(child_i, x_i, w_i c),

infinite where m > N(v) + k. F does not increase with k, so at a leaf it is the step "k >= w c - N", and leaf children
only shift G. With m fakes every one of m blocks can be a fake at a leaf, so F(v, k, m) = F(v, m, m) for k >= m: a node
keeps no more values of k than it can be asked for blocks, and small nodes cost next to nothing.

Source: "Distribution-based Microdata Anonymization", section 5.2, with its recurrence repaired and for any arity.
Groups with a similar number of fakes go through the tree together: arrays are groups x c x k.

Costs are float64: exact as long as spans are whole numbers and sums stay below 2^53. The plan that is published is
made afterwards from the chosen fakes, so rounding could cost width, never the guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .blocktree import BlockTree
from .transform import Counts, node_counts, unit_sums

Costs = NDArray[np.float64]

CACHED = 2**15  # float64 cells of one slab of a convolution


@dataclass(slots=True, kw_only=True)
class _Node:
    """What one inner node keeps for the walk back down."""

    lowest: Counts  # per group: the smallest c considered
    width: int  # how many values of c are considered
    most: int  # values of k kept are 0 .. most; beyond, nothing changes
    best: Costs = field(default_factory=lambda: np.empty(0))  # running minimum over c of G - W c span: groups x c x k
    partial: list[Costs] = field(default_factory=list)  # convolutions of the first 1, 2, .. inner children
    inner: list[int] = field(default_factory=list)  # children with weight and with children of their own
    leaves: list[int] = field(default_factory=list)  # leaf children with weight


class FakeTable:
    """F for every node, k = 0 .. most and the block counts that can be asked for, for a batch of groups.

    Cost: O(c k^2) time and O(c k) memory at a node and per group, where k goes to the number of blocks that the node
    can be asked for, at most `most`, and c spans at most about `most` + 2 values wherever a node is short of values.
    """

    def __init__(self, tree: BlockTree, weights: Counts, spans: Costs, true_counts: Counts, most: int) -> None:
        self.tree, self.weights, self.spans, self.most = tree, weights, spans, most
        self.inside = node_counts(tree, true_counts)
        self.unit = unit_sums(tree, weights)
        self.nodes: dict[int, _Node] = {}
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
            lowest = np.minimum(least // unit, (have // w).min(axis=1))
            highest = np.minimum(largest // unit, ((have + self.most) // w).min(axis=1))
            width = int((highest - lowest).max()) + 1 if groups else 1
            top = int(lowest.max(initial=0)) + width - 1
            kept = _Node(lowest=lowest, width=width, most=min(self.most, unit * top))
            for child, weight in zip(children, w.tolist(), strict=True):
                if self.tree.children[child]:
                    kept.inner.append(child)
                    asked[child] = (weight * lowest, weight * (lowest + width - 1))
                else:
                    kept.leaves.append(child)
            self.nodes[node] = kept

    @property
    def work(self) -> int:
        """How many cells the dynamic programme updates (c x k x x over all nodes and groups)."""
        updated = 0
        for kept in self.nodes.values():
            sizes = [self._asked(kept, child) + 1 for child in kept.inner]
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
        for node in sorted(self.nodes, reverse=True):  # children have larger numbers than their parent
            self._solve_node(node)
        rows, ks = self.inside[:, 0], np.arange(self.most + 1)
        return self._value(0, *np.broadcast_arrays(ks, rows[:, None] + ks))

    def _asked(self, kept: _Node, child: int) -> int:
        """The largest number of fakes that makes a difference in a child: the blocks it is asked for."""
        return min(self.most, int(self.weights[child]) * (int(kept.lowest.max(initial=0)) + kept.width - 1))

    def _solve_node(self, node: int) -> None:
        kept = self.nodes[node]
        units = kept.lowest[:, None] + np.arange(kept.width)  # groups x c
        total = np.zeros((*units.shape, 1))
        for i, child in enumerate(kept.inner):
            asked = (units * self.weights[child])[:, :, None]
            cost = self._value(child, *np.broadcast_arrays(np.arange(self._asked(kept, child) + 1), asked))
            kept.partial.append(cost)
            total = _convolve(total, cost, self.most) if i else cost
            if i:
                kept.partial.append(total)
        total = _shift(total, self._leaf_need(kept, units).sum(axis=2), kept.most)
        gain = float(self.unit[node]) * self.spans[node]
        np.minimum.accumulate(total - (gain * units)[:, :, None], axis=1, out=total)
        kept.best = total

    def _leaf_need(self, kept: _Node, units: Counts) -> Counts:
        """How many fakes each leaf child lacks for c units (last axis: leaf children)."""
        have = self.inside[:, kept.leaves].reshape(len(units), *(1,) * (units.ndim - 1), len(kept.leaves))
        return np.maximum(units[..., None] * self.weights[kept.leaves] - have, 0)

    def _value(self, node: int, k: Counts, blocks: Counts) -> Costs:
        """F(node, k, blocks), elementwise; the first axis is the group."""
        have = self.inside[:, node].reshape(-1, *(1,) * (blocks.ndim - 1))
        feasible = blocks <= have + k
        if node not in self.nodes:  # a single value: blocks of it cost nothing
            return np.where(feasible, 0.0, np.inf)
        row = self._row(node, blocks)
        group = np.arange(len(blocks)).reshape(-1, *(1,) * (blocks.ndim - 1))
        kept = self.nodes[node]
        value = kept.best[group, row, np.minimum(k, kept.most)] + blocks * self.spans[node]
        return np.where(feasible, value, np.inf)

    def _row(self, node: int, blocks: Counts) -> Counts:
        """The index of the largest c that `blocks` allow at `node`."""
        kept = self.nodes[node]
        lowest = kept.lowest.reshape(-1, *(1,) * (blocks.ndim - 1))
        return np.minimum(blocks // self.unit[node] - lowest, kept.width - 1)

    def fakes(self) -> Counts:
        """How many fakes of each value an optimal choice of exactly k adds: groups x (most + 1) x leaves."""
        rows, ks = self.inside[:, 0], np.arange(self.most + 1)
        k, blocks = np.broadcast_arrays(ks, rows[:, None] + ks)
        found = np.zeros((*k.shape, self.tree.leaves), dtype=np.int64)
        walk: dict[int, tuple[Counts, Counts]] = {0: (k, blocks)}
        for node in sorted(self.nodes):
            k, blocks = walk.pop(node)
            self._descend(node, k, blocks, walk, found)
        return found

    def _descend(
        self, node: int, k: Counts, blocks: Counts, walk: dict[int, tuple[Counts, Counts]], found: Counts
    ) -> None:
        """Share the fakes of one node out to its children: leaves into `found`, inner nodes into `walk`."""
        kept = self.nodes[node]
        group = np.arange(len(k))[:, None]
        row = self._row(node, blocks)
        useful = np.minimum(k, kept.most)
        reached = kept.best[group, row, useful]
        # the running minimum falls to `reached` first where c is the argmin
        running = np.swapaxes(kept.best, 1, 2)[group, useful]  # groups x states x c
        at = np.minimum((running > reached[:, :, None]).sum(axis=2), row)
        units = kept.lowest[:, None] + at
        need = self._leaf_need(kept, units)
        left = k - need.sum(axis=2)
        for i in range(len(kept.inner) - 1, 0, -1):
            # partial holds F_0, F_1, F_0*F_1, F_2, F_0*F_1*F_2, ..
            x = _split(kept.partial[2 * i - 1][group, at], kept.partial[2 * i - 2][group, at], left)
            walk[kept.inner[i]] = (x, units * self.weights[kept.inner[i]])
            left = left - x
        if kept.inner:
            walk[kept.inner[0]] = (left, units * self.weights[kept.inner[0]])
        else:
            need[:, :, 0] += left  # more fakes than the least cost needs: they wait at the first value
        for i, child in enumerate(kept.leaves):
            found[:, :, self.tree.start[child]] += need[:, :, i]


def _children(tree: BlockTree, node: int) -> range:
    part = tree.child_slice(node)
    return range(part.start, part.stop)


def _convolve(a: Costs, b: Costs, most: int) -> Costs:
    """out[.., k] = min over x of a[.., x] + b[.., k - x] for k up to `most`; both stay as they end beyond their ends.

    Some rows at a time, so that they stay in the cache.
    """
    if a.shape[-1] > b.shape[-1]:
        a, b = b, a
    ends = a.shape[-1] - 1, b.shape[-1] - 1
    size = min(sum(ends), most) + 1
    first, second = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    out = np.empty((len(first), size))
    step = max(1, CACHED // size)
    room = np.empty((min(step, len(out)), size))
    for at in range(0, len(out), step):
        left, right, best = first[at : at + step], second[at : at + step], out[at : at + step]
        shared = min(size, ends[1] + 1)
        np.add(right[:, :shared], left[:, :1], out=best[:, :shared])
        best[:, shared:] = best[:, shared - 1 : shared]
        for x in np.flatnonzero(np.isfinite(left[:, 1:]).any(axis=0)) + 1:
            until = min(size, x + ends[1] + 1)
            term = room[: len(left), : until - x]
            np.add(right[:, : until - x], left[:, x : x + 1], out=term)
            np.minimum(best[:, x:until], term, out=best[:, x:until])
            if until < size:
                np.minimum(best[:, until:], term[:, -1:], out=best[:, until:])
    return out.reshape(*a.shape[:-1], size)


def _shift(cost: Costs, need: Counts, most: int) -> Costs:
    """cost[.., k - need] for k up to `most`, infinite where k < need; the cost stays as it ends beyond its end."""
    k = np.arange(most + 1) - need[..., None]
    found = np.take_along_axis(cost, np.clip(k, 0, cost.shape[-1] - 1), axis=-1)
    return np.where(k >= 0, found, np.inf)


def _split(child: Costs, rest: Costs, k: Counts) -> Counts:
    """The x that attains min of child[.., x] + rest[.., k - x]: the smallest such x."""
    x = np.arange(child.shape[-1])
    other = k[..., None] - x
    found = np.take_along_axis(rest, np.clip(other, 0, rest.shape[-1] - 1), axis=-1)
    return np.where(other >= 0, child + found, np.inf).argmin(axis=-1)
