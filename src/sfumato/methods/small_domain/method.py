"""small-domain: records split at random into sub-tables with few sensitive values, each perturbed by itself.

"Small Domain Randomization" (VLDB 2010), with the corrections of docs/explanation/small-domain.md: gamma rounded
down, a minimum sub-table size, in strict mode a cap on gamma, and better partitions (`plan.py`).

Guarantee: a reader who gives a protected value at most rho1 after learning the record's sub-table ends with at
most rho2 (strict); the same for the one reader whose prior is the sub-table's own frequencies (paper).
Assumes: she looks at one record's published value; which records form a sub-table is random.
Cost: planning O(m log m + t^2 theta) on the histogram; one pass to count, one to perturb; O(m) memory.
Error: that of `uniform` with about 1 / rho1 values, among the rows of the sub-tables that hold the value asked for.
Does not protect against: priors above rho1; values more frequent than rho1; a reader who knows the composition
of a small sub-table, or other records' values; learning which values occur in a record's sub-table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import PlanError, ReleaseError
from ...laws import keep_or_redraw, set_lists
from ...laws.functionals import Cells, CodedUnit, Functionals
from ...laws.published import listed_sets, perturbed
from ...laws.set_lists import set_functionals
from ...model.likelihood import Likelihood
from ...model.private import Batch, Deal, Facts, Known, Needs, Profile, Released, Work
from ...model.public import (
    Asked,
    Candidate,
    Claim,
    Domain,
    Estimated,
    Evidence,
    Floats,
    Guarantee,
    Listed,
    Observed,
    Published,
    ReaderBound,
    Roles,
    SetWeights,
    Trust,
)
from ...stats.gamma import gamma_bound, posterior
from ..contract import Example, Foresight, Method, Planned, ReadRows
from ..shared.channel_design import Design
from ..shared.options import bin_order, parse_bins
from ..shared.restricted import BAD_RHOS, parse_rhos, restricted_guarantee, row_gamma
from ..shared.workload_texts import parse_workload
from . import set_reports, value_reports
from .groups import SetLimits, about_sets, sets_to_hold
from .guarantee import check_release, partition_report, readers, set_readers, shares
from .plan import Costs, Partition, partition
from .specification import SmallDomain, SmallDomainPlan

NOT_COVERED = (
    "the histogram of a sub-table: balanced sub-tables are flat, so size over values is often a true count",
    "that a record's true value is one of its sub-table's values",
    "sets of values that are not stated: one may have a larger share of a sub-table than of the table",
    "readers who know the composition of a small sub-table, or other records' true values",
)


def _costs(spec: SmallDomain, rows: int, rows_per_person: int) -> Costs:
    rho1, rho2 = parse_rhos(spec.rho1, spec.rho2)
    if rows_per_person > 1 and spec.mode != "strict":
        raise PlanError("mode paper holds one row of a person; take --mode strict, or --max-rows-per-person 1")
    row_gamma(rho1, rho2, rows_per_person)  # refused here, where the way out can be named
    return Costs(
        rho1=rho1,
        rho2=rho2,
        rows=rows,
        min_size=spec.min_size,
        strict=spec.mode == "strict",
        objective=spec.objective,
        conceal=True,
        rows_per_person=rows_per_person,
    )


def _deal(found: Partition) -> Deal:
    """For each value, the sub-tables that hold it and how many of its records each gets."""
    values = np.concatenate([t.values for t in found.sub_tables])
    numbers = np.arange(len(found.sub_tables), dtype=np.min_scalar_type(len(found.sub_tables)))  # one for every row
    labels = np.repeat(numbers, [t.values.size for t in found.sub_tables])
    order = np.argsort(values, kind="stable")
    start = np.searchsorted(values[order], np.arange(found.protected.size + 1))
    counts = np.concatenate([t.true_counts for t in found.sub_tables])[order]
    return Deal(unit=0, start=start, labels=labels[order], counts=counts)


class SmallDomainMethod(Method[SmallDomain, SmallDomainPlan]):
    """Sub-tables with few sensitive values, each perturbed by itself."""

    name = "small-domain"
    title = "Small-domain perturbation"
    trust = Trust.PROVED
    several_rows = True
    independent_rows = True
    lumpable = True
    part = "sub_table"
    answers = "estimate, interval"
    spec = SmallDomain
    plan_type = SmallDomainPlan
    unseen = (
        "true values put back, where the noise could have made such counts by chance",
        "less noise than stated: balanced sub-tables show flat counts whatever the noise is",
    )
    example = Example(
        spec={"rho1": "1/5", "rho2": "1/2", "min_size": 400},
        options={"rho1": "1/5", "rho2": "1/3", "min_size": "50"},
        bad=(
            *BAD_RHOS,
            {"mode": "lax"},
            {"objective": "size"},
            {"min_size": 0},
            {"min_size": 2.5},
            {"protect_groups": "disease"},
            {"protect_groups": {"disease": [["flu", "gout"]]}, "mode": "paper"},
            {"bins": "disease=3"},
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
        true_counts, costs = profile.true_counts(), _costs(spec, profile.rows, profile.rows_per_person)
        sets, notes = sets_to_hold(spec.groups(), profile.domains[0]) if costs.strict else ((), ())
        costs = replace(costs, sets=SetLimits.of(sets, true_counts, costs.rho1))
        found = partition(true_counts, costs)
        workload, reports = parse_workload(spec.workload), None
        designs: tuple[Design, ...] = ()
        if workload is not None:
            workload = replace(workload, order=bin_order(parse_bins(spec.bins), profile.domains[0]))
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
            rows_per_person=profile.rows_per_person,
            sets=tuple(dict.fromkeys(s.codes for s in sets if len(s.codes) > 1)),
            reports=reports,
        )
        return Planned(public=public, work=Work(deals=(_deal(found),), secret=(found, costs, designs), notes=notes))

    def edges(self, spec: SmallDomain) -> Mapping[str, Sequence[float]]:
        """Bins as given."""
        return parse_bins(spec.bins)

    def questions(self, spec: SmallDomain) -> str | None:
        """The workload, where it is SQL."""
        workload = parse_workload(spec.workload)
        return None if workload is None else workload.sql

    def apply(self, plan: SmallDomainPlan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Each value kept with its sub-table's p, else redrawn from its values; the sub-table is published."""
        (codes,), (part,) = batch.codes, batch.labels
        if plan.reports is not None:
            return Released(codes=(plan.set_tables.draw(codes, part, rng),), extra={"sub_table": part})
        return Released(codes=(keep_or_redraw.perturb_parts(plan.tables, codes, part, rng),), extra={"sub_table": part})

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
        rows = plan.rows_per_person
        reached = posterior(plan.rho1, max(plan.gammas) ** rows) if strict else plan.rho2
        stated = restricted_guarantee(
            plan.rho1, plan.rho2, reached, Trust.PROVED if strict else Trust.CONDITIONAL, extra_not_covered=NOT_COVERED
        )
        if strict:
            shown = "value" if plan.reports is None else "set"
            return replace(
                stated,
                statement=(
                    f"For sensitive values that hold at most {plan.rho1} of the table: a reader who, knowing a "
                    f"record's sub-table, gave such a value at most {plan.rho1}, or its share of the sub-table, gives "
                    f"it at most {plan.rho2} after seeing the record's published {shown}."
                    if rows == 1
                    else f"For sensitive values that hold at most {plan.rho1} of the table: a reader who, knowing the "
                    f"sub-tables of a person's rows, up to {rows} of them, gave anything about such values of hers at "
                    f"most {plan.rho1} gives it at most {plan.rho2} after seeing their published {shown}s."
                )
                + about_sets(len(plan.sets), plan.rho1),
            )
        cap = gamma_bound(plan.rho1, plan.rho2)
        above = sum(gamma > cap for gamma in plan.gammas)
        other = (
            f"priors other than those frequencies: {above} of {len(plan.gammas)} sub-tables exceed gamma(rho1, rho2)"
        )
        return replace(
            stated,
            statement=(
                f"For sensitive values that hold at most {plan.rho1} of the table: a reader whose prior for a record "
                f"is the frequency table of its sub-table gives such a value at most {plan.rho2} after seeing the "
                "record's published value."
            ),
            not_covered=(*stated.not_covered, other),
        )

    def claim(self, plan: SmallDomainPlan) -> Claim:
        """rho1 and rho2 as planned."""
        return Claim(rho1=plan.rho1, rho2=plan.rho2)

    def readers(self, plan: SmallDomainPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """Published sub-tables, a channel in each."""
        named = claim.or_own(self.claim(plan).rho1, self.claim(plan).rho2)
        if plan.reports is not None:
            return set_readers(plan.set_tables, named, known)
        return readers(plan.channels, named, known)

    def rules_out(self, plan: SmallDomainPlan, domains: Sequence[Domain]) -> bool:
        """Sub-tables hold the values that occur; a declared value that does not is in none."""
        return len({code for values in plan.domains for code in values}) < sum(map(len, domains))

    def estimate(self, plan: SmallDomainPlan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Sub-table by sub-table, then added up."""
        if plan.reports is not None:
            return set_lists.estimate(plan.set_tables, evidence, observed, asked)
        return keep_or_redraw.estimate(plan.tables, evidence, observed, asked)

    def functionals(
        self, plan: SmallDomainPlan, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]
    ) -> Functionals:
        """Rows are independent given their sub-table, which is published."""
        if plan.reports is not None:
            return set_functionals(plan.set_tables, evidence, cells, units)
        return value_reports.functionals(plan.tables, evidence, cells, units)

    def report(self, plan: SmallDomainPlan, work: Work, profile: Profile) -> dict[str, Any]:
        """The sub-tables beside plain `uniform`, which values are not protected, and the error to expect."""
        found, costs, designs = work.secret
        sets = None if plan.reports is None else plan.set_tables
        return partition_report(found, costs, designs, plan.tables, sets, profile)

    def law(self, plan: SmallDomainPlan, evidence: Evidence, unit: int) -> Likelihood:
        """Every sub-table by itself."""
        if plan.reports is not None:
            return listed_sets(plan.set_tables, evidence)
        return perturbed(plan.tables, evidence)

    def verify(self, plan: SmallDomainPlan, published: Published) -> None:
        """Sub-tables have the stated sizes, at least two values, and publish no others; strict gammas are capped."""
        check_release(plan, published)

    def with_files(self, spec: SmallDomain, read: ReadRows) -> SmallDomain:
        """Groups given as files, read."""
        given = spec.groups()
        if not given:
            return spec
        return replace(
            spec, protect_groups={c: read(what, c) if isinstance(what, str) else what for c, what in given.items()}
        )

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Priors up to rho1 end at tau; the paper's mode beside it."""
        rhos = {"rho1": str(rho1), "rho2": str(tau)}
        paper = Candidate(method=self.name, parameters=rhos | {"mode": "paper"}, variant="paper")
        return Candidate(method=self.name, parameters=rhos), paper

    def channel(self, plan: SmallDomainPlan, work: Work, profile: Profile) -> Floats:
        """Each sub-table's channel, weighted by the share of a value's records that the plan puts there."""
        share = shares(work, profile)
        if plan.reports is not None:
            return set_reports.channel(plan.set_tables, share)
        return value_reports.channel(plan.tables, share)

    def rows_held(self, plan: SmallDomainPlan) -> int:
        """As planned: gamma is the root."""
        return plan.rows_per_person

    def retention(self, plan: SmallDomainPlan) -> float | None:
        """p averaged over records; a set keeps no value as it is."""
        if plan.reports is not None:
            return None
        sizes = np.array(plan.sizes, dtype=float)
        return float(plan.tables.p @ sizes / sizes.sum())

    def foresee(self, plan: SmallDomainPlan, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """Expected counts of every sub-table."""
        share = shares(work, profile)
        if plan.reports is not None:
            return set_reports.foresight(plan.set_tables, share, profile, domains)
        return value_reports.foresight(plan.tables, share, profile, domains)


METHOD: Method[SmallDomain, SmallDomainPlan] = SmallDomainMethod()
