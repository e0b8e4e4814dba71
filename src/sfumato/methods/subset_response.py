"""subset-response: publish a set of values from a published list; the least error that its guarantee allows.

One set channel over the declared domain; docs/explanation/set-channels.md.

Guarantee: a reader whose prior for a predicate about the value is at most rho1 ends with at most rho2; every prior,
every predicate.
Assumes: she looks at one record's published set. Other records tell nothing: each is randomised by itself.
Cost: one pass to count, one to draw; a list of about 4 m sets for m values, and answers in m^3 once per open release.
Error: for counts of single values the least that any channel of this guarantee has, and about 1 % for a short list.
Does not protect against: priors above rho1; values more frequent than rho1; several releases of one table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..errors import PlanError, SpecError
from ..laws.set_channel import PlannedList, SetChannel
from ..laws.set_lists import SetLists
from ..model.names import Ratio
from ..model.private import Known, Profile, Work
from ..model.public import Claim, Guarantee, Published, ReaderBound, RowsPerPerson
from ..stats.gamma import gamma_bound, posterior
from .contract import Example, Inputs, Method, Planned, ReadRows, Specification
from .shared.readers import channelled_sets
from .shared.restricted import (
    BAD_RHOS,
    BINS_FIELD,
    RHO1,
    RHO2,
    RestrictedMethod,
    bin_order,
    check_grown,
    check_protectable,
    errors_of,
    parse_bins,
    parse_rhos,
    protection,
    restricted_guarantee,
    row_gamma,
    table_report,
)
from .shared.set_lists import least_variance, list_for, times_least
from .shared.workloads import WORKLOAD_FIELD, design, parse_workload, planned_list

MOST_VALUES = 1500  # answers invert a matrix of this size, and sets.parquet holds about 4 m^2 rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetResponse(Specification):
    """Restrict the posterior of every predicate to rho2 for priors up to rho1, with the least error this allows."""

    method: ClassVar[str] = "subset-response"

    rho1: Ratio = field(metadata=RHO1)
    rho2: Ratio = field(metadata=RHO2)
    workload: str | None = field(default=None, metadata=WORKLOAD_FIELD)
    bins: Mapping[str, Sequence[Ratio]] | str | None = field(default=None, metadata=BINS_FIELD)

    def __post_init__(self) -> None:
        parse_rhos(self.rho1, self.rho2)
        parse_bins(self.bins)
        parse_workload(self.workload)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetResponsePlan:
    """What the release states."""

    rho1: Fraction
    rho2: Fraction
    law: SetLists  # one list over the whole domain; the channel that runs reaches a little less than its gamma
    rows_per_person: RowsPerPerson = 1  # rows that are held together

    def __post_init__(self) -> None:
        if self.law.domains is not None or self.gamma**self.rows_per_person > gamma_bound(self.rho1, self.rho2):
            raise SpecError(f"gamma = {self.gamma} does not belong to rho1 and rho2", field="gammas")
        if self.law.values > MOST_VALUES:
            raise SpecError(f"a set channel takes up to {MOST_VALUES} values, got {self.law.values}", field="values")

    @property
    def gamma(self) -> Fraction:
        """How far the channel may move odds."""
        return self.law.gammas[0]

    @property
    def channel(self) -> SetChannel:
        """The channel that runs."""
        return self.law.tables.channels[0]


class SubsetResponseMethod(RestrictedMethod[SubsetResponse, SubsetResponsePlan]):
    """A set from a published list in place of the value."""

    name = "subset-response"
    title = "Subset response"
    several_rows = True
    spec = SubsetResponse
    plan_type = SubsetResponsePlan
    unseen = ("sets that tell more than stated, where the noise could have made such counts by chance",)
    example = Example(
        spec={"rho1": "1/5", "rho2": "1/2"},
        options={"rho1": "1/5", "rho2": "1/3"},
        bad=(
            *BAD_RHOS,
            {"workload": "means"},
            {"workload": "ranges:-1"},
            {"workload": ""},
            {"workload": "sum,sum"},
            {"bins": "disease=3"},
        ),
    )

    def plan(self, spec: SubsetResponse, profile: Profile, rng: np.random.Generator) -> Planned[SubsetResponsePlan]:
        """One channel over the domain; the data only decide whether there is anything to protect."""
        rho1, rho2 = parse_rhos(spec.rho1, spec.rho2)
        check_protectable(profile.true_counts(), rho1)
        size = len(profile.domains[0])
        if size > MOST_VALUES:
            raise PlanError(
                f"the sensitive column has {size} values and subset-response takes at most {MOST_VALUES}; "
                "use small-domain, or put values together first",
                limit=MOST_VALUES,
            )
        gamma = row_gamma(rho1, rho2, profile.rows_per_person)
        workload, made = parse_workload(spec.workload), None
        if workload is None or workload.plain:
            best = list_for(size, gamma)
            listed = PlannedList(sets=best.blocks, cyclic=best.cyclic)
        else:
            workload = replace(workload, order=bin_order(parse_bins(spec.bins), profile.domains[0]))
            made = design(workload, profile.domains[0], gamma, profile.questions, watch=profile.watch)
            listed = planned_list(made)
        law = SetLists(values=size, gammas=(gamma,), lists=(listed,))
        public = SubsetResponsePlan(rho1=rho1, rho2=rho2, law=law, rows_per_person=profile.rows_per_person)
        return Planned(public=public, work=Work(secret=made))

    def inputs(self, spec: SubsetResponse, read: ReadRows) -> Inputs[SubsetResponse]:
        """Bins as given, and the workload where it is SQL."""
        workload = parse_workload(spec.workload)
        return Inputs(spec=spec, edges=parse_bins(spec.bins), questions=None if workload is None else workload.sql)

    def guarantee(self, plan: SubsetResponsePlan) -> Guarantee:
        """Restricted (rho1, rho2) for every predicate, computed from the channel that runs."""
        rows = plan.rows_per_person
        reached = posterior(plan.rho1, plan.channel.gamma_run**rows)
        stated = restricted_guarantee(plan.rho1, plan.rho2, reached, self.trust, rows=rows)
        return replace(
            stated,
            statement=(
                f"A reader who gave a sensitive value, or any set of them, at most {plan.rho1} before seeing a "
                f"record's published set gives it at most {plan.rho2} after."
                if rows == 1
                else f"A reader who gave anything about the sensitive values of a person at most {plan.rho1} before "
                f"seeing the published sets of her rows, up to {rows} of them, gives it at most {plan.rho2} after."
            ),
            assumptions=(
                "the reader's knowledge of the record is a prior over the sensitive values",
                "she looks at the published set of that record; other records' true values would not help her",
                "the table is published once",
            ),
        )

    def readers(self, plan: SubsetResponsePlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """One set channel over the whole domain."""
        return channelled_sets(claim.or_own(plan.rho1, plan.rho2), plan.channel, known)

    def report(self, plan: SubsetResponsePlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        """The channel, which values are not protected, the error to expect, and how far from the best it is."""
        counts, channel, made = profile.true_counts(), plan.channel, work.secret
        answers = plan.law.tables.answers(0)
        widths = channel.members.sum(axis=1)
        width = float(channel.weights @ widths / channel.total)
        holds = float(channel.matrix()[:, 0] @ channel.members[:, 0])
        shown = {
            "keep": holds,
            "retention": float(channel.keep),
            "sets": len(channel.members),
            "values_per_set": width,
        }
        least = float(least_variance(plan.law.values, plan.gamma))
        distance = times_least(answers.total_variance(np.eye(plan.law.values)), least)
        said = f"one of {len(channel.members):,} listed sets is published, of {width:.3g} values on average"
        notes = [f"{said}; it holds the true value in {holds:.1%} of the rows"]
        if made is not None:
            kind = "proved" if made.certified else "among the sets tried"
            notes.append(
                f"for the declared questions the standard errors are at most "
                f"{times_least(made.variance, made.least):.3f} times the least possible; {made.gap:.1%} of variance at "
                f"most is left to gain ({kind}, {made.rounds} rounds)"
            )
        notes.append(f"the standard errors of counts are {distance:.3f} times the least possible (root mean square)")
        if widths.max() == 1:
            notes.append("sets of one value are best here: the release says what uniform's would")
        return protection(profile, plan.rho1) | {
            "sub_tables": [table_report(profile, plan.rho1, plan.gamma, shown)],
            "times_least": distance,
            "workload": None
            if made is None
            else {
                "variance": made.variance,
                "least": made.least,
                "gap": made.gap,
                "certified": made.certified,
                "rounds": made.rounds,
            },
            "expected_error": errors_of(plan.law.tables.standard_errors([counts], plan.law.values), profile),
            "notes": notes,
        }

    def rows_held(self, plan: SubsetResponsePlan) -> int:
        """As planned: gamma is the root."""
        return plan.rows_per_person

    def verify(self, plan: SubsetResponsePlan, published: Published) -> None:
        """The channel holds the stated bound."""
        check_grown(plan, plan.gamma**plan.rows_per_person)


METHOD: Method[SubsetResponse, SubsetResponsePlan] = SubsetResponseMethod()
