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
from typing import Any

import numpy as np

from ..errors import SpecError
from ..model.private import Batch, Needs, Profile, Released, Work
from ..model.public import Asked, Domain, Estimated, Evidence, Guarantee, Observed, Roles, Trust
from .base import Planned
from .restricted import value_label

NAME = "distribution-draw"
TITLE = "Draw from the distribution"
TRUST = Trust.BASELINE
LUMPABLE = True
PART: str | None = None
WITHHELD = False
CAVEAT = "baseline: plain counts of values drawn without regard to the record; any link with other columns is gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionDraw:
    """No parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Nothing but the method's name is stated."""


Spec = DistributionDraw


def needs(spec: DistributionDraw, roles: Roles) -> Needs:
    """The sensitive column; one only."""
    if len(roles.sensitive) > 1:
        raise SpecError(
            f"distribution-draw takes one sensitive column, got {len(roles.sensitive)}; give the others another role",
            field="sensitive",
        )
    return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))


def plan(spec: DistributionDraw, profile: Profile, rng: np.random.Generator) -> Planned:
    """The cumulative true counts, private."""
    return Planned(public=Plan(), work=Work(secret=np.cumsum(profile.true_counts())))


def apply(plan: Plan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
    """Each record publishes the value of a record chosen uniformly from the whole table."""
    chosen = rng.integers(0, int(work.secret[-1]), size=batch.rows)
    return Released(codes=(np.searchsorted(work.secret, chosen, side="right").astype(np.int32),))


def released_domains(plan: Plan, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
    """Values leave as values of the same domain."""
    return domains


def guarantee(plan: Plan) -> Guarantee:
    """None."""
    return Guarantee(
        model="none",
        parameters={},
        statement="No guarantee is stated: a baseline for comparison.",
        assumptions=(),
        not_covered=("the overall distribution of the column, published almost exactly", "everything else"),
        trust=TRUST,
    )


def estimate(plan: Plan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
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


def report(plan: Plan, work: Work, profile: Profile) -> dict[str, Any]:
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
