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

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ...errors import SpecError, VerificationError
from ...laws.blocks import SCHEME, Blocks, TargetPart
from ...model.names import Ratio, exact
from ...model.private import Facts, Known, Needs, Profile, Work
from ...model.public import Candidate, Claim, Guarantee, Published, ReaderBound, Roles, Trust
from ...stats.joint_codes import distinct_cells
from ..contract import Example, Method, Planned, Specification
from ..shared.options import told
from .guarantee import readers, report, side_table
from .plan import check_hierarchy, check_target, from_data, hierarchy_text, make, parse_rule, target_text
from .targets import MAX_WEIGHT

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
class TargetDistributionPlan:
    """What the release states beside its hierarchy, targets and groups, which are its law's."""

    target: str
    target_from_data: bool
    hierarchy: str
    partition_by: tuple[str, ...]
    target_by: tuple[str, ...]
    law: Blocks
    max_weight: int
    min_group: int
    fakes: Fraction
    randomise_depth: bool


def _round_up(x: Fraction, digits: int = 6) -> float:
    scale = 10**digits
    return -((-x.numerator * scale) // x.denominator) / scale


class TargetDistributionMethod(Method[TargetDistribution, TargetDistributionPlan]):
    """Inside each group, sensitive values look like the target."""

    name = "target-distribution"
    title = "Target distribution"
    trust = Trust.CONDITIONAL
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
        law = Blocks(
            scheme=SCHEME,
            numeric=made.shape.values is not None,
            order=made.shape.order,
            blocks=made.shape.tree.blocks(),
            labels=made.shape.tree.labels,
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
        )
        public = TargetDistributionPlan(
            target=target_text(spec.target),
            target_from_data=taken,
            hierarchy=hierarchy_text(spec.hierarchy),
            partition_by=tuple(spec.partition_by),
            target_by=tuple(spec.target_by),
            law=law,
            max_weight=spec.max_weight,
            min_group=spec.min_group,
            fakes=exact(spec.fakes, "fakes"),
            randomise_depth=spec.randomise_depth,
        )
        return Planned(public=public, work=Work(side=side_table(made), notes=made.notices, secret=made))

    def guarantee(self, plan: TargetDistributionPlan) -> Guarantee:
        """Exact marginals; and, at length, what they do not cover."""
        moved = max((part.distance for part in plan.law.parts if part.distance is not None), default=None)
        return Guarantee(
            model="P-private marginals",
            parameters={
                "target": plan.target,
                "groups": len(plan.law.group_rows),
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

    def verify(self, plan: TargetDistributionPlan, published: Published) -> None:
        """Rows that agree on the columns that groups are made of are in one group."""
        try:
            columns = tuple(dict.fromkeys(parse_rule(rule).column for rule in (*plan.target_by, *plan.partition_by)))
        except SpecError as error:
            raise VerificationError(f"release.json makes groups by no rule: {error}") from None
        known = {column.name for column in published.columns if column.role in {"quasi", "insensitive"}}
        if not set(columns) <= known:
            raise VerificationError("release.json makes groups of a column that is not published")
        if not columns:
            if len(plan.law.group_rows) > 1:
                raise VerificationError("release.json names no column that groups are made of, and several groups")
            return
        codes, _ = published.counted((*columns, "group_id"))
        cells, _ = distinct_cells(codes[:, :-1])
        if len(cells) < len(codes):
            raise VerificationError("rows that agree on the columns that groups are made of are in different groups")

    def report(
        self, plan: TargetDistributionPlan, work: Work, profile: Profile, *, full: bool = False
    ) -> dict[str, Any]:
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
