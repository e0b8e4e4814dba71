"""Nodes of a tree that have the same shape, worked on at once: thousands of small nodes are a few stacks of them.

Rows of a stack are its nodes times the groups of the batch, node by node. What is computed is in `fakes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .blocktree import BlockTree
from .transform import Counts

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
