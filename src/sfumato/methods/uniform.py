"""uniform: keep a sensitive value with probability p, else redraw it uniformly from the whole domain.

One sub-table over the declared domain; docs/explanation/uniform.md.

Guarantee: a reader whose prior for a protected value is at most rho1 ends with at most rho2.
Assumes: she looks at one record's published value; records are otherwise unknown to her.
Cost: one pass to count, one to perturb; O(m) memory for m values.
Error: the standard error of a count among n rows is about sqrt(n q) / p, with q = 1 / (m - 1 + gamma).
Does not protect against: priors above rho1; values more frequent than rho1; several releases of one table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..errors import ReleaseError, SpecError, VerificationError
from ..laws import keep_or_redraw
from ..laws.functionals import (
    Cells,
    CodedUnit,
    Functionals,
    IndependentRows,
    KroneckerWeights,
    entries,
    pushed,
    pushed_functionals,
    redraw_weights,
    tensor,
)
from ..laws.published import check_floor, one_unit, perturbed, published_counts
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
    Observed,
    Published,
    ReaderBound,
    Roles,
    Trust,
    value_label,
)
from ..model.ratios import Ratio
from ..stats.gamma import gamma_bound, keep_probabilities, posterior
from .contract import Example, Foresight, Method, Planned, Specification
from .shared.least_error import times_least
from .shared.options import RHO1, RHO2
from .shared.readers import ValueChannel, channelled
from .shared.restricted import (
    BAD_RHOS,
    check_protectable,
    expected_error,
    parse_rhos,
    protection,
    restricted_guarantee,
    row_gamma,
)
from .shared.set_lists import least_variance, total_variance

# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of a uniform release get: one value channel over the whole domain.


def readers(p: Fraction, q: Fraction, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder; a value shows unchanged with chance p + q."""
    return channelled(claim, ValueChannel(keep=(p + q,), other=(q,)), known)


# --- checks of a release ----------------------------------------------------------------------------------------------
# Whether a uniform release can be what it says: domain, exact guarantee, and counts that the channel can make.


def check_release(plan: UniformPlan, published: Published) -> None:
    """Nothing; VerificationError at the first thing that the stated channel does not allow."""
    one_unit(published)
    m = len(published.evidence.domains[0])
    if plan.values != m:
        raise VerificationError("the channel has another number of values than the published domain")
    # gamma = (p + q) / q with p + m q = 1, from the definition
    q = Fraction(1) / (m - 1 + plan.gamma)
    p = 1 - m * q
    rise = plan.rho1 * (p + q) / (plan.rho1 * (p + q) + (1 - plan.rho1) * q)
    if p <= 0 or rise > plan.rho2:
        raise VerificationError("the stated channel lifts a prior of rho1 above rho2")
    check_floor(published_counts(published), float(q), "the sensitive column")


# --- the method -------------------------------------------------------------------------------------------------------


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
    values: int  # size of the domain
    gamma: Fraction  # rounded down; the channel runs with it
    rows_per_person: RowsPerPerson = 1  # rows that are held together

    def __post_init__(self) -> None:
        if not 1 < self.gamma**self.rows_per_person <= gamma_bound(self.rho1, self.rho2):
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
    def tables(self) -> keep_or_redraw.SubTables:
        return keep_or_redraw.SubTables(
            start=np.array([0, self.values]),
            values=np.arange(self.values, dtype=np.int32),
            p=np.array([float(self.p)]),
            q=np.array([float(self.q)]),
        )


def _tables(plan: UniformPlan, evidence: Evidence) -> keep_or_redraw.SubTables:
    """The one sub-table; ReleaseError where the release states another domain than it lists."""
    if plan.values != len(evidence.domains[0]):
        raise ReleaseError(f"release.json states {plan.values} values and lists {len(evidence.domains[0])}")
    return plan.tables


class Uniform(Method[UniformPerturbation, UniformPlan]):
    """Keep a value with probability p, else redraw it uniformly."""

    name = "uniform"
    title = "Uniform perturbation"
    trust = Trust.PROVED
    several_rows = True
    independent_rows = True
    lumpable = True
    formula = "w = (h - q sum h) / p; Var = n b(1-b)/p^2 + f (1-p-2b)/p, f cut to [0, n]; counts: inverted test"
    answers = "estimate, interval"
    spec = UniformPerturbation
    plan_type = UniformPlan
    unseen = ("true values put back, where the noise could have made such counts by chance",)
    example = Example(
        spec={"rho1": "1/5", "rho2": "1/2"},
        options={"rho1": "1/5", "rho2": "1/3"},
        bad=BAD_RHOS,
    )

    def needs(self, spec: UniformPerturbation, roles: Roles) -> Needs:
        """The sensitive columns, taken together as one value."""
        return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))

    def plan(self, spec: UniformPerturbation, profile: Profile, rng: np.random.Generator) -> Planned[UniformPlan]:
        """One channel over the domain; the data only decide whether there is anything to protect."""
        rho1, rho2 = parse_rhos(spec.rho1, spec.rho2)
        check_protectable(profile.true_counts(), rho1)
        gamma = row_gamma(rho1, rho2, profile.rows_per_person)
        public = UniformPlan(
            rho1=rho1,
            rho2=rho2,
            values=len(profile.domains[0]),
            gamma=gamma,
            rows_per_person=profile.rows_per_person,
        )
        return Planned(public=public, work=Work())

    def apply(self, plan: UniformPlan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Every value kept with probability p, else redrawn."""
        table = plan.tables
        return Released(codes=(keep_or_redraw.perturb(batch.codes[0], table.domain(0), float(plan.p), rng),))

    def guarantee(self, plan: UniformPlan) -> Guarantee:
        """Restricted (rho1, rho2), computed from the channel that runs."""
        reached = posterior(plan.rho1, ((plan.p + plan.q) / plan.q) ** plan.rows_per_person)
        return restricted_guarantee(plan.rho1, plan.rho2, reached, self.trust, rows=plan.rows_per_person)

    def claim(self, plan: UniformPlan) -> Claim:
        """rho1 and rho2 as planned."""
        return Claim(rho1=plan.rho1, rho2=plan.rho2)

    def readers(self, plan: UniformPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """One channel over the whole domain."""
        return readers(plan.p, plan.q, claim.or_own(self.claim(plan).rho1, self.claim(plan).rho2), known)

    def estimate(self, plan: UniformPlan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        return keep_or_redraw.estimate(_tables(plan, evidence), evidence, observed, asked)

    def functionals(
        self, plan: UniformPlan, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]
    ) -> Functionals:
        """Rows are independent, one channel for all."""
        (unit,) = units
        B = redraw_weights(float(plan.p), float(plan.q), np.bincount(unit.classes))
        return IndependentRows(cells, KroneckerWeights(axes=(B,), shape=(len(B),)))

    def report(self, plan: UniformPlan, work: Work, profile: Profile) -> dict[str, Any]:
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
        one, least = (find(plan.values, plan.gamma) for find in (partial(total_variance, width=1), least_variance))
        distance = times_least(float(one), float(least))
        return protection(profile, plan.rho1) | {
            "sub_tables": [table],
            "times_least": distance,
            "expected_error": expected_error(plan.tables, counts, profile),
            "notes": [f"the standard errors of counts are {distance:.3f} times the least possible (root mean square)"],
        }

    def law(self, plan: UniformPlan, evidence: Evidence, unit: int) -> Likelihood:
        """One table."""
        return perturbed(_tables(plan, evidence), evidence)

    def verify(self, plan: UniformPlan, published: Published) -> None:
        """The channel runs over the published domain."""
        check_release(plan, published)

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Priors up to rho1 end at tau."""
        return (Candidate(method=self.name, parameters={"rho1": str(rho1), "rho2": str(tau)}),)

    def channel(self, plan: UniformPlan, work: Work, profile: Profile) -> Floats:
        """p on the diagonal, q everywhere."""
        return float(plan.p) * np.eye(plan.values) + float(plan.q)

    def rows_held(self, plan: UniformPlan) -> int:
        """As planned: gamma is the root."""
        return plan.rows_per_person

    def retention(self, plan: UniformPlan) -> float:
        """p."""
        return float(plan.p)

    def foresee(self, plan: UniformPlan, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """Expected counts: p of a class plus its share of everything redrawn."""
        true_counts = profile.true_counts().astype(float)
        p, q = float(plan.p), float(plan.q)
        expected = p * true_counts + q * true_counts.sum()
        codes = np.arange(len(true_counts), dtype=np.int32)

        def push(observed: Observed, asked: Asked) -> Observed:
            size = np.bincount(asked.classes[0])
            seen = tensor(observed, len(size))
            return entries(observed, p * seen + q * seen.sum(axis=2, keepdims=True) * size)

        def totals(_: tuple[int, ...]) -> tuple[Integers, Codes, Floats]:
            return np.zeros(len(codes), dtype=np.int64), codes[:, None], expected

        answer = pushed(push, totals, partial(self.estimate, plan), rows=profile.rows, domains=domains)
        sums = pushed_functionals(push, totals, partial(self.functionals, plan), rows=profile.rows, domains=domains)
        return Foresight(lump=True, answer=answer, functionals=sums)


METHOD: Method[UniformPerturbation, UniformPlan] = Uniform()
