"""Trees of blocks over an ordered domain: every node is a run of consecutive leaf positions.

Nodes are numbered level by level, so that the children of a node are neighbours and one level is one slice. A node
with a single child would be the same block twice; such chains are collapsed while a tree is built.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError, SpecError

Positions = NDArray[np.int64]
Nested = Any  # a value, or a list of Nested
P = TypeVar("P")

MAX_LEAVES = 1_000_000
MAX_LEVELS = 4_096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockTree:
    """A rooted tree over leaf positions 0 .. leaves-1; node 0 is the root, node v covers start[v] .. stop[v]-1."""

    start: Positions
    stop: Positions
    parent: Positions  # -1 at the root
    first_child: Positions  # meaningless where children == 0
    children: Positions  # number of children, 0 at a leaf
    levels: tuple[slice, ...]
    labels: tuple[str | None, ...] | None = None

    @property
    def nodes(self) -> int:
        """How many nodes the tree has."""
        return len(self.start)

    @property
    def leaves(self) -> int:
        """How many values the domain has."""
        return int(self.stop[0])

    @property
    def leaf_nodes(self) -> Positions:
        """The node number of every leaf position."""
        nodes = np.flatnonzero(self.children == 0)
        return nodes[np.argsort(self.start[nodes])]

    def child_slice(self, node: int) -> slice:
        """The slice of node numbers that are the children of `node`."""
        first = int(self.first_child[node])
        return slice(first, first + int(self.children[node]))

    def blocks(self) -> tuple[tuple[int, int], ...]:
        """Every node as (start, stop), level by level: enough to rebuild the tree with `from_blocks`."""
        return tuple(zip(self.start.tolist(), self.stop.tolist(), strict=True))


def balanced(leaves: int, *, arity: int = 2) -> BlockTree:
    """A tree that halves (thirds, ...) the positions; block sizes differ by at most 1, larger first."""
    if arity < 2:
        raise SpecError(f"arity must be at least 2, got {arity}", field="hierarchy")

    def split(start: int, stop: int, _: None) -> list[tuple[int, int, None]]:
        parts = min(arity, stop - start)
        size, larger = divmod(stop - start, parts)
        cuts = [start + i * size + min(i, larger) for i in range(parts + 1)]
        return [(a, b, None) for a, b in pairwise(cuts)]

    return _grow(leaves, None, split)


def equal_width(values: Sequence[int | float | Fraction], *, arity: int = 2) -> BlockTree:
    """A tree that cuts the numeric interval of the domain into `arity` equal parts, again and again; empty parts go."""
    if arity < 2:
        raise SpecError(f"arity must be at least 2, got {arity}", field="hierarchy")
    exact = [Fraction(v) for v in values]
    if not exact:
        raise SpecError("the domain is empty; declare at least one value", field="domain")

    def split(
        start: int, stop: int, ends: tuple[Fraction, Fraction]
    ) -> list[tuple[int, int, tuple[Fraction, Fraction]]]:
        low, high = ends
        edges = [low + (high - low) * i / arity for i in range(arity + 1)]
        cuts = [start]
        for edge in edges[1:-1]:  # parts are [edge, next edge), the last one closed
            cut = cuts[-1]
            while cut < stop and exact[cut] < edge:
                cut += 1
            cuts.append(cut)
        cuts.append(stop)
        return [(a, b, (edges[i], edges[i + 1])) for i, (a, b) in enumerate(pairwise(cuts)) if b > a]

    return _grow(len(exact), (exact[0], exact[-1]), split)


def from_nested(nested: Nested) -> tuple[tuple[Hashable, ...], BlockTree]:
    """The domain in depth-first order and its tree, from lists in lists: `[["flu", "cold"], ["ulcer"]]`."""
    if not isinstance(nested, list) or not nested:
        raise SpecError("a nested hierarchy is a non-empty list of values and lists", field="hierarchy")
    domain: list[Hashable] = []
    sizes: dict[int, int] = {}
    _measure(nested, domain, sizes, 0)
    _refuse_duplicates(domain)

    def split(start: int, _: int, part: Nested) -> list[tuple[int, int, Nested]]:
        out, at = [], start
        for child in part if isinstance(part, list) else [part]:
            size = sizes[id(child)] if isinstance(child, list) else 1
            out.append((at, at + size, child))
            at += size
        return out

    return tuple(domain), _grow(len(domain), nested, split)


def from_rows(
    rows: Iterable[Sequence[str]], *, parse: Callable[[str], Hashable] | None = None
) -> tuple[tuple[Hashable, ...], BlockTree]:
    """The domain and its tree, from the rows of an ARX-style table: a value, then its ever wider labels.

    Without `parse` the domain follows the tree, siblings in order of first appearance. With `parse` (a numeric column)
    it is sorted by the parsed values, and every label must then cover a run of consecutive values.
    """
    table = [tuple(row) for row in rows if row]
    if not table:
        raise SpecError("the hierarchy has no rows; give one row per value", field="hierarchy")
    levels = len(table[0])
    for row in table:
        if len(row) != levels:
            raise SpecError(
                f"hierarchy row of {row[0]!r} has {len(row)} columns, the first row has {levels}", field="hierarchy"
            )
    _check_refinement(table, levels)
    keys: list[Hashable] = [row[0] if parse is None else parse(row[0]) for row in table]
    _refuse_duplicates(keys)
    if parse is None:
        table, keys = _depth_first(table, levels)
    else:
        order = sorted(range(len(keys)), key=lambda i: keys[i])  # type: ignore[arg-type,return-value]
        table, keys = [table[i] for i in order], [keys[i] for i in order]
        _check_runs(table, levels)

    def split(start: int, stop: int, level: int) -> list[tuple[int, int, int]]:
        if level == 0:
            return [(i, i + 1, 0) for i in range(start, stop)]
        out, at = [], start
        for i in range(start + 1, stop + 1):
            if i == stop or table[i][level - 1] != table[at][level - 1]:
                out.append((at, i, level - 1))
                at = i
        return out

    tops = {row[-1] for row in table}

    def label(start: int, level: int) -> str:
        return table[start][level] if level < levels else tops.copy().pop() if len(tops) == 1 else "*"

    tree = _grow(len(table), levels, split, label=label)
    return tuple(keys), tree


def from_blocks(blocks: Iterable[tuple[int, int]]) -> BlockTree:
    """The tree made of the given (start, stop) blocks; refused, with the block, unless children partition parents."""
    unique = sorted({(int(a), int(b)) for a, b in blocks}, key=lambda block: (block[0], -block[1]))
    if not unique or unique[0][0] != 0:
        raise SpecError("the blocks of a hierarchy must start at position 0", field="hierarchy")
    inside: dict[tuple[int, int], list[tuple[int, int]]] = {block: [] for block in unique}
    path: list[tuple[int, int]] = []
    for block in unique:
        if block[0] >= block[1]:
            raise SpecError(f"hierarchy block {block} is empty", field="hierarchy")
        while path and block[0] >= path[-1][1]:
            path.pop()
        if path:
            if block[1] > path[-1][1]:
                raise SpecError(f"hierarchy block {block} overlaps {path[-1]}; blocks must nest", field="hierarchy")
            inside[path[-1]].append(block)
        elif block != unique[0]:
            raise SpecError(f"hierarchy block {block} lies outside the root {unique[0]}", field="hierarchy")
        path.append(block)
    for block, parts in inside.items():
        if sum(b - a for a, b in parts) != block[1] - block[0] and block[1] - block[0] > 1:
            raise SpecError(f"the children of hierarchy block {block} do not partition it", field="hierarchy")
    return _grow(unique[0][1], None, lambda a, b, _: [(*part, None) for part in inside[a, b]])


def spans(tree: BlockTree, values: Sequence[int | float | Fraction] | None) -> NDArray[np.float64]:
    """What one block of each node costs: max - min of numeric values; number of leaves - 1 when `values` is None."""
    if values is None:
        return (tree.stop - tree.start - 1).astype(np.float64)
    return np.array([float(values[b - 1] - values[a]) for a, b in tree.blocks()])


def check_numeric_domain(values: Sequence[int | float | Fraction]) -> None:
    """Nothing; refuses an empty, unsorted or repeating numeric domain, and values that are not finite."""
    if len(values) == 0:
        raise SpecError("the domain is empty; declare at least one value", field="domain")
    if any(not (v - v == 0) for v in values):  # NaN and infinities
        raise SpecError("the domain holds a value that is not a finite number", field="domain")
    for before, after in pairwise(values):
        if not before < after:
            raise SpecError(
                f"the numeric domain must ascend without repeats, but {after} follows {before}", field="domain"
            )


def _grow(
    leaves: int,
    root: P,
    split: Callable[[int, int, P], list[tuple[int, int, P]]],
    *,
    label: Callable[[int, P], str | None] | None = None,
) -> BlockTree:
    """The tree that `split` describes, level by level; `split` gets a block and what it said about it before."""
    if not 1 <= leaves <= MAX_LEAVES:
        raise SpecError(f"a hierarchy needs 1 to {MAX_LEAVES} values, got {leaves}", field="hierarchy")
    start, stop, parent, first, count = [0], [leaves], [-1], [0], [0]
    labels: list[str | None] = [label(0, root) if label else None]
    levels, frontier = [slice(0, 1)], [(0, root)]
    while frontier:
        following: list[tuple[int, P]] = []
        for node, payload in frontier:
            parts = _parts(start[node], stop[node], payload, split)
            if not parts:
                continue
            first[node], count[node] = len(start), len(parts)
            for a, b, about in parts:
                following.append((len(start), about))
                start.append(a)
                stop.append(b)
                parent.append(node)
                first.append(0)
                count.append(0)
                labels.append(label(a, about) if label else None)
        if following:
            levels.append(slice(levels[-1].stop, len(start)))
        frontier = following
    as_array = [np.array(column, dtype=np.int64) for column in (start, stop, parent, first, count)]
    return BlockTree(
        start=as_array[0],
        stop=as_array[1],
        parent=as_array[2],
        first_child=as_array[3],
        children=as_array[4],
        levels=tuple(levels),
        labels=tuple(labels) if label else None,
    )


def _parts(
    start: int, stop: int, payload: P, split: Callable[[int, int, P], list[tuple[int, int, P]]]
) -> list[tuple[int, int, P]]:
    """The two or more children of a block, chains of single children skipped; none when the block is one value."""
    if stop - start == 1:
        return []
    for _ in range(MAX_LEVELS):
        parts = split(start, stop, payload)
        if len(parts) != 1:
            return parts
        payload = parts[0][2]
    raise SpecError(f"the block {start}..{stop - 1} of the hierarchy never splits", field="hierarchy")


def _measure(part: Nested, domain: list[Hashable], sizes: dict[int, int], depth: int) -> int:
    if not isinstance(part, list):
        domain.append(part)
        return 1
    if not part or depth > 200:
        raise SpecError("a nested hierarchy holds an empty list or is nested too deeply", field="hierarchy")
    sizes[id(part)] = sum(_measure(child, domain, sizes, depth + 1) for child in part)
    return sizes[id(part)]


def _refuse_duplicates(domain: Sequence[Hashable]) -> None:
    seen: set[Hashable] = set()
    for value in domain:
        if value in seen:
            raise SpecError(f"the hierarchy lists {value!r} twice", field="hierarchy")
        seen.add(value)


def _check_refinement(table: Sequence[tuple[str, ...]], levels: int) -> None:
    """Nothing; refuses a label whose values fall under two different labels of the next level."""
    for level in range(1, levels - 1):
        above: dict[str, tuple[str, str]] = {}
        for row in table:
            wider, witness = above.setdefault(row[level], (row[level + 1], row[0]))
            if wider != row[level + 1]:
                raise SpecError(
                    f"hierarchy label {row[level]!r} (level {level}) lies under both {wider!r} (value {witness!r}) "
                    f"and {row[level + 1]!r} (value {row[0]!r}); each level must refine the next",
                    field="hierarchy",
                )


def _depth_first(table: Sequence[tuple[str, ...]], levels: int) -> tuple[list[tuple[str, ...]], list[Hashable]]:
    """The rows reordered so that every label is one run, siblings in order of first appearance."""
    rank: list[dict[str, int]] = [{} for _ in range(levels)]
    for row in table:
        for level in range(levels):
            rank[level].setdefault(row[level], len(rank[level]))
    ordered = sorted(table, key=lambda row: [rank[level][row[level]] for level in reversed(range(levels))])
    return ordered, [row[0] for row in ordered]


def _check_runs(table: Sequence[tuple[str, ...]], levels: int) -> None:
    """Nothing; refuses a label that does not cover a run of consecutive values of a sorted numeric domain."""
    for level in range(1, levels):
        closed: set[str] = set()
        for before, row in pairwise(table):
            if row[level] != before[level]:
                closed.add(before[level])
                if row[level] in closed:
                    raise SpecError(
                        f"hierarchy label {row[level]!r} does not cover consecutive values (see {row[0]!r})",
                        field="hierarchy",
                    )


# How many blocks of each node stand for a group's values.
#
# A plan is a row of counts over the nodes of a tree. Every function works on many groups at once: `true_counts` is
# groups x leaves, a plan groups x nodes, and nodes are visited level by level.
# Source: "Distribution-based Microdata Anonymization", sections 3 and 4; the least sum of spans among generalisations
# whose blocks are nodes of the tree.


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
