"""Fake values: which to add so that a group needs the least width, and how many each group gets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...errors import SpecError
from ...laws.block_tree import BlockTree, Counts, bound_width, node_counts, plan, unit_sums

# --- the table of costs -----------------------------------------------------------------------------------------------
# F(v, k, m) is the least cost of m blocks inside node v once k fakes were added there; the N(v) + k - m values left
# over move up. With W the sum of the child weights at v,
#
#     F(v, k, m) = m span(v) + min over c <= m // W of [ G(v, c, k) - W c span(v) ],
#     G(v, c, k) = min over x_1 + .. + x_j = k of the sum of F(child_i, x_i, w_i c),
#
# infinite where m > N(v) + k. F does not increase with k, so at a leaf it is the step "k >= w c - N", and leaf children
# only shift G. With m fakes every one of m blocks can be a fake at a leaf, so F(v, k, m) = F(v, m, m) for k >= m: a
# node keeps no more values of k than it can be asked for blocks.
#
# Source: "Distribution-based Microdata Anonymization", section 5.2, with its recurrence repaired and for any arity.
# Groups with a similar number of fakes go through the tree together: arrays are groups x c x k. Costs are float64; what
# is published is planned afterwards from the chosen fakes, so rounding could cost width, never the guarantee.


Costs = NDArray[np.float64]


@dataclass(slots=True, kw_only=True)
class _Node:
    """One inner node: which numbers of blocks and fakes it must answer for, and the costs that the walk down reads."""

    lowest: Counts  # per group: the smallest c considered
    width: int  # how many values of c are considered
    most: int  # values of k kept are 0 .. most; beyond, nothing changes
    inner: dict[int, int] = field(default_factory=dict)  # children with children of their own: fakes that matter there
    leaves: list[int] = field(default_factory=list)  # leaf children; all these children have weight
    best: Costs = field(default_factory=lambda: np.empty(0))  # running minimum over c of G - W c span: groups x c x k
    partial: list[Costs] = field(default_factory=list)  # F_0, F_1, F_0*F_1, F_2, F_0*F_1*F_2, .. of the inner children


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
        rows = self.inside[:, 0]
        asked: dict[int, tuple[Counts, Counts]] = {0: (rows, rows + self.most)}  # least and largest m per node
        for node in np.flatnonzero((self.tree.children > 0) & (self.unit > 0)).tolist():
            if node not in asked:
                continue
            least, largest = asked.pop(node)
            part = self.tree.child_slice(node)
            children = [v for v in range(part.start, part.stop) if self.weights[v] > 0]
            w, have, unit = self.weights[children], self.inside[:, children], int(self.unit[node])
            lowest = np.minimum(least // unit, (have // w).min(axis=1))
            highest = np.minimum(largest // unit, ((have + self.most) // w).min(axis=1))
            width = int((highest - lowest).max()) + 1 if len(rows) else 1
            top = int(lowest.max(initial=0)) + width - 1
            kept = _Node(lowest=lowest, width=width, most=min(self.most, unit * top))
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

    def solve(self) -> Costs:
        """F(root, k, n + k) for every group and k = 0 .. most."""
        for node in sorted(self.nodes, reverse=True):  # children have larger numbers than their parent
            self._solve_node(node)
        k, blocks = self._asked()
        return self._value(0, k, blocks) if self.nodes else np.zeros(k.shape)  # blocks of a single value cost nothing

    def _asked(self) -> tuple[Counts, Counts]:
        """(fakes, blocks) at the root, groups x states."""
        ks = np.arange(self.most + 1)
        blocks = self.inside[:, :1] + ks
        return np.broadcast_to(ks, blocks.shape), blocks

    def _solve_node(self, node: int) -> None:
        kept = self.nodes[node]
        units = kept.lowest[:, None] + np.arange(kept.width)  # groups x c
        total = np.zeros((*units.shape, 1))
        for i, (child, most) in enumerate(kept.inner.items()):
            blocks = (units * self.weights[child])[:, :, None]
            cost = self._value(child, *np.broadcast_arrays(np.arange(most + 1), blocks))
            kept.partial.append(cost)
            total = convolve(total, cost, self.most) if i else cost
            if i:
                kept.partial.append(total)
        total = _shift(total, self._leaf_need(kept, units).sum(axis=2), kept.most)
        gain = float(self.unit[node]) * self.spans[node]
        kept.best = np.minimum.accumulate(total - (gain * units)[:, :, None], axis=1)

    def _leaf_need(self, kept: _Node, units: Counts) -> Counts:
        """How many fakes each leaf child lacks for c units (last axis: leaf children)."""
        return np.maximum(units[..., None] * self.weights[kept.leaves] - self.inside[:, None, kept.leaves], 0)

    def _value(self, node: int, k: Counts, blocks: Counts) -> Costs:
        """F(node, k, blocks) of an inner node, elementwise; the first axis is the group."""
        kept, ahead = self.nodes[node], (-1, *[1] * (blocks.ndim - 1))
        group = np.arange(len(blocks)).reshape(ahead)
        value = kept.best[group, self._row(node, blocks), np.minimum(k, kept.most)] + blocks * self.spans[node]
        return np.where(blocks <= self.inside[:, node].reshape(ahead) + k, value, np.inf)

    def _row(self, node: int, blocks: Counts) -> Counts:
        """The index of the largest c that `blocks` allow at `node`."""
        kept = self.nodes[node]
        lowest = kept.lowest.reshape(-1, *[1] * (blocks.ndim - 1))
        return np.minimum(blocks // self.unit[node] - lowest, kept.width - 1)

    def fakes(self) -> Counts:
        """How many fakes of each value an optimal choice of exactly k adds: groups x (most + 1) x leaves."""
        asked = {0: self._asked()}
        found = np.zeros((*asked[0][0].shape, self.tree.leaves), dtype=np.int64)
        for node in sorted(self.nodes):
            self._share_out(node, *asked.pop(node), asked, found)
        return found

    def _share_out(
        self, node: int, k: Counts, blocks: Counts, asked: dict[int, tuple[Counts, Counts]], found: Counts
    ) -> None:
        """The fakes of one node to its children: those of leaves into `found`, those of inner nodes into `asked`."""
        kept, group, row = self.nodes[node], np.arange(len(k))[:, None], self._row(node, blocks)
        useful = np.minimum(k, kept.most)
        reached = kept.best[group, row, useful]
        # the running minimum falls to `reached` first where c is the argmin
        running = np.swapaxes(kept.best, 1, 2)[group, useful]  # groups x states x c
        at = np.minimum((running > reached[:, :, None]).sum(axis=2), row)
        units = kept.lowest[:, None] + at
        need = self._leaf_need(kept, units)
        left, inner = k - need.sum(axis=2), list(kept.inner)
        for i in range(len(inner) - 1, 0, -1):
            x = _split(kept.partial[2 * i - 1][group, at], kept.partial[2 * i - 2][group, at], left)
            asked[inner[i]] = (x, units * self.weights[inner[i]])
            left = left - x
        if inner:
            asked[inner[0]] = (left, units * self.weights[inner[0]])
        else:
            need[:, :, 0] += left  # more fakes than the least cost needs: they wait at the first value
        found[:, :, self.tree.start[kept.leaves]] = need


def convolve(a: Costs, b: Costs, most: int) -> Costs:
    """out[.., k] = min over x of a[.., x] + b[.., k - x] for k up to `most`; both stay as they end beyond it."""
    size = min(a.shape[-1] + b.shape[-1] - 2, most) + 1
    padded = b[..., np.minimum(np.arange(size), b.shape[-1] - 1)]
    best = padded + a[..., :1]
    for x in range(1, min(size, a.shape[-1])):
        np.minimum(best[..., x:], padded[..., : size - x] + a[..., x : x + 1], out=best[..., x:])
    return best


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


# --- fake choice ------------------------------------------------------------------------------------------------------
# How many fakes each group gets, and which: the best of 0 .. t by a rule, within a limit on the work.
#
# Rules: `width` takes the narrowest bounds on the whole group's total (ties: fewer fakes), because fakes also add
# width; `paper` takes the least sum of spans. Beyond the limit every group keeps its exact optimum for the k it may
# still use, and t is capped at the largest number that fits: large groups lose first, small ones stay as they were.


Rule = Literal["width", "paper"]

WORK_LIMIT = 120_000_000  # cell updates over all groups: half a second
MAX_CELLS = 2**25  # float64 cells kept at a time


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
    for batch in _batches(tried, tree.nodes):
        most = int(tried[batch].max())
        table = FakeTable(tree, weights, spans, true_counts[batch], most)
        score = table.solve()
        options = table.fakes()
        if rule == "width":
            score = _widths(tree, weights, ends, true_counts[batch], options)
        score[np.arange(most + 1) > tried[batch][:, None]] = np.inf
        best = score.argmin(axis=1)  # the first of equals: fewer fakes
        fakes[batch] = options[np.arange(len(batch)), best]
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
    high = min(1, most)  # doubled from below: to foresee the work of many fakes is work itself
    while work(high) <= work_limit:
        if high == most:
            return most
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if work(middle) <= work_limit else (low, middle)
    return low
