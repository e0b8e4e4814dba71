"""What a sub-table costs, and the cheapest way to merge a sequence of groups into sub-tables.

Costs use the gamma that will run: capped in strict mode and rounded down, since the exact gamma would give away
the largest true count. Feasibility is decided in integers. Derivation: docs/explanation/small-domain.md, section 3.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...stats.gamma import floor_significant, gamma_bound, rooted_gamma
from .balancing import Group, join
from .value_sets import SetLimits

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Objective = Literal["variance", "bound"]

CAP_DIGITS = 3  # of the published gamma when it is gamma(rho1, rho2), a parameter
OWN_DIGITS = 2  # when it depends on the sub-table's largest true count, and in paper mode
CELL_DIGITS = 3  # when it depends on that count's cell alone: digits tell no more than the cell
CELL = (3, 10)  # least and most counts that size and gamma leave open
_POWERS_OF_TEN = 10 ** np.arange(18, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The price of sub-tables of one table under one pair of privacy parameters."""

    rho1: Fraction
    rho2: Fraction
    rows: int  # of the whole table
    min_size: int = 1  # of a sub-table that is not the whole table
    strict: bool = True  # gamma at most gamma(rho1, rho2)
    objective: Objective = "variance"
    delta: float = 0.05  # of the paper's bound; scales all of its costs alike
    conceal: bool = False  # size and gamma leave several largest counts open; what is published needs it
    rows_per_person: int = 1  # held together: every sub-table then runs with the cap, whose power is a parameter too
    sets: SetLimits | None = None  # sets of values that no sub-table may give away
    cap: Fraction | None = field(init=False)  # the largest gamma a sub-table may run with; None in paper mode

    def __post_init__(self) -> None:
        cap = rooted_gamma(gamma_bound(self.rho1, self.rho2), self.rows_per_person, CAP_DIGITS)
        object.__setattr__(self, "cap", cap if self.strict else None)

    def gamma(self, size: int, largest: int) -> Fraction | None:
        """The gamma to publish and to run, exactly; None when `largest` of `size` records cannot be hidden."""
        if not 0 < largest < size:
            return None
        own = self.rho2 * (size - largest) / (largest * (1 - self.rho2))
        if own <= 1:
            return None
        if self.cap is not None and own >= self.cap**self.rows_per_person:
            return self.cap if self.cap > 1 else None
        if self.rows_per_person > 1:  # a sub-table with a gamma of its own would spoil the person's other rows
            return None
        rounded = floor_significant(own, self._digits)
        return rounded if rounded > 1 else None

    def gammas(self, sizes: Ints, largest: Ints) -> Floats:
        """`gamma` for many sub-tables at once, the same numbers as floats; nan where infeasible."""
        a, b = self.rho2.numerator, self.rho2.denominator
        cap = self.cap or Fraction(0)
        if self.rows_per_person > 1:
            return self._capped(sizes, largest)
        if self.rows * max(100 * a, b - a, a * cap.denominator, (b - a) * cap.numerator) >= 2**62:
            sizes, largest = sizes.astype(object), largest.astype(object)  # exact at any size, slower
        up, down = a * (sizes - largest), (b - a) * np.maximum(largest, 1)  # gamma = up / down
        gamma = np.full(sizes.size, float(cap))
        own = np.flatnonzero(np.asarray(up * cap.denominator < down * cap.numerator if cap else sizes > 0, dtype=bool))
        gamma[own] = _floor_digits(up[own], down[own], self._digits)
        return np.where((gamma > 1) & np.asarray(largest > 0, dtype=bool), gamma, np.nan)

    @property
    def _digits(self) -> int:
        """Of a gamma that is below the cap."""
        return CELL_DIGITS if self.strict and self.conceal else OWN_DIGITS

    def _capped(self, sizes: Ints, largest: Ints) -> Floats:
        """The cap wherever a person's rows together stay below rho2, nan elsewhere."""
        assert self.cap is not None, "people with several rows are held in strict mode"
        a, b, limit = self.rho2.numerator, self.rho2.denominator, self.cap**self.rows_per_person
        up, down = a * (sizes - largest).astype(object), (b - a) * largest.astype(object)
        held = np.asarray(up * limit.denominator >= down * limit.numerator, dtype=bool)
        return np.where(held & (largest > 0) & (self.cap > 1), float(self.cap), np.nan)

    def price(self, sizes: Ints, domains: Ints, largest: Ints) -> Floats:
        """Cost of sub-tables with these sizes, numbers of values and largest protected counts; inf if not allowed."""
        gamma = self.gammas(sizes, concealed(sizes, domains, largest) if self.conceal else largest)
        if self.objective == "variance":
            cost = sizes * value_variance(domains, gamma)
        else:
            # [PP, eq. 12]: (n_i / n) a / sqrt(n_i) (m_i / (gamma_i - 1) + 1), a = 2 sqrt(ln(2 / delta))
            cost = 2 * sqrt(log(2 / self.delta)) * np.sqrt(sizes) / self.rows * (domains / (gamma - 1) + 1)
        allowed = ~np.isnan(gamma) & ((sizes >= self.min_size) | (sizes == self.rows))
        return np.where(allowed, cost, inf)

    def price_of(self, groups: Sequence[Group], protected: NDArray[np.bool_]) -> float:
        """Total cost of a plan whose sub-tables are these groups."""
        domains = np.array([g.values.size for g in groups], dtype=np.int64)
        start = np.cumsum(domains) - domains
        counts = np.concatenate([g.true_counts for g in groups])
        shielded = np.where(protected[np.concatenate([g.values for g in groups])], counts, 0)
        sizes, largest = np.add.reduceat(counts, start), np.maximum.reduceat(shielded, start)
        if self.sets is not None and not self.sets.held(np.array([self.sets.counts(g) for g in groups]), sizes).all():
            return inf
        return float(self.price(sizes, domains, largest).sum())


def concealed(sizes: Ints, domains: Ints, largest: Ints) -> Ints:
    """The count that gamma is computed from: the largest of several possible ones, of which the true one is any.

    A reader who knows the size n and the m values knows that the most frequent one has n / m records or more. Cells of
    3 to 10 counts start there, and gamma is that of a cell's last count: size and gamma leave the whole cell open.
    """
    least = -(-sizes // np.maximum(domains, 1))
    width = np.clip(least // 20, *CELL)
    return np.asarray(least + ((largest - least) // width + 1) * width - 1)


def _floor_digits(up: Ints, down: Ints, digits: int) -> Floats:
    """up / down rounded down to so many significant digits where it is at least 1; at most 1 elsewhere."""
    scale = 10 ** (digits - 1)
    scaled = np.minimum(scale * up // down, 10**17).astype(np.int64)
    unit = _POWERS_OF_TEN[np.maximum(np.searchsorted(_POWERS_OF_TEN, scaled, side="right") - digits, 0)]
    return np.asarray((scaled // unit * unit) / scale, dtype=np.float64)


def value_variance(domain: Ints | int, gamma: Floats | float) -> Floats:
    """Variance that one record adds to the estimated totals, summed over the m values of its sub-table.

    [(p + q)(1 - p - q) + (m - 1) q (1 - q)] / p^2 with q = 1 / (m - 1 + gamma) and p = (gamma - 1) q
    = (m - 1)(m - 2 + 2 gamma) / (gamma - 1)^2.
    """
    return np.asarray((domain - 1) * (domain - 2 + 2 * gamma) / (gamma - 1) ** 2, dtype=np.float64)


def merge(groups: Sequence[Group], protected: NDArray[np.bool_], costs: Costs) -> tuple[float, list[Group]]:
    """(cost, sub-tables): the cheapest cut of the sequence into runs, each run merged; (inf, []) if none is allowed.

    best[j] = min over r < j of best[r] + cost(r + 1 .. j). For each right end, size, number of values and largest
    protected count are kept for all left ends at once: time O(t^2 theta), memory O(t).
    """
    t = len(groups)
    sizes, domains, largest = (np.zeros(t, dtype=np.int64) for _ in range(3))
    best, cut = np.full(t + 1, inf), np.zeros(t + 1, dtype=np.int64)
    best[0] = 0.0
    seen = _Occurrences(groups, protected)
    until = None if costs.sets is None else np.cumsum([costs.sets.counts(g) for g in groups], axis=0)
    for j, group in enumerate(groups):
        left = slice(0, j + 1)
        sizes[left] += group.size
        domains[left] += seen.new_values(j)
        np.maximum(largest[left], seen.most_frequent(j), out=largest[left])
        total = best[left] + costs.price(sizes[left], domains[left], largest[left])
        if costs.sets is not None and until is not None:
            before = np.concatenate([np.zeros((1, until.shape[1]), dtype=np.int64), until[:j]])
            total = np.where(costs.sets.held(until[j] - before, sizes[left]), total, inf)
        cut[j + 1] = int(np.argmin(total))
        best[j + 1] = total[cut[j + 1]]
    if best[t] == inf:
        return inf, []
    runs, end = [], t
    while end:
        start = int(cut[end])
        runs.append(join(groups[start:end]))
        end = start
    return float(best[t]), runs[::-1]


class _Occurrences:
    """Where each value of a sequence of groups occurs: flat arrays sorted by (value, group)."""

    def __init__(self, groups: Sequence[Group], protected: NDArray[np.bool_]) -> None:
        values = np.concatenate([g.values for g in groups])
        group_of = np.repeat(np.arange(len(groups)), [g.values.size for g in groups])
        order = np.argsort(values, kind="stable")
        values = values[order]
        self.group_of: Ints = group_of[order]
        self.until: Ints = np.cumsum(np.concatenate([g.true_counts for g in groups])[order])
        self.before: Ints = np.concatenate([[0], self.until[:-1]])
        new = np.concatenate([[True], values[1:] != values[:-1]])
        self.first: Ints = np.maximum.accumulate(np.where(new, np.arange(values.size), 0))
        self.after_last: Ints = np.where(new, 0, np.roll(self.group_of, 1) + 1)  # one past the value's last group
        self.protected: NDArray[np.bool_] = protected[values]
        self.in_group = np.split(np.argsort(self.group_of, kind="stable"), np.cumsum(np.bincount(group_of))[:-1])

    def new_values(self, j: int) -> Ints:
        """For each left end i <= j: how many values of group j no group of i .. j - 1 holds."""
        return np.cumsum(np.bincount(self.after_last[self.in_group[j]], minlength=j + 1))

    def most_frequent(self, j: int) -> Ints:
        """For each left end i <= j: the records in i .. j of the protected value of group j that has most."""
        here = self.in_group[j][self.protected[self.in_group[j]]]
        reach = np.zeros(j + 1, dtype=np.int64)
        lengths = here - self.first[here] + 1
        stops = np.cumsum(lengths)
        flat = np.arange(int(stops[-1]) if here.size else 0) + np.repeat(here + 1 - stops, lengths)
        # a run that starts at or before group l holds at least the records from l on: scatter, then sweep left
        np.maximum.at(reach, self.group_of[flat], np.repeat(self.until[here], lengths) - self.before[flat])
        return np.maximum.accumulate(reach[::-1])[::-1]
