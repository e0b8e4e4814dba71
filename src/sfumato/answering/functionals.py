"""From a question and what was observed to the linear functionals a mechanism estimates.

Every aggregate is a sum of functionals: sum over rows of g(untouched) * h(true value). Here the coefficients h are
laid out over the joint classes of the involved units, one row per functional, once per pattern of untouched leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..model.public import Asked, Codes, Floats, Observed
from ..sql.nodes import ALWAYS, TRUE, Aggregate, Query, Term, Truth, conjunction
from ..stats.joint_codes import sum_by_group


@dataclass(frozen=True, slots=True)
class UnitView:
    """A unit as the question sees its domain: truth of the leaves, group of each value, numbers to sum."""

    size: int
    leaves: Mapping[int, Truth]  # leaf number -> truth for every domain value
    groups: Mapping[int, Codes]  # key number -> group of every domain value
    numbers: Mapping[int, Floats]  # value number -> number of every domain value

    def classes(self, *, lumpable: bool) -> tuple[Codes, NDArray[np.intp]]:
        """(class of every value, one value of every class); one class per value unless `lumpable`."""
        if not lumpable or not self.size:
            codes = np.arange(self.size, dtype=np.int32)
            return codes, codes.astype(np.intp)
        columns = [*self.leaves.values(), *self.groups.values(), *self.numbers.values()]
        signature = np.stack([np.asarray(c, dtype=float) for c in columns], axis=1)
        _, first, inverse = np.unique(signature, axis=0, return_index=True, return_inverse=True)
        return inverse.reshape(-1).astype(np.int32), first


@dataclass(frozen=True, slots=True)
class Views:
    """How the question sees every involved unit."""

    views: Mapping[int, UnitView]
    labels: Mapping[int, pa.Array]  # unit key number -> value of every group


@dataclass(frozen=True, slots=True)
class Functional:
    """One (F) row before the grouping of units: terms that share a measure, added."""

    terms: tuple[Term, ...]
    measure: int


def functionals(aggregate: Aggregate) -> tuple[list[Functional], list[Functional]]:
    """Numerator and denominator of an aggregate, terms of equal measure merged."""
    above, below = (
        [Functional(tuple(t for t in terms if t.measure == m), m) for m in dict.fromkeys(t.measure for t in terms)]
        for terms in (aggregate.numerator, aggregate.denominator)
    )
    return above or [Functional((), 0)], below


def places(wanted: list[Functional], aggregate: Aggregate) -> tuple[list[int], list[int]]:
    """Where the functionals above and below an aggregate stand among the wanted ones, which they join."""
    sides = functionals(aggregate)
    wanted += dict.fromkeys(functional for side in sides for functional in side if functional not in wanted)
    above, below = ([wanted.index(functional) for functional in side] for side in sides)
    return above, below


def unscaled(aggregate: Aggregate) -> tuple[Aggregate, float]:
    """(the aggregate without a factor that all of its terms share, the factor): a percentage is a share first.

    So a count keeps its interval, whatever it is multiplied by.
    """
    if aggregate.kind not in {"sum", "ratio"}:
        return aggregate, 1.0
    above, below = ({t.scale for t in terms} for terms in (aggregate.numerator, aggregate.denominator))
    top, bottom = (held.pop() if len(held) == 1 and 0.0 not in held else 1.0 for held in (above, below))
    plain = replace(
        aggregate,
        numerator=tuple(replace(t, scale=t.scale / top) for t in aggregate.numerator),
        denominator=tuple(replace(t, scale=t.scale / bottom) for t in aggregate.denominator),
    )
    return plain, top / bottom


@dataclass(frozen=True, slots=True)
class Layout:
    """The joint classes of the involved units."""

    units: tuple[int, ...]
    views: Mapping[int, UnitView]
    classes: tuple[Codes, ...]
    firsts: tuple[NDArray[np.intp], ...]
    sets: Mapping[int, int]  # unit whose cells show sets -> number of listed sets

    @property
    def observed_shape(self) -> tuple[int, ...]:
        """How many classes, or sets, the published cells of each unit are told apart by."""
        return tuple(self.sets.get(u, size) for u, size in zip(self.units, self.shape, strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(f) for f in self.firsts)

    def along(self, u: int, per_value: NDArray[Any]) -> NDArray[Any]:
        """A per-value array of unit u as an array over classes, shaped to broadcast over all joint classes."""
        axis = self.units.index(u)
        shape = [1] * len(self.units)
        shape[axis] = -1
        return per_value[self.firsts[axis]].reshape(shape)


def layout(
    units: tuple[int, ...], views: Mapping[int, UnitView], *, lumpable: bool, sets: Mapping[int, int] | None = None
) -> Layout:
    """Classes of every involved unit; `sets`: of units whose cells show sets of values, how many are listed."""
    pairs = [views[u].classes(lumpable=lumpable) for u in units]
    return Layout(units, views, tuple(p[0] for p in pairs), tuple(p[1] for p in pairs), sets or {})


def _counted(
    query: Query, functional: Functional, place: Layout, pattern: NDArray[np.int8]
) -> tuple[NDArray[np.intp], Floats]:
    """(joint classes where a functional's coefficients are not 0, coefficients there), for one pattern of truths."""
    shape = place.shape or (1,)
    truths = [
        pattern[i] if leaf.unit is None else place.along(leaf.unit, place.views[leaf.unit].leaves[i])
        for i, leaf in enumerate(query.leaves)
    ]
    h = np.zeros(shape)
    for term in functional.terms:
        holds = conjunction((query.where, term.condition)).truth(truths) == TRUE
        number: Floats | float = 1.0
        if term.value >= 0:
            unit, _ = query.values[term.value]
            number = place.along(unit, place.views[unit].numbers[term.value])
        h = h + holds * term.scale * number
    flat = h.ravel()
    at = np.flatnonzero(flat)
    return at, flat[at]


def coefficients(
    query: Query, wanted: Sequence[Functional], keys: Sequence[int], place: Layout, patterns: NDArray[np.int8]
) -> tuple[tuple[csr_array, ...], list[tuple[int, ...]]]:
    """One (F, V) matrix per pattern of untouched leaves, and the groups of unit keys that F enumerates.

    Functional f = group * len(wanted) + j. `patterns[b, i]` is the truth of leaf i where it is untouched.
    """
    group, sizes = _groups(query, keys, place)
    shape, groups = place.shape or (1,), int(np.prod(sizes)) if sizes else 1
    matrices = []
    for pattern in patterns:
        found = [_counted(query, functional, place, pattern) for functional in wanted]
        row = np.concatenate([group[at] * len(wanted) + j for j, (at, _) in enumerate(found)])
        order = np.argsort(row, kind="stable") if sizes else slice(None)  # else rows come one after the other
        start = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=groups * len(wanted)))])
        column, data = (np.concatenate(part)[order] for part in zip(*found, strict=True))
        matrices.append(csr_array((data, column, start), shape=(groups * len(wanted), int(np.prod(shape)))))
    combos: list[tuple[int, ...]] = list(np.ndindex(*sizes)) if sizes else [()]
    return tuple(matrices), combos


def _groups(query: Query, keys: Sequence[int], place: Layout) -> tuple[NDArray[np.int64], list[int]]:
    """(the group of unit keys of every joint class, how many groups each of these keys has)."""
    unit_keys = [(i, unit) for i in keys if (unit := query.keys[i].unit) is not None]
    sizes = [int(place.views[unit].groups[i].max()) + 1 for i, unit in unit_keys]
    shape = place.shape or (1,)
    group = np.zeros(shape, dtype=np.int64)
    for (i, unit), size in zip(unit_keys, sizes, strict=True):
        group = group * size + place.along(unit, place.views[unit].groups[i].astype(np.int64))
    return np.broadcast_to(group, shape).ravel(), sizes


def reachable(
    query: Query, keys: Sequence[int], place: Layout, patterns: NDArray[np.int8], seen: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Output rows that some value may lie in, K times groups of unit keys; `seen[k, b]`: key k has rows of pattern b.

    SQL has no row for a group that WHERE leaves empty, nor for a combination of values that the domain does not have.
    """
    group, sizes = _groups(query, keys, place)
    every = Functional((Term(ALWAYS),), 0)
    held = np.zeros((len(patterns), int(np.prod(sizes)) if sizes else 1), dtype=np.float32)
    for b, pattern in enumerate(patterns):
        held[b, group[_counted(query, every, place, pattern)[0]]] = 1
    return np.asarray(seen.astype(np.float32) @ held > 0).ravel()


def products(moments: Sequence[tuple[int, int]], measures: int) -> NDArray[np.intp]:
    """Table of the moment column that holds the sum of measure a times measure b."""
    table = np.zeros((measures, measures), dtype=np.intp)
    for j, (a, b) in enumerate(moments):
        table[a, b] = table[b, a] = j
    return table


@dataclass(frozen=True, slots=True)
class Limits:
    """What is possible at all, (K, F): every row at its least and at its largest coefficient."""

    low: Floats
    high: Floats


def limits(observed: Observed, asked: Asked, positive: Floats) -> Limits:
    """Trivial limits of every functional; `positive` are the sums of the positive parts of the measures, by entry."""
    F = asked.functionals
    least, most = np.zeros((len(asked.coefficients), F)), np.zeros((len(asked.coefficients), F))
    for b, H in enumerate(asked.coefficients):
        if H.shape[1]:
            most[b], least[b] = H.max(axis=1).toarray(), H.min(axis=1).toarray()
    above, all_of_it = (sum_by_group(sums, observed.stratum, observed.strata) for sums in (positive, observed.moments))
    up = above[:, asked.measure]
    down = all_of_it[:, asked.products[0, asked.measure]] - up
    h_least, h_most = least[observed.pattern], most[observed.pattern]
    low = sum_by_group(up * h_least + down * h_most, observed.key, observed.keys)
    high = sum_by_group(up * h_most + down * h_least, observed.key, observed.keys)
    return Limits(low, high)
