"""small-domain: records split at random into sub-tables with few sensitive values, each perturbed by itself.

"Small Domain Randomization" (VLDB 2010), with the corrections of docs/explanation/small-domain.md: gamma rounded
down, a minimum sub-table size, in strict mode a cap on gamma, and better partitions (`stats.partitioning`).

Guarantee: a reader who gives a protected value at most rho1 after learning the record's sub-table ends with at
most rho2 (strict); the same for the one reader whose prior is the sub-table's own frequencies (paper).
Assumes: she looks at one record's published value; which records form a sub-table is random.
Cost: planning O(m log m + t^2 theta) on the histogram; one pass to count, one to perturb; O(m) memory.
Error: that of `uniform` with about 1 / rho1 values, among the rows of the sub-tables that hold the value asked for.
Does not protect against: priors above rho1; values more frequent than rho1; a reader who knows the composition
of a small sub-table, or other records' values; learning which values occur in a record's sub-table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from ...errors import ReleaseError, SpecError, VerificationError
from ...model.private import Batch, Deal, Facts, Needs, Profile, Released, Work
from ...model.public import (
    Asked,
    Candidate,
    Codes,
    Domain,
    Estimated,
    Evidence,
    Floats,
    GivesAway,
    Guarantee,
    Integers,
    Listed,
    Observed,
    Published,
    Roles,
    SetWeights,
    Trust,
)
from ...model.ratios import Ratio
from ...stats.gamma import gamma_bound, keep_probabilities, posterior
from ..contract import Example, Foresight, Method, Planned, Specification
from ..shared import perturbation, set_estimate
from ..shared.channel_design import Design
from ..shared.foreseen import entries, pushed, tensor, together
from ..shared.restricted import BAD_RHOS, parse_rhos, restricted_guarantee
from ..shared.set_tables import SetTables
from ..shared.workloads import parse_workload
from . import set_reports
from .merging import Costs
from .partition_report import partition_report
from .partitioning import Partition, partition
from .set_reports import SetReports

NOT_COVERED = (
    "the histogram of a sub-table: balanced sub-tables are flat, so size over values is often a true count",
    "that a record's true value is one of its sub-table's values",
    "readers who know the composition of a small sub-table, or other records' true values",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallDomain(Specification):
    """Restrict the posterior of every protected value to rho2, with far more values kept than `uniform` keeps."""

    method: ClassVar[str] = "small-domain"

    rho1: Ratio
    rho2: Ratio
    mode: Literal["strict", "paper"] = "strict"
    objective: Literal["variance", "bound"] = "variance"
    delta: float = 0.05  # of the bound objective; never changes the plan
    min_size: int = 1000
    report: Literal["set", "value"] | None = field(
        default=None,
        metadata={"help": "set: publish a set of values in place of one; value: one value. Default: what errs less"},
    )
    workload: str | None = field(
        default=None,
        metadata={
            "help": "questions to be made for: histogram, prefixes, ranges, sum, ranges:0.5,sum:0.5, or FILE.sql",
            "file": "sql",
        },
    )

    def __post_init__(self) -> None:
        parse_rhos(self.rho1, self.rho2)
        if self.report not in {"set", "value", None}:
            raise SpecError(f'report must be set or value, got "{self.report}"', field="report")
        if parse_workload(self.workload) is not None and self.report == "value":
            raise SpecError("a workload needs set reports; leave out report=value", field="workload")
        if self.mode == "paper" and (self.report == "set" or self.workload is not None):
            raise SpecError("the paper's mode publishes one value; sets and workloads need strict mode", field="report")
        for name, value, allowed in (
            ("mode", self.mode, ("strict", "paper")),
            ("objective", self.objective, ("variance", "bound")),
        ):
            if value not in allowed:
                raise SpecError(f'{name} must be {allowed[0]} or {allowed[1]}, got "{value}"', field=name)
        if not isinstance(self.delta, int | float) or not 0 < self.delta < 1:
            raise SpecError(f"delta must be a number between 0 and 1, got {self.delta!r}", field="delta")
        if isinstance(self.min_size, bool) or not isinstance(self.min_size, int) or self.min_size < 1:
            raise SpecError(f"min_size must be a whole number of at least 1, got {self.min_size!r}", field="min_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallDomainPlan:
    """What the release states: the parameters and, for each sub-table, its values, gamma and size."""

    rho1: Fraction
    rho2: Fraction
    mode: Literal["strict", "paper"]
    domains: tuple[tuple[int, ...], ...]  # codes of the values that occur in each sub-table, ascending
    gammas: tuple[Fraction, ...]  # rounded down; what runs
    sizes: tuple[int, ...]
    reports: SetReports | None = None  # None: one value is published

    def __post_init__(self) -> None:
        gamma_bound(self.rho1, self.rho2)
        if not 0 < len(self.domains) == len(self.gammas) == len(self.sizes):
            raise ValueError("domains, gammas and sizes need one entry for each sub-table")
        if any(g <= 1 for g in self.gammas) or any(n < 1 for n in self.sizes):
            raise ValueError("a sub-table needs a gamma above 1 and at least one record")
        if any(not d or d[0] < 0 or any(a >= b for a, b in pairwise(d)) for d in self.domains):
            raise ValueError("the codes of a sub-table's domain must ascend from 0 on")
        if self.reports is not None:
            if self.mode != "strict":
                raise ValueError("the paper's mode publishes one value")
            _ = self.set_tables  # refuses lists that are none

    @property
    def set_tables(self) -> SetTables:
        """The set channels of the sub-tables."""
        assert self.reports is not None
        return set_reports.set_tables(self.domains, self.gammas, self.reports)

    @property
    def tables(self) -> perturbation.SubTables:
        """The channels as arrays."""
        return _tables(self.domains, self.gammas)


@lru_cache(maxsize=4)  # every batch and every question asks for them
def _tables(domains: tuple[tuple[int, ...], ...], gammas: tuple[Fraction, ...]) -> perturbation.SubTables:
    kinds = {(g, len(d)) for g, d in zip(gammas, domains, strict=True)}
    pair = {kind: tuple(float(x) for x in keep_probabilities(*kind)) for kind in kinds}
    p, q = np.array([pair[g, len(d)] for g, d in zip(gammas, domains, strict=True)]).T
    return perturbation.SubTables(
        start=np.cumsum([0, *(len(d) for d in domains)]),
        values=np.fromiter((v for d in domains for v in d), dtype=np.int32),
        p=p,
        q=q,
    )


def _costs(spec: SmallDomain, rows: int) -> Costs:
    rho1, rho2 = parse_rhos(spec.rho1, spec.rho2)
    return Costs(
        rho1=rho1,
        rho2=rho2,
        rows=rows,
        min_size=spec.min_size,
        strict=spec.mode == "strict",
        objective=spec.objective,
        delta=spec.delta,
    )


def _deal(found: Partition) -> Deal:
    """For each value, the sub-tables that hold it and how many of its records each gets."""
    values = np.concatenate([t.values for t in found.sub_tables])
    labels = np.repeat(np.arange(len(found.sub_tables)), [t.values.size for t in found.sub_tables])
    order = np.argsort(values, kind="stable")
    start = np.searchsorted(values[order], np.arange(found.protected.size + 1))
    counts = np.concatenate([t.true_counts for t in found.sub_tables])[order]
    return Deal(unit=0, start=start, labels=labels[order], counts=counts)


class SmallDomainMethod(Method[SmallDomain, SmallDomainPlan]):
    """Sub-tables with few sensitive values, each perturbed by itself."""

    name = "small-domain"
    title = "Small-domain perturbation"
    trust = Trust.PROVED
    lumpable = True
    part = "sub_table"
    promise = "the same for a reader who has learnt the record's sub-table, with less noise"
    answers = "estimate, interval"
    spec = SmallDomain
    plan_type = SmallDomainPlan
    gives_away = GivesAway(
        survives_corruption=True,
        hides_group=False,
        every_predicate=True,
        why="every record is randomised by itself inside a published sub-table, whose values are known; a small "
        "sub-table of known composition breaks the bound",
    )
    example = Example(
        spec={"rho1": "1/5", "rho2": "1/2", "min_size": 400},
        options={"rho1": "1/5", "rho2": "1/3", "min_size": "50"},
        bad=(
            *BAD_RHOS,
            {"mode": "lax"},
            {"objective": "size"},
            {"delta": 0},
            {"delta": "x"},
            {"min_size": 0},
            {"min_size": 2.5},
            {"report": "list"},
            {"report": "set", "mode": "paper"},
            {"workload": "means"},
            {"workload": "ranges", "report": "value"},
            {"workload": "ranges", "mode": "paper"},
        ),
    )

    def needs(self, spec: SmallDomain, roles: Roles) -> Needs:
        """The sensitive columns, taken together as one value."""
        return Needs(units=(tuple(roles.sensitive),), joints=((0,),), changed=(True,))

    def plan(self, spec: SmallDomain, profile: Profile, rng: np.random.Generator) -> Planned[SmallDomainPlan]:
        """The cheapest partition found; how many records of each value go where stays private."""
        costs = _costs(spec, profile.rows)
        found = partition(profile.true_counts(), costs)
        workload, reports = parse_workload(spec.workload), None
        designs: tuple[Design, ...] = ()
        if workload is not None:
            reports, designs = set_reports.made_for(workload, found.sub_tables, profile)
        elif spec.report == "set" or (spec.report is None and costs.strict and set_reports.helps(found.sub_tables)):
            reports = set_reports.best_reports(found.sub_tables)
        public = SmallDomainPlan(
            rho1=costs.rho1,
            rho2=costs.rho2,
            mode=spec.mode,
            domains=tuple(tuple(t.values.tolist()) for t in found.sub_tables),
            gammas=tuple(t.gamma for t in found.sub_tables),
            sizes=tuple(t.size for t in found.sub_tables),
            reports=reports,
        )
        return Planned(public=public, work=Work(deals=(_deal(found),), secret=(found, costs, designs)))

    def questions(self, spec: SmallDomain) -> str | None:
        """The workload, where it is SQL."""
        workload = parse_workload(spec.workload)
        return None if workload is None else workload.sql

    def apply(self, plan: SmallDomainPlan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Each value kept with its sub-table's p, else redrawn from its values; the sub-table is published."""
        (codes,), (part,) = batch.codes, batch.labels
        if plan.reports is not None:
            return Released(codes=(plan.set_tables.draw(codes, part, rng),), extra={"sub_table": part})
        return Released(codes=(perturbation.perturb_parts(plan.tables, codes, part, rng),), extra={"sub_table": part})

    def listed(self, plan: SmallDomainPlan, domains: tuple[Domain, ...]) -> tuple[Listed | None, ...]:
        """The sets of all sub-tables, where sets are published."""
        if plan.reports is None:
            return super().listed(plan, domains)
        if len(domains) != 1 or max(d[-1] for d in plan.domains) >= len(domains[0]):
            raise ReleaseError("release.json states lists of sets that do not fit its columns")
        return (plan.set_tables.listed(domains[0].columns),)

    def weights(self, plan: SmallDomainPlan, domains: tuple[Domain, ...]) -> SetWeights | None:
        """The weights of single values, where sets are published."""
        return None if plan.reports is None else plan.set_tables.weights()

    def guarantee(self, plan: SmallDomainPlan) -> Guarantee:
        """Restricted (rho1, rho2), computed from the channels that run."""
        strict = plan.mode == "strict"
        reached = posterior(plan.rho1, max(plan.gammas)) if strict else plan.rho2
        stated = restricted_guarantee(
            plan.rho1, plan.rho2, reached, Trust.PROVED if strict else Trust.CONDITIONAL, extra_not_covered=NOT_COVERED
        )
        if strict:
            shown = "value" if plan.reports is None else "set"
            return replace(
                stated,
                statement=(
                    f"A reader who, knowing a record's sub-table, gave a sensitive value at most {plan.rho1}, or its "
                    f"share of the sub-table, gives it at most {plan.rho2} after seeing the record's published {shown}."
                ),
            )
        cap = gamma_bound(plan.rho1, plan.rho2)
        above = sum(gamma > cap for gamma in plan.gammas)
        other = (
            f"priors other than those frequencies: {above} of {len(plan.gammas)} sub-tables exceed gamma(rho1, rho2)"
        )
        return replace(
            stated,
            statement=(
                "A reader whose prior for a record is the frequency table of its sub-table "
                f"gives a sensitive value at most {plan.rho2} after seeing the record's published value."
            ),
            not_covered=(*stated.not_covered, other),
        )

    def estimate(self, plan: SmallDomainPlan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Sub-table by sub-table, then added up."""
        if plan.reports is not None:
            return set_estimate.estimate(plan.set_tables, evidence, observed, asked)
        return perturbation.estimate(plan.tables, evidence, observed, asked)

    def report(self, plan: SmallDomainPlan, work: Work, profile: Profile) -> dict[str, Any]:
        """The sub-tables beside plain `uniform`, which values are not protected, and the error to expect."""
        found, costs, designs = work.secret
        sets = None if plan.reports is None else plan.set_tables
        return partition_report(found, costs, designs, plan.tables, sets, profile)

    def verify(self, plan: SmallDomainPlan, published: Published) -> None:
        """Sub-tables have the stated sizes, at least two values, and publish no others; strict gammas are capped."""
        published.check_units()
        part, codes, count = published.evidence.totals((0,))
        sizes = np.zeros(len(plan.sizes), dtype=np.int64)
        if len(part) and not 0 <= int(part.min()) <= int(part.max()) < len(sizes):
            raise VerificationError("a row names a sub-table that release.json does not list")
        np.add.at(sizes, part, count)
        if sizes.tolist() != list(plan.sizes):
            raise VerificationError("the sub-tables do not have the sizes that release.json states")
        if plan.mode == "strict" and max(plan.gammas) > gamma_bound(plan.rho1, plan.rho2):
            raise VerificationError("a sub-table's gamma is larger than rho1 and rho2 allow")
        allowed = np.zeros((len(sizes), len(published.evidence.domains[0])), dtype=bool)
        for i, domain in enumerate(plan.domains):
            if len(domain) < 2:
                raise VerificationError(f"sub-table {i} has one value: it hides nothing")
            if domain[-1] >= allowed.shape[1]:
                raise VerificationError(f"sub-table {i} lists a value outside the published domain")
            allowed[i, list(domain)] = True
        if plan.reports is not None:
            set_reports.check_published(plan.set_tables, published)
        elif not allowed[part, codes[:, 0]].all():
            raise VerificationError("a row publishes a value that its sub-table does not have")

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Priors up to rho1 end at tau; the paper's mode beside it."""
        rhos = {"rho1": str(rho1), "rho2": str(tau)}
        paper = Candidate(method=self.name, parameters=rhos | {"mode": "paper"}, variant="paper")
        return Candidate(method=self.name, parameters=rhos), paper

    def channel(self, plan: SmallDomainPlan, work: Work, profile: Profile) -> Floats:
        """Each sub-table's channel, weighted by the share of a value's records that the plan puts there."""
        share, tables = _shares(work, profile), plan.tables
        if plan.reports is not None:
            return set_reports.channel(plan.set_tables, share)
        made = np.zeros((share.shape[1], share.shape[1]))
        for i in range(len(tables)):
            values = tables.domain(i)
            own = tables.p[i] * np.eye(len(values)) + tables.q[i]
            made[np.ix_(values, values)] += share[i, values][:, None] * own
        return made

    def retention(self, plan: SmallDomainPlan) -> float | None:
        """p averaged over records; a set keeps no value as it is."""
        if plan.reports is not None:
            return None
        sizes = np.array(plan.sizes, dtype=float)
        return float(plan.tables.p @ sizes / sizes.sum())

    def foresee(self, plan: SmallDomainPlan, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """Expected counts of every sub-table."""
        true_counts, tables, share = profile.true_counts(), plan.tables, _shares(work, profile)
        if plan.reports is not None:
            return set_reports.foresight(plan.set_tables, share, profile, domains)

        def of_table(seen: Floats, i: int) -> Floats:
            inside = np.zeros(len(true_counts))
            inside[tables.domain(i)] = 1.0
            moved = seen * share[i]
            return tables.p[i] * moved + tables.q[i] * moved.sum(axis=-1, keepdims=True) * inside

        def push(observed: Observed, _: Asked) -> Observed:
            seen = tensor(observed, len(true_counts))
            return together([entries(observed, of_table(seen, i), i) for i in range(len(tables))])

        def totals(_: tuple[int, ...]) -> tuple[Integers, Codes, Floats]:
            count = np.array([of_table(true_counts.astype(float), i) for i in range(len(tables))])
            part, code = np.nonzero(count)
            return part.astype(np.int64), code[:, None].astype(np.int32), count[part, code]

        answer = pushed(push, totals, partial(self.estimate, plan), rows=profile.rows, domains=domains)
        return Foresight(lump=False, answer=answer)


def _shares(work: Work, profile: Profile) -> Floats:
    """(sub-tables, values): share of a value's records that go to a sub-table."""
    deal, true_counts = work.deals[0], profile.true_counts()
    assert deal.counts is not None
    owner = np.repeat(np.arange(len(true_counts)), np.diff(deal.start))
    share = np.zeros((int(deal.labels.max()) + 1, len(true_counts)))
    share[deal.labels, owner] = deal.counts / np.maximum(true_counts[owner], 1)
    return share


METHOD: Method[SmallDomain, SmallDomainPlan] = SmallDomainMethod()
