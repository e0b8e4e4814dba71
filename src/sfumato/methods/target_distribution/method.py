"""target-distribution: inside each group, blur and shuffle sensitive values until every row looks like the target.

After the paper, as repaired in docs/explanation/target-distribution.md. The sensitive column leaves the rows; per
group the release lists blocks (nodes of a hierarchy) with their counts, and each row is one of its group's blocks.

Guarantee: every row's marginal is exactly the target (Definition 3.2), checked in integers before anything is written.
Assumes: a reader who does not reason about how the blocks were chosen and knows no other row's value.
Cost: one pass to count (group, value), plans in O(groups x nodes), fakes by dynamic programming within a work limit.
Error: certain bounds; narrow where a question selects whole groups, wide where it selects a few rows of a large one.
Does not protect against: readers who know the algorithm (the number of root blocks depends on the true values), or who
know other rows of the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ...errors import ReleaseError, SpecError, VerificationError
from ...laws.block_estimate import OpenBlocks, estimate, open_blocks, order_statistics, ratios
from ...laws.block_tree import BlockTree, from_blocks
from ...laws.published import silent
from ...model.likelihood import Likelihood
from ...model.private import Batch, Facts, Known, Needs, Profile, Released, Work
from ...model.public import (
    Asked,
    Candidate,
    Claim,
    Domain,
    Estimated,
    Evidence,
    Floats,
    Guarantee,
    Observed,
    Published,
    ReaderBound,
    Roles,
    Trust,
)
from ...model.ratios import Ratio, exact
from ...model.types import ColumnType
from ..contract import Example, Method, Planned, Specification
from ..shared.options import told
from .guarantee import ADDED, block_columns, check_release, knowing, readers, report, side_table
from .plan import Made, check_hierarchy, check_target, from_data, hierarchy_text, make, parse_rule, target_text
from .targets import MAX_WEIGHT

SCHEME = 1
GROUP_ROWS = 50  # at a bound: groups are made of columns while they hold this many rows on average
KNOWS_ALGORITHM = (
    "readers who know the algorithm: how many blocks stay at the root depends on the group's true values, and a group "
    "that is all root may consist of one repeated value"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDistribution(Specification):
    """Make every row of every group look like `target`.

    target: "source", "uniform", "normal(mean,sd)", "zipf(s)", weights {value: weight}, or, with `target_by`, one of
    these per part {part: target}. hierarchy: "balanced(2)", "width(2)", nested lists, or rows of (value, label, ..).
    partition_by, target_by: columns, or rules such as "age//10" (ranges of ten) and "zip[:3]" (first three characters).
    fakes: a share of each group's rows, or a number. max_weight: largest sum of weights at a node.
    min_group: smaller groups are merged with their neighbours.
    randomise_depth: pass on a random share of the blocks at every node, so that they cannot be inverted exactly; wider
    bounds, and how much it hides was not measured.
    """

    method: ClassVar[str] = "target-distribution"

    target: Any = field(
        default="source",
        metadata=told("source, uniform, normal(mean,sd), zipf(s), or a file of value,weight", "uniform", file="target"),
    )
    hierarchy: Any = field(
        default="balanced(2)",
        metadata=told("balanced(k), width(k), or a file of value;label;..;*", "balanced(4)", file="hierarchy"),
    )
    partition_by: tuple[str, ...] | list[str] | str = field(
        default=(), metadata=told("columns or rules that make the groups", "age//10,sex")
    )
    target_by: tuple[str, ...] | list[str] | str = field(
        default=(), metadata=told("columns or rules whose parts have a target each", "sex")
    )
    fakes: Ratio = field(default="0.05", metadata=told("fake values of a group: a share of its rows, or a number", "0"))
    max_weight: int = field(
        default=MAX_WEIGHT, metadata=told("largest sum of weights at a node", "8", python_only=True)
    )
    min_group: int = field(default=5, metadata=told("smaller groups are merged with their neighbours", "20"))
    randomise_depth: bool = field(
        default=False,
        metadata=told("pass on a random share of the blocks at every node; wider bounds", "True", python_only=True),
    )

    def __post_init__(self) -> None:
        for name, given in (("partition_by", self.partition_by), ("target_by", self.target_by)):
            texts = tuple(given.split(",")) if isinstance(given, str) and given else tuple(given)
            object.__setattr__(self, name, tuple(t.strip() for t in texts))
        check_target(self.target)
        check_hierarchy(self.hierarchy)
        for rule in (*self.partition_by, *self.target_by):
            parse_rule(rule)
        share = exact(self.fakes, "fakes")
        if share < 0 or (share >= 1 and share.denominator != 1):
            raise SpecError(f"fakes must be a share from 0 to 1 or a whole number, got {self.fakes}", field="fakes")
        for name, number, least in (("max_weight", self.max_weight, 2), ("min_group", self.min_group, 1)):
            if isinstance(number, bool) or not isinstance(number, int) or number < least:
                raise SpecError(f"{name} must be a whole number of at least {least}, got {number!r}", field=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPart:
    """The target of some groups: weights of the nodes, the distribution they represent, and how far they moved it."""

    weights: tuple[int, ...]
    probabilities: tuple[Fraction, ...]  # over the leaves, in the order of `TargetDistributionPlan.order`
    distance: float | None  # total variation to the distribution asked for, rounded up; None: taken from the data


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDistributionPlan:
    """What the release states; the blocks of each group are in sensitive.parquet."""

    scheme: int
    target: str
    target_from_data: bool
    hierarchy: str
    numeric: bool
    order: tuple[int, ...]  # leaf position -> place of the value in the column's domain
    blocks: tuple[tuple[int, int], ...]  # every node as leaf positions start..stop-1, the root first
    labels: tuple[str | None, ...] | None
    partition_by: tuple[str, ...]
    target_by: tuple[str, ...]
    parts: tuple[TargetPart, ...]
    group_part: tuple[int, ...]
    group_rows: tuple[int, ...]
    max_weight: int
    min_group: int
    fakes: Fraction
    randomise_depth: bool

    def __post_init__(self) -> None:
        if self.scheme != SCHEME:
            raise SpecError("the scheme of the release is not known to this version of sfumato")

    @property
    def tree(self) -> BlockTree:
        return from_blocks(self.blocks)


def _release(plan: TargetDistributionPlan, evidence: Evidence) -> OpenBlocks:
    if "release" not in evidence.memo:
        try:
            tree = plan.tree
        except SpecError as error:
            raise ReleaseError(f"release.json describes no hierarchy: {error}") from None
        if any(len(part.weights) != tree.nodes or min(part.weights) < 0 for part in plan.parts) or (
            len(plan.group_part) != len(plan.group_rows)
            or not set(plan.group_part) <= set(range(len(plan.parts)))
            or tree.leaves != len(evidence.domains[0])
        ):
            raise ReleaseError("release.json states weights or groups that do not fit its hierarchy")
        evidence.memo["release"] = open_blocks(
            tree, np.array(plan.order, dtype=np.int64), evidence.side, np.array(plan.group_rows, dtype=np.int64)
        )
    found: OpenBlocks = evidence.memo["release"]
    return found


def _round_up(x: Fraction, digits: int = 6) -> float:
    scale = 10**digits
    return -((-x.numerator * scale) // x.denominator) / scale


class TargetDistributionMethod(Method[TargetDistribution, TargetDistributionPlan]):
    """Inside each group, sensitive values look like the target."""

    name = "target-distribution"
    title = "Target distribution"
    trust = Trust.CONDITIONAL
    part = "group_id"
    adds = ADDED
    withheld = True
    by_number = True
    answers = "certain bounds"
    spec = TargetDistribution
    plan_type = TargetDistributionPlan
    unseen = ("another target of the same weights: what was asked for is not in the bundle",)
    example = Example(
        spec={"partition_by": "sex", "fakes": "0.01"},
        options={"partition_by": "sex"},
        bad=(
            {"target": "gauss"}, {"target": "zipf(-1)"}, {"hierarchy": "balanced(1)"}, {"fakes": -1}, {"fakes": 1.5},
            {"max_weight": 1}, {"max_weight": "16"}, {"min_group": 0},
            {"partition_by": "age//0"},
        ),
    )  # fmt: skip

    def needs(self, spec: TargetDistribution, roles: Roles) -> Needs:
        """The sensitive column, and the columns that groups are made of, counted together."""
        if len(roles.sensitive) != 1:
            raise SpecError(
                f"{self.name} publishes one sensitive column, got {', '.join(roles.sensitive)}; name one and give the "
                "others another role",
                field="sensitive",
            )
        columns = tuple(dict.fromkeys(parse_rule(r).column for r in (*spec.target_by, *spec.partition_by)))
        for column in columns:
            if column not in (*roles.quasi, *roles.insensitive):
                raise SpecError(
                    f'groups are made of columns that are published, and "{column}" is not; give it the role quasi',
                    field="partition_by",
                )
        if not columns:
            return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))
        return Needs(units=(tuple(roles.sensitive), columns), joints=((0, 1),), changed=(True, False))

    def plan(
        self, spec: TargetDistribution, profile: Profile, rng: np.random.Generator
    ) -> Planned[TargetDistributionPlan]:
        """Tree, targets, groups, fakes and blocks; nothing is random but, where asked for, the depth of the blocks."""
        made = make(spec, profile, rng if spec.randomise_depth else None)
        taken = from_data(spec.target)  # how far weights moved a true histogram would tell its counts
        public = TargetDistributionPlan(
            scheme=SCHEME,
            target=target_text(spec.target),
            target_from_data=taken,
            hierarchy=hierarchy_text(spec.hierarchy),
            numeric=made.shape.values is not None,
            order=made.shape.order,
            blocks=made.shape.tree.blocks(),
            labels=made.shape.tree.labels,
            partition_by=tuple(spec.partition_by),
            target_by=tuple(spec.target_by),
            parts=tuple(
                TargetPart(
                    weights=tuple(t.weights.tolist()),
                    probabilities=t.probabilities,
                    distance=None if taken else _round_up(t.distance),
                )
                for t in made.targets
            ),
            group_part=tuple(made.group_part.tolist()),
            group_rows=tuple(made.group_rows.tolist()),
            max_weight=spec.max_weight,
            min_group=spec.min_group,
            fakes=exact(spec.fakes, "fakes"),
            randomise_depth=spec.randomise_depth,
        )
        return Planned(public=public, work=Work(side=side_table(made), notes=made.notices, secret=made))

    def beside(self, plan: TargetDistributionPlan, domains: tuple[Domain, ...]) -> Mapping[str, ColumnType]:
        """Blocks, how often each comes, and what it covers."""
        return block_columns(domains[0], numeric=plan.numeric)

    def apply(self, plan: TargetDistributionPlan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """The sensitive column goes, the number of the group comes."""
        made: Made = work.secret
        group = made.group_of[batch.codes[1]] if len(batch.codes) > 1 else np.zeros(batch.rows)
        return Released(codes=(None,) * len(batch.codes), extra={"group_id": group.astype(np.int32)})

    def guarantee(self, plan: TargetDistributionPlan) -> Guarantee:
        """Exact marginals; and, at length, what they do not cover."""
        moved = max((part.distance for part in plan.parts if part.distance is not None), default=None)
        return Guarantee(
            model="P-private marginals",
            parameters={
                "target": plan.target,
                "groups": len(plan.group_rows),
                **({} if moved is None else {"target_moved": moved}),
                "max_weight": plan.max_weight,
                "min_group": plan.min_group,
            },
            statement=(
                "For every row, the sensitive value that its group's blocks leave open has exactly the published "
                "target distribution."
            ),
            assumptions=(
                "the reader does not reason about how the blocks were chosen",
                "the reader knows no other row's sensitive value",
                "inside a block the reader's prior is the target",
                "the table is published once",
            ),
            not_covered=(
                KNOWS_ALGORITHM,
                "groups that need no generalisation, which publish their exact values in random order",
                "readers who know some rows of a group, which narrows the others",
                "the number of fake values of a group, which is blocks less rows",
                *(("the target, which was taken from the data",) if plan.target_from_data else ()),
                "columns that are published as they are",
            ),
            trust=self.trust,
        )

    def readers(self, plan: TargetDistributionPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """Groups and their blocks."""
        return readers(claim, known)

    def estimate(self, plan: TargetDistributionPlan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Certain bounds, and no point estimate: by construction every row's expected value is that of the target."""
        return estimate(_release(plan, evidence), observed, asked)

    def bound(
        self,
        plan: TargetDistributionPlan,
        evidence: Evidence,
        kind: str,
        observed: Observed,
        asked: Asked,
        top: Sequence[int],
        bottom: Sequence[int],
        share: float | None,
    ) -> tuple[Floats, Floats, tuple[str, ...]] | None:
        """Certain bounds on AVG, MIN, MAX and quantiles."""
        release = _release(plan, evidence)
        if kind == "ratio":
            return ratios(release, observed, asked, top, bottom)
        if any(asked.measure[f] for f in (*top, *bottom)):
            return None  # another column is a factor, or the only column
        if any(value[0] is None for value in evidence.domains[0].values):
            return None  # MIN and MAX skip missing values, blocks do not tell them apart
        return order_statistics(release, observed, asked, top[0], kind, share)

    def law(self, plan: TargetDistributionPlan, evidence: Evidence, unit: int) -> Likelihood:
        """Every block spread over its values as the target spreads them, scaled to the rows of the group."""
        blocks = _release(plan, evidence).bounder.blocks
        counts = np.zeros((blocks.groups, len(plan.order)))
        spans = np.array(plan.blocks)
        for number, part in enumerate(plan.parts):
            target = np.array([float(p) for p in part.probabilities])
            mass = np.concatenate([[0.0], np.cumsum(target)])
            of_node = np.maximum(mass[spans[:, 1]] - mass[spans[:, 0]], 1e-300)
            for node in np.unique(blocks.node):
                mine = (blocks.node == node) & (np.array(plan.group_part)[blocks.group] == number)
                leaves = slice(*spans[node])
                share = target[leaves] / of_node[node]
                at = np.array(plan.order)[leaves]
                counts[np.ix_(blocks.group[mine], at)] += blocks.count[mine][:, None] * share
        counts *= (np.array(plan.group_rows) / np.maximum(blocks.sizes, 1))[:, None]
        return replace(silent(counts), knowing=knowing(plan, evidence, counts))

    def verify(self, plan: TargetDistributionPlan, published: Published) -> None:
        """The published blocks are exactly P-private, and every group has the rows it states and as many blocks."""
        try:
            release = _release(plan, published.evidence)
        except ReleaseError as error:
            raise VerificationError(f"the published groups do not keep the guarantee: {error}") from None
        check_release(plan, published, release)

    def report(self, plan: TargetDistributionPlan, work: Work, profile: Profile) -> dict[str, Any]:
        """Groups with their blocks and fakes, what a reader of the algorithm learns, and notices."""
        return report(work.secret, profile)

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Groups of columns with few values, while they hold enough rows on average."""
        chosen = sorted((c for c, m in facts.sizes.items() if m > 1), key=lambda c: facts.sizes[c])
        taken, groups = [], 1
        for column in chosen[:3]:
            groups *= facts.sizes[column]
            if groups * GROUP_ROWS > facts.rows:
                break
            taken.append(column)
        by: dict[str, Any] = {"partition_by": tuple(taken)}
        return (Candidate(method=self.name, parameters=by, releases=1),)


METHOD: Method[TargetDistribution, TargetDistributionPlan] = TargetDistributionMethod()
