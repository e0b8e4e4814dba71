"""A question seen from the domains: truth, groups and numbers of every value, evaluated by the engine itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..engines.codes import factorise
from ..engines.statements import distinct, on_domain
from ..errors import QueryError, UnsupportedQuery
from ..model.public import Scalar
from ..model.types import Kind
from ..sql.aggregates import LARGEST
from ..sql.nodes import FALSE, TRUE, UNKNOWN, Query, Truth
from ..sql.scalar import nearest, quoted
from .functionals import UnitView, Views
from .subject import Subject

NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
DOMAIN, CODE = "__domain__", "__code__"


def truth(column: pa.ChunkedArray | pa.Array) -> Truth:
    """A Boolean column as three-valued truth."""
    if not (pa.types.is_boolean(column.type) or pa.types.is_null(column.type)):
        raise QueryError("a condition must be true or false; compare the value with something")
    filled = pc.fill_null(pc.cast(column, pa.int8()), -1)
    flat = filled.to_numpy() if isinstance(filled, pa.ChunkedArray) else filled.to_numpy(zero_copy_only=False)
    return np.select([flat == 1, flat == 0], [TRUE, FALSE], UNKNOWN).astype(np.int8)


def checked_views(query: Query, subject: Subject) -> Views:
    """How the question sees the domains, after its literals were looked for there."""

    def look() -> Views:
        check_literals(query, subject)
        return look_at_domains(query, subject)

    return subject.known.views_of(query, look)


def look_at_domains(query: Query, subject: Subject) -> Views:
    """Leaves, keys and numbers of every involved unit, on its domain."""
    views, labels = {}, {}
    for u in query.units():
        leaves = [i for i, leaf in enumerate(query.leaves) if leaf.unit == u]
        keys = [i for i, key in enumerate(query.keys) if key.unit == u]
        values = [i for i, (unit, _) in enumerate(query.values) if unit == u]
        _check_numbers(query, subject, values)
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
    """SQL expressions evaluated on every value of a domain, in domain order.

    Its own columns, which most questions group by, are evaluated once: nothing in them depends on the question.
    """
    domain = subject.domains[unit]
    names = [quoted(name) for name in domain.columns]
    if expressions and all(expression in names for expression in expressions):
        if unit not in subject.known.shown:
            subject.known.shown[unit] = _run(subject, unit, names, text)
        return pa.table({f"e{i}": subject.known.shown[unit][names.index(e)] for i, e in enumerate(expressions)})
    return _run(subject, unit, expressions, text)


def _run(subject: Subject, unit: int, expressions: Sequence[str], text: str) -> pa.Table:
    domain = subject.domains[unit]
    columns = {CODE: pa.array(np.arange(len(domain)))}
    for j, name in enumerate(domain.columns):
        columns[name] = pa.array([_text(v[j]) for v in domain.values], type=pa.string())
    types = {name: subject.schema.types[name] for name in domain.columns}
    statement = on_domain(expressions, types, table=DOMAIN, order=CODE)
    return subject.reader.run(statement, text=text, tables={DOMAIN: pa.table(columns)})


def _text(value: Scalar) -> str | None:
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _check_numbers(query: Query, subject: Subject, values: list[int]) -> None:
    """Refuse sums over a changed column that is not a number."""
    for i in values:
        unit, sql = query.values[i]
        kinds = _evaluated(subject, unit, [sql], query.text).schema
        if not any(check(kinds[0].type) for check in NUMERIC):
            aggregate = next(a for a in query.aggregates if any(t.value == i for t in a.numerator))
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
        (found,) = _run(subject, subject.schema.units[column], [f"{quoted(column)} = '{shown}'"], "").columns
    except QueryError:
        return False
    return bool((truth(found) == TRUE).any())


def _as_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan
