"""Sets of values that a sub-table must not give away: the values of each column of a compound value, and listed ones.

A set that holds at most rho1 of the table must hold at most rho1 of every sub-table; then Theorem 1 covers it, because
the channel of a sub-table lifts a set as it lifts a value (docs/explanation/small-domain.md, 3.6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from ...errors import SpecError
from ...model.public import Domain
from .balancing import Codes, Counts, Group

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
