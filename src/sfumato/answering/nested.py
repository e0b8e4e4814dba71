"""Ordinary SQL over the answer of a question: its numbers carry their errors through sums and arithmetic.

The outer SELECT runs in the engine on the estimates. Each of its numbers is a function of them; its slopes, taken by
moving one estimate at a time, and the covariances of the inner answer give its error. Rows are recognised by their
keys, because an engine may give the groups of equal statements in another order each time; which rows take part, and
their order, are those of the estimates themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from ..errors import QueryError
from ..model.names import ENDS
from ..model.public import Floats
from ..sql.nodes import Key
from ..sql.scalar import ALLOWED, Node, nearest, refuse, span
from .answer import Answer
from .computed import ROUNDING

TABLE, ROW, KEY = "__inner__", "__row__", "__key{}__"
MOST_NUMBERS = 400  # estimates that are moved one by one
STEP = 1e-4  # of a standard error
SMOOTH = (exp.Sum, exp.Avg, exp.Count)
STRUCTURE: tuple[type[Any], ...] = (exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Alias, exp.Where, exp.Group)
STRUCTURE += (exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Star, exp.Window, *SMOOTH)
STEADY: tuple[type[Any], ...] = (exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Div)
STEADY += (exp.Neg, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Nullif, exp.Window, exp.Star, *SMOOTH)

Run = Callable[[Any, pa.Table], pa.Table]  # (statement, inner table) -> result


def over(
    outer: Node, name: str, inner: Answer, text: str, run: Run, z: Callable[[int], float], keys: tuple[Key, ...] = ()
) -> Answer:
    """The answer of the outer SELECT over an inner answer that it calls `name`.

    `keys` are those of the inner answer: a randomised one has a row for every value, whether people have it or not.
    """
    estimates = {a.lower() for a in inner.aggregates}
    statement, items = _checked(outer, name, inner, estimates, text)
    carrying = [shown for shown, node in items if _reads(node, estimates)]
    table = inner.table.cast(pa.schema([_plain(field) for field in inner.table.schema]))
    table = table.append_column(ROW, pa.array(range(table.num_rows), type=pa.int64()))
    table = _chosen(statement, items, table, run)
    statement.set("where", None)
    base = run(statement, table)
    for shown in carrying:
        kind = base[shown].type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            raise refuse(f'"{shown}" is computed from estimates and is no number', text, dict(items)[shown])
    errors = _errors(statement, table, inner, carrying, base, run, text) if inner.kind != "exact" else None
    columns: dict[str, Any] = {}
    width = z(max(1, base.num_rows * len(carrying)))
    for shown, _ in items:
        if shown not in carrying:
            columns[shown] = base[shown]
            continue
        value = base[shown].cast(pa.float64()).to_numpy(zero_copy_only=False)
        se = np.where(np.isnan(value), np.nan, 0.0) if errors is None else errors[:, carrying.index(shown)]
        for end, numbers in (("", value), ("_se", se), ("_low", value - width * se), ("_high", value + width * se)):
            columns[shown + end] = pa.array(numbers, type=pa.float64(), from_pandas=True)
    caveats = list(inner.caveats)
    if any(_reads(part, estimates | {name.lower() for name in carrying}) for part in _choosing(outer)):
        caveats.append("rows of the inner answer are chosen by their estimates; the errors take the choice as given")
    listed = [key.name for key in keys if key.unit is not None]
    if listed and any(isinstance(f, exp.Avg | exp.Count) for f in _functions(outer)):
        caveats.append(f"COUNT and AVG take every value of {', '.join(listed)} for a group, also one that no row has")
    return Answer(
        method=inner.method,
        level=inner.level,
        kind=inner.kind,
        table=pa.table(columns),
        aggregates=tuple(carrying),
        caveats=tuple(caveats),
    )


def _checked(
    outer: Node, name: str, inner: Answer, estimates: set[str], text: str
) -> tuple[Node, list[tuple[str, Node]]]:
    """The statement over TABLE and its (shown name, expression), or the refusal."""
    known = {c.lower(): c for c in inner.table.column_names}
    outer = outer.copy()
    outer.set("from_", exp.From(this=exp.to_table(TABLE)))
    for part in outer.walk():
        if isinstance(part, exp.Subquery | exp.Join | exp.Distinct) or not isinstance(part, ALLOWED + STRUCTURE):
            what = part.sql_name() if isinstance(part, exp.Func) else type(part).__name__.upper()
            raise refuse(f"{what} of an answer is not answered with its error", text, part)
        if isinstance(part, exp.Column):
            aliases = {e.alias.lower() for e in outer.expressions if e.alias}
            if part.name.lower() not in {*known, *aliases} or part.table.lower() not in {"", name.lower()}:
                raise QueryError(
                    f'the inner answer has no column "{part.name}"{nearest(part.name, known)}',
                    sql=text,
                    position=span(part),
                    hint=f"Columns: {', '.join(known)}",
                )
    for aggregate in outer.find_all(exp.AggFunc):
        if aggregate.find(exp.Column) is not None and not isinstance(aggregate, SMOOTH):
            raise refuse(f"{aggregate.sql_name()} of an answer is not answered with its error", text, aggregate)
    group = outer.args.get("group")
    for key in group.expressions if group is not None else ():
        if _reads(key, estimates):
            raise refuse("GROUP BY an estimate is not answered", text, key)
    items: list[tuple[str, Node]] = []
    for item in outer.expressions:
        if isinstance(item, exp.Star):
            raise refuse("* over an answer that is aggregated again", text, item)
        node = item.this if isinstance(item, exp.Alias) else item
        if _reads(node, estimates):
            for part in node.walk():
                if not isinstance(part, STEADY):
                    what = part.sql_name() if isinstance(part, exp.Func) else type(part).__name__.upper()
                    raise refuse(f"{what} of an estimate has no error formula", text, part)
        items.append((item.alias or node.sql(dialect="duckdb", comments=False), node))
    made = outer.copy()
    for column in made.find_all(exp.Column):
        column.set("table", None)
    shown = [exp.alias_(n.copy(), name, quoted=True) for name, n in _bare(items)]
    made.set("expressions", [*shown, *(exp.alias_(k, KEY.format(i), quoted=True) for i, k in enumerate(_keys(made)))])
    return made, items


def _chosen(statement: Node, items: Sequence[tuple[str, Node]], table: pa.Table, run: Run) -> pa.Table:
    """The rows of the inner answer that meet the statement's WHERE; it may name what the statement computes."""
    where = statement.args.get("where")
    if where is None:
        return table
    known, computed = {c.lower() for c in table.column_names}, {name.lower(): node for name, node in _bare(items)}
    condition = where.this.transform(
        lambda part: (
            exp.paren(computed[part.name.lower()].copy())
            if isinstance(part, exp.Column) and part.name.lower() not in known
            else part
        )
    )
    asked = exp.select(exp.column(ROW, quoted=True)).from_(exp.to_table(TABLE)).where(condition)
    return table.take(pa.array(sorted(run(asked, table)[ROW].to_pylist()), type=pa.int64()))


def _keys(statement: Node) -> list[Node]:
    """What tells the rows of a statement apart: its groups, nothing where all rows are one, else the row itself."""
    group = statement.args.get("group")
    if group is None:
        alone = any(isinstance(f, exp.AggFunc) and f.find_ancestor(exp.Window) is None for f in _functions(statement))
        return [] if alone else [exp.column(ROW, quoted=True)]
    if group.args.get("all"):
        return [item.unalias().copy() for item in statement.expressions if item.find(exp.AggFunc) is None]
    found: list[Node] = []
    for key in group.expressions:
        at = int(key.this) - 1 if isinstance(key, exp.Literal) and not key.is_string else None
        item = key if at is None or not 0 <= at < len(statement.expressions) else statement.expressions[at].unalias()
        found.append(item.copy())
    return found


def _functions(statement: Node) -> list[Node]:
    return [f for item in statement.expressions for f in item.find_all(exp.AggFunc)]


def _bare(items: Sequence[tuple[str, Node]]) -> list[tuple[str, Node]]:
    found = []
    for shown, node in items:
        copy = node.copy()
        for column in [copy, *copy.find_all(exp.Column)]:
            if isinstance(column, exp.Column):
                column.set("table", None)
        found.append((shown, copy))
    return found


def _reads(node: Node, estimates: set[str]) -> bool:
    names = {name + end for name in estimates for end in ENDS}
    return any(c.name.lower() in names for c in node.find_all(exp.Column))


def _choosing(outer: Node) -> list[Node]:
    return [outer.args[k] for k in ("where", "having", "limit") if outer.args.get(k) is not None]


def _plain(field: Any) -> Any:
    return pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _errors(
    statement: Node, table: pa.Table, inner: Answer, carrying: list[str], base: pa.Table, run: Run, text: str
) -> Floats:
    """(rows, carrying) standard errors."""
    numbers = inner.table.num_rows * len(inner.aggregates)
    if numbers > MOST_NUMBERS:
        raise QueryError(
            f"the inner answer has {numbers:,} numbers; at most {MOST_NUMBERS} are aggregated again", sql=text
        )
    S = inner.covariance()
    if not np.isfinite(S).all():
        raise QueryError(
            "some numbers of the inner answer have no error, so that nothing can be computed of them", sql=text
        )

    free = statement.copy()
    for clause in ("having", "order", "limit", "offset"):
        free.set(clause, None)

    def values(of: pa.Table) -> dict[tuple[str, ...], Floats]:
        keys = [of[c].to_pylist() for c in of.column_names if c.startswith(KEY[:5])]
        rows = np.stack([of[c].cast(pa.float64()).to_numpy(zero_copy_only=False) for c in carrying], axis=1)
        return {tuple(repr(key[r]) for key in keys): row for r, row in enumerate(rows)}

    start = values(base)
    slopes = np.zeros((base.num_rows, len(carrying), numbers))
    se = np.sqrt(np.maximum(np.diag(S), 0.0))
    place_of = {row: i for i, row in enumerate(table[ROW].to_pylist())}
    for i in np.flatnonzero(se > 0):
        row, place = divmod(int(i), len(inner.aggregates))
        if row not in place_of:
            continue
        moved = []
        for sign in (1.0, -1.0):
            name = inner.aggregates[place]
            column = table[name].to_numpy(zero_copy_only=False).copy()
            column[place_of[row]] += sign * STEP * se[i]
            at = table.column_names.index(name)
            moved.append(values(run(free, table.set_column(at, name, pa.array(column, type=pa.float64())))))
        for r, key in enumerate(start):
            slopes[r, :, i] = (moved[0][key] - moved[1][key]) / (2 * STEP * se[i])
    variance = np.einsum("rci,ij,rcj->rc", slopes, S, slopes, optimize=True)
    error = np.sqrt(np.maximum(variance, 0.0))
    error = np.where(error <= ROUNDING * (np.abs(slopes) @ se), 0.0, error)
    found = np.stack(list(start.values())) if start else np.zeros(variance.shape)
    return np.where(np.isnan(found), np.nan, error)
