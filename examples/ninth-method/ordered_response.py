"""ordered-response: an ordered column keeps its value or steps away from it, near values more often than far ones.

The published value is the true one plus a step drawn from a two-sided geometric law, held at the ends of the domain.
With m values, step = odds^(1 / (m - 1)), a = 1 / step and x the true value,

    Pr(y | x) = a^|x - y| (1 - a) / (1 + a)   inside,      a^|x - y| / (1 + a)   for the first and the last value.

Guarantee: a published value makes no true value more than `odds` times as likely against another; for two values that
stand d places apart, step^d times.
Assumes: the reader looks at one record's published value; the domain and its order are public.
Cost: one pass to count the domain, one to draw; O(m^2) memory for m values.
Error: counts of single values cost more than under equal chances for all others; sums over an ordered column less.
Does not protect against: a reader to whom the difference between neighbours is the secret, where step is large.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.errors import PlanError, SpecError, VerificationError
from sfumato.laws.channel import MOST_VALUES, Channel
from sfumato.methods.contract import Example, Method, Planned, Specification
from sfumato.methods.shared.readers import Found, amplified, independent, linked
from sfumato.methods.shared.restricted import told
from sfumato.model.names import Ratio, exact
from sfumato.model.private import Facts, Known, Needs, Profile, Work
from sfumato.model.public import (
    Candidate,
    Claim,
    Floats,
    Guarantee,
    Published,
    ReaderBound,
    Roles,
    Trust,
    value_label,
)
from sfumato.stats.gamma import gamma_bound

SCALE = 10**6  # steps are rounded down to six decimals, so that the channel has exact fractions


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedResponse(Specification):
    """`odds`: how many times as likely a value may become against any other one."""

    method: ClassVar[str] = "ordered-response"

    odds: Ratio = field(metadata=told("how many times as likely a value may become against another", "20"))

    def __post_init__(self) -> None:
        if exact(self.odds, "odds") <= 1:
            raise SpecError(f"odds must be above 1, got {self.odds}; 2 hides much, 50 hides little", field="odds")


def chance(step: Fraction, values: int, x: int, y: int) -> Fraction:
    """Pr(y | x), exactly."""
    a, last = 1 / step, values - 1
    return a ** abs(x - y) / (1 + a) * (1 if y in {0, last} else 1 - a)


def chances(step: Fraction, values: int) -> Floats:
    """Row x, column y: Pr(y | x)."""
    a, place = float(1 / step), np.arange(values)
    inside = np.where((place == 0) | (place == values - 1), 1.0, 1.0 - a)
    return np.asarray(a ** np.abs(place[:, None] - place) / (1.0 + a) * inside)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedResponsePlan:
    """What the release states: the step, and the law that its rows follow, which is the channel of that step."""

    step: Fraction
    law: Channel

    def __post_init__(self) -> None:
        if self.step <= 1:
            raise SpecError("a channel needs a step above 1", field="step")

    @property
    def values(self) -> int:
        """How many values the domain has."""
        return len(self.law.chances)

    @property
    def amplification(self) -> Fraction:
        """The largest Pr(y | x) / Pr(y | x'): both ends against each other, seen from an end."""
        last = self.values - 1
        return chance(self.step, self.values, last, last) / chance(self.step, self.values, 0, last)


class OrderedResponseMethod(Method[OrderedResponse, OrderedResponsePlan]):
    """Near values more often than far ones."""

    name = "ordered-response"
    title = "Ordered response"
    trust = Trust.PROVED
    answers = "estimate, interval"
    spec = OrderedResponse
    plan_type = OrderedResponsePlan
    example = Example(
        spec={"odds": 20},
        options={"odds": "20"},
        bad=({"odds": 1}, {"odds": 0}, {"odds": -2}, {"odds": "1/0"}, {"odds": "long"}, {"odds": float("inf")}),
    )

    def needs(self, spec: OrderedResponse, roles: Roles) -> Needs:
        """The sensitive column; one only."""
        if len(roles.sensitive) > 1:
            raise SpecError(
                "ordered-response takes one sensitive column; give the others another role", field="sensitive"
            )
        return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))

    def plan(self, spec: OrderedResponse, profile: Profile, rng: np.random.Generator) -> Planned[OrderedResponsePlan]:
        """The channel over the domain as it is sorted; counts are not looked at."""
        values, odds = len(profile.domains[0]), exact(spec.odds, "odds")
        if not 2 <= values <= MOST_VALUES:
            raise PlanError(f"ordered-response takes 2 to {MOST_VALUES} values, the sensitive column has {values}")
        step = Fraction(int(float(odds) ** (1 / (values - 1)) * SCALE), SCALE)
        while step ** (values - 1) > odds:  # the root was rounded to a double
            step -= Fraction(1, SCALE)
        if step <= 1:
            raise PlanError(f"odds of {odds} are too small for {values} values; no step above 1 is left")
        return Planned(public=OrderedResponsePlan(step=step, law=Channel.of(chances(step, values))), work=Work())

    def guarantee(self, plan: OrderedResponsePlan) -> Guarantee:
        """The largest ratio in the channel that runs."""
        return Guarantee(
            model="bounded odds",
            parameters={"step": str(plan.step), "amplification": _round_up(plan.amplification)},
            statement=(
                f"A record's published value makes no true value more than {_round_up(plan.amplification):g} times as "
                f"likely against another, and none more than {float(plan.step):g} times against the next in the order."
            ),
            assumptions=("the domain and its order are public knowledge", "the table is published once"),
            not_covered=("the histogram of the sensitive column", "columns that are published as they are"),
            trust=self.trust,
        )

    def readers(self, plan: OrderedResponsePlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """Every record is randomised by itself: what the channel's largest ratio allows, and this table's figures."""
        gamma = plan.amplification
        bound = None if claim.rho1 is None else amplified(claim.rho1, gamma)
        mine = Found(posterior=bound, why="odds move by at most the largest ratio of the channel")
        if known is not None:
            mine = Found(posterior=_largest(plan, known, cells=False), why="prior: the true histogram")
        prior = "prior: the share among the rows with the same quasi-identifiers"
        linking = linked(known, prior, lambda k: _largest(plan, k, cells=True))
        return independent(claim, gamma, histogram=mine, linking=linking)

    def verify(self, plan: OrderedResponsePlan, published: Published) -> None:
        """The channel that the law states is the one of the step."""
        if not np.allclose(plan.law.table, chances(plan.step, plan.values), rtol=1e-12):
            raise VerificationError("the stated channel is not the one of the stated step")

    def report(self, plan: OrderedResponsePlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        """The chance to be kept, and the error of every value's total."""
        true_counts, channel = profile.true_counts().astype(float), plan.law.table
        w = np.linalg.inv(channel)  # column v: weights of "value = v"
        se = np.sqrt(np.maximum((true_counts @ channel) @ w**2 - true_counts, 0.0))
        return {
            "keep": np.diag(channel).tolist(),
            "expected_error": {
                "values": [value_label(v) for v in profile.domains[0].values],
                "total": se.tolist(),
                "among_1_percent": (se * 0.1).tolist(),
                "among_10_percent": (se * np.sqrt(0.1)).tolist(),
            },
        }

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """The odds that take a prior of rho1 to tau."""
        return (Candidate(method=self.name, parameters={"odds": str(gamma_bound(rho1, tau))}),)


def _largest(plan: OrderedResponsePlan, known: Known, *, cells: bool) -> float:
    """The largest posterior of a looked-at value over all outputs: f_x C[x, y] / sum of f C[., y], in every cell."""
    joint, C = known.joint, plan.law.table
    cell = joint.cell if cells else np.zeros(len(joint.true_counts), dtype=np.int64)
    table = np.zeros((int(cell.max(initial=0)) + 1, plan.values))
    np.add.at(table, (cell, joint.codes[joint.value, 0]), joint.true_counts)
    looked = np.zeros(plan.values, dtype=bool)
    looked[joint.codes[known.looked, 0]] = True
    largest = 0.0
    for y in range(plan.values):
        share = table * C[:, y] / np.maximum(table @ C[:, y], 1e-300)[:, None]
        largest = max(largest, float(share[:, looked].max(initial=0.0)))
    return largest


def _round_up(x: Fraction, digits: int = 6) -> float:
    """Losses round up."""
    scale = 10**digits
    return float(-((-x.numerator * scale) // x.denominator) / scale)


METHOD: Method[OrderedResponse, OrderedResponsePlan] = OrderedResponseMethod()
