"""Sets instead of values inside sub-tables: every sub-table has a list of sets over its own values.

docs/explanation/set-channels.md, section 6. Sub-tables of one size and gamma share a list, unless it is made for
declared questions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np

from ...errors import PlanError, SpecError
from ...laws.functionals import entries, pushed, pushed_functionals, tensor, together
from ...laws.set_lists import estimate, set_functionals
from ...laws.set_tables import PlannedList, SetTables
from ...model.private import Profile, Watch
from ...model.public import Asked, Codes, Domain, Floats, Integers, Observed
from ..contract import Foresight
from ..shared.channel_design import MOST_VALUES, Design
from ..shared.set_lists import best_list, list_for
from ..shared.workload_texts import DeclaredWorkload, check_workload, design_within, planned_list
from .plan import SubTable


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReports:
    """The lists of a release: sub-table i publishes sets from `lists[of[i]]`, positions among its own values."""

    lists: tuple[PlannedList, ...]
    of: tuple[int, ...]


def helps(sub_tables: tuple[SubTable, ...]) -> bool:
    """Whether some sub-table is more accurate with sets of two values or more."""
    return any(list_for(t.values.size, t.gamma).width > 1 for t in sub_tables)


def best_reports(sub_tables: tuple[SubTable, ...]) -> SetReports:
    """Every sub-table with the list that is best for counts."""
    kinds = [(t.values.size, list_for(t.values.size, t.gamma).width) for t in sub_tables]
    distinct = sorted(set(kinds))
    found = (best_list(*kind) for kind in distinct)
    lists = tuple(PlannedList(sets=listed.blocks, cyclic=listed.cyclic) for listed in found)
    return SetReports(lists=lists, of=tuple(distinct.index(kind) for kind in kinds))


def made_for(
    workload: DeclaredWorkload, sub_tables: tuple[SubTable, ...], profile: Profile
) -> tuple[SetReports, tuple[Design, ...]]:
    """Every sub-table with a list made for the questions, as far as they tell its values apart."""
    if workload.plain:
        return best_reports(sub_tables), ()
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
    lists = tuple(planned_list(found) for found in designs)
    return SetReports(lists=lists, of=tuple(range(len(lists)))), designs


def _of_all(watch: Watch, i: int, tables: int, stage: str, done: int, rounds: int) -> None:
    """The rounds of one sub-table's search among those of all."""
    watch(f"{stage}, sub-table {i + 1} of {tables}", i * rounds + done, tables * rounds)


@lru_cache(maxsize=4)  # every batch and every question asks for them
def set_tables(domains: tuple[tuple[int, ...], ...], gammas: tuple[Fraction, ...], reports: SetReports) -> SetTables:
    """The channels of all sub-tables; SpecError where a list is not one."""
    if len(reports.of) != len(domains) or not all(0 <= k < len(reports.lists) for k in reports.of):
        raise SpecError("every sub-table needs one of the lists", field="reports")
    made: dict[tuple[int, int, Fraction], Any] = {}
    channels = []
    for k, values, gamma in zip(reports.of, domains, gammas, strict=True):
        key = (k, len(values), gamma)
        if key not in made:
            made[key] = reports.lists[k].channel(len(values), gamma)
        channels.append(made[key])
    return SetTables([np.array(values, dtype=np.int32) for values in domains], channels)


def total_variance(tables: SetTables, sizes: Sequence[int]) -> float:
    """The variances of all values' estimated totals, added up, for records of any values: the mean over a sub-table's.

    Lists that are best for counts have the same for each value.
    """
    every = (tables.answers(i).total_variance(np.eye(len(values))) for i, values in enumerate(tables.values))
    return sum(size * variance for size, variance in zip(sizes, every, strict=True))


def channel(tables: SetTables, share: Floats) -> Floats:
    """(values, sets): each sub-table's channel, weighted by the share of a value's records that goes there."""
    made = np.zeros((share.shape[1], int(tables.start[-1])))
    for i, values in enumerate(tables.values):
        made[values, tables.start[i] : tables.start[i + 1]] = share[i, values][:, None] * tables.channels[i].matrix().T
    return made


def foresight(tables: SetTables, share: Floats, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
    """Expected counts of every set of every sub-table."""
    true_counts = profile.true_counts().astype(float)

    def of_table(seen: Floats, i: int) -> Floats:
        values = tables.values[i]
        return np.asarray((seen[..., values] * share[i, values]) @ tables.channels[i].matrix().T)

    def push(observed: Observed, _: Asked) -> Observed:
        seen = tensor(observed, len(true_counts))
        moved = [entries(observed, of_table(seen, i), i) for i in range(len(tables))]
        return together([replace(o, value=o.value + tables.start[o_part]) for o_part, o in enumerate(moved)])

    def totals(_: tuple[int, ...]) -> tuple[Integers, Codes, Floats]:
        count = np.concatenate([of_table(true_counts, i) for i in range(len(tables))])
        ids = np.arange(len(count))
        return tables.part_of(ids).astype(np.int64), ids[:, None].astype(np.int32), count

    answer = pushed(push, totals, partial(estimate, tables), rows=profile.rows, domains=domains)
    sums = pushed_functionals(push, totals, partial(set_functionals, tables), rows=profile.rows, domains=domains)
    return Foresight(lump=False, answer=answer, functionals=sums)
