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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np

from ...errors import PlanError, SpecError, VerificationError
from ...model.law import Law
from ...model.private import Batch, Deal, Facts, Known, Needs, Profile, Released, Work
from ...model.public import (
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
)
from ...model.ratios import Ratio
from ...stats.gamma import gamma_bound, keep_probabilities, posterior
from ..contract import Example, Foresight, Method, Planned, ReadRows, Specification
from ..shared import laws, perturbation
from ..shared.foreseen import entries, pushed, pushed_functionals, tensor, together
from ..shared.linear_functionals import Cells, CodedUnit, Functionals, IndependentRows, PartWeights, keep_or_redraw
from ..shared.restricted import (
    BAD_RHOS,
    expected_error,
    parse_rhos,
    protection,
    restricted_guarantee,
    row_gamma,
    value_label,
)
from .merging import Costs
from .partitioning import Partition, distance_from_best, partition
from .readers import readers, shares
from .value_sets import SetLimits, about_sets, sets_to_hold
from .verify import check_release

NOT_COVERED = (
    "the histogram of a sub-table: balanced sub-tables are flat, so size over values is often a true count",
    "that a record's true value is one of its sub-table's values",
    "sets of values that are not stated: one may have a larger share of a sub-table than of the table",
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
    protect_groups: Mapping[str, Any] | str | None = field(
        default=None, metadata={"help": "column=FILE, ...: sets of values (a hierarchy, or a set a line) held too"}
    )

    def __post_init__(self) -> None:
        parse_rhos(self.rho1, self.rho2)
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
        if self.groups() and self.mode != "strict":
            raise SpecError("sets of values are held in mode strict only", field="protect_groups")

    def groups(self) -> dict[str, Any]:
        """Files, or rows of them, by column."""
        if self.protect_groups is None:
            return {}
        if isinstance(self.protect_groups, Mapping):
            return dict(self.protect_groups)
        parts = [part.partition("=") for part in self.protect_groups.split(",") if part.strip()]
        if not parts or not all(column.strip() and file.strip() for column, _, file in parts):
            raise SpecError(
                f'groups are written column=FILE,column=FILE, got "{self.protect_groups}"', field="protect_groups"
            )
        return {column.strip(): file.strip() for column, _, file in parts}


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallDomainPlan:
    """What the release states: the parameters and, for each sub-table, its values, gamma and size."""

    rho1: Fraction
    rho2: Fraction
    mode: Literal["strict", "paper"]
    domains: tuple[tuple[int, ...], ...]  # codes of the values that occur in each sub-table, ascending
    gammas: tuple[Fraction, ...]  # rounded down; what runs
    sizes: tuple[int, ...]
    rows_per_person: int = 1  # rows that are held together
    sets: tuple[tuple[int, ...], ...] = ()  # codes of the sets of values that no sub-table gives away

    def __post_init__(self) -> None:
        gamma_bound(self.rho1, self.rho2)
        if self.rows_per_person < 1:
            raise ValueError("a person has at least one row")
        if not 0 < len(self.domains) == len(self.gammas) == len(self.sizes):
            raise ValueError("domains, gammas and sizes need one entry for each sub-table")
        if any(g <= 1 for g in self.gammas) or any(n < 1 for n in self.sizes):
            raise ValueError("a sub-table needs a gamma above 1 and at least one record")
        if any(not d or d[0] < 0 or any(a >= b for a, b in pairwise(d)) for d in self.domains):
            raise ValueError("the codes of a sub-table's domain must ascend from 0 on")

    @property
    def channels(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """(p, q) of every sub-table."""
        return tuple(keep_probabilities(g, len(d)) for g, d in zip(self.gammas, self.domains, strict=True))

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


def _costs(spec: SmallDomain, rows: int, rows_per_person: int) -> Costs:
    rho1, rho2 = parse_rhos(spec.rho1, spec.rho2)
    if rows_per_person > 1 and spec.mode != "strict":
        raise PlanError("mode paper holds one row of a person; take --mode strict, or --one-row")
    row_gamma(rho1, rho2, rows_per_person)  # refused here, where the way out can be named
    return Costs(
        rho1=rho1,
        rho2=rho2,
        rows=rows,
        min_size=spec.min_size,
        strict=spec.mode == "strict",
        objective=spec.objective,
        delta=spec.delta,
        conceal=True,
        rows_per_person=rows_per_person,
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
            {"delta": 0},
            {"delta": "x"},
            {"min_size": 0},
            {"min_size": 2.5},
            {"protect_groups": "disease"},
            {"protect_groups": {"disease": [["flu", "gout"]]}, "mode": "paper"},
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
        public = SmallDomainPlan(
            rho1=costs.rho1,
            rho2=costs.rho2,
            mode=spec.mode,
            domains=tuple(tuple(t.values.tolist()) for t in found.sub_tables),
            gammas=tuple(t.gamma for t in found.sub_tables),
            sizes=tuple(t.size for t in found.sub_tables),
            rows_per_person=profile.rows_per_person,
            sets=tuple(dict.fromkeys(s.codes for s in sets if len(s.codes) > 1)),
        )
        return Planned(public=public, work=Work(deals=(_deal(found),), secret=(found, costs), notes=notes))

    def apply(self, plan: SmallDomainPlan, work: Work, batch: Batch, rng: np.random.Generator) -> Released:
        """Each value kept with its sub-table's p, else redrawn from its values; the sub-table is published."""
        (codes,), (part,) = batch.codes, batch.labels
        return Released(codes=(perturbation.perturb_parts(plan.tables, codes, part, rng),), extra={"sub_table": part})

    def guarantee(self, plan: SmallDomainPlan) -> Guarantee:
        """Restricted (rho1, rho2), computed from the channels that run."""
        strict = plan.mode == "strict"
        rows = plan.rows_per_person
        reached = posterior(plan.rho1, max(plan.gammas) ** rows) if strict else plan.rho2
        stated = restricted_guarantee(
            plan.rho1, plan.rho2, reached, Trust.PROVED if strict else Trust.CONDITIONAL, extra_not_covered=NOT_COVERED
        )
        if strict:
            return replace(
                stated,
                statement=(
                    f"For sensitive values that hold at most {plan.rho1} of the table: a reader who, knowing a "
                    f"record's sub-table, gave such a value at most {plan.rho1}, or its share of the sub-table, gives "
                    f"it at most {plan.rho2} after seeing the record's published value."
                    if rows == 1
                    else f"For sensitive values that hold at most {plan.rho1} of the table: a reader who, knowing the "
                    f"sub-tables of a person's rows, up to {rows} of them, gave anything about such values of hers at "
                    f"most {plan.rho1} gives it at most {plan.rho2} after seeing their published values."
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
        return readers(plan.channels, claim.or_own(self.claim(plan).rho1, self.claim(plan).rho2), known)

    def estimate(self, plan: SmallDomainPlan, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
        """Sub-table by sub-table, then added up."""
        return perturbation.estimate(plan.tables, evidence, observed, asked)

    def functionals(
        self, plan: SmallDomainPlan, evidence: Evidence, cells: Cells, units: Sequence[CodedUnit]
    ) -> Functionals:
        """Rows are independent given their sub-table, which is published; a state is (sub-table, value)."""
        (unit,) = units
        tables, blocks = plan.tables, []
        for i in range(len(tables)):
            held, sizes = np.unique(unit.classes[tables.domain(i)], return_counts=True)
            blocks.append((held.astype(np.intp), keep_or_redraw(float(tables.p[i]), float(tables.q[i]), sizes)))
        weights = PartWeights(blocks=tuple(blocks), values=unit.size)
        return IndependentRows(cells, weights, weights.state[cells.part, cells.value])

    def report(self, plan: SmallDomainPlan, work: Work, profile: Profile) -> dict[str, Any]:
        """The sub-tables beside plain `uniform`, which values are not protected, and the error to expect."""
        found, costs = work.secret
        values = profile.domains[0].values
        uniform = keep_probabilities(row_gamma(plan.rho1, plan.rho2, plan.rows_per_person), len(values))
        tables = []
        for i, table in enumerate(found.sub_tables):
            p, q = table.keep_probabilities
            largest = int(table.true_counts[found.protected[table.values]].max())
            tables.append(
                {
                    "id": i,
                    "size": table.size,
                    "domain": [value_label(values[v]) for v in table.values],
                    "counts": table.true_counts.tolist(),
                    "rho1": str(Fraction(largest, table.size)),
                    "gamma": float(table.gamma),
                    "keep": float(p + q),
                    "retention": float(p),
                }
            )
        best = distance_from_best(found, costs) if costs.strict and found.all_protected else None
        notes = [
            f"retention averaged over records: {found.retention:.1%}; plain uniform would keep {float(uniform[0]):.1%}"
        ]
        if best is not None:
            notes.append(
                f"the standard errors are {best:.3f} times the least possible for any sub-tables (root mean square)"
            )
        if len(tables) == 1:
            notes.append("one table is best here: the release is that of uniform on the values that occur")
        return protection(profile, plan.rho1) | {
            "theta": found.theta,
            "sub_tables": tables,
            "retention": found.retention,
            "uniform_retention": float(uniform[0]),
            "distance_from_best": best,
            "expected_error": expected_error(
                plan.tables, np.concatenate([t.true_counts for t in found.sub_tables]), profile
            ),
            "notes": notes,
        }

    def law(self, plan: SmallDomainPlan, evidence: Evidence, unit: int) -> Law:
        """Every sub-table by itself."""
        return laws.perturbed(plan.tables, evidence)

    def verify(self, plan: SmallDomainPlan, published: Published) -> None:
        """Sub-tables have the stated sizes, at least two values, and publish no others; strict gammas are capped."""
        check_release(plan, published)
        values = len(published.evidence.domains[0])
        if any(not 0 <= code < values for codes in plan.sets for code in codes):
            raise VerificationError("a stated set has a value outside the published domain")
        if plan.mode == "strict" and max(plan.gammas) ** plan.rows_per_person > gamma_bound(plan.rho1, plan.rho2):
            raise VerificationError("a sub-table's gamma is larger than rho1 and rho2 allow")

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
        share, tables = shares(work, profile), plan.tables
        made = np.zeros((share.shape[1], share.shape[1]))
        for i in range(len(tables)):
            values = tables.domain(i)
            own = tables.p[i] * np.eye(len(values)) + tables.q[i]
            made[np.ix_(values, values)] += share[i, values][:, None] * own
        return made

    def rows_held(self, plan: SmallDomainPlan) -> int:
        """As planned: gamma is the root."""
        return plan.rows_per_person

    def retention(self, plan: SmallDomainPlan) -> float:
        """p averaged over records."""
        sizes = np.array(plan.sizes, dtype=float)
        return float(plan.tables.p @ sizes / sizes.sum())

    def foresee(self, plan: SmallDomainPlan, work: Work, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
        """Expected counts of every sub-table."""
        true_counts, tables, share = profile.true_counts(), plan.tables, shares(work, profile)

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
        sums = pushed_functionals(push, totals, partial(self.functionals, plan), rows=profile.rows, domains=domains)
        return Foresight(lump=False, answer=answer, functionals=sums)


METHOD: Method[SmallDomain, SmallDomainPlan] = SmallDomainMethod()
