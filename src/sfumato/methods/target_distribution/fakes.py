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

import numpy as np

from .blocktree import BlockTree
from .fake_stacks import Costs, NodeRange, Stack, stacks_of
from .transform import Counts, node_counts, unit_sums

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
