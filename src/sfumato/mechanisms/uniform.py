"""uniform: keep a sensitive value with probability p, else redraw it uniformly from the whole domain.

One sub-table over the declared domain, pp.md sections 1, 2, 4 to 8.

Guarantee: a reader whose prior for a protected value is at most rho1 ends with at most rho2.
Assumes: she looks at one record's published value; records are otherwise unknown to her.
Cost: one pass to count, one to perturb; O(m) memory for m values.
Error: the standard error of a count among n rows is about sqrt(n q) / p, with q = 1 / (m - 1 + gamma).
Does not protect against: priors above rho1; values more frequent than rho1; several releases of one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ..errors import PlanError, SpecError
from ..model.numbers import Ratio
from ..model.private import Batch, Needs, Profile, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Guarantee, Observed, Roles, Trust
from ..stats import perturbation
from ..stats.gamma import floor_significant, gamma_bound, keep_probabilities, posterior
from .base import Planned
from .restricted import check_protectable, expected_error, parse_rhos, protection, restricted_guarantee, value_label

NAME = "uniform"
TITLE = "Uniform perturbation"
TRUST = Trust.PROVED
LUMPABLE = True
PART: str | None = None
WITHHELD = False
FORMULA = "w = (h - q sum h) / p; Var = n b(1-b)/p^2 + f (1-p-2b)/p, f cut to [0, n]; score set below 1000 rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformPerturbation:
    """Restrict the posterior of every protected value to rho2 for priors up to rho1."""

    rho1: Ratio
    rho2: Ratio

    def __post_init__(self) -> None:
        parse_rhos(self.rho1, self.rho2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What the release states."""

    rho1: Fraction
    rho2: Fraction
    values: int  # size of the domain
    gamma: Fraction  # rounded down; the channel runs with it

    def __post_init__(self) -> None:
        if not 1 < self.gamma <= gamma_bound(self.rho1, self.rho2):
            raise SpecError(f"gamma = {self.gamma} does not belong to rho1 and rho2", field="gamma")
        if self.values < 2:
            raise SpecError(f"a channel needs two values or more, got {self.values}", field="values")

    @property
    def p(self) -> Fraction:
        return keep_probabilities(self.gamma, self.values)[0]

    @property
    def q(self) -> Fraction:
        return keep_probabilities(self.gamma, self.values)[1]

    @property
    def tables(self) -> perturbation.SubTables:
        return perturbation.SubTables(
            start=np.array([0, self.values]),
            values=np.arange(self.values, dtype=np.int32),
            p=np.array([float(self.p)]),
            q=np.array([float(self.q)]),
        )


Spec = UniformPerturbation


def needs(spec: UniformPerturbation, roles: Roles) -> Needs:
    """The sensitive columns, taken together as one value."""
    return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))


def plan(spec: UniformPerturbation, profile: Profile, rng: np.random.Generator) -> Planned:
    """One channel over the domain; the data only decide whether there is anything to protect."""
    rho1, rho2 = parse_rhos(spec.rho1, spec.rho2)
    check_protectable(profile.true_counts(), rho1)
    gamma = floor_significant(gamma_bound(rho1, rho2), 3)
    if gamma <= 1:
        raise PlanError(f"rho1 = {rho1} and rho2 = {rho2} are too close: gamma rounds down to {gamma}")
    return Planned(public=Plan(rho1=rho1, rho2=rho2, values=len(profile.domains[0]), gamma=gamma), work=Work())


def apply(plan: Plan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
    """Every value kept with probability p, else redrawn."""
    table = plan.tables
    return Released(codes=(perturbation.perturb(batch.codes[0], table.domain(0), float(plan.p), rng),))


def released_domains(plan: Plan, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
    return domains


def guarantee(plan: Plan) -> Guarantee:
    """Restricted (rho1, rho2), computed from the channel that runs."""
    reached = posterior(plan.rho1, (plan.p + plan.q) / plan.q)
    return restricted_guarantee(plan.rho1, plan.rho2, reached, TRUST)


def estimate(plan: Plan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
    return perturbation.estimate(plan.tables, evidence, observed, asked)


def report(plan: Plan, work: Work, profile: Profile) -> dict[str, Any]:
    """The one sub-table, which values are not protected, and the error to expect."""
    counts = profile.true_counts()
    table = {
        "id": 0,
        "size": profile.rows,
        "domain": [value_label(v) for v in profile.domains[0].values],
        "counts": counts.tolist(),
        "rho1": str(plan.rho1),
        "gamma": float(plan.gamma),
        "keep": float(plan.p + plan.q),
        "retention": float(plan.p),
    }
    return protection(profile, plan.rho1) | {
        "sub_tables": [table],
        "expected_error": expected_error(plan.tables, counts, profile),
    }
