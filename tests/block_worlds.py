"""Brute force for small cases: every generalisation, every set of fakes, every possible world."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise, product

import numpy as np

from sfumato.laws import block_tree
from sfumato.laws.block_tree import BlockTree, from_blocks


def random_tree(rng: np.random.Generator, leaves: int, arity: int) -> BlockTree:
    """A tree with random cuts and between 2 and `arity` children per node."""
    blocks, open_blocks = [(0, leaves)], [(0, leaves)]
    while open_blocks:
        a, b = open_blocks.pop()
        if b - a == 1:
            continue
        parts = int(rng.integers(2, min(arity, b - a) + 1))
        cuts = [a, *sorted(rng.choice(np.arange(a + 1, b), parts - 1, replace=False).tolist()), b]
        children = list(pairwise(cuts))
        blocks += children
        open_blocks += children
    return from_blocks(blocks)


def random_weights(rng: np.random.Generator, tree: BlockTree, largest: int = 3) -> np.ndarray:
    """Weights 0 .. `largest`, reduced, with mass at every node that has mass itself."""
    weights = np.ones(tree.nodes, dtype=np.int64)
    for node in np.flatnonzero(tree.children):
        part = tree.child_slice(int(node))
        if weights[node] == 0:
            weights[part] = 0
            continue
        w = rng.integers(0, largest + 1, part.stop - part.start)
        if not w.any():
            w[int(rng.integers(len(w)))] = 1
        weights[part] = w // np.gcd.reduce(w)
    return weights


def is_private(tree: BlockTree, weights: np.ndarray, blocks: Sequence[int]) -> bool:
    """Definition 3.2 word for word, in fractions; a block without mass is illegal."""
    p = block_tree.leaf_probabilities(tree, weights)
    mass = [sum(p[a:b], Fraction(0)) for a, b in tree.blocks()]
    n = sum(blocks)
    if any(c and not m for c, m in zip(blocks, mass, strict=True)):
        return False
    for t in range(tree.leaves):
        seen = sum(
            (Fraction(c) * p[t] / mass[v] for v, c in enumerate(blocks) if c and tree.start[v] <= t < tree.stop[v]),
            Fraction(0),
        )
        if seen != n * p[t]:
            return False
    return True


def fits(tree: BlockTree, blocks: Sequence[int], counts: Sequence[int]) -> bool:
    """Whether the values can be matched to the blocks (blocks nest, so subtree counts decide)."""
    inside = block_tree.node_counts(tree, np.array([counts]))[0]
    return bool((block_tree.subtree_blocks(tree, np.array([blocks]))[0] <= inside).all())


def all_private_plans(tree: BlockTree, weights: np.ndarray, counts: Sequence[int]) -> Iterator[list[int]]:
    """Every P-private generalisation of the values that is made of nodes of the tree."""
    n = int(sum(counts))
    for pick in combinations_with_replacement(range(tree.nodes), n):
        blocks = np.bincount(pick, minlength=tree.nodes).tolist()
        if fits(tree, blocks, counts) and is_private(tree, weights, blocks):
            yield blocks


def fake_sets(leaves: int, k: int) -> Iterator[np.ndarray]:
    """Every multiset of k values, as counts."""
    for pick in combinations_with_replacement(range(leaves), k):
        yield np.bincount(pick, minlength=leaves).astype(np.int64)


def worlds(
    tree: BlockTree, values: Sequence[Fraction], plans: np.ndarray, selected: Sequence[int]
) -> list[list[Fraction]]:
    """The selected rows' values in every possible world (as sorted lists, without repeats)."""
    per_group = []
    for blocks, s in zip(plans, selected, strict=True):
        ranges = [range(int(tree.start[v]), int(tree.stop[v])) for v in np.repeat(np.arange(tree.nodes), blocks)]
        seen = set()
        for chosen in combinations(ranges, s):
            seen.update(tuple(sorted(world)) for world in product(*chosen))
        per_group.append(seen)
    joined = {tuple(sorted(sum(parts, ()))) for parts in product(*per_group)}
    return [[values[i] for i in world] for world in joined]
