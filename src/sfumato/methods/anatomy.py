"""anatomy: publish every true sensitive value, inside a group of l records whose values all differ.

Groups are uniformly random among all groupings with distinct values; docs/explanation/anatomy.md.

Guarantee: in every group each value occurs once, so a reader who knows only a record's group gives each of its at
least l values at most 1/l.
Assumes: she knows nothing else about the members of the group.
Cost: one pass to count, a plan of one integer per record, one pass to hand out groups.
Error: small; every true value is in the release, only the link to the record is hidden.
Does not protect against: readers who know other members (knowing all but one reveals the last), or who can rule out
values of a group; it publishes the histogram exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..errors import PlanError, SpecError
from ..laws.grouping import Grouping, largest_buckets, random_margins
from ..laws.groups import Channel, DistinctGroups, expected_se, groups_of
from ..model.private import Deal, Facts, Known, Needs, Profile, Work
from ..model.public import Candidate, Claim, Guarantee, Integers, ReaderBound, Roles, Trust, value_label
from ..stats.shuffling import order_of, shuffled
from .contract import Example, Method, Planned, Specification
from .shared.readers import Found, in_parts, linked
from .shared.restricted import group_size, told

# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of anatomy's groups get: every value of a group is held by one of its members.


MOST = 200_000_000  # groups with different values, times quasi-identifier cells


def readers(l: int, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder. A record of value x is in each of the n_x groups that hold x with chance 1 / n_x, so that with the
    true histogram as prior the values of a group are equally likely."""
    least = l if known is None else _smallest(known)
    mine = Found(posterior=Fraction(1, least), why="the values of a group are equally likely, and it holds l or more")
    linking = linked(
        known, "prior: the share among the rows with the same quasi-identifiers; she sees the group's values", _linking
    )
    last = "whoever knows all members of a group but one knows the last"
    return in_parts(claim, histogram=mine, linking=linking, corruption=last)


def _smallest(known: Known) -> int:
    """Values of the smallest group that holds a looked-at value."""
    group, code = known.work.side["group_id"], known.work.side["unit0"]
    looked = known.joint.codes[known.looked, 0]
    return int(np.bincount(group)[group[np.isin(code, looked)]].min())


def _linking(known: Known) -> float | None:
    """max over cells c, groups g and values x of both: (c_x / n_x) / sum over y in g of c_y / n_y."""
    joint = known.joint
    groups = _distinct_groups(known)
    weight = joint.true_counts / joint.of_values()[joint.value]
    table = csr_array((weight, (joint.cell, joint.value)), shape=(joint.cells, len(joint.codes)))
    if groups.shape[0] * joint.cells > MOST:
        return None
    largest = 0.0
    for cell in range(joint.cells):
        entry = slice(table.indptr[cell], table.indptr[cell + 1])
        values, own = table.indices[entry], table.data[entry]
        inside = groups[:, values]
        for x in np.flatnonzero(known.looked[values]):
            together = inside[inside[:, x]] @ own
            if len(together):
                largest = max(largest, float(own[x] / together.min()))
    return largest


def _distinct_groups(known: Known) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Which values the groups hold, each combination once: (combinations, values that occur)."""
    joint = known.joint
    place = np.full(len(known.profile.domains[0]), -1)
    place[joint.codes[:, 0]] = np.arange(len(joint.codes))
    group = known.work.side["group_id"].astype(np.int64)
    held = np.zeros((int(group.max()) + 1, len(joint.codes)), dtype=bool)
    held[group, place[known.work.side["unit0"]]] = True
    return np.unique(held, axis=0)


# --- the method -------------------------------------------------------------------------------------------------------


GROUPINGS = ("random", "largest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy(Specification):
    """Groups of l records with distinct sensitive values. `suppress` drops records of too frequent values."""

    method: ClassVar[str] = "anatomy"

    l: int = field(metadata=told("different values in a group: a guess is right with at most 1/l", "4"))
    grouping: str = field(
        default="random", metadata=told("random: by random margins; largest: from the largest buckets", "largest")
    )
    suppress: bool = field(default=False, metadata={"help": "leave out records of too frequent values"})

    def __post_init__(self) -> None:
        if isinstance(self.l, bool) or not isinstance(self.l, int) or self.l < 2:
            raise SpecError(f"l must be a whole number of at least 2, got {self.l!r}", field="l")
        if self.grouping not in GROUPINGS:
            raise SpecError(f'grouping must be one of {", ".join(GROUPINGS)}, got "{self.grouping}"', field="grouping")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnatomyPlan:
    """What the release states."""

    grouping: str
    law: DistinctGroups


def _suppressed(true_counts: Integers, l: int) -> Integers:
    """Counts cut, largest first, until none exceeds a share of 1/l of what is left."""
    kept = true_counts.copy()
    while l * int(kept.max()) > int(kept.sum()):
        top, rest = int(np.argmax(kept)), int(kept.sum() - kept.max())
        # the largest f with l f <= f + rest
        fits = rest // (l - 1)
        if fits < 1:
            raise PlanError(f"l = {l} cannot be reached by leaving out records; take a smaller l")
        kept[top] = min(int(kept[top]) - 1, fits)
    return kept


def _hand_out(
    grouping: Grouping, true_counts: Integers, kept: Integers, rng: np.random.Generator
) -> tuple[Deal, dict[str, NDArray[Any]]]:
    """Who may sit where: the groups of every value, under random group numbers; and sensitive.parquet."""
    numbers = np.arange(grouping.groups, dtype=np.int32)
    number = shuffled(numbers, np.array([0, grouping.groups]), rng)  # it carries nothing of how groups were made
    first, groups, codes = 0, [], []
    for block in grouping.blocks:  # row by row, all copies of a row together
        copies = number[first : first + block.copies * len(block.rows)].reshape(block.copies, -1).T
        groups.append(np.repeat(copies.ravel(), grouping.size))
        codes.append(np.repeat(block.rows, block.copies, axis=0).ravel())
        first += copies.size
    group = np.concatenate([*groups, number[grouping.leftover_groups]])
    code = np.concatenate([*codes, grouping.leftover_values])

    start = np.concatenate([[0], np.cumsum(true_counts)]).astype(np.int64)
    labels = np.full(int(start[-1]), -1, dtype=np.int32)  # -1 for each dropped record of a value, behind its groups
    place = np.arange(len(code)) + np.repeat(start[:-1] - (np.cumsum(kept) - kept), kept)
    labels[place] = group[order_of(code, len(kept))]
    sides = np.argsort(group.astype(np.int64) * grouping.values + code)
    deal = Deal(unit=0, start=start, labels=labels, counts=None)
    return deal, {"group_id": group[sides], "unit0": code[sides]}


class AnatomyMethod(Method[Anatomy, AnatomyPlan]):
    """Every true value, inside a group of l records whose values all differ."""

    name = "anatomy"
    title = "Anatomy"
    trust = Trust.CONDITIONAL
    answers = "estimate, interval, certain bounds"
    spec = Anatomy
    plan_type = AnatomyPlan
    unseen = ("groups that were not made at random",)
    example = Example(
        spec={"l": 3},
        options={"l": "3"},
        bad=({"l": 1}, {"l": 2.5}, {"l": "3"}, {"l": True}, {"grouping": "alphabetic"}),
    )

    def needs(self, spec: Anatomy, roles: Roles) -> Needs:
        """The sensitive columns, taken together as one value."""
        return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))

    def plan(self, spec: Anatomy, profile: Profile, rng: np.random.Generator) -> Planned[AnatomyPlan]:
        """Random groups, and for every value the list of groups its records go to."""
        true_counts = profile.true_counts()
        if np.count_nonzero(true_counts) < 2:
            raise PlanError("the sensitive column has one distinct value; nothing can be hidden")
        kept = _suppressed(true_counts, spec.l) if spec.suppress else true_counts
        rule = random_margins if spec.grouping == "random" else largest_buckets
        try:
            grouping = rule(kept, spec.l, rng)
        except PlanError as error:
            raise PlanError(
                f"l = {spec.l} cannot be reached: the most frequent sensitive value is too frequent; the largest l is "
                f"{error.limit}; take that, or --suppress to leave out records of the most frequent values",
                limit=error.limit,
            ) from None
        deal, side = _hand_out(grouping, true_counts, kept, rng)
        law = DistinctGroups(l=spec.l, groups=grouping.groups, suppressed=int((true_counts - kept).sum()))
        public = AnatomyPlan(grouping=spec.grouping, law=law)
        return Planned(public=public, work=Work(deals=(deal,), side=side))

    def guarantee(self, plan: AnatomyPlan) -> Guarantee:
        """At most 1/l, from groups of at least l distinct values."""
        return Guarantee(
            model="l-diversity by buckets",
            parameters={"l": plan.law.l, "posterior": f"1/{plan.law.l}"},
            statement=(
                f"Each record's sensitive value is one of at least {plan.law.l} different values of its group, "
                "each held by one member."
            ),
            assumptions=(
                "the reader knows which group a record is in and nothing else about the group's members",
                "records of a value were given to groups at random",
                "the table is published once",
            ),
            not_covered=(
                "a reader who knows other members of the group: knowing all but one reveals the last",
                "a reader who can rule out values of a group for a record",
                "the exact histogram of the sensitive column, which is published",
                "columns that are published as they are",
            ),
            trust=self.trust,
        )

    def claim(self, plan: AnatomyPlan) -> Claim:
        """1/l, whatever the prior."""
        return Claim(rho2=Fraction(1, plan.law.l))

    def readers(self, plan: AnatomyPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """Groups whose values are all different."""
        return readers(plan.law.l, claim.or_own(self.claim(plan).rho1, self.claim(plan).rho2), known)

    def report(self, plan: AnatomyPlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        """Groups, what was left out, and the error to expect."""
        groups = groups_of(work.side["group_id"].astype(np.int64), work.side["unit0"], len(profile.domains[0]))
        channel = Channel(groups)
        se = expected_se(channel, 0.01), expected_se(channel, 0.1)
        return {
            "groups": plan.law.groups,
            "suppressed_rows": int(profile.rows - groups.sizes.sum()),
            "expected_error": {
                "values": [value_label(v) for v in profile.domains[0].values],
                "total": [0.0] * len(profile.domains[0]),
                "among_1_percent": se[0].tolist(),
                "among_10_percent": se[1].tolist(),
            },
        }

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Groups of l = 1/tau; the plain estimate beside it."""
        own: dict[str, Any] = {"l": group_size(tau)}
        plain = Candidate(method=self.name, parameters=own, variant="plain estimate", estimator="plain", releases=2)
        return Candidate(method=self.name, parameters=own), plain


METHOD: Method[Anatomy, AnatomyPlan] = AnatomyMethod()
