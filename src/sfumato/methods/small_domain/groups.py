"""Groups of records in which no value stands out, sets of values not to give away, and an order of groups."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...errors import SpecError
from ...model.public import Domain

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
