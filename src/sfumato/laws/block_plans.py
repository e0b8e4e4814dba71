"""How many blocks of each node stand for a group's values.

A plan is a row of counts over the nodes of a tree. Every function works on many groups at once: `true_counts` is
groups x leaves, a plan groups x nodes, and nodes are visited level by level.
Source: "Distribution-based Microdata Anonymization", sections 3 and 4; the least sum of spans among generalisations
whose blocks are nodes of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError
from .block_tree import BlockTree

Counts = NDArray[np.int64]
UNBOUNDED = np.iinfo(np.int64).max


def node_counts(tree: BlockTree, true_counts: Counts) -> Counts:
    """How many values of each group lie inside the block of each node (groups x nodes)."""
    prefix = np.zeros((len(true_counts), tree.leaves + 1), dtype=np.int64)
    np.cumsum(true_counts, axis=1, out=prefix[:, 1:])
    return prefix[:, tree.stop] - prefix[:, tree.start]


def plan(tree: BlockTree, weights: Counts, true_counts: Counts, *, rng: np.random.Generator | None = None) -> Counts:
    """The block counts of every group: each node passes the largest whole allocation on and keeps the rest.

    With `rng` every node passes on a uniformly drawn share of the largest allocation instead (`randomise_depth`).
    Cost: O(groups x nodes) time and memory.
    """
    inside = node_counts(tree, true_counts)
    unit = np.maximum(unit_sums(tree, weights), 1)  # a node without mass never holds blocks
    blocks = np.zeros_like(inside)
    blocks[:, 0] = inside[:, 0]  # start at the root with all n
    # how many units the values of each node allow: N // w, or any number where the node has no weight
    allowed = np.where(weights > 0, inside // np.maximum(weights, 1), UNBOUNDED)
    for parents, children, offsets in families(tree):
        units = np.minimum.reduceat(allowed[:, children], offsets, axis=1)
        units = np.minimum(units, blocks[:, parents] // unit[parents])
        if rng is not None:
            units = rng.integers(0, units, endpoint=True)
        blocks[:, children] = np.repeat(units, tree.children[parents], axis=1) * weights[children]
        blocks[:, parents] -= units * unit[parents]
    return blocks


def families(tree: BlockTree) -> Iterator[tuple[Counts, slice, Counts]]:
    """For each level that has children: its inner nodes, the slice of their children, and where each family starts."""
    for level, below in pairwise(tree.levels):
        parents = level.start + np.flatnonzero(tree.children[level])
        yield parents, below, tree.first_child[parents] - below.start


def unit_sums(tree: BlockTree, weights: Counts) -> Counts:
    """The sum of the child weights at every node: how many blocks one unit of allocation takes."""
    unit = np.zeros(tree.nodes, dtype=np.int64)
    for parents, children, offsets in families(tree):
        unit[parents] = np.add.reduceat(weights[children], offsets)
    return unit


def subtree_blocks(tree: BlockTree, plans: Counts) -> Counts:
    """How many blocks of each group lie at or below each node."""
    total = plans.copy()
    for parents, children, offsets in reversed(list(families(tree))):
        total[:, parents] += np.add.reduceat(total[:, children], offsets, axis=1)
    return total


def check_plan(tree: BlockTree, weights: Counts, plans: Counts, available: Counts, *, sizes: Counts) -> None:
    """Nothing; raises unless every plan is exactly P-private and covers the values of its group.

    Definition 3.2 asks, for every value t, that the sum of P(t)/P(b) over the blocks b containing t be n P(t). Put
    r(root) = n and r(child) = (r(v) - blocks at v) w / W: the condition is r(leaf) = blocks at the leaf. Summed from
    below, r(v) is then a number of blocks, so a remainder in the division already refutes it, and int64 is exact.
    `available` counts the values (fakes included) of each group by leaf, `sizes` the rows plus fakes it must show.
    """
    total = subtree_blocks(tree, plans)
    if (plans < 0).any() or (total[:, 0] != sizes).any():
        raise PlanError("a group's blocks do not add up to its rows and fakes")
    if (total > node_counts(tree, available)).any():
        raise PlanError("a group's plan puts more blocks under a node than the group has values there")
    unit = np.maximum(unit_sums(tree, weights), 1)
    rest = np.zeros_like(plans)
    rest[:, 0] = sizes
    for level in tree.levels[1:]:
        parent = tree.parent[level]
        share = (rest[:, parent] - plans[:, parent]) * weights[level]
        if (share < 0).any() or (share % unit[parent]).any():
            raise PlanError("a group's plan is not proportional to the target below some node")
        rest[:, level] = share // unit[parent]
    leaf = (tree.children == 0) | (unit_sums(tree, weights) == 0)  # blocks without mass must not occur
    if (rest[:, leaf] != plans[:, leaf]).any():
        raise PlanError("a group's plan does not give every value its target probability")


def bound_width(
    plans: Counts, low: NDArray[np.float64], high: NDArray[np.float64], rows: Counts
) -> NDArray[np.float64]:
    """Each group's n largest upper ends less its n smallest lower ends: the width of the bounds on its total."""
    return _smallest(plans, low, rows, sign=-1.0) + _smallest(plans, -high, rows, sign=-1.0)


def _smallest(plans: Counts, keys: NDArray[np.float64], rows: Counts, *, sign: float) -> NDArray[np.float64]:
    """`sign` times the sum of the `rows` smallest keys of each group's blocks."""
    order = np.argsort(keys, kind="stable")
    ordered = plans[:, order]
    before = np.cumsum(ordered, axis=1) - ordered
    taken = np.clip(rows[:, None] - before, 0, ordered)
    return sign * (taken @ keys[order])


def leaf_probabilities(tree: BlockTree, weights: NDArray[np.int64]) -> tuple[Fraction, ...]:
    """P', exactly: the product of weight / sum of sibling weights along the path to every leaf."""
    mass: list[Fraction] = [Fraction(1)] * tree.nodes
    for node in np.flatnonzero(tree.children):
        part = tree.child_slice(int(node))
        shares = weights[part].tolist()
        unit = sum(shares)
        for child, share in zip(range(part.start, part.stop), shares, strict=True):
            # below a node without mass the weights are all 0: nothing to share out
            mass[child] = mass[int(node)] * Fraction(share, unit) if unit else Fraction(0)
    return tuple(mass[int(node)] for node in tree.leaf_nodes)
