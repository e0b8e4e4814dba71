"""Between what was observed and what is answered: strata, functionals, ratios, limits, columns of the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import UnsupportedQuery
from ..methods.shared.linear_functionals import Target
from ..model.names import ENDS, ERROR_ENDS
from ..model.public import Asked, Estimated, Floats, Observed
from ..sql.nodes import Aggregate, Query
from ..stats.intervals import cut, normal_quantile
from ..stats.joint_codes import distinct_rows
from ..stats.ties import to_digits
from .functionals import (
    Functional,
    Limits,
    coefficients,
    limits,
    places,
    products,
    reachable,
    unscaled,
)
from .observe import Frame, direct
from .strata import Estimate, Strata, estimate_apart, key_columns, sort_into_strata
from .totals import Numbers, Result, hang_on_few_rows, is_exact, order_bounds, selected

COMPARED = 12  # digits of estimates that HAVING and ORDER BY look at


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a question is answered."""

    level: float
    simultaneous: bool
    estimator: str | None

    def z(self, comparisons: int) -> float:
        """The normal quantile of the level, for one of so many numbers."""
        return normal_quantile(self.level, comparisons if self.simultaneous else 1)

    def one_of(self, comparisons: int) -> float:
        """The level of one of so many numbers."""
        return 1 - (1 - self.level) / (comparisons if self.simultaneous else 1)

    @property
    def target(self) -> Target:
        """Whose errors are told."""
        return "population" if self.estimator == "population" else "table"


# (aggregate, keys, comparisons) -> (value, low, high) by the values of the keys; None where it has none
Quantile = Callable[[Aggregate, tuple[int, ...], int], Mapping[tuple[Any, ...], tuple[float, float, float]] | None]


def answer(frame: Frame, options: Options, quantile: Quantile) -> tuple[pa.Table, pa.Array, str, tuple[str, ...]]:
    """(answer table with columns k0.. and a0, a0_se .., which rows SQL would list, kind, caveats)."""
    strata = sort_into_strata(frame)
    tables, kinds = [], set()
    caveats: dict[str, None] = {}
    posed = [_posed(frame, options, strata, keys) for keys in frame.query.sets]
    for one in posed:
        table, kind, notes = _answer_set(frame, quantile, strata, one)
        tables.append(table)
        kinds.add(kind)
        caveats |= dict.fromkeys(notes)
    kind = next(k for k in ("bounds", "confidence", "exact") if k in kinds)
    listed = pa.array(np.concatenate([one.listed for one in posed]))
    return pa.concat_tables(tables, promote_options="permissive"), listed, kind, tuple(caveats)


@dataclass(frozen=True, slots=True)
class _Posed:
    """One grouping set: its output rows are observed groups times groups of unit keys."""

    keys: tuple[int, ...]
    plain: list[int]  # those of untouched columns
    groups: NDArray[Any]
    combos: list[tuple[int, ...]]
    parts: list[tuple[list[int], list[int]]]  # functionals above and below, of each aggregate
    functionals: int  # of one group of unit keys
    listed: NDArray[np.bool_]  # output rows that are told: all but the groups that no value can be in
    comparisons: int
    observed: Observed
    asked: Asked
    possible: Limits


def _posed(frame: Frame, options: Options, strata: Strata, keys: tuple[int, ...]) -> _Posed:
    """What is asked of the method for a grouping set, and what is possible at all."""
    query = frame.query
    wanted: list[Functional] = []
    parts = [places(wanted, unscaled(aggregate)[0]) for aggregate in query.aggregates]
    matrices, combos = coefficients(query, wanted, keys, frame.place, strata.patterns)
    plain = [i for i in keys if query.keys[i].unit is None]
    groups, key = distinct_rows([strata.keys[i][0][strata.first] for i in plain], len(strata.first))
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
        numbers=strata.numbers,
    )
    seen = np.zeros((len(groups), len(strata.patterns)), dtype=np.bool_)
    seen[key, strata.pattern] = True
    listed = np.ones(1, dtype=np.bool_) if not keys else reachable(query, keys, frame.place, strata.patterns, seen)
    comparisons = max(1, int(listed.sum()) * len(query.aggregates))
    asked = Asked(
        units=frame.place.units,
        classes=frame.place.classes,
        coefficients=matrices,
        measure=np.tile(np.array([f.measure for f in wanted], dtype=np.intp), len(combos)),
        products=products(frame.wanted.moments, len(query.measures)),
        pairs=pairs,
        binary=all(bool(np.all(H.data == 1)) for H in matrices),
        z=options.z(comparisons),
        options={"estimator": options.estimator} if options.estimator else {},
        groups=len(combos),
        full=options.simultaneous,
    )
    possible = limits(observed, asked, strata.positive)
    return _Posed(keys, plain, groups, combos, parts, J, listed, comparisons, observed, asked, possible)


def _answer_set(
    frame: Frame, quantile: Quantile, strata: Strata, posed: _Posed
) -> tuple[pa.Table, str, tuple[str, ...]]:
    """The columns of one grouping set, its kind, and caveats."""
    query, aggregates = frame.query, [unscaled(aggregate) for aggregate in frame.query.aggregates]
    keys, plain, groups, combos = posed.keys, posed.plain, posed.groups, posed.combos
    parts, J, comparisons = posed.parts, posed.functionals, posed.comparisons
    observed, asked, possible = posed.observed, posed.asked, posed.possible
    columns, kinds = key_columns(frame, strata, keys, groups, plain, combos), set()
    found = _estimated(observed, asked, possible, frame.subject.estimate)
    notes = list(found.caveats)

    def by_engine(sql: str, by: tuple[int, ...]) -> Result:
        """An aggregate of untouched columns, which the engine answers exactly."""
        seen = frame.subject.reader.run(direct(query, sql, by), text=query.text)
        return _direct(seen, strata, groups, plain)

    def extremes(measure: int) -> tuple[Floats, Floats]:
        """Least and largest number of a measure in every group of untouched keys."""
        low, high = (by_engine(f"{end}({query.measures[measure]})", tuple(plain)) for end in ("MIN", "MAX"))
        return low.value[:, 0], high.value[:, 0]

    few = hang_on_few_rows(observed, asked, found, shown=bool(frame.codes) or not frame.place.units)
    for j, ((aggregate, factor), (top, bottom)) in enumerate(zip(aggregates, parts, strict=True)):
        numbers = Numbers(found, possible, asked, J, len(combos))
        if aggregate.kind == "direct":
            result = by_engine(aggregate.text, keys)
        elif aggregate.kind in {"min", "max", "quantile"}:
            try:
                chosen = selected(aggregate, query, keys, strata, observed)
                if aggregate.numerator[0].value < 0:  # of an untouched column: the engine knows it
                    result = by_engine(aggregate.text, keys)
                else:
                    result = order_bounds(aggregate, query, frame.subject.bound, chosen, asked, top)
            except UnsupportedQuery:  # neither exact nor bounded: perhaps an interval
                inverted = quantile(aggregate, keys, comparisons)
                if inverted is None:
                    raise
                result = _inverted(aggregate, inverted, [columns[f"k{i}"].to_pylist() for i in keys], len(combos))
        elif aggregate.kind == "ratio":
            result = numbers.ratio(aggregate, top, bottom, frame.subject.bound, observed, extremes).times(factor)
        else:
            result = numbers.total(top).times(factor)
        kinds.add(result.kind)
        notes += result.notes
        if aggregate.kind in {"sum", "ratio"} and any((few[:, i::J] & (result.se > 0)).any() for i in top):
            notes.append(f"{aggregate.name or aggregate.text}: the sum hangs on few rows; its interval is approximate")
        numbers_of = (result.value, result.se, result.low, result.high, result.minimum, result.maximum)
        for end, array in zip(ENDS, numbers_of, strict=True):
            if array is not None:
                columns[f"a{j}{end}"] = pa.array(array.ravel(), type=pa.float64(), from_pandas=True)
    kind = next(k for k in ("bounds", "confidence", "exact") if k in kinds)
    return pa.table(columns), kind, tuple(notes)


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
    exact = is_exact(possible)
    shape = possible.low.shape
    if exact.all():
        zero = np.zeros(shape)
        covariance = np.zeros((shape[0], len(asked.pairs)))
        return Estimated(value=possible.low, variance=zero, low=possible.low, high=possible.low, covariance=covariance)
    found = estimate_apart(estimate, observed, asked)
    covariance = found.covariance.copy()
    for k, (a, b) in enumerate(asked.pairs):
        covariance[exact[:, a] | exact[:, b], k] = 0.0

    def fix(array: Floats | None, with_exact: Floats) -> Floats | None:
        return None if array is None else np.where(exact, with_exact, array)

    value = np.where(exact, possible.low, found.value)
    variance = np.where(exact, 0.0, found.variance)
    least, most = possible.low, possible.high
    if found.minimum is not None and found.maximum is not None:
        least, most = np.fmax(least, found.minimum), np.fmin(most, found.maximum)
    low, high = cut(found.low, found.high, least, most)
    if found.inverted is not None:
        low, high = np.where(found.inverted, found.low, low), np.where(found.inverted, found.high, high)
    unknown = np.isnan(found.value) & np.isnan(found.low)
    low, high = np.where(unknown, possible.low, low), np.where(unknown, possible.high, high)
    # An error of 0 would say "exact": a value that was never published has none of its own, but an interval.
    silent = (variance == 0) & (high > low) & ~exact
    variance = np.where(silent, ((high - low) / (2.0 * asked.z)) ** 2, variance)
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
        assumed=found.assumed,
    )


def _direct(table: pa.Table, strata: Strata, groups: NDArray[Any], plain: list[int]) -> Result:
    """An aggregate that the engine answered exactly, laid out like the other output rows."""
    places = [{_found_as(v): k for k, v in enumerate(strata.keys[i][1].to_pylist())} for i in plain]
    found = {
        tuple(place[_found_as(row[f"k{i}"])] for i, place in zip(plain, places, strict=True)): row["v"]
        for row in table.to_pylist()
    }
    value = np.array([[found.get(tuple(int(g) for g in group))] for group in groups], dtype=float)
    return Result(value, np.where(np.isnan(value), np.nan, 0.0), value, value, "exact")


def _found_as(key: Any) -> Any:
    """A key as dictionaries find it: NaN is equal to no NaN, but this one is the same as itself."""
    return math.nan if isinstance(key, float) and math.isnan(key) else key


def _inverted(
    aggregate: Aggregate,
    found: Mapping[tuple[Any, ...], tuple[float, float, float]],
    keys: list[list[Any]],
    combos: int,
) -> Result:
    """A quantile by inverted tests, laid out like the other output rows; it has an interval and no standard error."""
    rows = list(zip(*keys, strict=True)) if keys else [()]
    known, nothing = {tuple(map(_found_as, row)): ends for row, ends in found.items()}, (np.nan, np.nan, np.nan)
    numbers = np.array([known.get(tuple(map(_found_as, row)), nothing) for row in rows], dtype=np.float64)
    value, low, high = (column.reshape(-1, combos) for column in numbers.T)
    note = f"{aggregate.name or aggregate.text}: a value of the column, as QUANTILE_DISC has it"
    return Result(value, np.full_like(value, np.nan), low, high, "confidence", notes=(note,))


def without_last_bits(table: pa.Table) -> pa.Table:
    """The answer as HAVING and ORDER BY compare it: estimates that are equal in exact arithmetic are equal here."""
    for at, field in enumerate(table.schema):
        if field.name[0] in "ad" and pa.types.is_float64(field.type):
            column = table.column(at)
            numbers = pa.array(to_digits(column.to_numpy(), COMPARED), mask=column.is_null().to_numpy())
            table = table.set_column(at, field, numbers)
    return table


def shown(query: Query, refined: pa.Table) -> tuple[pa.Table, tuple[str, ...]]:
    """The answer under the names of SELECT, each aggregate followed by its error columns."""
    columns: dict[str, Any] = {}
    names = []
    for name, column in query.columns:
        columns[name] = refined[column]
        if column[0] in "ad" and "_" not in column:
            names.append(name)
            for end in ERROR_ENDS:
                if column + end in refined.column_names:
                    columns[name + end] = refined[column + end]
    return pa.table(columns), tuple(names)


def rounded(table: pa.Table, name: str, digits: int) -> pa.Table:
    """The answer with a number and its limits rounded, as ROUND asks."""
    for end in ("", "_low", "_high", "_min", "_max"):
        if name + end in table.column_names:
            at = table.column_names.index(name + end)
            table = table.set_column(at, name + end, pc.round(table[name + end], ndigits=digits))
    return table
