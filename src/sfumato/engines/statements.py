"""Every statement that a reader is asked to run, as an expression tree: the one place where SQL is built.

Texts of questions reach this module as expressions that the parser has checked and written back in DuckDB's dialect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp

from ..errors import QueryError
from ..model.types import ColumnType

DIALECT = "duckdb"  # of the texts that come in; what goes out is the engine's
COUNT = "__count__"
WEIGHT = "__n__"  # of a table of cells: rows that each stands for
MOST_LISTED = 10_000
OWN_NAME = re.compile(r"[a-z]\d+(_\d+)?|part|v")


def column(name: str) -> exp.Column:
    """The column of that name."""
    return exp.column(name, quoted=True)


def expression(text: str) -> exp.Expression:
    """The expression that a checked text stands for."""
    found = sqlglot.parse_one(text, dialect=DIALECT)
    assert isinstance(found, exp.Expression)
    return found


def double(value: exp.Expression) -> exp.Cast:
    """The value as a floating-point number."""
    return exp.cast(value, "DOUBLE", dialect=DIALECT)


def select(text: str) -> exp.Query:
    """The statement that a text of SQL stands for; it must be a SELECT."""
    found = expression(text)
    if not isinstance(found, exp.Query):
        raise QueryError("only SELECT is answered", sql=text)
    return found


def rows_of(weight: str | None) -> exp.Expression:
    """How many rows of the release a group stands for."""
    return exp.Count(this=exp.Star()) if weight is None else exp.Sum(this=column(weight))


def grouped(
    columns: Sequence[tuple[exp.Expression, str]],
    sums: Sequence[tuple[exp.Expression, str]],
    *,
    table: str,
    where: Sequence[str] = (),
    group: bool = True,
) -> exp.Select:
    """SELECT columns, sums FROM table WHERE all of `where` GROUP BY the columns."""
    # names of our own (k0, m1, part) need no quotes
    named = [exp.alias_(e, n, quoted=OWN_NAME.fullmatch(n) is None, copy=False) for e, n in (*columns, *sums)]
    made = exp.Select(expressions=named)
    made = made.from_(exp.table_(table), copy=False)
    for condition in where:
        made = made.where(exp.paren(expression(condition), copy=False), copy=False)
    if columns and group:
        made = made.group_by(*(exp.Literal.number(i + 1) for i in range(len(columns))), copy=False)
    return made


def counted(columns: Sequence[str], *, table: str, weight: str | None = None, where: Sequence[str] = ()) -> exp.Select:
    """Rows of every combination of some columns, as COUNT."""
    rows = exp.cast(rows_of(weight), "BIGINT", dialect=DIALECT)
    return grouped([(column(name), name) for name in columns], [(rows, COUNT)], table=table, where=where)


def columns_of(statement: exp.Expression | exp.Query) -> tuple[str, ...]:
    """The columns that a statement or an expression names, sorted."""
    return tuple(sorted({found.name for found in statement.find_all(exp.Column)}))


def over_rows(statement: exp.Query, cells: str, weight: str) -> exp.Query:
    """The statement about cells as one about rows, each of which stands for itself."""

    def change(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Table) and node.name == cells:
            return exp.table_("release")
        return exp.Literal.number(1) if isinstance(node, exp.Column) and node.name == weight else node

    changed = statement.transform(change)
    assert isinstance(changed, exp.Query)
    return changed


def distinct(name: str, *, table: str, where: Sequence[str] = ()) -> exp.Select:
    """Values of a column, as v, up to a limit, among rows that meet the conditions."""
    made = exp.select(exp.alias_(column(name), "v", quoted=True)).from_(exp.table_(table))
    for condition in where:
        made = made.where(exp.paren(expression(condition), copy=False), copy=False)
    return made.distinct().limit(MOST_LISTED)


def on_domain(expressions: Sequence[str], columns: Mapping[str, ColumnType], *, table: str, order: str) -> exp.Select:
    """Expressions e0, e1 .. evaluated on every row of a table of texts, which are cast to their types first."""
    casts = [exp.alias_(exp.cast(column(n), str(t), dialect=DIALECT), n, quoted=True) for n, t in columns.items()]
    inner = exp.select(column(order), *casts).from_(exp.table_(table)).subquery("domain_values")
    wanted = [exp.alias_(expression(text), f"e{i}", quoted=True) for i, text in enumerate(expressions)]
    return exp.select(*wanted).from_(inner).order_by(column(order))


def refined(
    *, table: str, row: str, having: str | None, order: str | None, limit: int | None, offset: int | None
) -> exp.Query:
    """The numbers of an answer's rows after HAVING, ORDER BY and LIMIT; equal rows by number."""
    made = exp.select(column(row)).from_(exp.table_(table))
    if having:
        made = made.where(expression(having), copy=False)
    made = made.order_by(*(_order(order) if order else ()), column(row), copy=False)
    if limit is not None:
        made = made.limit(limit, copy=False)
    return made if offset is None else made.offset(offset, copy=False)


def _order(text: str) -> list[exp.Expression]:
    """The keys of an ORDER BY, with their directions."""
    select = sqlglot.parse_one(f"SELECT 1 ORDER BY {text}", dialect=DIALECT)
    return [key.copy() for key in select.args["order"].expressions]
