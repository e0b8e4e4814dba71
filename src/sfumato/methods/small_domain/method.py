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
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ...errors import PlanError, SpecError, VerificationError
from ...laws.keep_or_redraw import KeepOrRedraw, standard_errors
from ...laws.set_channel import PlannedList, SetTables
from ...laws.set_lists import SetLists
from ...model.names import Ratio
from ...model.private import Deal, Facts, Known, Profile, Watch, Work
from ...model.public import (
    Candidate,
    Claim,
    Guarantee,
    Published,
    ReaderBound,
    Trust,
    value_label,
)
from ...stats.gamma import gamma_bound, keep_probabilities, posterior
from ..contract import Example, Inputs, Method, Planned, ReadRows, Specification
from ..shared.readers import Found, ValueChannel, amplified, in_parts, independent, linked, seen_as_it_is, set_seen
from ..shared.restricted import (
    BAD_RHOS,
    BINS_FIELD,
    RHO1,
    RHO2,
    RestrictedMethod,
    bin_order,
    errors_of,
    parse_bins,
    parse_rhos,
    protection,
    restricted_guarantee,
    row_gamma,
    told,
)
from ..shared.set_lists import best_list, least_sized_partition, least_variance, list_for, times_least
from ..shared.workloads import (
    MOST_VALUES,
    WORKLOAD_FIELD,
    DeclaredWorkload,
    Design,
    check_workload,
    design_within,
    parse_workload,
    planned_list,
)
from .plan import Costs, Partition, SetLimits, SubTable, about_sets, distance_from_best, partition, sets_to_hold

NOT_COVERED = (
    "the histogram of a sub-table: balanced sub-tables are flat, so size over values is often a true count",
    "that a record's true value is one of its sub-table's values",
    "sets of values that are not stated: one may have a larger share of a sub-table than of the table",
    "readers who know the composition of a small sub-table, or other records' true values",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallDomain(Specification):
    """Restrict the posterior of every protected value to rho2, with far less noise than `uniform` needs."""

    method: ClassVar[str] = "small-domain"

    rho1: Ratio = field(metadata=RHO1)
    rho2: Ratio = field(metadata=RHO2)
    mode: Literal["strict", "paper"] = field(
        default="strict", metadata=told("strict: proved; paper: the partition as it was printed", "paper")
    )
    objective: Literal["variance", "bound"] = field(
        default="variance",
        metadata=told("what sub-tables are chosen for: variance, or the paper's bound", "bound", python_only=True),
    )
    min_size: int = field(default=1000, metadata=told("least rows of a sub-table", "500"))
    protect_groups: Mapping[str, Any] | str | None = field(
        default=None,
        metadata=told("column=FILE, ...: sets of values (a hierarchy, or a set a line) held too", "disease=groups.csv"),
    )
    report: Literal["set", "value"] | None = field(
        default=None,
        metadata=told("set: publish a set of values in place of one; value: one value. None: what errs less", "value"),
    )
    workload: str | None = field(default=None, metadata=WORKLOAD_FIELD)
    bins: Mapping[str, Sequence[Ratio]] | str | None = field(default=None, metadata=BINS_FIELD)

    def __post_init__(self) -> None:
        parse_rhos(self.rho1, self.rho2)
        for name, value, allowed in (
            ("mode", self.mode, ("strict", "paper")),
            ("objective", self.objective, ("variance", "bound")),
            ("report", "set" if self.report is None else self.report, ("set", "value")),
        ):
            if value not in allowed:
                raise SpecError(f'{name} must be {allowed[0]} or {allowed[1]}, got "{value}"', field=name)
        if parse_workload(self.workload) is not None and self.report == "value":
            raise SpecError("a workload needs set reports; leave out report=value", field="workload")
        if self.mode == "paper" and (self.report == "set" or self.workload is not None):
            raise SpecError("the paper's mode publishes one value; sets and workloads need strict mode", field="report")
        if isinstance(self.min_size, bool) or not isinstance(self.min_size, int) or self.min_size < 1:
            raise SpecError(f"min_size must be a whole number of at least 1, got {self.min_size!r}", field="min_size")
        parse_bins(self.bins)
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
    """What the release states; its law holds the values that occur, gamma and size of each sub-table."""

    rho1: Fraction
    rho2: Fraction
    mode: Literal["strict", "paper"]
    law: KeepOrRedraw | SetLists
    sets: tuple[tuple[int, ...], ...] = ()  # codes of the sets of values that no sub-table gives away

    def __post_init__(self) -> None:
        gamma_bound(self.rho1, self.rho2)
        if self.law.domains is None:
            raise ValueError("the law has no sub-tables")
        if isinstance(self.law, SetLists) and self.mode != "strict":
            raise ValueError("the paper's mode publishes one value")


# --- lists of sets ----------------------------------------------------------------------------------------------------
# Sets instead of values inside sub-tables: every sub-table has a list of sets over its own values
# (docs/explanation/set-channels.md, section 6). Sub-tables of one size and gamma share a list, unless it is made for
# declared questions.

Lists = tuple[tuple[PlannedList, ...], tuple[int, ...]]  # the lists, and which of them each sub-table has


def helps(sub_tables: tuple[SubTable, ...]) -> bool:
    """Whether some sub-table is more accurate with sets of two values or more."""
    return any(list_for(t.values.size, t.gamma).width > 1 for t in sub_tables)


def best_lists(sub_tables: tuple[SubTable, ...]) -> Lists:
    """Every sub-table with the list that is best for counts."""
    kinds = [(t.values.size, list_for(t.values.size, t.gamma).width) for t in sub_tables]
    distinct = sorted(set(kinds))
    found = (best_list(*kind) for kind in distinct)
    lists = tuple(PlannedList(sets=listed.blocks, cyclic=listed.cyclic) for listed in found)
    return lists, tuple(distinct.index(kind) for kind in kinds)


def made_for(
    workload: DeclaredWorkload, sub_tables: tuple[SubTable, ...], profile: Profile
) -> tuple[Lists, tuple[Design, ...]]:
    """Every sub-table with a list made for the questions, as far as they tell its values apart."""
    if workload.plain:
        return best_lists(sub_tables), ()
    domain, asked = profile.domains[0], profile.questions
    check_workload(workload, domain, limit=None)
    widest = max(t.values.size for t in sub_tables)
    if widest > MOST_VALUES:
        raise PlanError(
            f"a workload needs sub-tables of at most {MOST_VALUES} values and one has {widest}; "
            "lower --min-size, give --bins, or round the column first",
            limit=MOST_VALUES,
        )
    designs = tuple(
        design_within(
            workload,
            domain,
            t.values.astype(np.int32),
            t.gamma,
            asked,
            watch=None if profile.watch is None else partial(_of_all, profile.watch, i, len(sub_tables)),
        )
        for i, t in enumerate(sub_tables)
    )
    return (tuple(planned_list(found) for found in designs), tuple(range(len(designs)))), designs


def _of_all(watch: Watch, i: int, tables: int, stage: str, done: int, rounds: int) -> None:
    """The rounds of one sub-table's search among those of all."""
    watch(f"{stage}, sub-table {i + 1} of {tables}", i * rounds + done, tables * rounds)


# --- readers ----------------------------------------------------------------------------------------------------------
# How far readers of a small-domain release get: published sub-tables, a value channel in each.


HISTOGRAM = "the sub-tables are planned from the true counts: whoever knows all records but one knows the last"


def readers(law: KeepOrRedraw | SetLists, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder. One sub-table alone is a channel over the whole domain."""
    if isinstance(law, SetLists):
        shown, gammas = "set", [channel.gamma_run for channel in law.tables.channels]
    else:
        shown, gammas = "value", [(p + q) / q for p, q in law.channels]
    largest = partial(_largest, law)
    if known is None:
        mine = Found(posterior=claim.rho2, why="every sub-table's channel is limited for the counts that it holds")
    else:
        mine = Found(
            posterior=largest(known, False),
            why=f"prior: the true histogram; she sees the sub-table and the {shown} it shows",
        )
    linking = linked(
        known,
        "prior: the share among the rows with the same quasi-identifiers; she sees the sub-table too",
        lambda k: largest(k, True),
    )
    if len(gammas) > 1:
        return in_parts(claim, histogram=mine, linking=linking, corruption=HISTOGRAM)
    (gamma,) = gammas
    if known is None and claim.rho1 is not None:
        mine = Found(posterior=amplified(claim.rho1, gamma), why=mine.why)
    last = Found(posterior=Fraction(1), why=HISTOGRAM)
    return independent(claim, gamma, histogram=mine, linking=linking, corruption=last)


def _largest(law: KeepOrRedraw | SetLists, known: Known, cells: bool) -> float:
    """max over sub-tables i, what they show, and values x; values: f_x a_i(x) (p_i + q_i) / sum_y f_y a_i(y) P_i(x|y).

    a_i(x) is the share of the records of x that lie in i.
    """
    share = law.shares(known.work, known.profile)[:, known.joint.codes[:, 0]]
    if isinstance(law, SetLists):
        tables = zip(law.tables.channels, law.tables.values, share, strict=True)
        return max(set_seen(known, channel, values, cells=cells, weight=own) for channel, values, own in tables)
    channels = (ValueChannel(keep=(p + q,), other=(q,)) for p, q in law.channels)
    return max(
        seen_as_it_is(known, channel, cells=cells, weight=own) for channel, own in zip(channels, share, strict=True)
    )


# --- the method -------------------------------------------------------------------------------------------------------


def _costs(spec: SmallDomain, rows: int) -> Costs:
    rho1, rho2 = parse_rhos(spec.rho1, spec.rho2)
    row_gamma(rho1, rho2, 1)  # refused here, where the way out can be named
    return Costs(
        rho1=rho1,
        rho2=rho2,
        rows=rows,
        min_size=spec.min_size,
        strict=spec.mode == "strict",
        objective=spec.objective,
        conceal=True,
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


class SmallDomainMethod(RestrictedMethod[SmallDomain, SmallDomainPlan]):
    """Sub-tables with few sensitive values, each perturbed by itself."""

    name = "small-domain"
    title = "Small-domain perturbation"
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

    def plan(self, spec: SmallDomain, profile: Profile, rng: np.random.Generator) -> Planned[SmallDomainPlan]:
        """The cheapest partition found; how many records of each value go where stays private."""
        true_counts, costs = profile.true_counts(), _costs(spec, profile.rows)
        sets, notes = sets_to_hold(spec.groups(), profile.domains[0]) if costs.strict else ((), ())
        costs = replace(costs, sets=SetLimits.of(sets, true_counts, costs.rho1))
        found = partition(true_counts, costs)
        workload, lists = parse_workload(spec.workload), None
        designs: tuple[Design, ...] = ()
        if workload is not None:
            workload = replace(workload, order=bin_order(parse_bins(spec.bins), profile.domains[0]))
            lists, designs = made_for(workload, found.sub_tables, profile)
        elif spec.report == "set" or (spec.report is None and costs.strict and helps(found.sub_tables)):
            lists = best_lists(found.sub_tables)
        shape: dict[str, Any] = {
            "values": len(true_counts),
            "gammas": tuple(t.gamma for t in found.sub_tables),
            "domains": tuple(tuple(t.values.tolist()) for t in found.sub_tables),
            "sizes": tuple(t.size for t in found.sub_tables),
        }
        public = SmallDomainPlan(
            rho1=costs.rho1,
            rho2=costs.rho2,
            mode=spec.mode,
            law=KeepOrRedraw(**shape) if lists is None else SetLists(**shape, lists=lists[0], of=lists[1]),
            sets=tuple(dict.fromkeys(s.codes for s in sets if len(s.codes) > 1)),
        )
        return Planned(public=public, work=Work(deals=(_deal(found),), secret=(found, costs, designs), notes=notes))

    def inputs(self, spec: SmallDomain, read: ReadRows) -> Inputs[SmallDomain]:
        """Groups given as files, read; bins as given; and the workload where it is SQL."""
        workload, given = parse_workload(spec.workload), spec.groups()
        if given:
            rows = {c: read(what, c) if isinstance(what, str) else what for c, what in given.items()}
            spec = replace(spec, protect_groups=rows)
        return Inputs(spec=spec, edges=parse_bins(spec.bins), questions=None if workload is None else workload.sql)

    def guarantee(self, plan: SmallDomainPlan) -> Guarantee:
        """Restricted (rho1, rho2), computed from the channels that run."""
        strict = plan.mode == "strict"
        reached = posterior(plan.rho1, max(plan.law.gammas)) if strict else plan.rho2
        stated = restricted_guarantee(
            plan.rho1, plan.rho2, reached, Trust.PROVED if strict else Trust.CONDITIONAL, extra_not_covered=NOT_COVERED
        )
        if strict:
            shown = "set" if isinstance(plan.law, SetLists) else "value"
            return replace(
                stated,
                statement=(
                    f"For sensitive values that hold at most {plan.rho1} of the table: a reader who, knowing a "
                    f"record's sub-table, gave such a value at most {plan.rho1}, or its share of the sub-table, gives "
                    f"it at most {plan.rho2} after seeing the record's published {shown}."
                )
                + about_sets(len(plan.sets), plan.rho1),
            )
        cap = gamma_bound(plan.rho1, plan.rho2)
        gammas = plan.law.gammas
        above = sum(gamma > cap for gamma in gammas)
        other = f"priors other than those frequencies: {above} of {len(gammas)} sub-tables exceed gamma(rho1, rho2)"
        return replace(
            stated,
            statement=(
                f"For sensitive values that hold at most {plan.rho1} of the table: a reader whose prior for a record "
                f"is the frequency table of its sub-table gives such a value at most {plan.rho2} after seeing the "
                "record's published value."
            ),
            not_covered=(*stated.not_covered, other),
        )

    def readers(self, plan: SmallDomainPlan, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
        """Published sub-tables, a channel in each."""
        return readers(plan.law, claim.or_own(plan.rho1, plan.rho2), known)

    def report(self, plan: SmallDomainPlan, work: Work, profile: Profile, *, full: bool = False) -> dict[str, Any]:
        """The sub-tables beside plain `uniform`, which values are not protected, and the error to expect."""
        found, costs, designs = work.secret
        return partition_report(found, costs, designs, plan.law, profile)

    def verify(self, plan: SmallDomainPlan, published: Published) -> None:
        """Gammas are capped: in strict mode for any prior, in every mode for the shares that a sub-table can have."""
        if plan.mode == "strict" and max(plan.law.gammas) > gamma_bound(plan.rho1, plan.rho2):
            raise VerificationError("a sub-table's gamma is larger than rho1 and rho2 allow")
        for i, (gamma, size) in enumerate(zip(plan.law.gammas, plan.law.sizes or (), strict=True)):
            # a protected value occurs, so the most frequent one has a record: [docs/explanation/small-domain.md, 3.4]
            if gamma > plan.rho2 * (size - 1) / (1 - plan.rho2):
                raise VerificationError(f"the gamma of sub-table {i} is larger than its size allows")
        if any(not 0 <= code < plan.law.values for held in plan.sets for code in held):
            raise VerificationError("a stated set has a value outside the published domain")

    def at_bound(self, facts: Facts, tau: Fraction, rho1: Fraction) -> tuple[Candidate, ...]:
        """Priors up to rho1 end at tau; the paper's mode beside it."""
        (own,) = super().at_bound(facts, tau, rho1)
        return own, replace(own, parameters={**own.parameters, "mode": "paper"}, variant="paper")


METHOD: Method[SmallDomain, SmallDomainPlan] = SmallDomainMethod()


# What the custodian sees of a small-domain plan before publishing; holds true counts.


def partition_report(
    found: Partition,
    costs: Costs,
    designs: tuple[Design, ...],
    law: KeepOrRedraw | SetLists,
    profile: Profile,
) -> dict[str, Any]:
    """The sub-tables beside plain `uniform`, which values are not protected, and the error to expect."""
    sets = law.tables if isinstance(law, SetLists) else None
    values = profile.domains[0].values
    uniform = keep_probabilities(row_gamma(costs.rho1, costs.rho2, 1), len(values))
    counts = [t.true_counts for t in found.sub_tables]
    best = distance_from_best(found, costs) if costs.strict and found.all_protected else None
    variance = found.total_variance if sets is None else total_variance(sets, [t.size for t in found.sub_tables])
    least = _least(found, costs)
    distance = None if least is None else times_least(variance, least[0])
    if isinstance(law, SetLists):
        se = law.tables.standard_errors(counts, len(values))
    else:
        se = standard_errors(law.tables, np.concatenate(counts), len(values))
    return protection(profile, costs.rho1) | {
        "theta": found.theta,
        "sub_tables": [_sub_table(found, i, sets, profile) for i in range(len(counts))],
        "report": "value" if sets is None else "set",
        "retention": found.retention if sets is None else None,
        "uniform_retention": float(uniform[0]),
        "distance_from_best": best,
        "times_least": distance,
        "expected_error": errors_of(se, profile),
        "notes": _notes(found, designs, sets, float(uniform[0]))
        + ([] if least is None else [f"the standard errors of counts are {distance:.3f} times {least[1]}"])
        + _one_table(found, sets),
    }


def _least(found: Partition, costs: Costs) -> tuple[float, str] | None:
    """(the total variance that no plan passes, what it is the least of); None in paper mode, which has no cap."""
    if costs.cap is None:
        return None
    if not found.all_protected:  # values that nothing is promised about may fill up a sub-table of any size
        own = sum(t.size * float(least_variance(t.values.size, t.gamma)) for t in found.sub_tables)
        return own, "the least possible in these sub-tables (root mean square)"
    least = least_sized_partition(
        costs.rho1,
        costs.rho2,
        costs.cap,
        values=int(found.protected.sum()),
        rows=found.rows,
        min_size=costs.min_size,
    )
    size = f"{min(costs.min_size, found.rows):,} rows or more"
    return found.rows * float(least), f"the least possible for any sub-tables of {size} (root mean square)"


def _sub_table(found: Partition, i: int, sets: SetTables | None, profile: Profile) -> dict[str, Any]:
    """A line of the report: `keep` is the chance that what is shown is, or holds, the true value."""
    table, values = found.sub_tables[i], profile.domains[0].values
    largest = int(table.true_counts[found.protected[table.values]].max())
    p, q = table.keep_probabilities
    shown: dict[str, Any] = {"keep": float(p + q), "retention": float(p)}
    if sets is not None:
        channel = sets.channels[i]
        shown = {
            "keep": float(channel.matrix()[:, 0] @ channel.members[:, 0]),
            "retention": float(channel.keep),
            "sets": len(channel.members),
            "values_per_set": float(channel.weights @ channel.members.sum(axis=1) / channel.total),
        }
    return {
        "id": i,
        "size": table.size,
        "domain": [value_label(values[v]) for v in table.values],
        "counts": table.true_counts.tolist(),
        "rho1": str(Fraction(largest, table.size)),
        "gamma": float(table.gamma),
        **shown,
    }


def _notes(found: Partition, designs: tuple[Design, ...], sets: SetTables | None, uniform: float) -> list[str]:
    """What is published, and how far it is from the best for declared questions."""
    if sets is None:
        return [f"retention averaged over records: {found.retention:.1%}; plain uniform would keep {uniform:.1%}"]
    notes = [f"one of {int(sets.start[-1]):,} listed sets of values is published in place of a value"]
    if designs:
        sizes = np.array([t.size for t in found.sub_tables], dtype=float)
        error = times_least(
            sizes @ np.array([d.variance for d in designs]), sizes @ np.array([d.least for d in designs])
        )
        proved = "proved" if all(d.certified for d in designs) else "among the sets tried"
        notes.append(
            f"for the declared questions the standard errors are at most {error:.3f} times the least possible in these "
            f"sub-tables; {max(d.gap for d in designs):.1%} of variance at most is left to gain ({proved})"
        )
    return notes


def _one_table(found: Partition, sets: SetTables | None) -> list[str]:
    """A line where nothing is gained by sub-tables."""
    if len(found.sub_tables) > 1:
        return []
    same = "uniform" if sets is None else "subset-response"
    return [f"one table is best here: the release is that of {same} on the values that occur"]


def total_variance(tables: SetTables, sizes: Sequence[int]) -> float:
    """The variances of all values' estimated totals, added up, for records of any values: the mean over a sub-table's.

    Lists that are best for counts have the same for each value.
    """
    every = (tables.answers(i).total_variance(np.eye(len(values))) for i, values in enumerate(tables.values))
    return sum(size * variance for size, variance in zip(sizes, every, strict=True))
