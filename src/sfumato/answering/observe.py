"""What is observed for a question: the truth of its conditions on the domains' values, one GROUP BY over the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from ..engines.codes import factorise, part_numbers
from ..engines.statements import column, distinct, double, expression, grouped, on_domain, rows_of
from ..errors import QueryError, UnsupportedQuery
from ..model.public import Codes, Floats, Scalar
from ..model.types import Kind
from ..sql.aggregates import LARGEST
from ..sql.nodes import FALSE, TRUE, UNKNOWN, Query, Truth
from ..sql.scalar import nearest, quoted
from .subject import Subject

# --- domains ----------------------------------------------------------------------------------------------------------
# A question seen from the domains: truth, groups and numbers of every value, evaluated by the engine itself.


NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
DOMAIN, CODE = "__domain__", "__code__"


@dataclass(frozen=True, slots=True)
class UnitView:
    """A unit as the question sees its domain: truth of the leaves, group of each value, numbers to sum."""

    size: int
    leaves: Mapping[int, Truth]  # leaf number -> truth for every domain value
    groups: Mapping[int, Codes]  # key number -> group of every domain value
    numbers: Mapping[int, Floats]  # value number -> number of every domain value


@dataclass(frozen=True, slots=True)
class Views:
    """How the question sees every involved unit."""

    views: Mapping[int, UnitView]
    labels: Mapping[int, pa.Array]  # unit key number -> value of every group


@dataclass(frozen=True, slots=True)
class Layout:
    """The joint classes of the involved units."""

    units: tuple[int, ...]
    views: Mapping[int, UnitView]
    classes: tuple[Codes, ...]  # of every unit: the class of every value
    firsts: tuple[NDArray[np.intp], ...]  # ... and a value of every class
    sets: Mapping[int, int]  # unit whose cells show sets -> number of listed sets

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
    classes, firsts = [], []
    for view in (views[u] for u in units):
        if lumpable and view.size:  # values that the question does not tell apart are one class
            columns = [*view.leaves.values(), *view.groups.values(), *view.numbers.values()]
            signature = np.stack([np.asarray(c, dtype=float) for c in columns], axis=1)
            _, first, inverse = np.unique(signature, axis=0, return_index=True, return_inverse=True)
            classes.append(inverse.reshape(-1).astype(np.int32))
            firsts.append(first)
        else:
            classes.append(np.arange(view.size, dtype=np.int32))
            firsts.append(np.arange(view.size, dtype=np.intp))
    return Layout(units, views, tuple(classes), tuple(firsts), sets or {})


def truth(column: pa.ChunkedArray | pa.Array) -> Truth:
    """A Boolean column as three-valued truth."""
    if not (pa.types.is_boolean(column.type) or pa.types.is_null(column.type)):
        raise QueryError("a condition must be true or false; compare the value with something")
    filled = pc.fill_null(pc.cast(column, pa.int8()), -1)
    flat = filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(zero_copy_only=False)
    return np.select([flat == 1, flat == 0], [TRUE, FALSE], UNKNOWN).astype(np.int8)


def look_at_domains(query: Query, subject: Subject) -> Views:
    """Leaves, keys and numbers of every involved unit, on its domain; QueryError for literals that it does not have."""
    check_literals(query, subject)
    views, labels = {}, {}
    for u in query.units():
        leaves = [i for i, leaf in enumerate(query.leaves) if leaf.unit == u]
        keys = [i for i, key in enumerate(query.keys) if key.unit == u]
        values = [i for i, (unit, _) in enumerate(query.values) if unit == u]
        for i in values:
            _check_number(query, subject, i)
        expressions = [query.leaves[i].sql for i in leaves]
        expressions += [query.keys[i].sql for i in keys]
        expressions += [f"COALESCE(CAST({query.values[i][1]} AS DOUBLE), 0)" for i in values]
        columns = iter(_evaluated(subject, u, expressions, query.text).columns if expressions else ())
        truths = {i: truth(next(columns)) for i in leaves}
        groups = {}
        for i in keys:
            groups[i], labels[i] = factorise(next(columns))
        numbers = {i: next(columns).to_numpy().astype(float) for i in values}
        if not all(np.all(np.abs(found) <= LARGEST) for found in numbers.values()):
            raise QueryError("the question adds up numbers that are infinite or too large", sql=query.text)
        views[u] = UnitView(size=len(subject.domains[u]), leaves=truths, groups=groups, numbers=numbers)
    return Views(views, labels)


def _evaluated(subject: Subject, unit: int, expressions: Sequence[str], text: str) -> pa.Table:
    """SQL expressions evaluated on every value of a domain, in domain order."""
    domain = subject.domains[unit]
    columns = {CODE: pa.array(np.arange(len(domain)))}
    for j, name in enumerate(domain.columns):
        texts = [str(v[j]).lower() if isinstance(v[j], bool) else str(v[j]) for v in domain.values]
        missing = np.array([v[j] is None for v in domain.values], dtype=bool)
        columns[name] = pa.array(texts, type=pa.string(), mask=missing)
    types = {name: subject.schema.types[name] for name in domain.columns}
    statement = on_domain(expressions, types, table=DOMAIN, order=CODE)
    return subject.reader.run(statement, text=text, tables={DOMAIN: pa.table(columns)})


def _check_number(query: Query, subject: Subject, value: int) -> None:
    """Refuse a sum over a changed column that is not a number."""
    unit, sql = query.values[value]
    kind = _evaluated(subject, unit, [sql], query.text).schema[0].type
    if not any(check(kind) for check in NUMERIC):
        aggregate = next(a for a in query.aggregates if any(t.value == value for t in a.numerator))
        raise UnsupportedQuery(
            f"{aggregate.text} needs numbers, and {sql} holds none",
            sql=query.text,
            position=aggregate.position,
            hint="Ask for COUNT(*) and GROUP BY the column.",
        )


def check_literals(query: Query, subject: Subject) -> None:
    """Refuse a literal that is no value of the column it is compared with, and suggest near ones.

    Of a look-up table's keys one is enough: a table may hold codes that nobody has.
    """
    met: dict[tuple[str, str], bool] = {}
    values: dict[str, tuple[set[str], set[float]]] = {}  # of every column once: a look-up table may have 10,000 keys
    for lookup in query.lookups:
        text = subject.schema.types[lookup.column].kind is Kind.TEXT and isinstance(lookup.literal, str)
        if lookup.column not in subject.schema.units and not text:
            continue
        if lookup.column not in values:
            values[lookup.column] = _values(subject, lookup.column)
        texts, numbers = values[lookup.column]
        literal = lookup.literal
        if isinstance(literal, float):
            found = literal in numbers or str(literal) in texts
        else:
            found = literal in texts or (bool(numbers) and _as_float(literal) in numbers)
            found = found or (not text and lookup.table is None and _means_a_value(literal, lookup.column, subject))
        if lookup.table is not None:
            met[lookup.column, lookup.table] = found or met.get((lookup.column, lookup.table), False)
            continue
        if found:
            continue
        shown = f'"{literal}"' if isinstance(literal, str) else f"{literal:g}"
        raise QueryError(
            f'"{lookup.column}" has no value {shown}{nearest(str(literal), texts)}',
            sql=query.text,
            position=lookup.position,
        )
    for (name, table), found in met.items():
        if not found:
            raise QueryError(f'no key of the look-up table "{table}" is a value of "{name}"', sql=query.text)


def _values(subject: Subject, column: str) -> tuple[set[str], set[float]]:
    """The values of a column, as texts and as numbers: those of its domain, or those that the release has."""
    known: Iterable[Scalar]
    if (unit := subject.schema.units.get(column)) is not None:
        domain = subject.domains[unit]
        known = {value[domain.columns.index(column)] for value in domain.values}
    else:
        known = subject.reader.run(distinct(column, table="release"))["v"].to_pylist()
    return {str(v) for v in known if v is not None}, {float(v) for v in known if isinstance(v, int | float | Decimal)}


def _means_a_value(literal: str, column: str, subject: Subject) -> bool:
    """Whether the engine takes a text for one of the values of a changed column: days and moments have many spellings.

    "2020-1-2" is a day, "2020-01-02T03:00" a moment and "t" is true. What it cannot read at all is none of the values.
    """
    shown = literal.replace("'", "''")
    try:
        (found,) = _evaluated(subject, subject.schema.units[column], [f"{quoted(column)} = '{shown}'"], "").columns
    except QueryError:
        return False
    return bool((truth(found) == TRUE).any())


def _as_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


# --- observe ----------------------------------------------------------------------------------------------------------


MOST_APART = 20_000_000  # rows of a release, up to which they are told apart by the numbers that are added up


@dataclass(frozen=True, slots=True)
class Observation:
    """The statement for the engine, and the names of the columns it returns.

    `bits[u]` are the leaves of unit u that are evaluated on the published value; a unit that needs its value as
    such (GROUP BY it, SUM of it, or a method that is not lumpable) is listed in `raw` instead.
    """

    statement: exp.Select
    keys: dict[int, str]  # untouched key number -> column
    leaves: dict[int, str]  # leaf number -> column: untouched leaves, and the bits of units
    raw: dict[int, tuple[str, ...]]  # unit -> columns that hold its published value
    bits: dict[int, tuple[int, ...]]  # unit -> leaf numbers
    part: str | None
    moments: tuple[tuple[int, int], ...]  # (a, b): sum of measure a times measure b; (0, 0) counts rows
    positive: dict[int, str]  # measure -> sum of its positive part
    numbers: tuple[str, ...] = ()  # measures that rows are told apart by


@dataclass(frozen=True, slots=True)
class Frame:
    """A question and what was observed for it."""

    query: Query
    subject: Subject
    wanted: Observation
    seen: pa.Table
    place: Layout
    codes: Mapping[int, Codes]  # unit -> published code of every observed row
    labels: Mapping[int, pa.Array]  # unit key -> value of every group


def observe(query: Query, subject: Subject) -> Frame:
    """What the engine says to the question, laid out over the domains; ReleaseError for parts that cannot be."""
    views = look_at_domains(query, subject)
    wanted = wanted_of(query, subject, *subject.reader.source())
    seen = subject.reader.run(wanted.statement, text=query.text)
    if wanted.part is not None:
        at = seen.column_names.index(wanted.part)
        seen = seen.set_column(at, wanted.part, pa.array(part_numbers(seen[wanted.part], subject.rows)))
    return Frame(
        query=query,
        subject=subject,
        wanted=wanted,
        seen=seen,
        place=layout(query.units(), views.views, lumpable=subject.lumpable, sets=subject.sets),
        codes={u: subject.coders[u].encode([seen[c] for c in names]) for u, names in wanted.raw.items()},
        labels=views.labels,
    )


def wanted_of(query: Query, subject: Subject, table: str, weight: str | None) -> Observation:
    """What the question needs to see: one GROUP BY over `table`, whose rows stand for `weight` rows (None: one)."""
    involved = query.units()
    columns: list[tuple[exp.Expression, str]] = []
    keys = {i: f"k{i}" for i, key in enumerate(query.keys) if key.unit is None}
    columns += [(expression(query.keys[i].sql), name) for i, name in keys.items()]
    needs_value = {key.unit for key in query.keys} | {u for u, _ in query.values}
    raw, bits, leaves = {}, {}, {}
    for u in () if subject.withheld else involved:
        if subject.lumpable and u not in needs_value:
            bits[u] = tuple(i for i, leaf in enumerate(query.leaves) if leaf.unit == u)
        else:
            names = subject.coders[u].domain.columns
            raw[u] = tuple(f"u{u}_{j}" for j in range(len(names)))
            columns += [(column(name), alias) for name, alias in zip(names, raw[u], strict=True)]
    for i, leaf in enumerate(query.leaves):
        if leaf.unit is None or leaf.unit in bits:
            leaves[i] = f"l{i}"
            columns.append((expression(leaf.sql), leaves[i]))
    part = subject.part if involved else None
    if part is not None:
        columns.append((column(part), "part"))
    numbers = [_number(sql) for sql in query.measures[1:]]
    apart: tuple[str, ...] = ()
    if subject.by_number and subject.rows <= MOST_APART and part is not None:
        apart = tuple(f"g{m}" for m in range(1, len(numbers) + 1))
    columns += [(number.copy(), name) for number, name in zip(numbers, apart, strict=False)]
    moments = tuple((a, b) for b in range(len(numbers) + 1) for a in range(b + 1))
    positive = {m: f"p{m}" for m in range(1, len(numbers) + 1)}
    sums = [(rows_of(weight), "m0")]
    for j, (a, b) in enumerate(moments[1:], start=1):
        sums.append((_total([numbers[m - 1] for m in (a, b) if m], weight), f"m{j}"))
    for m, name in positive.items():
        cut = exp.Greatest(this=numbers[m - 1].copy(), expressions=[exp.Literal.number(0)])
        sums.append((_total([cut], weight), name))
    return Observation(
        statement=grouped(columns, [(double(e), name) for e, name in sums], table=table, where=query.pushed),
        keys=keys,
        leaves=leaves,
        raw=raw,
        bits=bits,
        part=None if part is None else "part",
        moments=moments,
        positive=positive,
        numbers=apart,
    )


def _number(sql: str) -> exp.Expression:
    """A measure as a number; NULL adds nothing."""
    return exp.Coalesce(this=double(expression(sql)), expressions=[exp.Literal.number(0)])


def _total(factors: list[exp.Expression], weight: str | None) -> exp.Expression:
    """The sum over rows of the product of the factors."""
    product: exp.Expression = exp.Literal.number(1) if weight is None else column(weight)
    for factor in factors:
        product = exp.Mul(this=product, expression=factor.copy())
    return exp.Sum(this=product)


def direct(query: Query, sql: str, keys: tuple[int, ...]) -> exp.Select:
    """An aggregate of untouched columns under untouched conditions, which the engine answers exactly."""
    columns = [(expression(query.keys[i].sql), f"k{i}") for i in keys]
    return grouped(columns, [(double(expression(sql)), "v")], table="release", where=query.pushed)
