"""uniform: keep a sensitive value with probability p, else redraw it uniformly from the whole domain.

One sub-table over the declared domain; docs/explanation/uniform.md.

Guarantee: a reader whose prior for a protected value is at most rho1 ends with at most rho2.
Assumes: she looks at one record's published value; records are otherwise unknown to her.
Cost: one pass to count, one to perturb; O(m) memory for m values.
Error: the standard error of a count among n rows is about sqrt(n q) / p, with q = 1 / (m - 1 + gamma).
Does not protect against: priors above rho1; values more frequent than rho1; several releases of one table.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..errors import SpecError
from ..laws.keep_or_redraw import KeepOrRedraw, standard_errors
from ..model.names import Ratio
from ..model.private import Known, Profile, Work
from ..model.public import Claim, Guarantee, Published, ReaderBound, RowsPerPerson
from ..stats.gamma import gamma_bound, posterior
from .contract import Example, Method, Planned, Specification
from .shared.readers import ValueChannel, channelled
from .shared.restricted import (
    BAD_RHOS,
    RHO1,
    RHO2,
    RestrictedMethod,
    check_grown,
    check_protectable,
    errors_of,
    parse_rhos,
    protection,
    restricted_guarantee,
    row_gamma,
    table_report,
)
from .shared.set_lists import least_variance, times_least, total_variance


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformPerturbation(Specification):
    """Restrict the posterior of every protected value to rho2 for priors up to rho1."""

    method: ClassVar[str] = "uniform"

    rho1: Ratio = field(metadata=RHO1)
    rho2: Ratio = field(metadata=RHO2)

    def __post_init__(self) -> None:
        parse_rhos(self.rho1, self.rho2)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformPlan:
    """What the release states."""

    rho1: Fraction
    rho2: Fraction
    law: KeepOrRedraw  # one table
    rows_per_person: RowsPerPerson = 1  # rows that are held together

    def __post_init__(self) -> None:
        if self.law.domains is not None or self.law.gammas[0] ** self.rows_per_person > gamma_bound(
            self.rho1, self.rho2
        ):
            raise SpecError(f"gamma = {self.law.gammas[0]} does not belong to rho1 and rho2", field="gammas")

    @property
    def gamma(self) -> Fraction:
        """How far the channel that runs moves odds."""
        return self.law.gammas[0]


class Uniform(RestrictedMethod[UniformPerturbation, UniformPlan]):
    """Keep a value with probability p, else redraw it uniformly."""

    name = "uniform"
    title = "Uniform perturbation"
    several_rows = True
    spec = UniformPerturbation
    plan_type = UniformPlan
    unseen = ("true values put back, where the noise could have made such counts by chance",)
    example = Example(
        spec={"rho1": "1/5", "rho2": "1/2"},
        options={"rho1": "1/5", "rho2": "1/3"},
        bad=BAD_RHOS,
    )

    def plan(self, spec: UniformPerturbation, profile: Profile, rng: np.random.Generator) -> Planned[UniformPlan]:
        """One channel over the domain; the data only decide whether there is anything to protect."""
        rho1, rho2 = parse_rhos(spec.rho1, spec.rho2)
        check_protectable(profile.true_counts(), rho1)
        gamma, rows = row_gamma(rho1, rho2, profile.rows_per_person), profile.rows_per_person
        law = KeepOrRedraw(values=len(profile.domains[0]), gammas=(gamma,))
        return Planned(public=UniformPlan(rho1=rho1, rho2=rho2, law=law, rows_per_person=rows), work=Work())

    def guarantee(self, plan: UniformPlan) -> Guarantee:
        """Restricted (rho1, rho2), computed from the channel that runs."""
        ((p, q),) = plan.law.channels
        reached = posterior(plan.rho1, ((p + q) / q) ** plan.rows_per_person)
        return restricted_guarantee(plan.rho1, plan.rho2, reached, self.trust, rows=plan.rows_per_person)

    def readers(self, plan: UniformPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """One channel over the whole domain; a value shows unchanged with chance p + q."""
        ((p, q),) = plan.law.channels
        return channelled(claim.or_own(plan.rho1, plan.rho2), ValueChannel(keep=(p + q,), other=(q,)), known)

    def report(self, plan: UniformPlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        """The one sub-table, which values are not protected, and the error to expect."""
        counts, values, gamma, ((p, q),) = profile.true_counts(), plan.law.values, plan.gamma, plan.law.channels
        table = table_report(profile, plan.rho1, gamma, {"keep": float(p + q), "retention": float(p)})
        one, least = (find(values, gamma) for find in (partial(total_variance, width=1), least_variance))
        distance = times_least(float(one), float(least))
        return protection(profile, plan.rho1) | {
            "sub_tables": [table],
            "times_least": distance,
            "expected_error": errors_of(standard_errors(plan.law.tables, counts, values), profile),
            "notes": [f"the standard errors of counts are {distance:.3f} times the least possible (root mean square)"],
        }

    def rows_held(self, plan: UniformPlan) -> int:
        """As planned: gamma is the root."""
        return plan.rows_per_person

    def verify(self, plan: UniformPlan, published: Published) -> None:
        """The channel holds the stated bound."""
        check_grown(plan, plan.gamma**plan.rows_per_person)


METHOD: Method[UniformPerturbation, UniformPlan] = Uniform()
