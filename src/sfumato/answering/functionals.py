"""From a question and what was observed to the linear functionals that a mechanism estimates.

Every aggregate is a sum of functionals: sum over rows of g(untouched) * h(true value). The coefficients h are laid out
over the joint classes of the involved units, one row per functional, once per pattern of untouched leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ..engines.codes import factorise
from ..errors import QueryError
from ..model.public import Asked, Codes, Estimated, Floats, Observed
from ..sql.nodes import ALWAYS, TRUE, UNKNOWN, Aggregate, Query, Term, Truth, conjunction
from ..stats.joint_codes import distinct_rows, joint_ranks, sum_by_group
from .observe import Frame, Layout, truth


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
    query: Query,
    keys: Sequence[int],
    place: Layout,
    patterns: NDArray[np.int8],
    seen: NDArray[np.bool_],
    terms: tuple[Term, ...] = (Term(ALWAYS),),
) -> NDArray[np.bool_]:
    """Output rows in which the terms may count a row, K times groups of unit keys.

    `seen[k, b]`: key k has rows of pattern b. SQL has no output row for a group that WHERE leaves empty, nor for a
    combination of values that the domain does not have.
    """
    group, sizes = _groups(query, keys, place)
    every = Functional(terms, 0)
    held = np.zeros((len(patterns), int(np.prod(sizes)) if sizes else 1), dtype=np.float32)
    for b, pattern in enumerate(patterns):
        held[b, group[_counted(query, every, place, pattern)[0]]] = 1
    return np.asarray(seen.astype(np.float32) @ held > 0).ravel()


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


# What was observed, sorted into strata: rows that agree on everything asked of untouched columns.
#
# Every aggregate is then estimated from strata and units of its own, so that its error does not depend on what else is
# asked. An aggregate that does not ask for some of what a SELECT asks would have its rows cut into more pieces than it
# needs, and pieces are not added up without loss: variances are clipped and bounds are sharp piece by piece. So pieces
# that one aggregate cannot tell apart are put together first, and units whose value does not matter to it are left out.


Estimate = Callable[[Observed, Asked], Estimated]


@dataclass(frozen=True, slots=True)
class Strata:
    """The observed rows sorted into strata; `patterns[b]` is the truth of the untouched leaves."""

    stratum: NDArray[np.intp]
    first: NDArray[np.intp]  # an observed row of every stratum
    pattern: NDArray[np.intp]
    patterns: NDArray[np.int8]
    value: NDArray[np.intp]
    part: NDArray[np.int64]
    moments: Floats
    positive: Floats
    keys: Mapping[int, tuple[Codes, pa.Array]]  # untouched key -> (group of every observed row, values)
    numbers: Floats | None = None  # the measures of every observed row, where it has rows of one number each only


def sort_into_strata(frame: Frame) -> Strata:
    query, wanted, seen = frame.query, frame.wanted, frame.seen
    rows = seen.num_rows
    keys = {i: factorise(seen[name]) for i, name in wanted.keys.items()}
    leaf_truth = {i: truth(seen[name]) for i, name in wanted.leaves.items()}
    plain = [i for i, leaf in enumerate(query.leaves) if leaf.unit is None]
    patterns, pattern = distinct_rows([leaf_truth[i] for i in plain], rows)
    full = np.full((len(patterns), len(query.leaves)), UNKNOWN, dtype=np.int8)
    full[:, plain] = patterns
    stratum_rows, stratum = distinct_rows([*(codes for codes, _ in keys.values()), pattern], rows)
    first = np.zeros(len(stratum_rows), dtype=np.intp)
    if len(first) > 1:
        first[stratum[::-1]] = np.arange(rows)[::-1]
    value = np.zeros(rows, dtype=np.intp)
    for axis, u in enumerate(frame.place.units if wanted.raw or wanted.bits else ()):
        mine: NDArray[Any]
        if u in frame.place.sets and u in wanted.raw:
            mine = frame.codes[u]
        elif u in wanted.raw:
            mine = (
                frame.place.classes[axis][frame.codes[u]]
                if len(frame.place.classes[axis]) > frame.codes[u].max(initial=-1)
                else frame.codes[u]
            )
        elif u in wanted.bits:
            mine = _class_of_bits([leaf_truth[i] for i in wanted.bits[u]], frame.place, u, wanted.bits[u], rows)
        else:
            mine = np.zeros(rows, dtype=np.intp)
        value = value * frame.place.sets.get(u, frame.place.shape[axis]) + mine
    moments = _floats(seen, [f"m{j}" for j in range(len(wanted.moments))])
    positive = np.column_stack([moments[:, :1], _floats(seen, list(wanted.positive.values()))])
    if not (np.isfinite(moments).all() and np.isfinite(positive).all()):
        raise QueryError(
            "the question is about numbers that are infinite, not numbers (NaN) or too large; they have no error",
            sql=query.text,
            hint="Leave them out, for example: WHERE column BETWEEN -1e100 AND 1e100.",
        )
    return Strata(
        stratum=stratum,
        first=first,
        pattern=pattern[first],
        patterns=full,
        value=value,
        part=seen[wanted.part].to_numpy().astype(np.int64) if wanted.part else np.zeros(rows, dtype=np.int64),
        moments=moments,
        positive=positive,
        keys=keys,
        numbers=np.column_stack([np.ones(rows), _floats(seen, wanted.numbers)]) if wanted.numbers else None,
    )


def _floats(table: pa.Table, names: Sequence[str]) -> Floats:
    """Columns side by side; the sums of no rows, which are NULL, count as 0."""
    columns = [pc.fill_null(table[name], 0.0).to_numpy() for name in names]
    return np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0))


def _class_of_bits(bits: list[Truth], place: Layout, u: int, leaves: tuple[int, ...], rows: int) -> NDArray[np.intp]:
    """The class whose values have the observed truth of every leaf."""
    axis = place.units.index(u)
    classes = len(place.firsts[axis])
    both = [  # classes first, then rows; ranked together, so that equal patterns get equal numbers
        np.concatenate([place.views[u].leaves[i][place.firsts[axis]].astype(np.int64), bit.astype(np.int64)])
        for i, bit in zip(leaves, bits, strict=True)
    ]
    joint, _ = joint_ranks([bit - bit.min(initial=0) for bit in both], classes + rows)
    stated, found = joint[:classes], joint[classes:]
    order = np.argsort(stated)
    return order[np.searchsorted(stated[order], found)]


def key_columns(
    frame: Frame,
    strata: Strata,
    keys: tuple[int, ...],
    groups: NDArray[Any],
    plain: list[int],
    combos: list[tuple[int, ...]],
) -> dict[str, pa.Array]:
    """Columns k0, k1 ... of the output rows; NULL for keys outside this grouping set."""
    rows = len(groups) * len(combos)
    of_unit = [i for i in keys if frame.query.keys[i].unit is not None]
    columns: dict[str, pa.Array] = {}
    for i, key in enumerate(frame.query.keys):
        values = frame.labels[i] if key.unit is not None else strata.keys[i][1]
        if i not in keys:
            columns[f"k{i}"] = pa.nulls(rows, type=values.type)
        elif key.unit is not None:
            picks = np.array([c[of_unit.index(i)] for c in combos], dtype=np.int64)
            columns[f"k{i}"] = values.take(pa.array(np.tile(picks, len(groups))))
        else:
            picks = groups[:, plain.index(i)].astype(np.int64)
            columns[f"k{i}"] = values.take(pa.array(np.repeat(picks, len(combos))))
    return columns


@dataclass(frozen=True, slots=True)
class _Family:
    """Functionals of aggregates that cut the rows alike: their numbers, a class for every pattern, the axes they use.

    Two patterns of one class have the same coefficients in all of them.
    """

    chosen: NDArray[np.intp]
    class_: NDArray[np.intp]
    axes: tuple[int, ...]


def estimate_apart(estimate: Estimate, observed: Observed, asked: Asked) -> Estimated:
    """What `estimate` says of every aggregate when it is asked alone, laid out as if all were asked together.

    Functionals whose covariance is wanted belong to one aggregate; aggregates that cut the rows alike share a call.
    """
    K, F = observed.keys, asked.functionals
    value, variance, low, high = (np.zeros((K, F)) for _ in range(4))
    minimum, maximum, inverted = np.full((K, F), np.nan), np.full((K, F), np.nan), np.zeros((K, F), dtype=bool)
    covariance, caveats = np.zeros((K, len(asked.pairs))), dict[str, None]()
    bounded = assumed = False
    for family in _families(asked):
        chosen = family.chosen
        found = estimate(*_own(observed, asked, family))
        value[:, chosen], variance[:, chosen] = found.value, found.variance
        low[:, chosen], high[:, chosen] = found.low, found.high
        if found.minimum is not None and found.maximum is not None:
            minimum[:, chosen], maximum[:, chosen], bounded = found.minimum, found.maximum, True
        if found.inverted is not None:
            inverted[:, chosen] = found.inverted
        covariance[:, np.isin(asked.pairs[:, 0], chosen)] = found.covariance
        caveats |= dict.fromkeys(found.caveats)
        assumed |= found.assumed
    return Estimated(
        value=value,
        variance=variance,
        low=low,
        high=high,
        covariance=covariance,
        minimum=minimum if bounded else None,
        maximum=maximum if bounded else None,
        caveats=tuple(caveats),
        inverted=inverted,
        assumed=assumed,
    )


def asked_alone(
    observed: Observed, asked: Asked, top: Sequence[int], bottom: Sequence[int]
) -> tuple[Observed, Asked, list[int], list[int]]:
    """The question about one aggregate, and where its functionals above and below (of a group) stand in it."""
    J = asked.functionals // asked.groups
    (family,) = [f for f in _families(asked) if top[0] in f.chosen]
    mine = family.chosen[family.chosen < J]
    above, below = (np.searchsorted(mine, np.array(side, dtype=np.intp)).tolist() for side in (top, bottom))
    return *_own(observed, asked, family), above, below


def _families(asked: Asked) -> list[_Family]:
    """Functionals j of all groups of unit keys stay together; those connected by pairs are one aggregate."""
    J = asked.functionals // asked.groups
    first, second = (asked.pairs % J).T
    _, of_functional = connected_components(csr_array((np.ones(len(first)), (first, second)), shape=(J, J)))
    rows = [
        [H.indices[a:b].tobytes() + H.data[a:b].tobytes() for a, b in pairwise(H.indptr)] for H in asked.coefficients
    ]
    indicator, varies = asked.indicator, _varies(asked)
    alike: dict[tuple[tuple[int, ...], bool, tuple[int, ...]], list[int]] = {}
    for aggregate in np.unique(of_functional):
        mine = np.flatnonzero(of_functional == aggregate)
        chosen = (np.arange(asked.groups)[:, None] * J + mine).ravel()
        label: dict[tuple[bytes, ...], int] = {}
        classes = tuple(label.setdefault(tuple(keys[f] for f in chosen), len(label)) for keys in rows)
        axes = tuple(np.flatnonzero(varies[:, chosen].any(axis=1)).tolist()) or ((0,) if asked.units else ())
        alike.setdefault((classes, bool(indicator[chosen].all()), axes), []).extend(mine.tolist())
    return [
        _Family((np.arange(asked.groups)[:, None] * J + np.sort(mine)).ravel(), np.array(classes, dtype=np.intp), axes)
        for (classes, _, axes), mine in alike.items()
    ]


def _varies(asked: Asked) -> NDArray[np.bool_]:
    """(axes, F): does the coefficient of a functional depend on the unit's value, in any pattern?"""
    shape = asked.shape
    found = np.zeros((len(shape), asked.functionals), dtype=bool)
    if len(shape) == 1:
        return ~found
    classes = np.arange(int(np.prod(shape))).reshape(shape)
    for axis in range(len(shape)):
        first = np.broadcast_to(classes.take([0], axis=axis), shape).reshape(-1)
        for H in asked.coefficients:
            found[axis] |= np.diff((H - H[:, first]).indptr) > 0
    return found


def _own(observed: Observed, asked: Asked, family: _Family) -> tuple[Observed, Asked]:
    """The question about one family, over strata that differ in output row or in coefficients only."""
    chosen = family.chosen
    first = np.unique(family.class_, return_index=True)[1]
    value, kept_classes = _without(observed.value, asked.shape, family.axes)
    seen = _merged(observed, value, family.class_, len(first))
    coefficients = tuple(asked.coefficients[b][chosen][:, kept_classes] for b in first)
    mine = asked.pairs[np.isin(asked.pairs[:, 0], chosen)]
    question = replace(
        asked,
        units=tuple(asked.units[a] for a in family.axes),
        classes=tuple(asked.classes[a] for a in family.axes),
        coefficients=coefficients,
        measure=asked.measure[chosen],
        pairs=np.searchsorted(chosen, mine).reshape(-1, 2),
        binary=all(bool(np.all(H.data == 1)) for H in coefficients),
    )
    return seen, question


def _merged(observed: Observed, value: NDArray[np.intp], class_: NDArray[np.intp], width: int) -> Observed:
    """The strata of one output row and class as one, entries of one stratum, part and value as one."""
    pattern = class_[observed.pattern]
    places, stratum = np.unique(observed.key * width + pattern, return_inverse=True)
    at = stratum[observed.stratum]
    parts, values = int(observed.part.max(initial=0)) + 1, int(value.max(initial=0)) + 1
    kept, row = np.unique((at * parts + observed.part) * values + value, return_inverse=True)
    numbers = None
    if observed.numbers is not None:  # entries of other numbers stay apart
        kept, row, numbers = _by_number(kept, row, observed.numbers)
    return Observed(
        stratum=(kept // (parts * values)).astype(np.intp),
        part=(kept // values % parts).astype(np.int64),
        value=(kept % values).astype(np.intp),
        moments=sum_by_group(observed.moments, row, len(kept)),
        key=(places // width).astype(np.intp),
        pattern=(places % width).astype(np.intp),
        keys=observed.keys,
        numbers=numbers,
    )


def _by_number(
    kept: NDArray[np.int64], row: NDArray[np.intp], numbers: Floats
) -> tuple[NDArray[np.int64], NDArray[np.intp], Floats]:
    """Entries cut into those of equal numbers: what each was before, where every old entry goes, and its numbers."""
    codes = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in numbers.T]
    joint, _ = joint_ranks([row, *codes], len(row))
    _, first, place = np.unique(joint, return_index=True, return_inverse=True)
    return kept[row[first]], place.reshape(-1).astype(np.intp), numbers[first]


def _without(
    value: NDArray[np.intp], shape: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(joint classes over some axes only, the first of the old joint classes that each stands for)."""
    if len(axes) == len(shape):
        return value, np.arange(int(np.prod(shape)))
    codes = np.unravel_index(value, shape)
    small = tuple(shape[a] for a in axes)
    first = np.arange(int(np.prod(shape))).reshape(shape)
    for axis in set(range(len(shape))) - set(axes):
        first = first.take([0], axis=axis)
    return np.ravel_multi_index(tuple(codes[a] for a in axes), small).astype(np.intp), first.reshape(-1)
