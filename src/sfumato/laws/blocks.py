"""blocks: rows name their group, and a group lists blocks of a hierarchy, each standing for one of its rows.

By the published weights every row's marginal is exactly a target distribution; answers are certain bounds.
docs/explanation/target-distribution.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import PlanError, ReleaseError, SpecError, VerificationError
from ..model.private import Batch, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Floats, Likelihood, Observed, Published
from ..model.types import BIGINT, DOUBLE, INTEGER, TEXT, ColumnType
from ..stats.joint_codes import sum_by_group
from .block_bounds import OpenBlocks, estimate, open_blocks, order_statistics, ratios
from .block_tree import BlockTree, Counts, from_blocks, leaf_probabilities, plan, subtree_blocks, unit_sums
from .contract import Bounds, Law
from .published import one_unit, silent, stated_sizes

# What a reader who knows the algorithm learns about one row of a group from its plan (no fakes, fixed depth).
#
# The plan fixes, at every node it reaches, how many units c were passed on out of m blocks. That is one condition on
# the group's values: every child has at least w_i c of them, and, unless c = m // W, some child has fewer than w_i (c +
# 1). With Z_v(N) = sum over histograms of N values inside v that meet all conditions below of prod p^h / h!, a leaf has
# p^N / N!, a node the convolution of its children restricted to the condition, and the expected number of rows with a
# value follows from one pass back down. Nothing is subtracted, so nothing cancels.


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


SCHEME = 1
MOST_BLOCKS = 200  # of a group whose exact posterior is computed; larger ones are read as they stand

# --- columns of sensitive.parquet that tell the blocks of every group -------------------------------------------------

BLOCKS = {"block": INTEGER, "count": BIGINT}
LOW, HIGH, WORDS = "low", "high", "values"  # what a block covers: the ends of a range of numbers, or its values
LARGEST = 2**62  # of numbers that are written as whole ones


def block_columns(domain: Domain, *, numeric: bool) -> dict[str, ColumnType]:
    """The columns and their types, for a sensitive column of this domain."""
    if not numeric:
        return BLOCKS | {WORDS: TEXT}
    ends = BIGINT if all_whole(value[0] for value in domain.values) else DOUBLE
    return BLOCKS | {LOW: ends, HIGH: ends}


def all_whole(numbers: Iterable[Any]) -> bool:
    """Whether the numbers are whole, and small enough to be written so."""
    return all(isinstance(n, int | float | Decimal) and n % 1 == 0 and -LARGEST < n < LARGEST for n in numbers)


# --- the law ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPart:
    """The target of some groups: weights of the nodes, the distribution they represent, and how far they moved it."""

    weights: tuple[int, ...]
    probabilities: tuple[Fraction, ...]  # over the leaves, in the order of `Blocks.order`
    distance: float | None = (
        None  # total variation to the distribution asked for, rounded up; None: taken from the data
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks(Law):
    """The hierarchy, the targets of its parts, and the groups; the blocks of each are in sensitive.parquet."""

    name = "blocks"
    withheld = True
    by_number = True
    part = "group_id"

    scheme: int
    numeric: bool
    order: tuple[int, ...]  # leaf position -> place of the value in the column's domain
    blocks: tuple[tuple[int, int], ...]  # every node as leaf positions start..stop-1, the root first
    labels: tuple[str | None, ...] | None = None
    parts: tuple[TargetPart, ...]
    group_part: tuple[int, ...]
    group_rows: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.scheme != SCHEME:
            raise SpecError("the scheme of the release is not known to this version of sfumato")

    @property
    def tree(self) -> BlockTree:
        """The hierarchy."""
        return from_blocks(self.blocks)

    def _open(self, evidence: Evidence) -> OpenBlocks:
        """The blocks of the release, laid out once; ReleaseError where they do not fit the hierarchy."""
        if "release" not in evidence.memo:
            try:
                tree = self.tree
            except SpecError as error:
                raise ReleaseError(f"release.json describes no hierarchy: {error}") from None
            if any(len(part.weights) != tree.nodes or min(part.weights) < 0 for part in self.parts) or (
                len(self.group_part) != len(self.group_rows)
                or not set(self.group_part) <= set(range(len(self.parts)))
                or tree.leaves != len(evidence.domains[0])
            ):
                raise ReleaseError("release.json states weights or groups that do not fit its hierarchy")
            evidence.memo["release"] = open_blocks(
                tree, np.array(self.order, dtype=np.int64), evidence.side, np.array(self.group_rows, dtype=np.int64)
            )
        found: OpenBlocks = evidence.memo["release"]
        return found

    def beside(self, domains: tuple[Domain, ...]) -> Mapping[str, ColumnType]:
        """Blocks, how often each comes, and what it covers."""
        return block_columns(domains[0], numeric=self.numeric)

    def apply(self, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """The sensitive column goes, the number of the group comes."""
        group = work.secret.group_of[batch.codes[1]] if len(batch.codes) > 1 else np.zeros(batch.rows)
        return Released(codes=(None,) * len(batch.codes), extra={"group_id": group.astype(np.int32)})

    def estimate(self, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Certain bounds, and no point estimate: by construction every row's expected value is that of the target."""
        return estimate(self._open(evidence), observed, asked)

    def bound(
        self,
        evidence: Evidence,
        kind: str,
        observed: Observed,
        asked: Asked,
        top: Sequence[int],
        bottom: Sequence[int],
        share: float | None,
    ) -> Bounds | None:
        """Certain bounds on AVG, MIN, MAX and quantiles."""
        release = self._open(evidence)
        if kind == "ratio":
            return ratios(release, observed, asked, top, bottom)
        if any(asked.measure[f] for f in (*top, *bottom)):
            return None  # another column is a factor, or the only column
        if any(value[0] is None for value in evidence.domains[0].values):
            return None  # MIN and MAX skip missing values, blocks do not tell them apart
        return order_statistics(release, observed, asked, top[0], kind, share)

    def likelihood(self, evidence: Evidence, unit: int) -> Likelihood:
        """Every block spread over its values as the target spreads them, scaled to the rows of the group."""
        blocks = self._open(evidence).bounder.blocks
        counts = np.zeros((blocks.groups, len(self.order)))
        spans = np.array(self.blocks)
        for number, part in enumerate(self.parts):
            target = np.array([float(p) for p in part.probabilities])
            mass = np.concatenate([[0.0], np.cumsum(target)])
            of_node = np.maximum(mass[spans[:, 1]] - mass[spans[:, 0]], 1e-300)
            for node in np.unique(blocks.node):
                mine = (blocks.node == node) & (np.array(self.group_part)[blocks.group] == number)
                leaves = slice(*spans[node])
                share = target[leaves] / of_node[node]
                at = np.array(self.order)[leaves]
                counts[np.ix_(blocks.group[mine], at)] += blocks.count[mine][:, None] * share
        counts *= (np.array(self.group_rows) / np.maximum(blocks.sizes, 1))[:, None]
        return replace(silent(counts), knowing=self._knowing(evidence, counts))

    def _knowing(self, evidence: Evidence, counts: Floats) -> Callable[[int, Floats], int]:
        """The likeliest value of a row of a group, to a reader who knows how blocks are chosen."""
        tree, order = self.tree, np.array(self.order)
        of_group, block, count = (np.asarray(evidence.side[name]) for name in ("group_id", "block", "count"))

        def likeliest(group: int, prior: Floats) -> int:
            blocks = sum_by_group(count[of_group == group], block[of_group == group], tree.nodes)
            if blocks.sum() <= MOST_BLOCKS:
                weights = np.array(self.parts[self.group_part[group]].weights, dtype=np.int64)
                found = audit_group(tree, weights, blocks, np.maximum(prior[order], 1e-9).tolist())
                if found is not None:
                    return int(order[int(np.argmax(found))])
            return int(np.argmax(counts[group]))

        return likeliest

    def check(self, published: Published) -> None:
        """The published blocks are exactly P-private, and every group has the rows it states and as many blocks."""
        one_unit(published)
        _check_side(published)
        try:
            release = self._open(published.evidence)
        except ReleaseError as error:
            raise VerificationError(f"the published groups do not keep the guarantee: {error}") from None
        weights = [np.array(part.weights, dtype=np.int64) for part in self.parts]
        for part, own in zip(self.parts, weights, strict=True):
            if leaf_probabilities(release.bounder.blocks.tree, own) != part.probabilities:
                raise VerificationError("the stated target is not the one that its weights give")
        try:
            release.check(weights, np.array(self.group_part, dtype=np.int64))
        except (PlanError, ReleaseError) as error:
            raise VerificationError(f"the published groups do not keep the guarantee: {error}") from None
        stated_sizes(published, self.group_rows, "group")


def _check_side(published: Published) -> None:
    """sensitive.parquet says beside each block the same words or ends everywhere."""
    side = published.evidence.side
    for name in {LOW, HIGH, WORDS} & set(side):
        pairs = set(zip(side["block"].tolist(), side[name].tolist(), strict=True))
        if len(pairs) > len(np.unique(side["block"])):
            raise VerificationError(f'"{name}" of sensitive.parquet says different things of one block')
