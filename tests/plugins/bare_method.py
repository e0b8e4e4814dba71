"""kept-share: what the type checker asks of a method and nothing more, as a newcomer writes it.

A value x stays with a chance p_x of its own, else it is redrawn uniformly over the m values of the domain:
Pr(y | x) = p_x [x = y] + (1 - p_x) / m.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.errors import PlanError, SpecError
from sfumato.laws.channel import Channel
from sfumato.methods.contract import Example, Method, Planned, Specification
from sfumato.model.private import Facts, Known, Needs, Profile, Work
from sfumato.model.public import READERS, Candidate, Claim, Floats, Guarantee, ReaderBound, Roles, Trust

SCALE = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptShare(Specification):
    """`share`: the chance to stay; `open_share`: that of the values in `open_values`."""

    method: ClassVar[str] = "kept-share"

    share: float
    open_values: tuple[str, ...] = ()
    open_share: float = 0.5

    def __post_init__(self) -> None:
        for given in (self.share, self.open_share):
            if not 0 < given < 1:
                raise SpecError(f"a share must lie between 0 and 1, got {given!r}", field="share")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSharePlan:
    """What the release states: the chance of every value to stay, and the channel that follows from it."""

    kept: tuple[Fraction, ...]
    law: Channel

    @property
    def gamma(self) -> Fraction:
        """The largest ratio of two chances of one output."""
        m, best = len(self.kept), Fraction(1)
        for y, p in enumerate(self.kept):
            chances = [(1 - q) / m + (p if x == y else 0) for x, q in enumerate(self.kept)]
            best = max(best, max(chances) / min(chances))
        return best


def channel(kept: tuple[Fraction, ...]) -> Floats:
    """Row x, column y: Pr(y | x)."""
    p = np.array([float(share) for share in kept])
    return np.asarray(np.diag(p) + (1 - p)[:, None] / len(p))


class KeptShareMethod(Method[KeptShare, KeptSharePlan]):
    """Every value has a chance of its own to stay."""

    name = "kept-share"
    title = "Kept share"
    trust = Trust.PROVED
    answers = "estimate, interval"
    spec = KeptShare
    plan_type = KeptSharePlan
    example = Example(spec={"share": 0.5}, options={"share": "0.5"}, bad=({"share": 0}, {"share": 1}))

    def needs(self, spec: KeptShare, roles: Roles) -> Needs:
        return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))

    def plan(self, spec: KeptShare, profile: Profile, rng: np.random.Generator) -> Planned[KeptSharePlan]:
        names = ["/".join(map(str, value)) for value in profile.domains[0].values]
        if not set(spec.open_values) <= set(names):
            raise PlanError("a value of --open-values does not occur in the sensitive column")
        shares = (spec.open_share if name in spec.open_values else spec.share for name in names)
        kept = tuple(Fraction(str(s)) for s in shares)
        return Planned(public=KeptSharePlan(kept=kept, law=Channel.of(channel(kept))), work=Work())

    def guarantee(self, plan: KeptSharePlan) -> Guarantee:
        gamma = -(-plan.gamma * SCALE // 1) / SCALE
        return Guarantee(
            model="bounded odds",
            parameters={"gamma": float(gamma)},
            statement=f"A published value moves the odds of two true values by at most {float(gamma):g}.",
            assumptions=("the table is published once",),
            not_covered=("columns that are published as they are",),
            trust=self.trust,
        )

    def readers(self, plan: KeptSharePlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        return tuple(_bound(reader, plan.gamma, claim, known) for reader in READERS)

    def report(self, plan: KeptSharePlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        true_counts, B = profile.true_counts().astype(float), np.linalg.inv(plan.law.table)
        se = np.sqrt(np.maximum((true_counts @ plan.law.table) @ B**2 - true_counts, 0.0))
        names = [str(value[0]) for value in profile.domains[0].values]
        shares = {"total": 1.0, "among_1_percent": 0.01, "among_10_percent": 0.1}
        return {"expected_error": {"values": names} | {name: (se * at**0.5).tolist() for name, at in shares.items()}}

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        gamma, m = tau * (1 - rho1) / (rho1 * (1 - tau)), len(facts.true_counts)
        share = float((gamma - 1) / (gamma - 1 + m) * SCALE // 1) / SCALE  # (p + q) / q = gamma, q = (1 - p) / m
        if share <= 0:
            raise SpecError("the bound leaves no chance to stay")
        return (Candidate(method=self.name, parameters={"share": share}),)


def _bound(reader: str, gamma: Fraction, claim: Claim, known: Known | None) -> ReaderBound:
    rows = claim.rows_per_person or 1
    prior = claim.rho1
    if prior is None and known is not None and reader == "histogram":
        prior = Fraction(int(known.joint.of_values().max()), known.profile.rows)
    if prior is None or reader == "linking":
        reached = None
    else:
        odds = gamma ** (rows if reader == "person" else 1) * prior / (1 - prior)
        reached = odds / (1 + odds)
    held = None if reached is None or claim.rho2 is None else reached <= claim.rho2
    shown = None if reached is None else float(-(-reached * SCALE // 1) / SCALE)
    why = "odds move by at most the largest ratio of the channel"
    return ReaderBound(reader=reader, held=held, posterior=shown, why=why, rows=rows if reader == "person" else None)


METHOD = KeptShareMethod()
