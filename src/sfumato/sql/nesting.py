"""Questions inside questions, aliases of the table, and look-up tables: rewritten until one SELECT asks the release.

A SELECT that only picks, computes, filters or sorts the rows of an inner question is the inner question with more
columns and a HAVING. One that aggregates them again stays apart: `Nested`, ordinary SQL over the inner answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from ..errors import QueryError
from ..model.public import Scalar
from .scalar import JOINED, Node, refuse, span

ENDS = {"_low": "INTERVAL_LOW", "_high": "INTERVAL_HIGH", "_se": "STD_ERROR"}
MOST_ROWS = 10_000  # of a look-up table
MOST_DEPTH = 8
Lookups = Mapping[str, Mapping[str, Sequence[Scalar]]]  # table -> column -> values, row by row


@dataclass(frozen=True, slots=True)
class Nested:
    """SQL over answers: `inner` are the questions by the names that `outer` calls their answers."""

    inner: tuple[tuple[str, Any], ...]
    outer: Any


class Flattener:
    """Makes one SELECT over release of a text, or SQL over the answers of several; `columns` are the release's."""

    def __init__(self, text: str, lookups: Lookups, columns: Iterable[str]) -> None:
        self.text = text
        self.own = {name.lower() for name in columns}
        self.lookups = {name.lower(): columns for name, columns in lookups.items()}

    def select(self, select: Node, known: Mapping[str, Node], depth: int) -> Node | Nested:
        """`known` are the inner questions that stand around this SELECT."""
        if depth > MOST_DEPTH:
            raise QueryError("the query is nested too deeply")
        select = select.copy()
        known = dict(known)
        around = select.args.get("with_")
        if around is not None:
            if around.args.get("recursive"):
                raise refuse("WITH RECURSIVE is not answered from a release", self.text, around)
            for cte in around.expressions:
                if not isinstance(cte.this, exp.Select) or cte.args["alias"].args.get("columns"):
                    raise refuse("WITH takes names and SELECTs", self.text, cte)
                known[cte.alias.lower()] = self._inner(cte.this, known, depth)
            select.set("with_", None)
        source = select.args.get("from_")
        table = source.this if source is not None else None
        if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Select):
            name = table.alias or "answer"
            return self._over(select, name, self._inner(table.this, known, depth))
        if isinstance(table, exp.Table) and not table.args.get("db") and table.name.lower() in known:
            return self._over(select, table.alias or table.name, known[table.name.lower()])
        return self._plain(select)

    def _inner(self, select: Node, known: Mapping[str, Node], depth: int) -> Node:
        found = self.select(select, known, depth + 1)
        if isinstance(found, Nested):
            raise refuse("an answer is aggregated again once, not twice", self.text, select)
        return found

    # --- one SELECT over another ------------------------------------------------------------------------------

    def _over(self, outer: Node, name: str, inner: Node) -> Node | Nested:
        if outer.args.get("joins"):
            raise refuse(
                "answers are not joined with each other", self.text, outer.args["joins"][0], hint="Ask them one by one."
            )
        simple = not any(outer.args.get(k) for k in ("group", "having", "distinct", "qualify", "windows"))
        own = [node for key in ("expressions", "where", "order") for node in _listed(outer.args.get(key))]
        simple = simple and not any(node.find(exp.AggFunc, exp.Window) for node in own)
        simple = simple and not inner.args.get("limit") and not inner.args.get("offset")
        if not simple:
            return Nested(((name, inner),), outer)
        columns = _columns(inner)

        def inline(node: Node) -> Node:
            if not isinstance(node, exp.Column):
                return node
            if node.table and node.table.lower() != name.lower():
                raise refuse(f'unknown table "{node.table}"', self.text, node)
            found = columns.get(node.name.lower())
            if found is not None:
                return exp.paren(found.copy()) if isinstance(found, exp.Binary) else found.copy()
            for end, function in ENDS.items():
                base = columns.get(node.name.lower().removesuffix(end))
                if node.name.lower().endswith(end) and base is not None:
                    return exp.Anonymous(this=function, expressions=[base.copy()])
            raise QueryError(
                f'the inner question has no column "{node.name}"',
                sql=self.text,
                position=span(node),
                hint=f"Columns: {', '.join(columns)}",
            )

        made = inner.copy()
        made.set("order", None)
        items = []
        for item in outer.expressions:
            if isinstance(item, exp.Star):
                items += [exp.alias_(e.copy(), n, quoted=True) for n, e in _named(inner)]
                continue
            shown = item.alias or (item.name if isinstance(item, exp.Column) else "")
            value = (item.this if isinstance(item, exp.Alias) else item).copy().transform(inline)
            items.append(exp.alias_(value, shown, quoted=True) if shown else value)
        made.set("expressions", items)
        where = outer.args.get("where")
        if where is not None:
            condition = where.this.copy().transform(inline)
            kept = inner.args.get("having")
            made.set("having", exp.Having(this=exp.and_(kept.this.copy(), condition) if kept else condition))
        order = outer.args.get("order") or inner.args.get("order")
        if order is not None:
            mine = outer.args.get("order") is not None
            names = {i.alias.lower() for i in items if i.alias}
            keys = [key.copy().transform(lambda n: n if _is_name(n, names) else inline(n)) if mine else key.copy()
                    for key in order.expressions]  # fmt: skip
            made.set("order", exp.Order(expressions=keys))
        for clause in ("limit", "offset"):
            if outer.args.get(clause) is not None:
                made.set(clause, outer.args[clause].copy())
        return made

    # --- aliases and look-up tables ----------------------------------------------------------------------------

    def _plain(self, select: Node) -> Node:
        """A SELECT from release without alias and without joins."""
        source = select.args.get("from_")
        if source is None or not isinstance(source.this, exp.Table) or source.this.name.lower() != "release":
            return select
        table = source.this
        aliases = {table.alias.lower(), "release"} if table.alias else {"release"}
        joined: dict[str, tuple[Node, Mapping[str, Sequence[Scalar]], str]] = {}
        for join in select.args.get("joins") or ():
            self._join(join, aliases, joined, select)
        if joined or table.alias:
            _check_table(table, self.text)
            source.set("this", exp.Table(this=exp.to_identifier("release")))
            select.set("joins", None)
            self._name_tables(select, joined)
            for item in list(select.expressions):
                if isinstance(item, exp.Column) and item.table.lower() in joined:
                    item.replace(exp.alias_(item.copy(), item.name, quoted=True))
            replaced = select.transform(lambda n: self._column(n, aliases, joined))
            assert isinstance(replaced, exp.Select)
            return replaced
        return select

    def _name_tables(self, select: Node, joined: Mapping[str, Any]) -> None:
        """Columns that stand without a table get their look-up's, where no other table has such a column."""
        outputs = {item.alias.lower() for item in select.expressions if isinstance(item, exp.Alias)}
        for column in select.find_all(exp.Column):
            name = column.name.lower()
            if name in outputs and column.find_ancestor(exp.Group, exp.Having, exp.Order):
                continue  # it means the output of that name
            tables = [t for t, (_, held, *_) in joined.items() if name in {c.lower() for c in held}]
            if not column.table and name not in self.own and len(tables) == 1:
                column.set("table", exp.to_identifier(tables[0]))

    def _join(self, join: Node, aliases: set[str], joined: dict[str, Any], select: Node) -> None:
        table = join.this
        held = self.lookups.get(table.name.lower()) if isinstance(table, exp.Table) else None
        if held is None or join.args.get("kind") not in {None, "", "INNER"} or join.side not in {"", "LEFT"}:
            raise refuse(
                "JOIN is answered with look-up tables only",
                self.text,
                join,
                hint="Give a small table with --table name=file and JOIN or LEFT JOIN it ON one column.",
            )
        name = (table.alias or table.name).lower()
        if join.args.get("using"):
            key = join.args["using"][0].name
            own, other = exp.column(key), key
        else:
            own, other = self._equality(join, name, aliases)
        keys = next((values for column, values in held.items() if column.lower() == other.lower()), None)
        if keys is None:
            raise QueryError(
                f'"{table.name}" has no column "{other}"', sql=self.text, hint=f"Columns: {', '.join(held)}"
            )
        if len(keys) > MOST_ROWS:
            raise QueryError(f'"{table.name}" has {len(keys)} rows; a look-up table has at most {MOST_ROWS}')
        present = [k for k in keys if k is not None]
        if len(set(present)) < len(present):
            raise QueryError(
                f'"{table.name}" has some values of "{other}" twice: the join would count rows more than once'
            )
        joined[name] = (own, held, other, table.name)
        if join.side != "LEFT":
            inside = (
                exp.In(this=own.copy(), expressions=[_literal(k, table.name) for k in present])
                if present
                else exp.false()
            )
            select.where(inside, copy=False)

    def _equality(self, join: Node, name: str, aliases: set[str]) -> tuple[Node, str]:
        on = join.args.get("on")
        on = on.unnest() if on is not None else None
        sides: tuple[Node, ...] = (on.left, on.right) if isinstance(on, exp.EQ) else ()
        if len(sides) == 2 and all(isinstance(side, exp.Column) for side in sides):
            for own, other in (sides, sides[::-1]):
                if other.table.lower() == name and own.table.lower() in {*aliases, ""}:
                    return own, other.name
        raise refuse("JOIN takes one equality: ON release.column = lookup.column", self.text, on or join)

    def _column(self, node: Node, aliases: set[str], joined: Mapping[str, Any]) -> Node:
        """A column of the release without its qualifier, or the CASE that looks a value up."""
        if not isinstance(node, exp.Column) or not node.table:
            return node
        table = node.table.lower()
        if table in aliases:
            made = node.copy()
            made.set("table", None)
            return made
        if table not in joined:
            return node
        own, held, key, called = joined[table]
        found = next((c for c in held if c.lower() == node.name.lower()), None)
        if found is None:
            raise QueryError(
                f'"{node.table}" has no column "{node.name}"',
                sql=self.text,
                position=span(node),
                hint=f"Columns: {', '.join(held)}",
            )
        bare = own.copy()
        bare.set("table", None)
        values = next(v for c, v in held.items() if c.lower() == key.lower())
        groups: dict[Scalar, list[Scalar]] = {}
        for k, v in zip(values, held[found], strict=True):
            if k is not None and v is not None:
                groups.setdefault(v, []).append(k)
        if not groups:
            return exp.null()
        ifs = [
            exp.If(
                this=exp.In(this=bare.copy(), expressions=[_literal(k, called) for k in ks]),
                true=_literal(v),
            )
            for v, ks in groups.items()
        ]
        return exp.Case(ifs=ifs)


def _listed(clause: Any) -> list[Node]:
    return clause if isinstance(clause, list) else [] if clause is None else [clause]


def _literal(value: Scalar, table: str | None = None) -> Node:
    """The value; `table` marks a key of a look-up table, which may be none of the release's values."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int | float):
        made: Node = exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))
    else:
        made = exp.Literal.string(str(value))
    if table is not None:
        made.meta[JOINED] = table
    return made


def _named(select: Node) -> list[tuple[str, Node]]:
    """(name, expression) of every item of a SELECT."""
    return [
        (item.alias_or_name, item.this if isinstance(item, exp.Alias) else item)
        for item in select.expressions
        if item.alias_or_name
    ]


def _columns(select: Node) -> dict[str, Node]:
    """Expression of every column of a SELECT, aliases of its own resolved."""
    return {name.lower(): node for name, node in _named(select)}


def _is_name(node: Node, names: set[str]) -> bool:
    return isinstance(node, exp.Column) and not node.table and node.name.lower() in names


def _check_table(table: Node, text: str) -> None:
    alias = table.args.get("alias")
    named = alias is not None and alias.args.get("columns")
    if named or {k for k, v in table.args.items() if v} - {"this", "alias"}:
        raise refuse("FROM takes the table release alone", text, table)
