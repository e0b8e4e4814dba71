"""What a reader who knows the algorithm learns about one row of a group from its plan (no fakes, fixed depth).

The plan fixes, at every node it reaches, how many units c were passed on out of m blocks. That is one condition on the
group's values: every child has at least w_i c of them, and, unless c = m // W, some child has fewer than w_i (c + 1).
With Z_v(N) = sum over histograms of N values inside v that meet all conditions below of prod p^h / h!, a leaf has
p^N / N!, a node the convolution of its children restricted to the condition, and the expected number of rows with a
value follows from one pass back down. Nothing is subtracted, so nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.public import Floats
from .block_tree import BlockTree, Counts, plan, subtree_blocks, unit_sums

Series = NDArray[Any]  # float64, or whole numbers: index = number of values


def audit_group(tree: BlockTree, weights: Counts, blocks: Counts, prior: Sequence[Fraction | float]) -> Floats | None:
    """The posterior of one row of the group published as `blocks`; None if the prior cannot have produced it."""
    rows = int(blocks.sum())
    if rows == 0:
        return None
    masses = np.array([float(p) for p in prior])
    expected = _expected(tree, weights, blocks, masses / masses.sum(), rows)
    return None if expected is None else expected / rows


def only_homogeneous(tree: BlockTree, weights: Counts, blocks: Counts) -> bool:
    """Whether every group of two or more rows with this plan consists of one repeated value."""
    rows = int(blocks.sum())
    if rows < 2:
        return False
    same = plan(tree, weights, rows * np.eye(tree.leaves, dtype=np.int64))
    homogeneous = int((same == blocks).all(axis=1).sum())
    if not homogeneous:
        return False
    conditions = _conditions(tree, weights, blocks)
    counts = _upward(conditions, _histogram_numbers(tree, rows), rows)
    return int(counts[0][rows]) == homogeneous


def enumerate_posterior(
    tree: BlockTree,
    publish: Callable[[Counts], Counts],
    blocks: Counts,
    prior: Sequence[Fraction | float],
    *,
    rows: int,
    limit: int = 200_000,
) -> Floats | None:
    """The same posterior by trying every histogram: for any algorithm (fakes too), small groups only.

    `publish` maps histograms (trials x leaves) to plans; None if there are more than `limit` histograms or none fits.
    """
    from scipy.stats import multinomial

    leaves = tree.leaves
    if comb(rows + leaves - 1, rows) > limit:
        return None
    trials = np.array(
        [np.bincount(pick, minlength=leaves) for pick in combinations_with_replacement(range(leaves), rows)],
        dtype=np.int64,
    )
    fits = trials[(publish(trials) == blocks).all(axis=1)]
    chance = multinomial.pmf(fits, rows, [float(p) for p in prior])
    return chance @ fits / (chance.sum() * rows) if chance.sum() > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    """What the plan says about one reached node: child i has at least at_least[i] values, or one falls short."""

    children: tuple[int, ...]
    at_least: tuple[int, ...]
    short_of: tuple[int, ...] | None  # some child has fewer than this; None where nothing follows


def _conditions(tree: BlockTree, weights: Counts, blocks: Counts) -> dict[int, _Condition]:
    """The condition of every node that the plan passed blocks to."""
    total = subtree_blocks(tree, blocks[None])[0]
    unit = unit_sums(tree, weights)
    found = {}
    for node in np.flatnonzero((tree.children > 0) & (total > 0) & (unit > 0)).tolist():
        part = tree.child_slice(node)
        w = weights[part].tolist()
        below = int(total[node] - blocks[node])
        units = below // int(unit[node])
        capped = units == int(total[node]) // int(unit[node])
        found[node] = _Condition(
            children=tuple(range(part.start, part.stop)),
            at_least=tuple(x * units for x in w),
            # a child without weight never limits the units: it cannot fall short of 0 values
            short_of=None if capped else tuple(x * (units + 1) for x in w),
        )
    return found


def _terms(condition: _Condition, series: Sequence[Series]) -> list[list[Series]]:
    """The children's series cut to the condition, as a disjoint union: child i is the first that falls short."""
    enough = [_cut(z, low, None) for z, low in zip(series, condition.at_least, strict=True)]
    if condition.short_of is None:
        return [enough]
    plenty = [_cut(z, high, None) for z, high in zip(series, condition.short_of, strict=True)]
    out = []
    for i, (low, high) in enumerate(zip(condition.at_least, condition.short_of, strict=True)):
        if high > low:
            out.append([*plenty[:i], _cut(series[i], low, high), *enough[i + 1 :]])
    return out


def _upward(conditions: dict[int, _Condition], leaf: dict[int, Series], rows: int) -> dict[int, Series]:
    """Z of every node the plan constrains and of their children; `leaf` gives the unconstrained series."""
    z: dict[int, Series] = {}
    for node in sorted(conditions, reverse=True):
        series = [z.get(child, leaf[child]) for child in conditions[node].children]
        z[node] = np.sum([_product(term, rows) for term in _terms(conditions[node], series)], axis=0)
    z.setdefault(0, leaf[0])
    return z


def _expected(tree: BlockTree, weights: Counts, blocks: Counts, masses: Floats, rows: int) -> Floats | None:
    """The expected number of the group's rows with each value; None if the plan has probability 0."""
    from scipy.stats import poisson

    conditions = _conditions(tree, weights, blocks)
    mass = [float(masses[a:b].sum()) for a, b in tree.blocks()]
    numbers = np.arange(rows + 1)
    # p^N / N! as Poisson chances at mean p x rows: the same up to c^N and a factor
    free = {node: poisson.pmf(numbers, mass[node] * rows) for node in range(tree.nodes)}
    z = _upward(conditions, free, rows)
    if not z[0][rows]:
        return None
    adjoint: dict[int, Series] = {0: np.array([0.0] * rows + [1 / z[0][rows]])}
    for node in sorted(conditions):
        series = [z.get(child, free[child]) for child in conditions[node].children]
        sums = [np.zeros_like(adjoint[node]) for _ in series]
        for term in _terms(conditions[node], series):
            for i in range(len(term)):
                others = _product([*term[:i], *term[i + 1 :]], rows)
                sums[i] = sums[i] + _correlate(adjoint[node], others) * (term[i] != 0)
        adjoint.update(zip(conditions[node].children, sums, strict=True))
    expected = np.zeros(tree.leaves)
    for node, weight in adjoint.items():
        if node in conditions:
            continue
        inside = (numbers * free[node] * weight).sum()
        below = slice(int(tree.start[node]), int(tree.stop[node]))  # where values follow the prior
        expected[below] = inside * masses[below] / mass[node] if mass[node] else inside
    return expected


def _histogram_numbers(tree: BlockTree, rows: int) -> dict[int, Series]:
    """How many histograms put N values on the leaves of each node."""
    numbers: dict[int, Series] = {}
    for size in np.unique(tree.stop - tree.start).tolist():
        numbers[size] = np.array([comb(n + size - 1, n) for n in range(rows + 1)], dtype=object)
    return {node: numbers[b - a] for node, (a, b) in enumerate(tree.blocks())}


def _cut(series: Series, low: int, high: int | None) -> Series:
    out = series.copy()
    out[:low] = 0
    if high is not None:
        out[high:] = 0
    return out


def _product(terms: Sequence[Series], rows: int) -> Series:
    out = terms[0] if terms else np.array([1] + [0] * rows, dtype=object)
    for term in terms[1:]:
        out = np.convolve(out, term)[: rows + 1]
    return out


def _correlate(outer: Series, inner: Series) -> Series:
    """out[a] = sum over b of outer[a + b] inner[b]."""
    size = len(outer)
    return np.convolve(outer[::-1], inner)[:size][::-1]
