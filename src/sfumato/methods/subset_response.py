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
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from ..errors import PlanError, ReleaseError, SpecError, VerificationError
from ..laws import set_lists
from ..laws.functionals import Cells, CodedUnit, Functionals, entries, pushed, pushed_functionals, tensor
from ..laws.published import check_drawn_sets, listed_sets, one_unit, published_sets
from ..laws.set_channel import SetChannel
from ..laws.set_tables import PlannedList, SetTables
from ..model.likelihood import Likelihood
from ..model.people import RowsPerPerson
from ..model.private import Batch, Facts, Known, Needs, Profile, Released, Work
from ..model.public import (
    Asked,
    Candidate,
    Claim,
    Codes,
    Domain,
    Estimated,
    Evidence,
    Floats,
    Guarantee,
    Integers,
    Listed,
    Observed,
    Published,
    ReaderBound,
    Roles,
    SetWeights,
    Trust,
    value_label,
)
from ..model.ratios import Ratio
from ..stats.gamma import gamma_bound, posterior
from .contract import Example, Foresight, Method, Planned, Specification
from .shared.least_error import times_least
from .shared.options import BINS_FIELD, RHO1, RHO2, bin_order, parse_bins
from .shared.readers import channelled_sets
from .shared.restricted import (
    BAD_RHOS,
    check_protectable,
    errors_of,
    parse_rhos,
    protection,
    restricted_guarantee,
    row_gamma,
)
from .shared.set_lists import least_variance, list_for
from .shared.workload_texts import WORKLOAD_FIELD, design, parse_workload, planned_list

# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of a subset-response release get: one set channel over the whole domain.


def readers(channel: SetChannel, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder."""
    return channelled_sets(claim, channel, known)


# --- checks of a release ----------------------------------------------------------------------------------------------
# Whether a subset-response release can be what it says: domain, exact guarantee, and counts that the list can make.


def check_release(plan: SubsetResponsePlan, published: Published) -> None:
    """Nothing; VerificationError at the first thing that the stated channel does not allow."""
    one_unit(published)
    if plan.values != len(published.evidence.domains[0]):
        raise VerificationError("the channel has another number of values than the published domain")
    grown = plan.gamma**plan.rows_per_person
    if plan.rho1 * grown / (plan.rho1 * grown + 1 - plan.rho1) > plan.rho2:
        raise VerificationError("the stated channel lifts a prior of rho1 above rho2")
    try:
        plan.tables.answers(0)
    except SpecError as error:
        raise VerificationError(f"the list of sets cannot be counted from: {error}") from None
    members, weights = plan.channel.members, plan.channel.weights
    check_drawn_sets(published_sets(published, len(members)), members, weights, plan.gamma, "the sensitive column")


# --- the method -------------------------------------------------------------------------------------------------------


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
    gamma: Fraction  # rounded down; the channel that runs reaches a little less
    values: int  # size of the domain
    listed: PlannedList
    rows_per_person: RowsPerPerson = 1  # rows that are held together

    def __post_init__(self) -> None:
        if not 1 < self.gamma**self.rows_per_person <= gamma_bound(self.rho1, self.rho2):
            raise SpecError(f"gamma = {self.gamma} does not belong to rho1 and rho2", field="gamma")
        if not 2 <= self.values <= MOST_VALUES:
            raise SpecError(f"a set channel needs 2 to {MOST_VALUES} values, got {self.values}", field="values")
        _ = self.tables  # refuses a list that is none

    @property
    def tables(self) -> SetTables:
        """The one channel, over the whole domain."""
        return _tables(self.values, self.gamma, self.listed)

    @property
    def channel(self) -> SetChannel:
        """The channel that runs."""
        return self.tables.channels[0]


@lru_cache(maxsize=4)  # every batch and every question asks for them
def _tables(values: int, gamma: Fraction, listed: PlannedList) -> SetTables:
    return SetTables([np.arange(values, dtype=np.int32)], [listed.channel(values, gamma)])


class SubsetResponseMethod(Method[SubsetResponse, SubsetResponsePlan]):
    """A set from a published list in place of the value."""

    name = "subset-response"
    title = "Subset response"
    trust = Trust.PROVED
    several_rows = True
    formula = (
        "w(Z) = Q_Z M^-1 h / d_Z, in sets.parquet for single values; Var = sum of w_v(Z), v = Var(w_h | x), "
        "at least n min v; counts: inverted test"
    )
    answers = "estimate, interval"
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

    def needs(self, spec: SubsetResponse, roles: Roles) -> Needs:
        """The sensitive columns, taken together as one value."""
        return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))

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
        public = SubsetResponsePlan(
            rho1=rho1,
            rho2=rho2,
            gamma=gamma,
            values=size,
            listed=listed,
            rows_per_person=profile.rows_per_person,
        )
        return Planned(public=public, work=Work(secret=made))

    def edges(self, spec: SubsetResponse) -> Mapping[str, Sequence[float]]:
        """Bins as given."""
        return parse_bins(spec.bins)

    def questions(self, spec: SubsetResponse) -> str | None:
        """The workload, where it is SQL."""
        workload = parse_workload(spec.workload)
        return None if workload is None else workload.sql

    def apply(self, plan: SubsetResponsePlan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """A set for every row."""
        return Released(codes=(plan.tables.draw(batch.codes[0], None, rng),))

    def listed(self, plan: SubsetResponsePlan, domains: tuple[Domain, ...]) -> tuple[Listed | None, ...]:
        """The published sets."""
        if len(domains) != 1 or len(domains[0]) != plan.values:
            raise ReleaseError("release.json states a list of sets that does not fit its columns")
        return (plan.tables.listed(domains[0].columns),)

    def weights(self, plan: SubsetResponsePlan, domains: tuple[Domain, ...]) -> SetWeights:
        """The weights of single values."""
        return plan.tables.weights()

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

    def claim(self, plan: SubsetResponsePlan) -> Claim:
        """rho1 and rho2 as planned."""
        return Claim(rho1=plan.rho1, rho2=plan.rho2)

    def readers(self, plan: SubsetResponsePlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """One set channel over the whole domain."""
        return readers(plan.channel, claim.or_own(plan.rho1, plan.rho2), known)

    def rows_held(self, plan: SubsetResponsePlan) -> int:
        """As planned: gamma is the root."""
        return plan.rows_per_person

    def law(self, plan: SubsetResponsePlan, evidence: Evidence, unit: int) -> Likelihood:
        """One table."""
        return listed_sets(plan.tables, evidence)

    def functionals(
        self, plan: SubsetResponsePlan, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]
    ) -> Functionals:
        """Rows are independent, one list for all."""
        return set_lists.set_functionals(plan.tables, evidence, cells, units)

    def estimate(self, plan: SubsetResponsePlan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """By the weights of the list."""
        return set_lists.estimate(plan.tables, evidence, observed, asked)

    def report(self, plan: SubsetResponsePlan, work: Work, profile: Profile) -> dict[str, Any]:
        """The channel, which values are not protected, the error to expect, and how far from the best it is."""
        counts, channel, made = profile.true_counts(), plan.channel, work.secret
        answers = plan.tables.answers(0)
        widths = channel.members.sum(axis=1)
        width = float(channel.weights @ widths / channel.total)
        holds = float(channel.matrix()[:, 0] @ channel.members[:, 0])
        table = {
            "id": 0,
            "size": profile.rows,
            "domain": [value_label(v) for v in profile.domains[0].values],
            "counts": counts.tolist(),
            "rho1": str(plan.rho1),
            "gamma": float(plan.gamma),
            "keep": holds,
            "retention": float(channel.keep),
            "sets": len(channel.members),
            "values_per_set": width,
        }
        least = float(least_variance(plan.values, plan.gamma))
        distance = times_least(answers.total_variance(np.eye(plan.values)), least)
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
            "sub_tables": [table],
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
            "expected_error": errors_of(plan.tables.standard_errors([counts], plan.values), profile),
            "notes": notes,
        }

    def verify(self, plan: SubsetResponsePlan, published: Published) -> None:
        """The channel runs over the published domain, can be answered from, and holds the stated bound."""
        check_release(plan, published)

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Priors up to rho1 end at tau."""
        return (Candidate(method=self.name, parameters={"rho1": str(rho1), "rho2": str(tau)}),)

    def channel(self, plan: SubsetResponsePlan, work: Work, profile: Profile) -> Floats:
        """Pr[Z | x], a row for every value."""
        return plan.channel.matrix().T

    def foresee(self, plan: SubsetResponsePlan, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """Expected counts of every set."""
        Q, true_counts = plan.channel.matrix(), profile.true_counts().astype(float)
        codes = np.arange(len(Q), dtype=np.int32)

        def push(observed: Observed, _: Asked) -> Observed:
            return entries(observed, tensor(observed, plan.values) @ Q.T)

        def totals(_: tuple[int, ...]) -> tuple[Integers, Codes, Floats]:
            return np.zeros(len(codes), dtype=np.int64), codes[:, None], Q @ true_counts

        answer = pushed(push, totals, partial(self.estimate, plan), rows=profile.rows, domains=domains)
        sums = pushed_functionals(push, totals, partial(self.functionals, plan), rows=profile.rows, domains=domains)
        return Foresight(lump=False, answer=answer, functionals=sums)


METHOD: Method[SubsetResponse, SubsetResponsePlan] = SubsetResponseMethod()
