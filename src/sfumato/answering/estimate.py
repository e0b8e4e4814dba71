"""Between what was observed and what is answered: strata, functionals, totals, ratios, columns of the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..errors import UnsupportedQuery
from ..model.names import ENDS, ERROR_ENDS
from ..model.public import Asked, Estimated, Floats, Observed
from ..sql.nodes import TRUE, Aggregate, Query, conjunction
from ..stats.intervals import cut, fieller, normal_quantile
from ..stats.joint_codes import distinct_rows
from ..stats.ties import to_digits
from .functionals import (
    Estimate,
    Functional,
    Limits,
    Strata,
    asked_alone,
    coefficients,
    estimate_apart,
    key_columns,
    limits,
    places,
    reachable,
    sort_into_strata,
    unscaled,
)
from .observe import Frame, direct

COMPARED = 12  # digits of estimates that HAVING and ORDER BY look at
NO_BOUNDS = "no bounds are known for an average or a quotient of this kind, over rows that are not certain"
FEW = 30.0  # rows of equal size that a sum must at least amount to
EXACT = 1e-9  # relative gap of the limits below which a number is exact

# measure -> its least and largest number in every output row, as the engine knows them, each (K,)
Extremes = Callable[[int], tuple[Floats, Floats]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a question is answered."""

    level: float
    simultaneous: bool | None  # None: where the rows that are shown are chosen by their estimates
    estimator: str | None

    def z(self, comparisons: int) -> float:
        """The normal quantile of the level, for one of so many numbers."""
        return normal_quantile(self.level, comparisons if self.simultaneous else 1)

    def one_of(self, comparisons: int) -> float:
        """The level of one of so many numbers."""
        return 1 - (1 - self.level) / (comparisons if self.simultaneous else 1)


# (aggregate, keys, comparisons) -> (value, low, high) by the values of the keys; None where it has none
Quantile = Callable[[Aggregate, tuple[int, ...], int], Mapping[tuple[Any, ...], tuple[float, float, float]] | None]


def answer(frame: Frame, options: Options, quantile: Quantile) -> tuple[pa.Table, pa.Array, str, tuple[str, ...]]:
    """(answer table with columns k0.. and a0, a0_se .., which rows SQL would list, kind, caveats)."""
    strata = sort_into_strata(frame)
    tables, kinds = [], set()
    caveats: dict[str, None] = {}
    groups = [_groups(frame, strata, keys) for keys in frame.query.sets]
    comparisons = numbers_told(frame.query, sum(int(some.listed.sum()) for some in groups))
    posed = [_posed(frame, options, strata, some, comparisons) for some in groups]
    for one in posed:
        table, kind, notes = _answer_set(frame, quantile, strata, one)
        tables.append(table)
        kinds.add(kind)
        caveats |= dict.fromkeys(notes)
    kind = next(k for k in ("bounds", "confidence", "exact") if k in kinds)
    listed = pa.array(np.concatenate([some.listed for some in groups]))
    return pa.concat_tables(tables, promote_options="permissive"), listed, kind, tuple(caveats)


def numbers_told(query: Query, rows: int) -> int:
    """How many numbers hold together in simultaneous intervals, where so many rows could be shown."""
    return max(1, rows * (len(query.aggregates) + len(query.derived)))


@dataclass(frozen=True, slots=True)
class _Groups:
    """The output rows of one grouping set: observed groups, to be multiplied by groups of unit keys."""

    keys: tuple[int, ...]
    plain: list[int]  # those of untouched columns
    groups: NDArray[Any]
    key: NDArray[np.intp]  # the group of every stratum
    seen: NDArray[np.bool_]  # of every group, which patterns of untouched leaves its rows have
    listed: NDArray[np.bool_]  # output rows that are told: all but the groups that no value can be in


def _groups(frame: Frame, strata: Strata, keys: tuple[int, ...]) -> _Groups:
    query = frame.query
    plain = [i for i in keys if query.keys[i].unit is None]
    groups, key = distinct_rows([strata.keys[i][0][strata.first] for i in plain], len(strata.first))
    if not plain:
        groups = np.zeros((1, 0), dtype=np.int8)  # no GROUP BY on untouched columns: one row, even of nothing
    seen = np.zeros((len(groups), len(strata.patterns)), dtype=np.bool_)
    seen[key, strata.pattern] = True
    listed = np.ones(1, dtype=np.bool_) if not keys else reachable(query, keys, frame.place, strata.patterns, seen)
    return _Groups(keys, plain, groups, key, seen, listed)


@dataclass(frozen=True, slots=True)
class _Posed:
    """What is asked for one grouping set."""

    rows: _Groups
    combos: list[tuple[int, ...]]
    parts: list[tuple[list[int], list[int]]]  # functionals above and below, of each aggregate
    functionals: int  # of one group of unit keys
    comparisons: int
    observed: Observed
    asked: Asked
    possible: Limits


def _posed(frame: Frame, options: Options, strata: Strata, rows: _Groups, comparisons: int) -> _Posed:
    """What is asked of the method for a grouping set, and what is possible at all."""
    query = frame.query
    wanted: list[Functional] = []
    parts = [places(wanted, unscaled(aggregate)[0]) for aggregate in query.aggregates]
    matrices, combos = coefficients(query, wanted, rows.keys, frame.place, strata.patterns)
    J = len(wanted)
    pairs = _pairs(parts, J, len(combos))
    observed = Observed(
        stratum=strata.stratum,
        part=strata.part,
        value=strata.value,
        moments=strata.moments,
        key=rows.key,
        pattern=strata.pattern,
        keys=len(rows.groups),
        numbers=strata.numbers,
    )
    products = np.zeros((len(query.measures), len(query.measures)), dtype=np.intp)
    for j, (a, b) in enumerate(frame.wanted.moments):
        products[a, b] = products[b, a] = j
    asked = Asked(
        units=frame.place.units,
        classes=frame.place.classes,
        coefficients=matrices,
        measure=np.tile(np.array([f.measure for f in wanted], dtype=np.intp), len(combos)),
        products=products,
        pairs=pairs,
        binary=all(bool(np.all(H.data == 1)) for H in matrices),
        z=options.z(comparisons),
        options={"estimator": options.estimator} if options.estimator else {},
        groups=len(combos),
        full=bool(options.simultaneous),
    )
    possible = limits(observed, asked, strata.positive)
    return _Posed(rows, combos, parts, J, comparisons, observed, asked, possible)


def _answer_set(
    frame: Frame, quantile: Quantile, strata: Strata, posed: _Posed
) -> tuple[pa.Table, str, tuple[str, ...]]:
    """The columns of one grouping set, its kind, and caveats."""
    query, aggregates = frame.query, [unscaled(aggregate) for aggregate in frame.query.aggregates]
    keys, plain, groups, combos = posed.rows.keys, posed.rows.plain, posed.rows.groups, posed.combos
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
        for rows in aggregate.rows:
            some = reachable(query, keys, frame.place, strata.patterns, posed.rows.seen, rows)
            result = result.null_where(~some.reshape(result.value.shape))
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


# Aggregates from estimated functionals: totals, ratios, order statistics, each with its error.


def is_exact(possible: Limits) -> NDArray[np.bool_]:
    scale = np.maximum(1.0, np.maximum(np.abs(possible.low), np.abs(possible.high)))
    return (possible.high - possible.low) <= EXACT * scale


@dataclass(frozen=True, slots=True)
class Result:
    """One aggregate over the output rows, (K, groups) arrays."""

    value: Floats
    se: Floats
    low: Floats
    high: Floats
    kind: str
    minimum: Floats | None = None
    maximum: Floats | None = None
    notes: tuple[str, ...] = ()

    def null_where(self, nothing: NDArray[np.bool_]) -> Result:
        """The number where there is something, as SQL has it: a sum of no rows is NULL."""
        value, se, low, high = (np.where(nothing, np.nan, x) for x in (self.value, self.se, self.low, self.high))
        least, most = (None if x is None else np.where(nothing, np.nan, x) for x in (self.minimum, self.maximum))
        return replace(self, value=value, se=se, low=low, high=high, minimum=least, maximum=most)

    def times(self, factor: float) -> Result:
        """The number multiplied by a constant."""
        if factor == 1.0:
            return self
        low, high = (self.low, self.high) if factor > 0 else (self.high, self.low)
        least, most = (self.minimum, self.maximum) if factor > 0 else (self.maximum, self.minimum)
        return replace(
            self,
            value=factor * self.value,
            se=abs(factor) * self.se,
            low=factor * low,
            high=factor * high,
            minimum=None if least is None else factor * least,
            maximum=None if most is None else factor * most,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """Totals and ratios of estimated functionals; `array[:, j::J]` is the (K, groups) slice of functional j."""

    found: Estimated
    possible: Limits
    asked: Asked
    J: int
    combos: int

    def _covariance(self, a: int, b: int) -> Floats:
        if a == b:
            return self.found.variance[:, a :: self.J]
        place = {(int(x), int(y)): k for k, (x, y) in enumerate(self.asked.pairs)}
        columns = [place[(c * self.J + min(a, b), c * self.J + max(a, b))] for c in range(self.combos)]
        return self.found.covariance[:, columns]

    def _sum(self, array: Floats | None, js: list[int]) -> Floats | None:
        if array is None:
            return None
        return np.asarray(sum(array[:, j :: self.J] for j in js))

    def _variance(self, js: list[int]) -> Floats:
        total = np.zeros_like(self.found.variance[:, js[0] :: self.J])
        for i, a in enumerate(js):
            total += self.found.variance[:, a :: self.J]
            for b in js[i + 1 :]:
                total += 2 * self._covariance(a, b)
        return np.maximum(total, 0.0)

    def total(self, js: list[int]) -> Result:
        """COUNT or SUM."""
        value, least, most = (self._sum(x, js) for x in (self.found.value, self.possible.low, self.possible.high))
        assert value is not None and least is not None and most is not None  # noqa: PT018 - for the type checker
        se = np.sqrt(self._variance(js))
        if len(js) == 1:
            low, high = self.found.low[:, js[0] :: self.J], self.found.high[:, js[0] :: self.J]
        else:
            low, high = cut(value - self.asked.z * se, value + self.asked.z * se, least, most)
        minimum, maximum = self._sum(self.found.minimum, js), self._sum(self.found.maximum, js)
        exact = is_exact(Limits(least, most))
        if minimum is not None and maximum is not None:  # bounds that meet are the number itself
            tight = is_exact(Limits(np.nan_to_num(minimum), np.nan_to_num(maximum))) & ~exact
            low, high = np.where(tight, minimum, low), np.where(tight, minimum, high)
            # An unbiased estimate stays as it is: replaced wherever bounds meet, estimates of all values together
            # would be biased (docs/explanation/intervals.md, 8).
            sure = tight & (np.isnan(value) | (se == 0))
            value, se, exact = np.where(sure, minimum, value), np.where(sure, 0.0, se), exact | sure
        unknown = np.isnan(value)
        se = np.where(unknown, np.nan, se)
        if minimum is not None and maximum is not None:
            if unknown[~exact].all():  # bounds are all there is: they are the interval
                low, high = np.where(exact, low, minimum), np.where(exact, high, maximum)
                minimum = maximum = None
            else:
                low, high = cut(low, high, minimum, maximum)
        kind = (
            "exact"
            if exact.all()
            else "bounds"
            if unknown[~exact].any() and minimum is None and self.found.minimum is not None
            else "confidence"
        )
        return Result(value, se, low, high, kind, minimum, maximum)

    def ratio(
        self,
        aggregate: Aggregate,
        top: list[int],
        bottom: list[int],
        bound: Callable[..., Any],
        observed: Observed,
        extremes: Extremes,
    ) -> Result:
        """AVG and shares: Fieller's set where the denominator is uncertain, else the numerator's interval divided."""
        A, B = self.total(top), self.total(bottom)
        if A.kind == "bounds" or B.kind == "bounds":
            known_bounds = self._certain_ratio(bound, observed, top, bottom) if aggregate.within else None
            return self._bounded_ratio(A, B, known_bounds)
        certain = (B.low == B.high) & (B.low > 0)
        if B.minimum is not None:  # an interval without width is not yet certain
            certain &= B.minimum == B.maximum
        silent = np.isnan(B.se) & (B.value > 0)  # a method that states no error
        empty = (B.high <= 0) & (B.se == 0)
        within = extremes if aggregate.within else None
        fractions = self._fractions(A, B, top, bottom, certain, observed, within)
        ratio, se, low, high, bounded = fractions
        known = certain | silent | bounded
        ratio, se = np.where(known, ratio, np.nan), np.where(known, se, np.nan)
        low, high = np.where(empty, np.nan, low), np.where(empty, np.nan, high)
        minimum = maximum = None
        if A.minimum is not None and A.maximum is not None:
            with np.errstate(invalid="ignore", divide="ignore"):
                minimum, maximum = (np.where(certain, x / B.low, np.nan) for x in (A.minimum, A.maximum))
            if not certain.all() and aggregate.within:
                wider = self._certain_ratio(bound, observed, top, bottom)
                if wider is None and self.found.assumed:  # a mean lies among the numbers of the rows that may count
                    wider = (*ratio_range(observed, self.asked, top, bottom, extremes), ())
                if wider is not None:  # certain, also where the denominator is not
                    minimum, maximum = np.where(certain, minimum, wider[0]), np.where(certain, maximum, wider[1])
                    low, high = np.where(certain, low, minimum), np.where(certain, high, maximum)
            elif not certain.all() and self.found.assumed:
                minimum, maximum = (
                    np.where(certain, own, x)
                    for own, x in zip((minimum, maximum), self._quotients(top, bottom, observed), strict=True)
                )
                low, high = np.where(certain, low, minimum), np.where(certain, high, maximum)
        notes: tuple[str, ...] = ()
        if (~known & ~empty).any():
            notes = (f"{aggregate.name or aggregate.text}: not identifiable, the denominator may be zero",)
        exact = (A.se == 0) & (B.se == 0) & ~np.isnan(A.value)
        return Result(ratio, se, low, high, "exact" if (exact | empty).all() else "confidence", minimum, maximum, notes)

    def _fractions(
        self,
        A: Result,
        B: Result,
        top: list[int],
        bottom: list[int],
        certain: NDArray[np.bool_],
        observed: Observed,
        extremes: Extremes | None,
    ) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
        """(ratio, standard error, low, high, is the set bounded?); without `extremes` the ratio may be any number.

        The error is that of the delta method: Var(A/B) = (Var A - 2 R Cov + R^2 Var B) / B^2.
        """
        cov = sum((self._covariance(a, b) for a in top for b in bottom), np.zeros_like(A.value))
        with np.errstate(invalid="ignore", divide="ignore"):
            below = np.where(certain, B.low, B.value)
            ratio = A.value / below
            apart = A.se**2 + (ratio * B.se) ** 2
            spread = apart - 2 * ratio * cov
            # Estimated moments may contradict each other; below the least spread that any correlation leaves, the
            # covariance is not believed and the two errors are added as if they were independent.
            spread = np.where(spread <= (A.se - np.abs(ratio) * B.se) ** 2, apart, spread)
            se = np.where(certain, A.se, np.sqrt(spread)) / np.abs(below)
            low, high = A.low / below, A.high / below
        if certain.all():
            return ratio, se, low, high, certain
        least, most = self._quotients(top, bottom, observed)
        if extremes is not None:
            least, most = ratio_range(observed, self.asked, top, bottom, extremes)
        one = np.isfinite(least) & (
            least == most
        )  # all its rows have one number: whichever they are, that is their mean
        ratio, se = np.where(one, least, ratio), np.where(one, 0.0, se)
        found = fieller(A.value, B.value, A.se**2, cov, B.se**2, self.asked.z, least, most)
        return ratio, se, np.where(certain, low, found.low), np.where(certain, high, found.high), found.bounded

    def _quotients(self, top: list[int], bottom: list[int], observed: Observed) -> tuple[Floats, Floats]:
        """(least, most) quotient of what is possible above and below; infinite where the number below may be 0."""
        (a, b), (c, d) = ((self._sum(self.possible.low, js), self._sum(self.possible.high, js)) for js in (top, bottom))
        assert a is not None and b is not None and c is not None and d is not None  # noqa: PT018 - type checker
        with np.errstate(invalid="ignore", divide="ignore"):
            least = np.where(a >= 0, a / d, np.where(c > 0, a / c, -np.inf))
            most = np.where(b <= 0, b / d, np.where(c > 0, b / c, np.inf))
        known = (c >= 0) & (d > 0)
        if len(top) == len(bottom) == 1:
            part = quotient_range(observed, self.asked, top[0], bottom[0])
            least, most = np.maximum(least, part[0]), np.minimum(most, part[1])
        return np.where(known, least, -np.inf), np.where(known, most, np.inf)

    def _certain_ratio(
        self, bound: Callable[..., Any], observed: Observed, top: list[int], bottom: list[int]
    ) -> tuple[Floats, Floats, tuple[str, ...]] | None:
        """The method's certain bounds of the ratio, as if nothing else were asked."""
        seen, asked, above, below = asked_alone(observed, self.asked, top, bottom)
        found: tuple[Floats, Floats, tuple[str, ...]] | None = bound("ratio", seen, asked, above, below, None)
        return found

    def _bounded_ratio(self, A: Result, B: Result, found: tuple[Floats, Floats, tuple[str, ...]] | None) -> Result:
        """A ratio of which only bounds are known."""
        exact = (A.se == 0) & (B.se == 0) & ~np.isnan(A.value)
        with np.errstate(invalid="ignore", divide="ignore"):
            certain = (B.se == 0) & (B.value > 0)
            ratio = A.value / B.value
            low, high = (np.where(certain, end / B.value, np.nan) for end in (A.low, A.high))
        notes: tuple[str, ...] = ()
        if found is not None:  # bounds need no certain denominator
            low, high, notes = found[0], found[1], tuple(found[2])
            ratio, exact = np.where(low == high, low, ratio), exact | (low == high)
            low, high = np.where(exact, ratio, low), np.where(exact, ratio, high)
        elif (~certain & (B.high > 0)).any():
            notes = (NO_BOUNDS,)
        nothing = np.full_like(low, np.nan)
        value, se = np.where(exact, ratio, nothing), np.where(exact, 0.0, nothing)
        return Result(value, se, low, high, "exact" if exact.all() else "bounds", notes=notes)


def selected(aggregate: Aggregate, query: Query, keys: tuple[int, ...], strata: Strata, observed: Observed) -> Observed:
    """The observed rows that a MIN, MAX or quantile is taken over; refuses conditions on changed columns."""
    terms = aggregate.numerator
    condition = conjunction((query.where, *(t.condition for t in terms)))
    touched = any(query.leaves[i].unit is not None for i in condition.leaves())
    if touched or len(terms) != 1 or any(query.keys[i].unit is not None for i in keys):
        typed = "" if aggregate.position is None else query.text[slice(*aggregate.position)].partition("(")[0]
        said = (typed.strip() or aggregate.kind).upper()
        raise UnsupportedQuery(
            f"{said} is answered for a column as it is, without conditions on changed columns",
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
        memo={},
        numbers=None if observed.numbers is None else observed.numbers[stay],
    )


def order_bounds(
    aggregate: Aggregate,
    query: Query,
    bound: Callable[..., Any],
    observed: Observed,
    asked: Asked,
    top: list[int],
) -> Result:
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
    return Result(
        value, np.where(exact, 0.0, nothing), low, high, "exact" if exact.all() else "bounds", notes=tuple(notes)
    )


def ratio_range(
    observed: Observed, asked: Asked, top: Sequence[int], bottom: Sequence[int], extremes: Extremes
) -> tuple[Floats, Floats]:
    """(least, most), each (output rows, groups of unit keys), of a ratio whose denominator counts rows.

    A row that is counted adds sum over the functionals above of g h: h among the coefficients that its value may have,
    g between the extremes of the measure. Without limits where the denominator is not a count.
    """
    shape = (observed.keys, asked.groups)
    if len(bottom) != 1 or asked.measure[bottom[0]]:
        return np.full(shape, -np.inf), np.full(shape, np.inf)
    least, most = np.zeros(shape), np.zeros(shape)
    rows = np.bincount(observed.stratum, weights=observed.moments[:, 0], minlength=observed.strata)
    there = np.flatnonzero(rows > 0)
    key, pattern = observed.key[there], observed.pattern[there]
    for j in top:
        h_low, h_high = np.full(shape, np.inf), np.full(shape, -np.inf)
        ends = [_counted(H, j, bottom[0], asked.groups) for H in asked.coefficients]
        if ends:
            np.minimum.at(h_low, key, np.array([low for low, _ in ends])[pattern])
            np.maximum.at(h_high, key, np.array([high for _, high in ends])[pattern])
        if measure := int(asked.measure[j]):
            g_low, g_high = (x[:, None] for x in extremes(measure))
            with np.errstate(invalid="ignore"):
                corners = [h_low * g_low, h_low * g_high, h_high * g_low, h_high * g_high]
            h_low, h_high = np.min(corners, axis=0), np.max(corners, axis=0)
        least, most = least + h_low, most + h_high
    nothing = ~(least <= most)  # no row is counted
    return np.where(nothing, np.nan, least), np.where(nothing, np.nan, most)


def _counted(H: csr_array, top: int, bottom: int, groups: int) -> tuple[Floats, Floats]:
    """Least and largest coefficient of a functional among the values that another one counts, for every group."""
    J = H.shape[0] // groups
    above, below = H[top::J], H[bottom::J]
    inside = above.multiply(below.astype(bool))
    return _ends(inside.data, np.diff(inside.indptr), np.diff(below.indptr))


def quotient_range(observed: Observed, asked: Asked, top: int, bottom: int) -> tuple[Floats, Floats]:
    """(least, most), each (output rows, groups of unit keys), of two sums of one measure that is nowhere below 0.

    sum g t / sum g b lies between the least and the largest t / b, where b is above 0 wherever t is not 0: a part is at
    most the whole. Without limits elsewhere.
    """
    shape = (observed.keys, asked.groups)
    least, most = np.full(shape, np.inf), np.full(shape, -np.inf)
    rows = np.bincount(observed.stratum, weights=observed.moments[:, 0], minlength=observed.strata)
    there = np.flatnonzero(rows > 0)
    ends = [_quotients(H, top, bottom, asked.groups) for H in asked.coefficients]
    if ends and asked.measure[top] == asked.measure[bottom]:
        key, pattern = observed.key[there], observed.pattern[there]
        np.minimum.at(least, key, np.array([low for low, _ in ends])[pattern])
        np.maximum.at(most, key, np.array([high for _, high in ends])[pattern])
    nothing = ~(least <= most)
    return np.where(nothing, -np.inf, least), np.where(nothing, np.inf, most)


def _quotients(H: csr_array, top: int, bottom: int, groups: int) -> tuple[Floats, Floats]:
    """Least and largest quotient of two functionals' coefficients, for every group."""
    J = H.shape[0] // groups
    above, below = H[top::J], H[bottom::J]
    inside = above.multiply(below.power(-1))
    low, high = _ends(inside.data, np.diff(inside.indptr), np.diff(below.indptr))
    loose = (np.diff(inside.indptr) < np.diff(above.indptr)) | (below.min(axis=1).toarray() < 0)
    return np.where(loose, -np.inf, low), np.where(loose, np.inf, high)


def _ends(numbers: Floats, filled: NDArray[np.intp], held: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Least and largest of the numbers of every group, 0 among them where fewer are filled than there are."""
    low, high = np.where(filled < held, 0.0, np.inf), np.where(filled < held, 0.0, -np.inf)
    row = np.repeat(np.arange(len(filled)), filled)
    np.minimum.at(low, row, numbers)
    np.maximum.at(high, row, numbers)
    return low, high


def hang_on_few_rows(observed: Observed, asked: Asked, found: Estimated, *, shown: bool) -> NDArray[np.bool_]:
    """(K, F): whether a functional sums a measure that few rows carry; False for counts and where no row is seen.

    `shown`: the published value stands in the rows; else every row counts that may have a counted value.
    A row that carries most of a sum may have a counted value and show another: the estimate is then too low, and so is
    the error that is estimated from what is shown. So the rows that may count are looked at too, as many of them as the
    estimate takes of their sum, where the interval does not reach as far as one row of all their squares.
    """
    if not asked.measure.any():
        return np.zeros((observed.keys, asked.functionals), dtype=bool)
    first, squares = _sums(observed, asked, shown=False)
    amount = amount_of(first, squares)
    few = amount < FEW
    if shown and int(observed.value.max(initial=0)) < int(np.prod(asked.shape)):  # else sets are published
        few = amount_of(*_sums(observed, asked, shown=True)) < FEW
    share = np.clip(np.divide(found.value, first, out=np.ones_like(first), where=first != 0), 0.0, 1.0)
    narrow = asked.z**2 * found.variance < squares
    return np.asarray(few | (narrow & (share * amount < FEW)))


def amount_of(first: Floats, squares: Floats) -> Floats:
    """How many rows of equal size a sum amounts to; infinite where nothing is summed."""
    return np.asarray(np.divide(first**2, squares, out=np.full(first.shape, np.inf), where=squares > 0))


def _sums(observed: Observed, asked: Asked, *, shown: bool) -> tuple[Floats, Floats]:
    """(K, F) twice: sums of g and of g^2 over the rows that show a counted value, or may have one."""
    K, F = observed.keys, asked.functionals
    first, squares = np.zeros((K, F)), np.zeros((K, F))
    key, pattern = observed.key[observed.stratum], observed.pattern[observed.stratum]
    for g in np.unique(asked.measure[asked.measure > 0]):
        mine = np.flatnonzero(asked.measure == g)
        for b, H in enumerate(asked.coefficients):
            at = np.flatnonzero(pattern == b)
            counted = H[mine].astype(bool).astype(np.float64)
            for total, column in ((first, asked.products[0, g]), (squares, asked.products[g, g])):
                carried = observed.moments[at, column]
                if shown:
                    seen = csr_array((carried, (key[at], observed.value[at])), shape=(K, counted.shape[1]))
                    total[:, mine] += (seen @ counted.T).toarray()
                else:
                    every = np.bincount(key[at], weights=carried, minlength=K)
                    total[:, mine] += np.outer(every, counted.sum(axis=1) > 0)
    return first, squares
