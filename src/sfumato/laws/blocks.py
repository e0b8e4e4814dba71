"""blocks: rows name their group, and a group lists blocks of a hierarchy, each standing for one of its rows.

By the published weights every row's marginal is exactly a target distribution; answers are certain bounds.
docs/explanation/target-distribution.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import PlanError, ReleaseError, SpecError, VerificationError
from ..model.private import Batch, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Floats, Likelihood, Observed, Published
from ..model.types import BIGINT, DOUBLE, INTEGER, TEXT, ColumnType
from ..stats.joint_codes import sum_by_group
from .block_audit import audit_group
from .block_bounds import OpenBlocks, estimate, open_blocks, order_statistics, ratios
from .block_tree import BlockTree, from_blocks, leaf_probabilities
from .contract import Bounds, Law
from .published import one_unit, silent, stated_sizes

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
