"""Between what was observed and what is answered: strata, functionals, ratios, limits, columns of the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .errors import UnsupportedQuery
from .model.public import Asked, Codes, Estimated, Floats, Observed
from .sql.functionals import Functional, Layout, Limits, coefficients, functionals, limits, products
from .sql.nodes import FALSE, TRUE, UNKNOWN, Aggregate, Query, Truth, conjunction
from .sql.observation import Observation

CERTAIN_DENOMINATOR = 3.0  # a ratio is answered when its denominator is this many standard errors above zero
EXACT = 1e-9  # relative gap of the limits below which a number is exact


def truth(column: pa.ChunkedArray | pa.Array) -> Truth:
    """A Boolean column as three-valued truth."""
    filled = (
        pc.fill_null(pc.cast(column, pa.int8()), -1).to_numpy(zero_copy_only=False)
        if isinstance(column, pa.Array)
        else (pc.fill_null(pc.cast(column, pa.int8()), -1).to_numpy())
    )
    return np.select([filled == 1, filled == 0], [TRUE, FALSE], UNKNOWN).astype(np.int8)


def factorise(column: pa.ChunkedArray | pa.Array) -> tuple[Codes, pa.Array]:
    """(group of every cell, value of every group), groups in sorted order, NULL last."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    distinct = pc.unique(array)
    distinct = distinct.take(pc.sort_indices(distinct))
    codes = pc.index_in(array, value_set=distinct)
    return codes.to_numpy(zero_copy_only=False).astype(np.int32), distinct


@dataclass(frozen=True, slots=True)
class Frame:
    """A question and what was observed for it."""

    query: Query
    wanted: Observation
    seen: pa.Table
    place: Layout
    codes: Mapping[int, Codes]  # unit -> published code of every observed row
    labels: Mapping[int, pa.Array]  # unit key -> value of every group


@dataclass(frozen=True, slots=True)
class Asking:
    """Level and options: `z(comparisons)` is the normal quantile."""

    z: Callable[[int], float]
    options: Mapping[str, str]


Estimate = Callable[[Observed, Asked], Estimated]


@dataclass(frozen=True, slots=True)
class _Strata:
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


def answer(
    frame: Frame, asking: Asking, estimate: Estimate, bound: Callable[..., Any]
) -> tuple[pa.Table, str, tuple[str, ...]]:
    """(answer table with columns k0.. and a0, a0_se .., kind, caveats)."""
    strata = _strata(frame)
    tables, kinds = [], set()
    caveats: dict[str, None] = {}
    for keys in frame.query.sets:
        table, kind, notes = _answer_set(frame, asking, estimate, bound, strata, keys)
        tables.append(table)
        kinds.add(kind)
        caveats |= dict.fromkeys(notes)
    kind = next(k for k in ("bounds", "confidence", "exact") if k in kinds)
    return pa.concat_tables(tables, promote_options="permissive"), kind, tuple(caveats)


def _strata(frame: Frame) -> _Strata:
    query, wanted, seen = frame.query, frame.wanted, frame.seen
    rows = seen.num_rows
    keys = {i: factorise(seen[name]) for i, name in wanted.keys.items()}
    leaf_truth = {i: truth(seen[name]) for i, name in wanted.leaves.items()}
    plain = [i for i, leaf in enumerate(query.leaves) if leaf.unit is None]
    patterns, pattern = _distinct_rows([leaf_truth[i] for i in plain], rows)
    full = np.full((len(patterns), len(query.leaves)), UNKNOWN, dtype=np.int8)
    full[:, plain] = patterns
    stratum_rows, stratum = _distinct_rows([*(codes for codes, _ in keys.values()), pattern], rows)
    first = np.zeros(len(stratum_rows), dtype=np.intp)
    first[stratum[::-1]] = np.arange(rows)[::-1]
    value = np.zeros(rows, dtype=np.intp)
    for axis, u in enumerate(frame.place.units):
        mine: NDArray[Any]
        if u in wanted.raw:
            mine = (
                frame.place.classes[axis][frame.codes[u]]
                if len(frame.place.classes[axis]) > frame.codes[u].max(initial=-1)
                else frame.codes[u]
            )
        elif u in wanted.bits:
            mine = _class_of_bits([leaf_truth[i] for i in wanted.bits[u]], frame.place, u, wanted.bits[u], rows)
        else:
            mine = np.zeros(rows, dtype=np.intp)
        value = value * frame.place.shape[axis] + mine
    moments = (
        np.stack([seen[f"m{j}"].to_numpy() for j in range(len(wanted.moments))], axis=1)
        if rows
        else np.zeros((0, len(wanted.moments)))
    )
    positive = (
        np.stack([moments[:, 0], *(seen[name].to_numpy() for name in wanted.positive.values())], axis=1)
        if rows
        else np.zeros((0, 1 + len(wanted.positive)))
    )
    return _Strata(
        stratum=stratum,
        first=first,
        pattern=pattern[first],
        patterns=full,
        value=value,
        part=seen[wanted.part].to_numpy().astype(np.int64) if wanted.part else np.zeros(rows, dtype=np.int64),
        moments=np.nan_to_num(moments),
        positive=np.nan_to_num(positive),
        keys=keys,
    )


def _distinct_rows(columns: Sequence[NDArray[Any]], rows: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """(distinct rows, number of the distinct row of every row)."""
    if not columns:
        return np.zeros((min(rows, 1), 0), dtype=np.int8), np.zeros(rows, dtype=np.intp)
    joint = np.zeros(rows, dtype=np.int64)
    for column in columns:
        joint = joint * (int(column.max(initial=0)) + 1) + column
    _, first, inverse = np.unique(joint, return_index=True, return_inverse=True)
    return np.stack(columns, axis=1)[first], inverse.reshape(-1)


def _class_of_bits(bits: list[Truth], place: Layout, u: int, leaves: tuple[int, ...], rows: int) -> NDArray[np.intp]:
    """The class whose values have the observed truth of every leaf."""
    axis = place.units.index(u)
    stated = np.zeros(len(place.firsts[axis]), dtype=np.int64)
    found = np.zeros(rows, dtype=np.int64)
    for i, bit in zip(leaves, bits, strict=True):
        stated = stated * 3 + place.views[u].leaves[i][place.firsts[axis]]
        found = found * 3 + bit
    order = np.argsort(stated)
    return order[np.searchsorted(stated[order], found)]


def _answer_set(
    frame: Frame, asking: Asking, estimate: Estimate, bound: Callable[..., Any], strata: _Strata, keys: tuple[int, ...]
) -> tuple[pa.Table, str, tuple[str, ...]]:
    """One grouping set: its output rows are observed groups times groups of unit keys."""
    query = frame.query
    parts: list[tuple[list[int], list[int]]] = []
    wanted: list[Functional] = []
    for aggregate in query.aggregates:
        above, below = functionals(aggregate)
        parts.append((_place(wanted, above), _place(wanted, below)))
    matrices, combos = coefficients(query, wanted, keys, frame.place, strata.patterns)
    plain = [i for i in keys if query.keys[i].unit is None]
    groups, key = _distinct_rows([strata.keys[i][0][strata.first] for i in plain], len(strata.first))
    if not plain:
        groups = np.zeros((1, 0), dtype=np.int8)  # no GROUP BY on untouched columns: one row, even of nothing
    J = len(wanted)
    pairs = _pairs(parts, J, len(combos))
    observed = Observed(
        stratum=strata.stratum,
        part=strata.part,
        value=strata.value,
        moments=strata.moments,
        key=key,
        pattern=strata.pattern,
        keys=len(groups),
    )
    comparisons = max(1, len(groups) * len(combos) * len(query.aggregates))
    asked = Asked(
        units=frame.place.units,
        classes=frame.place.classes,
        coefficients=matrices,
        measure=np.tile(np.array([f.measure for f in wanted], dtype=np.intp), len(combos)),
        products=products(frame.wanted.moments, len(query.measures)),
        pairs=pairs,
        binary=all(bool(np.all(H.data == 1)) for H in matrices),
        z=asking.z(comparisons),
        options=asking.options,
        groups=len(combos),
    )
    possible = limits(observed, asked, strata.positive)
    found = _estimated(observed, asked, possible, estimate)
    columns, kinds = _key_columns(frame, strata, keys, groups, plain, combos), set()
    notes = list(found.caveats)
    for j, (aggregate, (top, bottom)) in enumerate(zip(query.aggregates, parts, strict=True)):
        numbers = _Numbers(found, possible, asked, J, len(combos))
        if aggregate.kind in {"min", "max", "quantile"}:
            result = _order_bounds(
                aggregate, query, bound, _selected(aggregate, query, keys, strata, observed), asked, top
            )
        elif aggregate.kind == "ratio":
            result = numbers.ratio(aggregate, top, bottom, bound, observed)
        else:
            result = numbers.total(top)
        kinds.add(result.kind)
        notes += result.notes
        for end, array in zip(("", "_se", "_low", "_high", "_min", "_max"), result.columns(), strict=True):
            if array is not None:
                columns[f"a{j}{end}"] = pa.array(array.ravel(), type=pa.float64(), from_pandas=True)
    kind = next(k for k in ("bounds", "confidence", "exact") if k in kinds)
    return pa.table(columns), kind, tuple(notes)


def _place(wanted: list[Functional], some: list[Functional]) -> list[int]:
    places = []
    for functional in some:
        if functional not in wanted:
            wanted.append(functional)
        places.append(wanted.index(functional))
    return places


def _pairs(parts: list[tuple[list[int], list[int]]], J: int, combos: int) -> NDArray[np.intp]:
    """Functionals whose covariance some aggregate needs, once per group of unit keys."""
    base = []
    for top, bottom in parts:
        together = [*top, *bottom]
        base += [(a, b) for i, a in enumerate(together) for b in together[i + 1 :] if a != b]
    base = list(dict.fromkeys((min(p), max(p)) for p in base))
    return np.array([(c * J + a, c * J + b) for c in range(combos) for a, b in base], dtype=np.intp).reshape(-1, 2)


def _estimated(observed: Observed, asked: Asked, possible: Limits, estimate: Estimate) -> Estimated:
    """The mechanism's estimates; where what is possible leaves no room, the exact number instead."""
    exact = _exact(possible)
    shape = possible.low.shape
    if exact.all():
        zero = np.zeros(shape)
        covariance = np.zeros((shape[0], len(asked.pairs)))
        return Estimated(value=possible.low, variance=zero, low=possible.low, high=possible.low, covariance=covariance)
    found = estimate(observed, asked)
    covariance = found.covariance.copy()
    for k, (a, b) in enumerate(asked.pairs):
        covariance[exact[:, a] | exact[:, b], k] = 0.0

    def fix(array: Floats | None, with_exact: Floats) -> Floats | None:
        return None if array is None else np.where(exact, with_exact, array)

    value = np.where(exact, possible.low, found.value)
    variance = np.where(exact, 0.0, found.variance)
    low, high = np.clip(found.low, possible.low, possible.high), np.clip(found.high, possible.low, possible.high)
    unknown = np.isnan(found.value) & np.isnan(found.low)
    low, high = np.where(unknown, possible.low, low), np.where(unknown, possible.high, high)
    return Estimated(
        value=value,
        variance=variance,
        low=np.where(exact, possible.low, low),
        high=np.where(exact, possible.low, high),
        covariance=covariance,
        # a method that cannot bound a functional says NaN: the trivial limits hold anyway
        minimum=None if found.minimum is None else fix(np.fmax(found.minimum, possible.low), possible.low),
        maximum=None if found.maximum is None else fix(np.fmin(found.maximum, possible.high), possible.low),
        caveats=found.caveats,
    )


def _exact(possible: Limits) -> NDArray[np.bool_]:
    scale = np.maximum(1.0, np.maximum(np.abs(possible.low), np.abs(possible.high)))
    return (possible.high - possible.low) <= EXACT * scale


def _key_columns(
    frame: Frame,
    strata: _Strata,
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
class _Result:
    """One aggregate over the output rows, (K, groups) arrays."""

    value: Floats
    se: Floats
    low: Floats
    high: Floats
    kind: str
    minimum: Floats | None = None
    maximum: Floats | None = None
    notes: tuple[str, ...] = ()

    def columns(self) -> tuple[Floats | None, ...]:
        return self.value, self.se, self.low, self.high, self.minimum, self.maximum


class _Numbers:
    """Totals and ratios of estimated functionals."""

    def __init__(self, found: Estimated, possible: Limits, asked: Asked, J: int, combos: int) -> None:
        self.found, self.possible, self.asked, self.J, self.combos = found, possible, asked, J, combos
        self._pair = {(int(a), int(b)): k for k, (a, b) in enumerate(asked.pairs)}

    def _of(self, array: Floats, j: int) -> Floats:
        """The (K, groups) slice of functional j."""
        return array[:, j :: self.J]

    def _covariance(self, a: int, b: int) -> Floats:
        if a == b:
            return self._of(self.found.variance, a)
        columns = [self._pair[(c * self.J + min(a, b), c * self.J + max(a, b))] for c in range(self.combos)]
        return self.found.covariance[:, columns]

    def _sum(self, array: Floats | None, js: list[int]) -> Floats | None:
        if array is None:
            return None
        total = self._of(array, js[0]).copy()
        for j in js[1:]:
            total += self._of(array, j)
        return total

    def _variance(self, js: list[int]) -> Floats:
        total = np.zeros_like(self._of(self.found.variance, js[0]))
        for i, a in enumerate(js):
            total += self._of(self.found.variance, a)
            for b in js[i + 1 :]:
                total += 2 * self._covariance(a, b)
        return np.maximum(total, 0.0)

    def total(self, js: list[int]) -> _Result:
        """COUNT or SUM."""
        value, least, most = (self._sum(x, js) for x in (self.found.value, self.possible.low, self.possible.high))
        assert value is not None and least is not None and most is not None  # noqa: PT018 - for the type checker
        se = np.sqrt(self._variance(js))
        if len(js) == 1:
            low, high = self._of(self.found.low, js[0]), self._of(self.found.high, js[0])
        else:
            low, high = value - self.asked.z * se, value + self.asked.z * se
        low, high = np.clip(low, least, most), np.clip(high, least, most)
        minimum, maximum = self._sum(self.found.minimum, js), self._sum(self.found.maximum, js)
        exact = _exact(Limits(least, most))
        return self._finish(value, se, low, high, minimum, maximum, exact)

    def _finish(
        self,
        value: Floats,
        se: Floats,
        low: Floats,
        high: Floats,
        minimum: Floats | None,
        maximum: Floats | None,
        exact: NDArray[np.bool_],
        notes: tuple[str, ...] = (),
    ) -> _Result:
        unknown = np.isnan(value)
        se = np.where(unknown, np.nan, se)
        if minimum is not None and maximum is not None:
            if unknown[~exact].all():  # bounds are all there is: they are the interval
                low, high = np.where(exact, low, minimum), np.where(exact, high, maximum)
                minimum = maximum = None
            else:
                low, high = np.clip(low, minimum, maximum), np.clip(high, minimum, maximum)
        kind = (
            "exact"
            if exact.all()
            else "bounds"
            if unknown[~exact].any() and minimum is None and self.found.minimum is not None
            else "confidence"
        )
        return _Result(value, se, low, high, kind, minimum, maximum, notes)

    def ratio(
        self, aggregate: Aggregate, top: list[int], bottom: list[int], bound: Callable[..., Any], observed: Observed
    ) -> _Result:
        """AVG and shares, by the delta method: Var(A/B) = (Var A - 2 R Cov + R^2 Var B) / B^2."""
        A, B = self.total(top), self.total(bottom)
        cov = sum((self._covariance(a, b) for a in top for b in bottom), np.zeros_like(A.value))
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = A.value / B.value
            se = np.sqrt(np.maximum(A.se**2 - 2 * ratio * cov + (ratio * B.se) ** 2, 0.0)) / np.abs(B.value)
            sure = (B.value > 0) & (B.value >= CERTAIN_DENOMINATOR * B.se)
            certain = (B.se == 0) & sure
            low = np.where(certain, A.low / B.value, ratio - self.asked.z * se)
            high = np.where(certain, A.high / B.value, ratio + self.asked.z * se)
            minimum = None if A.minimum is None else np.where(certain, A.minimum / B.value, np.nan)
            maximum = None if A.maximum is None else np.where(certain, A.maximum / B.value, np.nan)
        if all(t.measure == 0 and t.value < 0 and 0 <= t.scale <= 1 for t in aggregate.numerator):
            low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)  # a share
        empty = (B.value == 0) & (B.se == 0)
        ratio, se, low, high = (np.where(sure, x, np.nan) for x in (ratio, se, low, high))
        notes: tuple[str, ...] = ()
        if (~sure & ~empty).any():
            within = f"within {CERTAIN_DENOMINATOR:g} standard errors of zero"
            notes = (f"{aggregate.name}: no answer where the denominator is {within}",)
        exact = (A.se == 0) & (B.se == 0) & ~np.isnan(A.value)
        if A.kind == "bounds" or B.kind == "bounds":
            found = bound("ratio", observed, self.asked, top, bottom, None) if bound is not None else None
            if found is not None:
                low, high, extra = found
                notes = tuple(extra)  # bounds need no certain denominator
                nothing = np.full_like(low, np.nan)
                return _Result(
                    np.where(exact, ratio, nothing),
                    np.where(exact, 0.0, nothing),
                    np.where(exact, ratio, low),
                    np.where(exact, ratio, high),
                    "exact" if exact.all() else "bounds",
                    notes=notes,
                )
            low, high = np.where(certain, A.low / B.value, np.nan), np.where(certain, A.high / B.value, np.nan)
            return _Result(
                np.where(exact, ratio, np.nan),
                np.where(exact, 0.0, np.nan),
                low,
                high,
                "exact" if exact.all() else "bounds",
                notes=notes,
            )
        return _Result(
            ratio, se, low, high, "exact" if (exact | empty).all() else "confidence", minimum, maximum, notes
        )


def _selected(
    aggregate: Aggregate, query: Query, keys: tuple[int, ...], strata: _Strata, observed: Observed
) -> Observed:
    """The observed rows that a MIN, MAX or quantile is taken over; refuses conditions on changed columns."""
    terms = aggregate.numerator
    condition = conjunction((query.where, *(t.condition for t in terms)))
    touched = any(query.leaves[i].unit is not None for i in condition.leaves())
    if touched or len(terms) != 1 or any(query.keys[i].unit is not None for i in keys):
        raise UnsupportedQuery(
            f"{aggregate.kind.upper()} is answered for a column as it is, without conditions on changed columns",
            sql=query.text,
            position=aggregate.position,
            hint="Ask for COUNT, SUM or AVG with that condition, or drop it.",
        )
    truths = list(strata.patterns.T)
    holds = np.broadcast_to(condition.truth(truths) == TRUE, (len(strata.patterns),))
    stay = holds[observed.pattern[observed.stratum]]
    return replace(
        observed,
        stratum=observed.stratum[stay],
        part=observed.part[stay],
        value=observed.value[stay],
        moments=observed.moments[stay],
    )


def _order_bounds(
    aggregate: Aggregate,
    query: Query,
    bound: Callable[..., Any],
    observed: Observed,
    asked: Asked,
    top: list[int],
) -> _Result:
    """MIN, MAX and quantiles, where the mechanism can bound them."""
    kind = aggregate.kind
    if kind == "quantile":  # DuckDB: MEDIAN and QUANTILE_CONT interpolate, QUANTILE and QUANTILE_DISC do not
        kind = "quantile_cont" if aggregate.text.upper().startswith(("MEDIAN", "QUANTILE_CONT")) else "quantile_disc"
    found = bound(kind, observed, asked, top, [], aggregate.share)
    if found is None:
        raise UnsupportedQuery(
            f"{aggregate.kind.upper()} cannot be answered with its error by this method",
            sql=query.text,
            position=aggregate.position,
            hint="Ask for COUNT, SUM or AVG, or GROUP BY the column.",
        )
    low, high, notes = found
    exact = low == high
    nothing = np.full_like(low, np.nan)
    value = np.where(exact, low, nothing)
    return _Result(
        value, np.where(exact, 0.0, nothing), low, high, "exact" if exact.all() else "bounds", notes=tuple(notes)
    )


def shown(query: Query, refined: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """The answer under the names of SELECT, each aggregate followed by its error columns."""
    columns: dict[str, Any] = {}
    names = []
    for name, column in query.columns:
        columns[name] = refined[column]
        if column.startswith("a") and "_" not in column:
            names.append(name)
            for end in ("_se", "_low", "_high", "_min", "_max"):
                if column + end in refined.column_names:
                    columns[name + end] = refined[column + end]
    return pa.table(columns), tuple(names)
