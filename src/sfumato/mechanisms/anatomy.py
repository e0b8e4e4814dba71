"""anatomy: publish every true sensitive value, inside a group of l records whose values all differ.

Groups are uniformly random among all groupings with distinct values; pp.md section 11.

Guarantee: in every group each value occurs once, so a reader who knows only a record's group gives each of its at
least l values at most 1/l.
Assumes: she knows nothing else about the members of the group.
Cost: one pass to count, a plan of one integer per record, one pass to hand out groups.
Error: small; every true value is in the release, only the link to the record is hidden.
Does not protect against: readers who know other members (knowing all but one reveals the last), or who can rule out
values of a group; it publishes the histogram exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import PlanError, SpecError
from ..model.private import Batch, Deal, Needs, Profile, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Guarantee, Integers, Observed, Roles, Trust
from ..stats import anatomised
from ..stats.allocation import narrow
from ..stats.grouping import Grouping, largest_buckets, random_margins
from .base import Planned
from .restricted import value_label

NAME = "anatomy"
TITLE = "Anatomy"
TRUST = Trust.CONDITIONAL
LUMPABLE = False
PART: str | None = "group_id"
WITHHELD = True
FORMULA = "M w = h over the groups' own channel; Var = sum over values u of x(F-x)/(F-1) times the variance of w"
GROUPINGS = ("random", "largest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """Groups of l records with distinct sensitive values. `suppress` drops records of too frequent values."""

    l: int
    grouping: str = "random"
    suppress: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.l, bool) or not isinstance(self.l, int) or self.l < 2:
            raise SpecError(f"l must be a whole number of at least 2, got {self.l!r}", field="l")
        if self.grouping not in GROUPINGS:
            raise SpecError(f'grouping must be one of {", ".join(GROUPINGS)}, got "{self.grouping}"', field="grouping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the release states."""

    l: int
    grouping: str
    groups: int
    suppressed: bool  # records of frequent values were left out; counts refer to what is published


Spec = Anatomy


def needs(spec: Anatomy, roles: Roles) -> Needs:
    """The sensitive columns, taken together as one value."""
    return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))


def plan(spec: Anatomy, profile: Profile, rng: np.random.Generator) -> Planned:
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
    public = Plan(l=spec.l, grouping=spec.grouping, groups=grouping.groups, suppressed=bool((kept < true_counts).any()))
    return Planned(public=public, work=Work(deals=(deal,), side=side))


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
) -> tuple[Deal, dict[str, Any]]:
    """Who may sit where: the groups of every value, under random group numbers; and sensitive.parquet."""
    number = rng.permutation(grouping.groups).astype(np.int64)  # numbers carry nothing of how groups were made
    rows = np.empty((grouping.groups, grouping.size), dtype=np.int32)
    rows[number] = np.sort(grouping.members, axis=1)
    group = np.repeat(np.arange(grouping.groups, dtype=np.int64), grouping.size)
    codes = rows.ravel()
    if len(grouping.leftover_values):
        extra = number[grouping.leftover_groups]
        group, codes = np.concatenate([group, extra]), np.concatenate([codes, grouping.leftover_values])
        order = np.lexsort((codes, group))
        group, codes = group[order], codes[order]
    dropped = true_counts - kept
    labels = np.concatenate(
        [group[np.argsort(narrow(codes, len(kept)), kind="stable")], np.full(int(dropped.sum()), -1, dtype=np.int64)]
    )
    if dropped.any():
        owner = np.concatenate([np.sort(codes), np.repeat(np.arange(len(dropped)), dropped)])
        labels = labels[np.argsort(owner, kind="stable")]
    start = np.concatenate([[0], np.cumsum(true_counts)]).astype(np.int64)
    return Deal(unit=0, start=start, labels=labels, counts=None), {"group_id": group.astype(np.int32), "unit0": codes}


def apply(plan: Plan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
    """The sensitive columns go, the number of the group comes."""
    (label,) = batch.labels
    stay = label >= 0 if plan.suppressed else None
    return Released(codes=(None,), extra={"group_id": label.astype(np.int32)}, stay=stay)


def released_domains(plan: Plan, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
    """Values leave as they are."""
    return domains


def guarantee(plan: Plan) -> Guarantee:
    """At most 1/l, from groups of at least l distinct values."""
    return Guarantee(
        model="l-diversity by buckets",
        parameters={"l": plan.l, "posterior": f"1/{plan.l}"},
        statement=(
            f"Each record's sensitive value is one of at least {plan.l} different values of its group, "
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
        trust=TRUST,
    )


def estimate(plan: Plan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
    """Debiased by the release's own channel; certain bounds beside it."""
    if "channel" not in evidence.memo:
        groups = anatomised.groups_of(evidence.side["group_id"], evidence.side["unit0"], len(evidence.domains[0]))
        evidence.memo["channel"] = anatomised.Channel(groups)
    return anatomised.estimate(evidence.memo["channel"], observed, asked)


def report(plan: Plan, work: Work, profile: Profile) -> dict[str, Any]:
    """Groups, what was left out, and the error to expect."""
    groups = anatomised.groups_of(work.side["group_id"].astype(np.int64), work.side["unit0"], len(profile.domains[0]))
    channel = anatomised.Channel(groups)
    se = anatomised.expected_se(channel, 0.01), anatomised.expected_se(channel, 0.1)
    return {
        "groups": plan.groups,
        "suppressed_rows": int(profile.rows - groups.sizes.sum()),
        "expected_error": {
            "values": [value_label(v) for v in profile.domains[0].values],
            "total": [0.0] * len(profile.domains[0]),
            "among_1_percent": se[0].tolist(),
            "among_10_percent": se[1].tolist(),
        },
    }
