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
from ..laws.channel import OverallDraw
from ..model.private import Facts, Known, Needs, Profile, Work
from ..model.public import Candidate, Claim, Guarantee, ReaderBound, Roles, Trust, value_label
from .contract import Example, Method, Planned, Specification
from .shared.readers import Found, ValueChannel, channelled

NOTHING = ValueChannel(keep=(Fraction(1),), other=(Fraction(1),))  # an output is as likely for every true value
LAST = Found(
    posterior=Fraction(1), why="values are drawn from the true counts: one that is shown and that no other record has"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionDraw(Specification):
    """No parameters."""

    method: ClassVar[str] = "distribution-draw"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionDrawPlan:
    """Nothing but the law is stated."""

    law: OverallDraw


class DistributionDrawMethod(Method[DistributionDraw, DistributionDrawPlan]):
    """Every record draws its published value from the overall distribution."""

    name = "distribution-draw"
    title = "Draw from the distribution"
    trust = Trust.BASELINE
    several_rows = True  # no row of the table is published
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
        work = Work(secret=np.cumsum(profile.true_counts()))
        return Planned(public=DistributionDrawPlan(law=OverallDraw()), work=work)

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
        return channelled(claim, NOTHING, known, corruption=LAST)

    def report(self, plan: DistributionDrawPlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
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

    def rows_held(self, plan: DistributionDrawPlan) -> int | None:
        """Any number: no row of hers is published."""
        return None

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """It has no parameters."""
        return (Candidate(method=self.name, parameters={}),)


METHOD: Method[DistributionDraw, DistributionDrawPlan] = DistributionDrawMethod()
