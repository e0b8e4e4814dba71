"""distribution-draw: every record draws its published value from the column's overall distribution. A baseline.

Guarantee: none is stated. The published value of a record is independent of its true one; the column's distribution is
published almost exactly, and any link between the column and the others is gone.
Assumes: nothing.
Cost: one pass to count, one to draw.
Error: totals f (1 - f/N) in variance; counts inside a condition are those of independence, however many rows there are.
Does not protect against: what the overall distribution itself reveals.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from ..errors import SpecError
from ..laws.published import one_unit, published_table, silent
from ..model.likelihood import Likelihood
from ..model.private import Batch, Facts, Known, Needs, Profile, Released, Work
from ..model.public import (
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
    value_label,
)
from .contract import Example, Foresight, Method, Planned, Specification
from .shared.readers import Found, ValueChannel, channelled

# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of values drawn from the overall distribution get: nowhere, but for who knows all other records.


NOTHING = ValueChannel(keep=(Fraction(1),), other=(Fraction(1),))  # an output is as likely for every true value
LAST = Found(
    posterior=Fraction(1), why="values are drawn from the true counts: one that is shown and that no other record has"
)


def readers(claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder: every posterior is the prior."""
    return channelled(claim, NOTHING, known, corruption=LAST)


# --- the method -------------------------------------------------------------------------------------------------------


CAVEAT = "baseline: plain counts of values drawn without regard to the record; any link with other columns is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionDraw(Specification):
    """No parameters."""

    method: ClassVar[str] = "distribution-draw"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionDrawPlan:
    """Nothing but the method's name is stated."""


class DistributionDrawMethod(Method[DistributionDraw, DistributionDrawPlan]):
    """Every record draws its published value from the overall distribution."""

    name = "distribution-draw"
    title = "Draw from the distribution"
    trust = Trust.BASELINE
    several_rows = True  # no row of the table is published
    lumpable = True
    answers = "estimate"
    spec = DistributionDraw
    plan_type = DistributionDrawPlan
    unseen = ("anything about the drawn column: nothing is promised",)
    example = Example(spec={})

    def needs(self, spec: DistributionDraw, roles: Roles) -> Needs:
        """The sensitive column; one only."""
        if len(roles.sensitive) > 1:
            raise SpecError(
                f"distribution-draw takes one sensitive column, got {len(roles.sensitive)}; "
                "give the others another role",
                field="sensitive",
            )
        return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))

    def plan(self, spec: DistributionDraw, profile: Profile, rng: np.random.Generator) -> Planned[DistributionDrawPlan]:
        """The cumulative true counts, private."""
        return Planned(public=DistributionDrawPlan(), work=Work(secret=np.cumsum(profile.true_counts())))

    def apply(self, plan: DistributionDrawPlan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Each record publishes the value of a record chosen uniformly from the whole table."""
        chosen = rng.integers(0, int(work.secret[-1]), size=batch.rows)
        return Released(codes=(np.searchsorted(work.secret, chosen, side="right").astype(np.int32),))

    def guarantee(self, plan: DistributionDrawPlan) -> Guarantee:
        """None."""
        return Guarantee(
            model="none",
            parameters={},
            statement="No guarantee is stated: a baseline for comparison.",
            assumptions=(),
            not_covered=("the overall distribution of the column, published almost exactly", "everything else"),
            trust=self.trust,
        )

    def readers(self, plan: DistributionDrawPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """Every posterior is the prior, but for who knows all other records."""
        return readers(claim, known)

    def estimate(self, plan: DistributionDrawPlan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Plain counts: no error is known, because the bias is the link between the columns."""
        value = np.zeros((observed.keys, asked.functionals))
        pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
        for b, H in enumerate(asked.coefficients):
            at = np.flatnonzero(pattern == b)
            first = observed.moments[at][:, asked.products[0, asked.measure]]
            np.add.at(value, key[at], first * H[:, observed.value[at]].toarray().T)
        nothing = np.full(value.shape, np.nan)
        return Estimated(
            value=value,
            variance=nothing,
            low=np.full(value.shape, -np.inf),
            high=np.full(value.shape, np.inf),
            covariance=np.full((observed.keys, len(asked.pairs)), np.nan),
            caveats=(CAVEAT,),
        )

    def report(self, plan: DistributionDrawPlan, work: Work, profile: Profile) -> dict[str, Any]:
        """Noise of the totals; the error of conditioned counts is a bias that no plan can tell."""
        counts = profile.true_counts()
        none: list[float | None] = [None] * len(counts)
        return {
            "expected_error": {
                "values": [value_label(v) for v in profile.domains[0].values],
                "total": np.sqrt(counts * (1 - counts / profile.rows)).tolist(),
                "among_1_percent": none,
                "among_10_percent": none,
            }
        }

    def law(self, plan: DistributionDrawPlan, evidence: Evidence, unit: int) -> Likelihood:
        """What a record shows does not depend on its value."""
        return silent(published_table(evidence, unit, 1))

    def rows_held(self, plan: DistributionDrawPlan) -> int | None:
        """Any number: no row of hers is published."""
        return None

    def verify(self, plan: DistributionDrawPlan, published: Published) -> None:
        """Nothing is promised; the sensitive column must be the one that was drawn."""
        one_unit(published)

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """It has no parameters."""
        return (Candidate(method=self.name, parameters={}),)

    def channel(self, plan: DistributionDrawPlan, work: Work, profile: Profile) -> Floats:
        """Every row is the overall distribution."""
        true_counts = profile.true_counts()
        return np.tile(true_counts / profile.rows, (len(true_counts), 1))

    def foresee(
        self, plan: DistributionDrawPlan, work: Work, profile: Profile, domains: tuple[Domain, ...]
    ) -> Foresight:
        """The mean is that of independence, and from the plan its spread is known too."""
        share = profile.true_counts() / profile.rows

        def answer(observed: Observed, asked: Asked) -> Estimated:
            value, variance = np.zeros((observed.keys, asked.functionals)), np.zeros((observed.keys, asked.functionals))
            pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
            shares = np.bincount(asked.classes[0], weights=share).astype(np.float64)
            for b, H in enumerate(asked.coefficients):
                at = np.flatnonzero(pattern == b)
                mean, square = H @ shares, H.power(2) @ shares
                first = observed.moments[at][:, asked.products[0, asked.measure]]
                second = observed.moments[at][:, asked.products[asked.measure, asked.measure]]
                np.add.at(value, key[at], first * mean)
                np.add.at(variance, key[at], second * (square - mean**2))
            nothing = np.zeros((observed.keys, len(asked.pairs)))
            half = asked.z * np.sqrt(variance)
            return Estimated(value=value, variance=variance, low=value - half, high=value + half, covariance=nothing)

        return Foresight(lump=True, answer=answer)


METHOD: Method[DistributionDraw, DistributionDrawPlan] = DistributionDrawMethod()
