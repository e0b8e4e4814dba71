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

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from math import comb
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...errors import SpecError, VerificationError
from ...laws.blocks import (
    HIGH,
    LARGEST,
    LOW,
    SCHEME,
    WORDS,
    Blocks,
    TargetPart,
    audit_group,
    enumerate_posterior,
    only_homogeneous,
)
from ...model.names import Ratio, exact
from ...model.private import Facts, Known, Needs, Profile, Work
from ...model.public import Candidate, Claim, Floats, Guarantee, Integers, Published, ReaderBound, Roles, Trust
from ...stats.joint_codes import distinct_cells, sum_by_group
from ..contract import Example, Method, Planned, Specification
from ..shared.readers import Found, in_parts, linked, round_up
from ..shared.restricted import told
from .plan import (
    AUDITED_GROUPS,
    AUDITED_ROWS,
    MAX_WEIGHT,
    Made,
    check_hierarchy,
    check_target,
    from_data,
    hierarchy_text,
    make,
    parse_rule,
    replan,
    target_text,
)

# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of blurred groups get: a row is one of its group's blocks, and inside a block the prior decides.


LAST = "whoever knows the other rows of a group is left with the blocks that they do not fill"
MOST = 200_000_000


def readers(claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder; the blocks of the groups are private knowledge here only because a plan does not state them."""
    mine = Found(
        posterior=None if known is None else _histogram(known),
        why="the blocks of the groups decide" if known is None else "every block of a group is as likely the record's",
    )
    linking = linked(
        known, "prior: the share among the rows with the same quasi-identifiers, inside each block", _linking
    )
    return in_parts(claim, histogram=mine, linking=linking, corruption=LAST)


def _blocks(made: Made, values: int) -> tuple[csr_array, csr_array]:
    """(groups by nodes: share of a group's blocks, nodes by values: whether a block holds a value)."""
    tree = made.shape.tree
    size = np.bincount(made.group, weights=made.count)
    share = csr_array(
        (made.count / size[made.group], (made.group, made.node)), shape=(len(made.group_rows), tree.nodes)
    )
    width = tree.stop - tree.start
    ends = np.concatenate([[0], np.cumsum(width)])
    leaf = np.arange(ends[-1]) - np.repeat(ends[:-1] - tree.start, width)
    held = np.asarray(made.shape.order)[leaf]
    return share, csr_array((np.ones(len(held)), held, ends), shape=(tree.nodes, values))


def _histogram(known: Known) -> float:
    """max over groups and values x of sum over blocks b of the group: (share of b) f_x / f(b)."""
    made: Made = known.work.secret
    prior = np.zeros(len(known.profile.domains[0]))
    prior[known.joint.codes[:, 0]] = known.joint.of_values()
    share, inside = _blocks(made, len(prior))
    reached = (share @ _spread(inside, prior)).toarray()
    return float(reached[:, known.joint.codes[known.looked, 0]].max())


def _linking(known: Known) -> float | None:
    """The same with the prior of every cell; blocks that hold no value of the cell are ruled out."""
    made, joint = known.work.secret, known.joint
    domain = len(known.profile.domains[0])
    if 1 not in joint.looked_at and len(known.profile.domains) > 1:
        return None  # groups are made of columns that are no quasi-identifiers
    share, inside = _blocks(made, domain)
    if joint.cells * inside.shape[0] > MOST:
        return None
    group = made.group_of[joint.looked_at[1]] if 1 in joint.looked_at else np.zeros(len(joint.cell), dtype=np.int64)
    looked = np.zeros(domain, dtype=bool)
    looked[joint.codes[known.looked, 0]] = True
    table = csr_array((joint.true_counts, (joint.cell, joint.codes[joint.value, 0])), shape=(joint.cells, domain))
    of_cell = np.zeros(joint.cells, dtype=np.int64)
    of_cell[joint.cell] = group
    largest = 0.0
    for cell in range(joint.cells):
        prior = table[[cell]].toarray()[0]
        mine = share[[int(of_cell[cell])]].toarray()[0]
        possible = mine * (inside @ prior > 0)
        reached = _spread(inside, prior).T @ (possible / possible.sum())
        largest = max(largest, float(reached[looked].max()))
    return largest


def _spread(inside: csr_array, prior: Floats) -> csr_array:
    """f_x / f(b) for every block b and value x in it."""
    mass, held = np.repeat(inside @ prior, np.diff(inside.indptr)), prior[inside.indices]
    share = np.divide(held, mass, out=np.zeros(len(held)), where=mass > 0)
    return csr_array((share, inside.indices, inside.indptr), shape=inside.shape)


# --- target report ----------------------------------------------------------------------------------------------------
# What a target-distribution plan looks like from outside: sensitive.parquet, and the custodian's report.


SHOWN_GROUPS = 1000
AUDITED_NODES = 2000
TRIED_HISTOGRAMS = 5000


def side_table(made: Made) -> dict[str, NDArray[Any]]:
    """sensitive.parquet: every group's blocks in canonical order; what they cover, for people who read it by eye."""
    tree = made.shape.tree
    side: dict[str, NDArray[Any]] = {
        "group_id": made.group.astype(np.int32),
        "block": made.node.astype(np.int32),
        "count": made.count,
    }
    if made.shape.values is not None:
        points = np.array([float(v) for v in made.shape.values])
        if all(v.denominator == 1 and abs(v) < LARGEST for v in made.shape.values):
            points = np.array([int(v) for v in made.shape.values])
        return side | {LOW: points[tree.start[made.node]], HIGH: points[tree.stop[made.node] - 1]}
    names = np.array([block_label(made, v) for v in range(tree.nodes)], dtype=object)
    return side | {WORDS: names[made.node]}


def block_label(made: Made, node: int) -> str:
    """A block as people read it: its label in the hierarchy, or its values."""
    tree = made.shape.tree
    a, b = int(tree.start[node]), int(tree.stop[node])
    label = tree.labels[node] if tree.labels else None
    if b - a == 1:
        return made.labels[a]
    return label if label is not None else " | ".join(made.labels[a:b])


def report(made: Made, profile: Profile) -> dict[str, Any]:
    """Groups with their blocks and fakes, bound widths to expect, what a reader of the algorithm learns, notices."""
    return {
        "groups": [_group(made, g) for g in range(min(SHOWN_GROUPS, len(made.group_rows)))],
        "groups_in_all": len(made.group_rows),
        "target_moved": [float(t.distance) for t in made.targets],
        "root_share": float(made.count[made.node == 0].sum() / max(1, made.count.sum())),
        "expected_error": {
            "meaning": "half the width of the certain bounds on COUNT(*) WHERE the value holds",
            "values": [_value(made, leaf) for leaf in range(len(made.labels))],
            "total": _count_widths(made, 1.0).tolist(),
            "among_1_percent": _count_widths(made, 0.01).tolist(),
            "among_10_percent": _count_widths(made, 0.1).tolist(),
        },
        "audit": audit(made),
        "notes": list(made.notices),
    }


def _blocks_of(made: Made, group: int) -> slice:
    return slice(*np.searchsorted(made.group, [group, group + 1]).tolist())


def _value(made: Made, leaf: int) -> Any:
    """A value as JSON: a number where the column is numeric."""
    if made.shape.values is None:
        return made.labels[leaf]
    number = made.shape.values[leaf]
    return int(number) if number.denominator == 1 else float(number)


def _group(made: Made, g: int) -> dict[str, Any]:
    tree, mine = made.shape.tree, _blocks_of(made, g)
    blocks = [
        {"low": _value(made, int(tree.start[v])), "high": _value(made, int(tree.stop[v]) - 1), "count": int(c)}
        for v, c in zip(made.node[mine].tolist(), made.count[mine].tolist(), strict=True)
    ]
    return {
        "key": made.group_keys[g],
        "size": int(made.group_rows[g]),
        "blocks": blocks,
        "fakes": int(made.fakes[g]),
    }


def _count_widths(made: Made, share: float) -> Floats:
    """Half the width of the bounds on every value's count among a share of each group's rows.

    docs/explanation/target-distribution.md, section 5: between max(0, s - (n+k-must)) and min(s, may).
    """
    tree, groups = made.shape.tree, len(made.group_rows)
    width = np.zeros(tree.leaves)
    step = max(1, 2**22 // tree.nodes)
    for first in range(0, groups, step):
        last = min(first + step, groups)
        mine = slice(*np.searchsorted(made.group, [first, last]).tolist())
        edges = np.zeros((last - first, tree.leaves + 1), dtype=np.int64)
        must = np.zeros((last - first, tree.leaves), dtype=np.int64)
        group, node, count = made.group[mine] - first, made.node[mine], made.count[mine]
        np.add.at(edges, (group, tree.start[node]), count)
        np.add.at(edges, (group, tree.stop[node]), -count)
        leaf = tree.children[node] == 0
        np.add.at(must, (group[leaf], tree.start[node[leaf]]), count[leaf])
        may = np.cumsum(edges, axis=1)[:, :-1]
        rows = made.group_rows[first:last][:, None]
        selected = np.rint(rows * share)
        every = rows + made.fakes[first:last][:, None]
        width += (np.minimum(selected, may) - np.maximum(0, selected - (every - must))).sum(axis=0)
    return width / 2


def audit(made: Made) -> dict[str, Any]:
    """What a reader who knows the algorithm learns: the smallest groups without fakes, with two priors."""
    tree = made.shape.tree
    plain = np.flatnonzero((made.fakes == 0) & ~made.whole & (made.group_rows > 0) & (made.group_rows <= AUDITED_ROWS))
    chosen = plain[np.argsort(made.group_rows[plain], kind="stable")][:AUDITED_GROUPS]
    if tree.nodes > AUDITED_NODES or made.random_depth:  # the audit inverts the fixed algorithm
        chosen = chosen[:0]
    overall = (made.true_total / max(1, int(made.true_total.sum()))).tolist()
    groups: list[dict[str, Any]] = []
    for g in chosen.tolist():
        blocks = _dense(made, g)
        target = made.targets[int(made.group_part[g])]
        entry: dict[str, Any] = {
            "key": made.group_keys[g],
            "size": int(made.group_rows[g]),
            "only_one_value_possible": only_homogeneous(tree, target.weights, blocks),
        }
        for name, prior in (("target", list(target.probabilities)), ("overall", overall)):
            entry[name] = _reached(audit_group(tree, target.weights, blocks, prior), prior)
        groups.append(entry)
    groups += [] if made.random_depth else _with_fakes(made, overall)
    leaf = tree.children[made.node] == 0
    wide = sum_by_group(made.count[~leaf], made.group[~leaf], len(made.group_rows))
    return {
        "audited_groups": len(groups),
        "largest_posterior": {name: _most(groups, name, "largest") for name in ("target", "overall")},
        "furthest_from_prior": {name: _most(groups, name, "from_prior") for name in ("target", "overall")},
        "only_one_value_possible": sum(g.get("only_one_value_possible", False) for g in groups),
        "exact_multiset": int(((wide == 0) & (made.group_rows > 1)).sum()),
        "knobs": "larger groups (partition_by, min_group), fakes, a target nearer to the groups",
        "groups": groups,
    }


def _with_fakes(made: Made, overall: list[float]) -> list[dict[str, Any]]:
    """The same for small groups with fakes, by trying every histogram that could have been there."""
    tree = made.shape.tree
    out: list[dict[str, Any]] = []
    for g in np.flatnonzero(made.fakes > 0).tolist():
        rows, target = int(made.group_rows[g]), made.targets[int(made.group_part[g])]
        if len(out) == AUDITED_GROUPS or comb(rows + tree.leaves - 1, rows) > TRIED_HISTOGRAMS:
            continue
        entry: dict[str, Any] = {"key": made.group_keys[g], "size": rows}
        publish = partial(replan, made.spec, made.shape, target)
        for name, prior in (("target", list(target.probabilities)), ("overall", overall)):
            entry[name] = _reached(enumerate_posterior(tree, publish, _dense(made, g), prior, rows=rows), prior)
        out.append(entry)
    return out


def _reached(posterior: Floats | None, prior: Sequence[Fraction | float]) -> dict[str, float] | None:
    """The largest posterior of a value, and the total variation from the prior: 0 where the blocks taught nothing."""
    if posterior is None:
        return None
    moved = np.abs(posterior - np.array([float(p) for p in prior])).sum() / 2
    return {"largest": float(posterior.max()), "from_prior": float(moved)}


def _most(groups: list[dict[str, Any]], prior: str, what: str) -> float | None:
    return max((g[prior][what] for g in groups if g[prior] is not None), default=None)


def _dense(made: Made, group: int) -> Integers:
    blocks = np.zeros(made.shape.tree.nodes, dtype=np.int64)
    mine = _blocks_of(made, group)
    blocks[made.node[mine]] = made.count[mine]
    return blocks


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
                    distance=None if taken else round_up(t.distance),
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
