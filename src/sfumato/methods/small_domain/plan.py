"""How records are split into sub-tables: groups in which no value stands out, and the cheapest plan of them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, inf, log, sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...errors import PlanError, SpecError
from ...model.public import Domain, Floats
from ...stats.gamma import floor_significant, gamma_bound, keep_probabilities

# --- balancing --------------------------------------------------------------------------------------------------------
# Records split into groups in which no value stands out (docs/explanation/small-domain.md, 3.1 and 3.2).
#
# A histogram is theta-balanced when its largest count is at most its total over theta. Taking the same number of
# records from each of the theta most frequent values, again and again, keeps the rest balanced and gives groups
# with theta equally frequent values. Groups are short lists of values: no table of groups times values is built.


Codes = NDArray[np.int64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Which values a group of records holds, and how many records of each. Private: the counts are true counts."""

    values: Codes  # ascending, distinct
    true_counts: Counts  # of the same length, all positive

    @property
    def size(self) -> int:
        """How many records the group holds."""
        return int(self.true_counts.sum())


def group_of(values: Codes, true_counts: Counts) -> Group:
    """The group with these counts: values sorted, repeated values added up, empty ones left out."""
    distinct, position = np.unique(values, return_inverse=True)
    total = np.bincount(position, weights=true_counts, minlength=distinct.size).astype(np.int64)
    return Group(values=distinct[total > 0], true_counts=total[total > 0])


def join(groups: Sequence[Group]) -> Group:
    """All records of several groups as one."""
    if len(groups) == 1:
        return groups[0]
    return group_of(np.concatenate([g.values for g in groups]), np.concatenate([g.true_counts for g in groups]))


def balance(true_counts: Counts, theta: int) -> list[Group]:
    """The records as groups of `theta` equally frequent values; at most one last group is not flat.

    `true_counts` must be theta-balanced. Each step takes h records from each of the theta most frequent values
    (ties: lowest code), h as large as the rest stays balanced; h = 0 takes everything left, which is fewer than
    theta^2 records. Time O(t theta log m) for t groups.
    """
    remaining = int(true_counts.sum())
    if theta < 1 or remaining < theta * int(true_counts.max(initial=0)):
        raise ValueError(f"the counts are not {theta}-balanced")
    return list(_steps(true_counts, theta, remaining))


def _steps(true_counts: Counts, theta: int, remaining: int) -> Iterator[Group]:
    heap = [(-int(count), value) for value, count in enumerate(true_counts.tolist()) if count]
    heapq.heapify(heap)
    while remaining:
        top = [heapq.heappop(heap) for _ in range(theta)]
        first, last, following = -top[0][0], -top[-1][0], -heap[0][0] if heap else 0
        exhausts = remaining - theta * max(first - last, following) >= theta * last  # and the rest stays balanced
        h = last if exhausts else remaining // theta - following
        if h == 0:
            rest = top + heap
            yield group_of(np.array([v for _, v in rest]), np.array([-c for c, _ in rest]))
            return
        yield Group(values=np.sort(np.array([v for _, v in top])), true_counts=np.full(theta, h, dtype=np.int64))
        for count, value in top:
            if -count > h:
                heapq.heappush(heap, (count + h, value))
        remaining -= theta * h


def hand_out(groups: Sequence[Group], true_counts: Counts, *, split: bool = False) -> list[Group]:
    """The groups with further records shared out in proportion to their sizes, most frequent value first.

    `true_counts` are those of values that no group holds yet (the unprotected ones). Filling group after group
    gives each group few of them. Quotas round down; the last group takes what rounding leaves. With `split`, a
    group is cut where the value handed out changes, so that each part gets one of them only.
    """
    total = int(true_counts.sum())
    if total == 0:
        return list(groups)
    sizes = [g.size for g in groups]
    base = sum(sizes)
    quotas = [size * total // base for size in sizes]
    quotas[-1] += total - sum(quotas)
    order = np.argsort(-true_counts, kind="stable")
    order = order[true_counts[order] > 0]
    ends = np.cumsum(true_counts[order])
    filled, start = [], 0
    for group, quota in zip(groups, quotas, strict=True):
        if quota == 0:
            filled.append(group)
            continue
        stop = start + quota
        near = slice(int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(ends, stop, side="left")) + 1)
        until = np.minimum(ends[near], stop) - start  # the quota is used up to here after each value
        share = np.diff(until, prepend=0)
        if split:
            parts = zip(_cut(group, until, quota), order[near], share, strict=True)
            filled += [join([part, Group(values=np.array([v]), true_counts=np.array([c]))]) for part, v, c in parts]
        else:
            filled.append(join([group, group_of(order[near], share)]))
        start = stop
    return filled


def _cut(group: Group, until: Counts, quota: int) -> Iterator[Group]:
    """The group in parts proportional to the steps of `until`, which ends at `quota`."""
    steps = np.diff(group.true_counts[:, None] * until[None, :] // quota, axis=1, prepend=0)
    return (group_of(group.values, column) for column in steps.T)


# --- value sets -------------------------------------------------------------------------------------------------------
# Sets of values that a sub-table must not give away: the values of each column of a compound value, and listed ones.
#
# A set that holds at most rho1 of the table must hold at most rho1 of every sub-table; then Theorem 1 covers it,
# because the channel of a sub-table lifts a set as it lifts a value (docs/explanation/small-domain.md, 3.6).


Ints = NDArray[np.int64]
Rows = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSet:
    """A set of codes, and what people call it."""

    name: str
    codes: tuple[int, ...]  # ascending


def sets_to_hold(groups: Mapping[str, Rows], domain: Domain) -> tuple[tuple[ValueSet, ...], tuple[str, ...]]:
    """(the sets of values to hold: those of compound values, and the listed ones; what to say about them)."""
    sets, notes = list(column_sets(domain)), []
    for column, rows in groups.items():
        listed, unknown = listed_sets(domain, column, rows)
        sets += listed
        if unknown:
            notes.append(f'{unknown} values listed in the groups of "{column}" do not occur')
    return tuple(sets), tuple(notes)


def about_sets(sets: int, rho1: Fraction) -> str:
    """The guarantee's sentence on sets of values; empty where none is held."""
    if not sets:
        return ""
    return (
        f" The same holds for {sets} stated sets of values: none that has at most {rho1} of the table has more than "
        f"{rho1} of a sub-table."
    )


def column_sets(domain: Domain) -> tuple[ValueSet, ...]:
    """For a compound value: every value of every one of its columns, as the set of compound values that have it."""
    if len(domain.columns) < 2:
        return ()
    found = []
    for j, column in enumerate(domain.columns):
        having: dict[object, list[int]] = {}
        for code, value in enumerate(domain.values):
            having.setdefault(value[j], []).append(code)
        found += [ValueSet(name=f'a value of "{column}"', codes=tuple(codes)) for codes in having.values()]
    return tuple(found)


def listed_sets(domain: Domain, column: str, rows: Rows) -> tuple[tuple[ValueSet, ...], int]:
    """(the sets that a file lists for a column, how many listed values do not occur).

    In a hierarchy the first cell of a row is a value and the others are labels: rows with the same label form a set.
    Otherwise every line is a set of values.
    """
    if column not in domain.columns:
        raise SpecError(f'groups are given for "{column}", which is not a sensitive column', field="protect_groups")
    j = domain.columns.index(column)
    having: dict[str, list[int]] = {}
    for code, value in enumerate(domain.values):
        having.setdefault("" if value[j] is None else str(value[j]), []).append(code)
    sets: dict[str, list[str]] = {}
    if _is_hierarchy(rows, having):
        for row in rows:
            for level, label in enumerate(row[1:], start=1):
                sets.setdefault(f'"{label}" (level {level} of "{column}")', []).append(row[0])
    else:
        sets = {f'set {number} of "{column}"': list(row) for number, row in enumerate(rows, start=1)}
    listed = {value for values in sets.values() for value in values}
    made = [
        ValueSet(name=name, codes=tuple(sorted({c for value in values for c in having.get(value, ())})))
        for name, values in sets.items()
    ]
    if not any(s.codes for s in made):
        raise SpecError(f'no listed group of "{column}" has a value that occurs', field="protect_groups")
    return tuple(s for s in made if s.codes), sum(value not in having for value in listed)


def _is_hierarchy(rows: Rows, having: Mapping[str, object]) -> bool:
    """Rows of one length, each about another value, with labels that repeat and are not all values themselves."""
    one_length = len({len(row) for row in rows}) == 1 and len(rows[0]) > 1
    own_value = len({row[0] for row in rows}) == len(rows)
    return (
        one_length
        and own_value
        and len({row[-1] for row in rows}) < len(rows)
        and not all(cell in having for row in rows for cell in row[1:])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLimits:
    """The sets that hold at most rho1 of a table, and the check that no sub-table gives one more."""

    rho1: Fraction
    names: tuple[str, ...]
    member: NDArray[np.int64]  # (sets, values): 1 where the set has the value
    shares: tuple[Fraction, ...]  # of the table

    @classmethod
    def of(cls, sets: Sequence[ValueSet], true_counts: Counts, rho1: Fraction) -> SetLimits | None:
        """The limits, or None where no set of two values or more is to be protected."""
        rows = int(true_counts.sum())
        chosen: dict[bytes, tuple[str, Ints, Fraction]] = {}
        for each in sets:
            here = np.zeros(true_counts.size, dtype=np.int64)
            here[list(each.codes)] = 1
            here[true_counts == 0] = 0
            count = int((here * true_counts).sum())
            if here.sum() > 1 and count * rho1.denominator <= rows * rho1.numerator:
                chosen.setdefault(here.tobytes(), (each.name, here, Fraction(count, rows)))
        if not chosen:
            return None
        names, member, shares = zip(*chosen.values(), strict=True)
        return cls(rho1=rho1, names=names, member=np.array(member), shares=shares)

    def counts(self, group: Group) -> Ints:
        """Records of every set in a group."""
        found: Ints = self.member[:, group.values] @ group.true_counts
        return found

    def held(self, counts: Ints, sizes: Ints) -> NDArray[np.bool_]:
        """Which of some sub-tables keep every set at rho1; `counts` is (sub-tables, sets)."""
        most: NDArray[np.int64] = sizes * self.rho1.numerator
        return np.asarray((counts * self.rho1.denominator <= most[:, None]).all(axis=1), dtype=bool)

    def worst(self, groups: Sequence[Group]) -> tuple[str, Fraction, Fraction]:
        """(name, share of the table, largest share of a sub-table) of the set that stands out most."""
        found = [
            (Fraction(int(count), group.size), k) for group in groups for k, count in enumerate(self.counts(group))
        ]
        share, k = max(found)
        return self.names[k], self.shares[k], share

    def lines(self, true_counts: Counts, protected: NDArray[np.bool_], *, pack: bool) -> list[Codes]:
        """Values in lines that are cut alike: values of the same sets together, so that every sub-table gets an even
        part of each set. With `pack`, lines share a place up to rho1 of the table: fewer values in each sub-table."""
        shielded, open_ = np.flatnonzero(protected & (true_counts > 0)), np.flatnonzero(~protected & (true_counts > 0))
        _, atom = np.unique(self.member[:, shielded].T, axis=0, return_inverse=True)
        inside = self.member[:, shielded].any(axis=0)
        atom = atom.reshape(-1)
        atoms = [shielded[inside & (atom == a)] for a in np.unique(atom[inside])]
        atoms += [np.array([v]) for v in shielded[~inside]]
        if pack:
            atoms = self._packed(atoms, true_counts)
        else:
            loose = [a for a in atoms if not self.member[:, a[0]].any()]
            atoms = [a for a in atoms if self.member[:, a[0]].any()] + self._packed(loose, true_counts)
        return [*atoms, *([open_] if open_.size else [])]

    def _packed(self, atoms: Sequence[Codes], true_counts: Counts) -> list[Codes]:
        """First fit, largest first, up to rho1 of the table."""
        most = int(true_counts.sum()) * self.rho1.numerator
        filled: list[int] = []
        packs: list[list[Codes]] = []
        for atom in sorted(atoms, key=lambda a: (-int(true_counts[a].sum()), int(a[0]))):
            size = int(true_counts[atom].sum()) * self.rho1.denominator
            place = next((k for k, used in enumerate(filled) if used + size <= most), None)
            if place is None:
                filled.append(size)
                packs.append([atom])
            else:
                filled[place] += size
                packs[place].append(atom)
        return [np.concatenate(pack) for pack in packs]


def slices(true_counts: Counts, lines: Sequence[Codes], bins: int) -> list[Group]:
    """`bins` groups, each with the same part of every line (to a record); a line's values stay side by side."""
    values, records, places = [], [], []
    for line in lines:
        ends = np.concatenate([[0], np.cumsum(true_counts[line])])
        cuts = int(ends[-1]) * np.arange(bins + 1) // bins
        points = np.unique(np.concatenate([ends, cuts]))
        values.append(line[np.searchsorted(ends, points[:-1], side="right") - 1])
        places.append(np.searchsorted(cuts, points[:-1], side="right") - 1)
        records.append(np.diff(points))
    value, record, place = (np.concatenate(parts) for parts in (values, records, places))
    order = np.lexsort((value, place))
    cut = np.cumsum(np.bincount(place, minlength=bins))[:-1]
    in_bin = np.split(value[order], cut), np.split(record[order], cut)
    return [Group(values=v, true_counts=r) for v, r in zip(*in_bin, strict=True)]


# --- rearranging ------------------------------------------------------------------------------------------------------
# An order of groups in which groups that share values stand close together (docs/explanation/small-domain.md, 3.3).
#
# Reverse Cuthill-McKee on the graph whose edges join groups with a common value. Library routines break ties as
# they like and can give much worse plans (and not the paper's example), so every tie is fixed here.


def candidate_orders(groups: Sequence[Group]) -> list[list[int]]:
    """Orders worth merging along: two reverse Cuthill-McKee orders, then the order as it is; no repeats."""
    adjacent = _sharing(groups)
    orders = [_reverse_cuthill_mckee(adjacent, highest=flag) for flag in (True, False)]
    orders.append(list(range(len(groups))))
    return [order for at, order in enumerate(orders) if order not in orders[:at]]


def _sharing(groups: Sequence[Group]) -> NDArray[np.bool_]:
    """adjacent[i, j]: groups i and j differ and have a value in common."""
    values = np.concatenate([g.values for g in groups])
    rows = np.repeat(np.arange(len(groups)), [g.values.size for g in groups])
    holds = csr_array((np.ones(values.size), (rows, values)), shape=(len(groups), int(values.max()) + 1))
    adjacent: NDArray[np.bool_] = (holds @ holds.T).toarray() > 0
    np.fill_diagonal(adjacent, val=False)
    return adjacent


def _reverse_cuthill_mckee(adjacent: NDArray[np.bool_], *, highest: bool) -> list[int]:
    """Breadth first from a node of least degree (equal degrees: highest or lowest index), reversed."""
    degree = adjacent.sum(axis=1)
    index = np.arange(degree.size)
    unseen = np.ones(degree.size, dtype=bool)
    order: list[int] = []
    for start in np.lexsort((-index if highest else index, degree)).tolist():
        if not unseen[start]:
            continue
        unseen[start] = False
        at = len(order)
        order.append(start)
        while at < len(order):
            neighbours = np.flatnonzero(adjacent[order[at]] & unseen)
            unseen[neighbours] = False
            order.extend(neighbours[np.argsort(degree[neighbours], kind="stable")].tolist())
            at += 1
    return order[::-1]


# The sub-tables of a small-domain release: groups merged or dealt into sub-tables, at the least cost.


# --- merging ----------------------------------------------------------------------------------------------------------
# What a sub-table costs, and the cheapest way to merge a sequence of groups into sub-tables.
#
# Costs use the gamma that will run: capped in strict mode and rounded down, since the exact gamma would give away
# the largest true count. Feasibility is decided in integers. Derivation: docs/explanation/small-domain.md, section 3.4.


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
    sets: SetLimits | None = None  # sets of values that no sub-table may give away
    cap: Fraction | None = field(init=False)  # the largest gamma a sub-table may run with; None in paper mode

    def __post_init__(self) -> None:
        cap = floor_significant(gamma_bound(self.rho1, self.rho2), CAP_DIGITS)
        object.__setattr__(self, "cap", cap if self.strict else None)

    def gamma(self, size: int, largest: int) -> Fraction | None:
        """The gamma to publish and to run, exactly; None when `largest` of `size` records cannot be hidden."""
        if not 0 < largest < size:
            return None
        own = self.rho2 * (size - largest) / (largest * (1 - self.rho2))
        if own <= 1:
            return None
        if self.cap is not None and own >= self.cap:
            return self.cap if self.cap > 1 else None
        rounded = floor_significant(own, self._digits)
        return rounded if rounded > 1 else None

    def gammas(self, sizes: Ints, largest: Ints) -> Floats:
        """`gamma` for many sub-tables at once, the same numbers as floats; nan where infeasible."""
        a, b = self.rho2.numerator, self.rho2.denominator
        cap = self.cap or Fraction(0)
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


# --- even pieces ------------------------------------------------------------------------------------------------------
# Records dealt to a given number of sub-tables of about one size, each with few values.
#
# The paper's groups shrink geometrically, so its last ones fall under any minimum size and must be merged into
# wide sub-tables. Dealing avoids that tail: a value too frequent for one sub-table is cut into as few equal pieces
# as will do, every other value stays whole, and pieces go where there is most room. A sub-table then holds little
# more than theta values, or, when values are rare, little more than its share of them.


def deal(true_counts: Counts, bins: int, piece: int) -> list[Group] | None:
    """`bins` groups of about equal size with at most `piece` records of a value in each; None if that cannot be.

    Frequent values first, each cut into ceil(count / piece) equal pieces for the emptiest bins; then the other
    values in rounds of one for each bin, the most frequent to the emptiest. Ties: lowest index. Deterministic.
    """
    order: Codes = np.argsort(-true_counts, kind="stable")
    order = order[true_counts[order] > 0]
    frequent = int((true_counts > piece).sum())
    room = list(range(bins))  # of every bin its records so far times `bins`, plus its number; ascending
    values, records, places = [], [], []
    for value, count in zip(order[:frequent].tolist(), true_counts[order[:frequent]].tolist(), strict=True):
        pieces = -(-count // piece)
        if pieces > bins:
            return None
        emptiest, room = room[:pieces], room[pieces:]
        least, more = divmod(count, pieces)
        sizes = [least + 1] * more + [least] * (pieces - more)
        values += [value] * pieces
        records += sizes
        places += [one % bins for one in emptiest]
        fuller = [one + size * bins for one, size in zip(emptiest, sizes, strict=True)]
        room = sorted(room + fuller)
    fill = np.zeros(bins, dtype=np.int64)
    for filled, place in (divmod(one, bins) for one in room):
        fill[place] = filled
    rounds: list[tuple[Codes, Counts, NDArray[np.int64]]] = [
        (np.array(values, dtype=np.int64), np.array(records, dtype=np.int64), np.array(places, dtype=np.int64))
    ]
    for start in range(frequent, order.size, bins):
        dealt = order[start : start + bins]
        emptiest_first = np.argsort(fill, kind="stable")[: dealt.size]
        fill[emptiest_first] += true_counts[dealt]
        rounds.append((dealt, true_counts[dealt], emptiest_first))
    if not fill.all():
        return None
    value_of, records_of, bin_of = (np.concatenate(column) for column in zip(*rounds, strict=True))
    ordered = np.lexsort((value_of, bin_of))
    value_of, records_of = value_of[ordered], records_of[ordered]
    ends = np.cumsum(np.bincount(bin_of, minlength=bins)).tolist()
    held = [slice(low, high) for low, high in zip([0, *ends], ends, strict=False)]  # numpy's own split takes longer
    return [Group(values=value_of[these], true_counts=records_of[these]) for these in held]


# --- partitioning -----------------------------------------------------------------------------------------------------
# The sub-tables of a small-domain release: which values and how many records each holds, and its gamma.
#
# On the histogram alone (docs/explanation/small-domain.md, section 3): balance, rearrange, merge. Strict plans also
# try *peel and deal*: the first balanced groups as they are, the rest dealt to sub-tables of about one size. The
# guarantee rests on each sub-table's own counts and gamma, so it does not depend on how the records were split.


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
