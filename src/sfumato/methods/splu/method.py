"""splu: every record publishes one value drawn from its own and those of its decoys; small sums drown, large ones stay.

Random groups of gamma records with distinct values; each record draws from its group. docs/explanation/splu.md.

Guarantee: totals of at most alpha records are wrong by more than epsilon with probability at least T_p; totals of at
least T_f records err by epsilon or more with probability at most T_E; posterior at most 1/gamma.
Assumes: a reader who knows nothing else about a record, and who estimates a total by the published one.
Cost: one pass to count, a plan of at most 200,000 distinct groups, one pass to publish.
Error: a total has variance f (1 - 1/gamma); counts inside a condition grow with gamma, most for frequent values.
Does not protect against: readers who know many records; conditions that single people out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError
from ...laws.decoy_channel import rebuild_channel
from ...laws.decoys import RULE_VERSION, RULES, Decoys
from ...laws.grouping import Grouping, largest_buckets, random_margins
from ...model.names import exact
from ...model.private import Deal, Facts, Known, Needs, Profile, Work
from ...model.public import Candidate, Claim, Curve, Guarantee, Integers, ReaderBound, Roles, Trust, value_label
from ..contract import Example, Method, Planned
from ..shared.options import group_size
from ..shared.readers import Found, ladder, linked
from .plan import (
    T_E,
    Splu,
    amplification,
    check_thresholds,
    draw_slots,
    error_probability,
    large_sum_utility,
    parse_gamma,
    small_sum_privacy,
)

# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of decoy groups get: a record shows one of the values of its group, which is not published.


NO_BOUND = "no bound is known for a reader who knows other records: they narrow the decoys of this one"


def readers(sizes: tuple[int, ...], claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder.

    Of the n_s groups that hold s, each shows s once on average, and the record of s itself does so with chance 1 / size
    (docs/explanation/splu.md, 4): with the true histogram as prior, s shown is s with 1 / size, and any other value is
    less likely. With several columns the combination of their values is told apart by all of them together.
    """
    several = len(sizes) > 1
    mine = (
        Found(posterior=None, why="each column alone reaches 1/gamma; together they may tell more")
        if several
        else Found(posterior=Fraction(1, sizes[0]), why="a value that is shown is the record's own with 1/gamma")
    )
    fails = claim.rho1 is not None and known is not None and not several and _least(sizes[0], claim, known)
    value = Found(
        posterior=None,
        why="the less frequent a value, the more showing it tells a reader who gives the others' owners no chance",
        fails=bool(fails),
    )
    other = Found(posterior=None, why=NO_BOUND, fails=True)
    person = value if (claim.rows_per_person or 1) == 1 else other
    return ladder(
        claim,
        value=value,
        histogram=mine,
        linking=linked(known, "", lambda _: None, "the law of random groups has no closed form inside a cell"),
        corruption=other,
        person=person,
    )


def _least(size: int, claim: Claim, known: Known) -> bool:
    """Whether some prior of at most rho1 on s surely passes rho2.

    The records of other values show s with chance (1 - 1/size) n_s / (n - n_s) on average, so some value u shows it
    at most that often; the prior with all the rest on u ends at least at rho1 / (rho1 + (1 - rho1) size times that).
    """
    counts = known.joint.of_values()[known.looked]
    rows, least = int(known.joint.true_counts.sum()), int(counts.min())
    rho1, rho2 = claim.rho1, claim.rho2
    if rho1 is None or rho2 is None or least == rows:
        return False
    often = (1 - Fraction(1, size)) * Fraction(least, rows - least)
    return bool(rho1 / (rho1 + (1 - rho1) * size * often) > rho2)


# --- the method -------------------------------------------------------------------------------------------------------


WARN_AT = 3  # amplification, in units of gamma, from which `plan` warns


@dataclass(frozen=True, slots=True, kw_only=True)
class SpluPlan:
    """What the release states: decoy groups of gamma for every sensitive column, and the thresholds chosen."""

    law: Decoys
    epsilon: Fraction
    alpha: int
    t_e: Fraction

    def __post_init__(self) -> None:
        check_thresholds(self.epsilon, self.alpha, self.t_e)


def _group(true_counts: Integers, size: int, column: str, spec: Splu, rng: np.random.Generator) -> Grouping:
    """The decoy groups of one column."""
    if np.count_nonzero(true_counts) < 2:
        raise PlanError(f'"{column}" has one distinct value; nothing can be hidden')
    total, top = int(true_counts.sum()), int(true_counts.max())
    if size * top == total and not spec.silent:
        limit = (total - 1) // top
        instead = f"take gamma {limit}" if limit >= 2 else "publish a finer column"
        raise PlanError(
            f'gamma = {size} puts the most frequent value of "{column}" into every group, so the release would say '
            f"nothing about who has it; {instead}, or allow it with --silent",
            limit=limit,
        )
    rule = random_margins if spec.grouping == "random" else largest_buckets
    try:
        return rule(true_counts, size, rng)
    except PlanError as error:
        limit = int(str(error.limit))
        instead = f"the largest gamma is {limit}" if limit >= 2 else "no gamma is possible; publish a finer column"
        raise PlanError(
            f'gamma = {size} cannot be reached: the most frequent value of "{column}" is too frequent; {instead}',
            limit=limit,
        ) from None


def _expected_error(true_counts: Integers, values: list[Any], size: int) -> dict[str, list[Any]]:
    """Standard errors of totals and of counts among a share a of the rows chosen without regard to the value.

    With V_1 the plain variance for all rows: a (1 - a) V_1 + a^2 f (1 - 1/size), the calibrated variance.
    """
    channel = rebuild_channel(true_counts, size, seed=0)
    total = true_counts * (1 - 1 / size)
    plain = np.full(len(true_counts), np.nan)
    plain[true_counts == 0] = 0
    known = channel.active[channel.identifiable]
    whole = channel.matrix.squares(channel.published) - channel.matrix.estimate(channel.published)
    plain[known] = np.maximum(0.0, whole[channel.identifiable])

    def among(share: float) -> list[float | None]:
        se = np.sqrt(share * (1 - share) * plain + share**2 * total)
        return [float(x) if np.isfinite(x) else None for x in se]

    return {
        "values": values,
        "total": np.sqrt(total).tolist(),
        "among_1_percent": among(0.01),
        "among_10_percent": among(0.1),
    }


def _decoy_sets(work: Work, profile: Profile) -> dict[str, Any]:
    """The decoy sets with how often each occurs, most frequent first; they hold true counts, so only on request."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for domain, grouping in zip(profile.domains, work.secret, strict=True):
        rows = np.sort(grouping.members, axis=1)
        distinct, times = np.unique(rows, axis=0, return_counts=True)
        order = np.argsort(-times, kind="stable")
        labels = [value_label(v) for v in domain.values]
        sets[domain.columns[0]] = [{"values": [labels[c] for c in distinct[i]], "groups": int(times[i])} for i in order]
    return {"decoy_sets": sets if len(sets) > 1 else next(iter(sets.values()))}


class SpluMethod(Method[Splu, SpluPlan]):
    """Every record publishes one value drawn from its own and those of its decoys."""

    name = "splu"
    title = "Small sum privacy, large sum utility"
    trust = Trust.CONDITIONAL
    answers = "estimate, interval"
    spec = Splu
    plan_type = SpluPlan
    unseen = ("true values put back: totals are kept by design",)
    example = Example(
        spec={"gamma": 4},
        options={"gamma": "3"},
        bad=(
            {"gamma": 1}, {"gamma": 2.5}, {"gamma": "x"}, {"gamma": True}, {"gamma": "disease=1"}, {"epsilon": 0},
            {"epsilon": 1}, {"alpha": 0}, {"grouping": "alphabetic"},
        ),
    )  # fmt: skip

    def needs(self, spec: Splu, roles: Roles) -> Needs:
        """Every sensitive column by itself."""
        units = tuple((column,) for column in roles.sensitive)
        parse_gamma(spec.gamma, tuple(roles.sensitive))
        return Needs(units=units, joints=tuple((u,) for u in range(len(units))), changed=(True,) * len(units))

    def plan(self, spec: Splu, profile: Profile, rng: np.random.Generator) -> Planned[SpluPlan]:
        """For every column random groups, the draws of all slots, and how many records of u publish s."""
        columns = tuple(domain.columns[0] for domain in profile.domains)
        sizes = parse_gamma(spec.gamma, columns)
        groupings, deals = [], []
        for u, size in enumerate(sizes):
            groupings.append(_group(profile.true_counts(u, u), size, columns[u], spec, rng))
            slots = draw_slots(groupings[u], rng)
            labels = slots.published.astype(np.int64)
            deals.append(Deal(unit=u, start=slots.offsets, labels=labels, counts=slots.counts))
        public = SpluPlan(
            law=Decoys(
                gamma=dict(zip(columns, sizes, strict=True)),
                grouping=RULES[spec.grouping],
                grouping_version=RULE_VERSION,
            ),
            epsilon=exact(spec.epsilon, "epsilon"),
            alpha=spec.alpha,
            t_e=T_E,
        )
        return Planned(public=public, work=Work(deals=tuple(deals), secret=tuple(groupings)))

    def guarantee(self, plan: SpluPlan) -> Guarantee:
        """T_p, T_f and 1/gamma; for several columns the weakest."""
        t_p = min(small_sum_privacy(size, plan.epsilon, plan.alpha) for size in set(plan.law.sizes))
        t_f = max(large_sum_utility(size, plan.epsilon, plan.t_e) for size in set(plan.law.sizes))
        least, floor = min(plan.law.sizes), math.floor(t_p * 10**6) / 10**6
        share = f"{float(plan.epsilon):.4g}"
        return Guarantee(
            model="small sum privacy, large sum utility",
            parameters={
                "gamma": dict(plan.law.gamma),
                "epsilon": str(plan.epsilon),
                "alpha": plan.alpha,
                "t_p": floor,
                "t_e": str(plan.t_e),
                "t_f": t_f,
                "posterior": f"1/{least}",
            },
            statement=(
                f"The published total of a sensitive value with at most {plan.alpha} records errs by more than {share} "
                f"of it with probability at least {floor:.6f}; from {t_f} records on it errs by {share} or more with "
                f"probability at most {float(plan.t_e):.4g}. A record's published value makes no true value "
                f"likelier than 1/{least}."
            ),
            assumptions=(
                "totals are estimated by the published totals",
                "for the posterior: the reader knows nothing else about the record or its group",
                "T_f: groups of exactly gamma; if the rows are no multiple of gamma, a few groups have one more",
                "the table is published once",
            ),
            not_covered=(
                "counts inside a condition: their intervals are stated with each answer, no guarantee is",
                "a reader who knows the true values of many records",
                "what can be inferred by other estimators than the published total",
                "columns that are published as they are",
            ),
            trust=self.trust,
        )

    def claim(self, plan: SpluPlan) -> Claim:
        """1/gamma, whatever the prior."""
        return Claim(rho2=Fraction(1, min(plan.law.sizes)))

    def readers(self, plan: SpluPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """Decoy groups that are not published."""
        return readers(plan.law.sizes, claim.or_own(self.claim(plan).rho1, self.claim(plan).rho2), known)

    def report(self, plan: SpluPlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        """Groups, thresholds, amplification with warnings, and the error to expect; by column if several."""
        several = len(plan.law.sizes) > 1
        found: dict[str, dict[str, Any]] = {"groups": {}, "t_p": {}, "t_f": {}, "amplification": {}}
        warnings: list[str] = []
        errors: dict[str, list[Any]] = {"values": [], "total": [], "among_1_percent": [], "among_10_percent": []}
        for u, (domain, size) in enumerate(zip(profile.domains, plan.law.sizes, strict=True)):
            true_counts, column = profile.true_counts(u, u), domain.columns[0]
            values = [value_label(v) for v in domain.values]
            grown = amplification(true_counts, size)
            found["groups"][column] = int(true_counts.sum()) // size
            found["t_p"][column] = small_sum_privacy(size, plan.epsilon, plan.alpha)
            found["t_f"][column] = large_sum_utility(size, plan.epsilon, plan.t_e)
            found["amplification"][column] = {
                str(v): float(a) if np.isfinite(a) else None for v, a in zip(values, grown, strict=True)
            }
            noisy = [str(v) for v, a, f in zip(values, grown, true_counts, strict=True) if f and a > WARN_AT * size]
            if noisy:
                shown = ", ".join(noisy[:5]) + (" ..." if len(noisy) > 5 else "")
                warnings.append(
                    f"amplification above {WARN_AT * size}: little can be learnt about who has {column} {shown}"
                )
            labels = [f"{column}={v}" for v in values] if several else values
            for key, numbers in _expected_error(true_counts, labels, size).items():
                errors[key] += numbers
        facts = found if several else {key: next(iter(by.values())) for key, by in found.items()}
        facts |= {"warnings": warnings, "expected_error": errors}
        return facts | _decoy_sets(work, profile) if full else facts

    def curves(self, plan: SpluPlan) -> tuple[Curve, ...]:
        """What is hidden against the total, and from which total on it is kept against the chance of missing it."""
        f = np.arange(1, max(40, 4 * plan.alpha) + 1)
        share, sizes = f"{float(plan.epsilon):.4g}", sorted(set(plan.law.sizes))
        hidden = Curve(
            title=f"Small sums: T_p is the lowest point up to alpha = {plan.alpha}",
            x="true total f",
            y=f"Pr[relative error above {share}]",
            series={
                f"gamma {size}": tuple(zip(f.tolist(), error_probability(f, size, plan.epsilon).tolist(), strict=True))
                for size in sizes
            },
        )
        chances = [Fraction(k, 1000) for k in (2, 5, 10, 20, 50, 100, 200, 300)]
        kept = Curve(
            title="Large sums: totals from T_f on are kept",
            x=f"T_E: chance of a relative error of {share} or more",
            y="T_f",
            series={
                f"gamma {size}": tuple((float(t), float(large_sum_utility(size, plan.epsilon, t))) for t in chances)
                for size in sizes
            },
            log=True,
        )
        return hidden, kept

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Groups of gamma = 1/tau."""
        return (Candidate(method=self.name, parameters={"gamma": group_size(tau)}),)


METHOD: Method[Splu, SpluPlan] = SpluMethod()
