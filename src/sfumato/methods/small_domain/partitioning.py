"""The sub-tables of a small-domain release: which values and how many records each holds, and its gamma.

On the histogram alone (docs/explanation/small-domain.md, section 3): balance, rearrange, merge. Strict plans also
try *peel and deal*: the first balanced groups as they are, the rest dealt to sub-tables of about one size. The
guarantee rests on each sub-table's own counts and gamma, so it does not depend on how the records were split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, inf, sqrt

import numpy as np
from numpy.typing import NDArray

from ...errors import PlanError
from ...stats.gamma import keep_probabilities
from .balancing import Codes, Counts, Group, balance, hand_out, join
from .even_pieces import deal
from .merging import Costs, concealed, merge, value_variance
from .rearranging import candidate_orders
from .value_sets import SetLimits, slices

MOST_GROUPS = 2500  # merged in quadratic time; neighbours are joined beforehand when there are more
MOST_SET_CHECKS = 2e8  # runs of groups times sets to look at
MOST_BINS = 400
BIN_SHARES = (0.25, 0.5, 0.7, 0.85, 0.95, 1.0)
MOST_PEELS = 16  # dealing is tried about this often, while the records left shrink to the minimum size
TOLERANCE = 1.01  # fewer sub-tables are worth this factor of the standard error


@dataclass(frozen=True, slots=True, kw_only=True)
class SubTable:
    """One sub-table. `values`, `gamma`, p, q and the size are published; the counts are not."""

    values: Codes  # ascending codes of the declared domain
    true_counts: Counts
    gamma: Fraction  # rounded down; what runs

    @property
    def size(self) -> int:
        """How many records it holds."""
        return int(self.true_counts.sum())

    @property
    def keep_probabilities(self) -> tuple[Fraction, Fraction]:
        """(p, q): a value shows unchanged with probability p + q, as each other value with q."""
        return keep_probabilities(self.gamma, self.values.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A plan for a whole table. Private: it holds true counts."""

    sub_tables: tuple[SubTable, ...]
    theta: int  # protected values in a balanced group
    protected: NDArray[np.bool_]  # by code: occurs, with a share of at most rho1
    cost: float  # in the objective's unit

    @property
    def rows(self) -> int:
        """How many records the table holds."""
        return sum(s.size for s in self.sub_tables)

    @property
    def all_protected(self) -> bool:
        """Whether no record has a value more frequent than rho1."""
        return all(self.protected[s.values].all() for s in self.sub_tables)

    @property
    def total_variance(self) -> float:
        """The variances of all values' estimated totals, added up."""
        return float(sum(s.size * value_variance(s.values.size, float(s.gamma)) for s in self.sub_tables))

    @property
    def retention(self) -> float:
        """The chance that a record keeps its value by design (p), averaged over records."""
        return sum(s.size * float(s.keep_probabilities[0]) for s in self.sub_tables) / self.rows


def partition(true_counts: Counts, costs: Costs) -> Partition:
    """The cheapest plan found for this histogram (indexed by code of the declared domain; zeros allowed).

    Never dearer than one table. In strict mode with the variance objective, the plan with the fewest sub-tables
    among those within one per cent of the least standard error.
    """
    rows = int(true_counts.sum())
    shares_low = true_counts * costs.rho1.denominator <= rows * costs.rho1.numerator
    protected = (true_counts > 0) & shares_low
    _refuse(true_counts, protected, rows)
    shielded, open_ = np.where(protected, true_counts, 0), np.where(protected, 0, true_counts)
    theta, *others = _thetas(shielded, rows, costs)
    groups = balance(shielded, theta)

    whole = join(hand_out([join(groups)], open_))
    candidates = [(costs.price_of([whole], protected), [whole])]
    candidates += _merged(hand_out(groups, open_), protected, costs)
    if costs.strict and costs.objective == "variance":
        for number in (theta, *others):
            first = groups if number == theta else balance(shielded, number)
            if open_.any() or number != theta:
                candidates += _merged(hand_out(first, open_, split=True), protected, costs)
            plans = (hand_out(plan, open_) for plan in _peel_and_deal(shielded, first, number, rows, costs))
            candidates += [(costs.price_of(plan, protected), plan) for plan in plans]
        candidates += [(costs.price_of(plan, protected), plan) for plan in _sliced(true_counts, protected, costs)]
        limit = TOLERANCE**2 * min(cost for cost, _ in candidates)
        cost, best = min((c for c in candidates if c[0] <= limit), key=lambda c: (len(c[1]), c[0]))
    else:
        cost, best = min(candidates, key=lambda c: c[0])
    if costs.sets is not None and len(best) == 1:
        _refuse_sets(true_counts, costs, costs.sets)
    if cost == inf:
        raise PlanError(
            "no partition reaches the bound: gamma rounds down to 1; raise rho2 or lower rho1", limit=costs.rho2
        )
    return Partition(
        sub_tables=tuple(_sub_table(group, protected, costs) for group in best),
        theta=theta,
        protected=protected,
        cost=cost,
    )


def least_variance(rows: int, costs: Costs) -> float:
    """A lower limit on the total variance of any strict plan in which every value is protected.

    A sub-table of m values has a largest share of at least 1/m, so its gamma is at most that of a flat one and at
    most the cap. The variance for each record falls with m while gamma grows with m, and rises once gamma is
    capped: the least is next to 1 / rho1, above it or (when 1 / rho1 is not an integer) below it.
    """
    near = {max(2, floor(1 / costs.rho1)), max(2, ceil(1 / costs.rho1))}
    cap = costs.cap
    if cap is None:
        raise ValueError("paper mode has no cap, hence no such limit")
    exact = ((m, min(costs.rho2 * (m - 1) / (1 - costs.rho2), cap)) for m in near)
    return rows * min((float(value_variance(m, float(g))) for m, g in exact if g > 1), default=inf)


def distance_from_best(plan: Partition, costs: Costs) -> float:
    """Root total variance of the plan over the root of the least possible one; 1 is perfect."""
    return sqrt(plan.total_variance / least_variance(plan.rows, costs))


def _refuse(true_counts: Counts, protected: NDArray[np.bool_], rows: int) -> None:
    occurring = true_counts[true_counts > 0]
    if occurring.size < 2:
        raise PlanError("the sensitive column has fewer than two distinct values: nothing can be hidden among them")
    if not protected.any():
        least = Fraction(int(occurring.min()), rows)
        raise PlanError(
            f"every value is more frequent than rho1, so none would be protected; rho1 must be at least {least}",
            limit=least,
        )


def _thetas(shielded: Counts, rows: int, costs: Costs) -> list[int]:
    """How many protected values a balanced group holds: the usual number, then others worth trying."""
    records = int(shielded.sum())
    most = records // int(shielded.max())
    if not costs.strict:
        return [most]
    enough = Fraction(records, rows) / costs.rho1
    thetas = [max(1, min(number, most)) for number in (ceil(enough), floor(enough))]
    return sorted(set(thetas), reverse=True)


def _merged(groups: Sequence[Group], protected: NDArray[np.bool_], costs: Costs) -> list[tuple[float, list[Group]]]:
    """(cost, sub-tables) of the cheapest merge along each candidate order."""
    most = MOST_GROUPS if costs.sets is None else min(MOST_GROUPS, int(sqrt(MOST_SET_CHECKS / len(costs.sets.names))))
    step = ceil(len(groups) / max(most, 1))
    sequence = [join(groups[i : i + step]) for i in range(0, len(groups), step)]
    return [merge([sequence[i] for i in order], protected, costs) for order in candidate_orders(sequence)]


def _peel_and_deal(
    shielded: Counts, groups: Sequence[Group], theta: int, rows: int, costs: Costs
) -> Iterator[list[Group]]:
    """Plans: some first balanced groups kept, the other records dealt to sub-tables of about one size."""
    left, total, last_tried = shielded.copy(), int(shielded.sum()), inf
    least = ceil(costs.min_size * Fraction(total, rows))  # protected records of a smallest sub-table
    step = min(0.7, (least / total) ** (1 / MOST_PEELS))
    for kept, group in enumerate(groups):
        records = int(left.sum())
        if records < least:
            return
        if records <= step * last_tried:
            last_tried = records
            for bins in _bin_numbers(records, least):
                dealt = deal(left, bins, max(1, records // (bins * theta)))
                if dealt is not None:
                    yield [*groups[:kept], *dealt]
        if group.size < least:
            return
        left[group.values] -= group.true_counts


def _sliced(true_counts: Counts, protected: NDArray[np.bool_], costs: Costs) -> Iterator[list[Group]]:
    """Plans in which every sub-table has an even part of each set that must not stand out."""
    if costs.sets is None:
        return
    for pack in (True, False):
        lines = costs.sets.lines(true_counts, protected, pack=pack)
        for bins in _bin_numbers(costs.rows, costs.min_size):
            plan = slices(true_counts, lines, bins)
            if all(group.values.size for group in plan):
                yield plan


def _refuse_sets(true_counts: Counts, costs: Costs, sets: SetLimits) -> None:
    """PlanError where sub-tables are worth having, but give a set away; nothing where one table is best anyway."""
    free = partition(true_counts, replace(costs, sets=None))
    if len(free.sub_tables) == 1:
        return
    name, of_table, of_part = sets.worst([Group(values=t.values, true_counts=t.true_counts) for t in free.sub_tables])
    raise PlanError(
        f"no sub-tables hide every set of values: {name}, {float(of_table):.1%} of the table, would have "
        f"{float(of_part):.1%} of a sub-table, above rho1 = {costs.rho1}; take a method over the whole table "
        "(--method uniform), which holds every set, or raise rho1",
        limit=of_part,
    )


def _bin_numbers(records: int, least: int) -> list[int]:
    """Numbers of bins to try: all when few fit, else shares of the largest number."""
    most = min(records // least, MOST_BINS)
    if most <= 8:
        return list(range(1, most + 1))
    return sorted({int(most * share) for share in BIN_SHARES})


def _sub_table(group: Group, protected: NDArray[np.bool_], costs: Costs) -> SubTable:
    largest = int(group.true_counts[protected[group.values]].max())
    if costs.conceal:
        cell = concealed(np.array([group.size]), np.array([group.values.size]), np.array([largest]))
        largest = int(cell[0])
    gamma = costs.gamma(group.size, largest)
    assert gamma is not None, "the plan's price was finite"
    return SubTable(values=group.values, true_counts=group.true_counts, gamma=gamma)
