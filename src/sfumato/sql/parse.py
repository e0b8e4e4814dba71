"""SQL text to a frozen `Query`, or an error that points into the text.

The steps, in order: syntax, clauses, columns of SELECT, WHERE, GROUP BY, aggregates, and what is asked of the answer
(HAVING, ORDER BY, LIMIT).
"""

from __future__ import annotations

import itertools

from sqlglot import exp

from ..errors import QueryError
from .aggregates import AGGREGATES, Terms
from .nodes import Aggregate, Condition, Key, Query, Schema, conjunction
from .scalar import Node, Scope, call_span, nearest, refuse, span
from .single_select import single_select

ENDS = {"INTERVAL_LOW": "_low", "INTERVAL_HIGH": "_high", "STD_ERROR": "_se"}
ERROR_COLUMNS = ("_se", "_low", "_high", "_min", "_max")  # that an answer adds to an aggregate


def parse(text: str, schema: Schema) -> Query:
    """The question that the text asks of a release with this schema."""
    try:
        return _Parser(text, schema).query(single_select(text))
    except RecursionError:
        raise QueryError("the query is nested too deeply") from None


class _Parser:
    def __init__(self, text: str, schema: Schema) -> None:
        self.text = text
        self.scope = Scope(schema, text)
        self.terms = Terms(self.scope)
        self.keys: list[Key] = []
        self.aggregates: list[Aggregate] = []
        self.aliases: dict[str, Node] = {}
        self.columns: tuple[tuple[str, str], ...] = ()

    def query(self, select: Node) -> Query:
        items = self._items(select)
        pushed, where = self._where(select.args.get("where"))
        sets = self._groups(select.args.get("group"), items)
        columns = self.columns = tuple((name, self._column(name, node)) for name, node in items)
        doubles = [name for name, _ in columns if [n for n, _ in columns].count(name) > 1]
        if doubles:
            raise QueryError(f'two columns of the answer are named "{doubles[0]}"; give one an alias', sql=self.text)
        self._check_error_columns(columns)
        having, order = self._having(select.args.get("having")), self._order(select.args.get("order"))
        if not self.aggregates:
            raise refuse(
                "a release answers aggregates, not rows",
                self.text,
                select,
                at=(0, min(6, len(self.text))),
                hint="Ask for COUNT(*), for example: SELECT COUNT(*) AS n FROM release",
            )
        return Query(
            text=self.text,
            keys=tuple(self.keys),
            sets=sets,
            leaves=tuple(self.terms.leaves),
            measures=tuple(self.terms.measures),
            values=tuple(self.terms.values),
            where=where,
            pushed=pushed,
            aggregates=tuple(self.aggregates),
            columns=columns,
            having=having,
            order=order,
            limit=self._number(select.args.get("limit")),
            offset=self._number(select.args.get("offset")),
            lookups=tuple(self.terms.lookups),
        )

    def _check_error_columns(self, columns: tuple[tuple[str, str], ...]) -> None:
        """Refuse a name that the error of another column has: n beside n_se."""
        taken = {name.lower() for name, _ in columns}
        for name, column in columns:
            clash = [end for end in ERROR_COLUMNS if column.startswith("a") and "_" not in column]
            clash = [end for end in clash if (name + end).lower() in taken]
            if clash:
                raise QueryError(
                    f'"{name + clash[0]}" is the name of a column that comes with "{name}"; give one another alias',
                    sql=self.text,
                )

    def _items(self, select: Node) -> list[tuple[str, Node]]:
        """(shown name, expression) of every SELECT item."""
        items = []
        for item in select.expressions:
            if isinstance(item, exp.Star) or (item.find(exp.Star) and not item.find(exp.Count)):
                raise refuse("* asks for rows; a release answers aggregates", self.text, item, hint="Ask for COUNT(*).")
            if item.find(exp.Window):
                raise refuse("window functions are not answered from a release", self.text, item.find(exp.Window))
            node = item.this if isinstance(item, exp.Alias) else item
            if isinstance(item, exp.Alias):
                self.aliases[item.alias.lower()] = node
                name = item.alias
            elif isinstance(node, exp.Column):
                name = self.scope.column(node) if node.name.lower() not in self.aliases else node.name
            else:
                name = _default_name(node)
            items.append((name, node))
        return items

    def _where(self, where: Node | None) -> tuple[tuple[str, ...], Condition]:
        """Conjuncts that the engine can apply, and the condition that needs the method."""
        if where is None:
            return (), conjunction(())
        pushed, kept = [], []
        for part in _conjuncts(where.this):
            self.scope.check(part)
            if self.scope.units(part) <= {None}:
                self.terms.condition(part, count=False)  # registers look-ups only
                pushed.append(self.scope.sql(part))
            else:
                kept.append(self.terms.condition(part))
        return tuple(pushed), conjunction(kept)

    # --- GROUP BY ------------------------------------------------------------------------------------------

    def _groups(self, group: Node | None, items: list[tuple[str, Node]]) -> tuple[tuple[int, ...], ...]:
        if group is None:
            return ((),)
        extra = {k for k, v in group.args.items() if v} - {"expressions", "all"}
        if extra:
            raise refuse("this form of GROUP BY is not answered", self.text, group)
        if group.args.get("all"):
            nodes = [node for _, node in items if not self._is_aggregate(node)]
        else:
            nodes = group.expressions
        choices = [self._grouping(node, items) for node in nodes]
        combined = [tuple(dict.fromkeys(itertools.chain(*pick))) for pick in itertools.product(*choices)]
        return tuple(dict.fromkeys(combined))

    def _grouping(self, node: Node, items: list[tuple[str, Node]]) -> list[tuple[int, ...]]:
        """The alternatives that one element of GROUP BY stands for, as tuples of key numbers."""
        if isinstance(node, exp.Cube):
            parts = [self._keys_of(n, items) for n in node.expressions]
            picks = itertools.product(*[(part, ()) for part in parts])
            return [tuple(itertools.chain(*pick)) for pick in picks]
        if isinstance(node, exp.Rollup):
            parts = [self._keys_of(n, items) for n in node.expressions]
            return [tuple(itertools.chain(*parts[:k])) for k in range(len(parts), -1, -1)]
        if isinstance(node, exp.GroupingSets):
            return [alternative for n in node.expressions for alternative in self._grouping(n, items)]
        return [self._keys_of(node, items)]

    def _keys_of(self, node: Node, items: list[tuple[str, Node]]) -> tuple[int, ...]:
        if isinstance(node, exp.Tuple):
            return tuple(self._key(n, items) for n in node.expressions)
        return (self._key(node, items),)

    def _key(self, node: Node, items: list[tuple[str, Node]]) -> int:
        """Number of the key that the expression, its position in SELECT or its alias stands for."""
        node = node.unnest()
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.name) if node.name.isdigit() else 0
            if not 1 <= place <= len(items):
                raise QueryError(f"GROUP BY position {node.name} is not in SELECT", sql=self.text, position=span(node))
            node = items[place - 1][1].unnest()
        elif isinstance(node, exp.Column) and not node.table and self._only_alias(node.name.lower()):
            node = self.aliases[node.name.lower()].unnest()
        if self._is_aggregate(node):
            raise refuse("GROUP BY an aggregate is not SQL", self.text, node)
        self.scope.check(node)
        units = self.scope.units(node)
        if len(units) > 1:
            raise refuse(
                "this GROUP BY mixes a randomised column with another column",
                self.text,
                node,
                hint="Group by the columns one by one.",
            )
        sql = self.scope.sql(node)
        for i, key in enumerate(self.keys):
            if key.sql == sql:
                return i
        self.keys.append(Key(_default_name(node), sql, next(iter(units), None)))
        return len(self.keys) - 1

    def _only_alias(self, name: str) -> bool:
        return name in self.aliases and name not in {c.lower() for c in self.scope.schema.types}

    # --- aggregates and what is asked of them ----------------------------------------------------------------

    def _is_aggregate(self, node: Node) -> bool:
        return bool(node.find(exp.AggFunc) or (isinstance(node, exp.Anonymous) and node.name.upper() in ENDS))

    def _column(self, name: str, node: Node, *, hidden: bool = False) -> str:
        """The column of the answer table (k0, a1, a1_low ...) that a SELECT item shows."""
        node = node.unnest()
        if isinstance(node, exp.Anonymous) and node.name.upper() in ENDS:
            if len(node.expressions) != 1:
                raise refuse(f"{node.name.upper()} takes one aggregate", self.text, node)
            inner = node.expressions[0]
            if isinstance(inner, exp.Column) and inner.name.lower() in self.aliases:
                inner = self.aliases[inner.name.lower()]
            inner = inner.unnest()
            if not isinstance(inner.this if isinstance(inner, exp.Filter) else inner, AGGREGATES):
                raise refuse(f"{node.name.upper()} takes an aggregate or its alias", self.text, node)
            return self._column(name, inner, hidden=True) + ENDS[node.name.upper()]
        target = node.this if isinstance(node, exp.Filter) else node
        if isinstance(target, AGGREGATES):
            return self._aggregate(name, node, hidden=hidden)
        if isinstance(target, exp.AggFunc):
            name = target.sql_name() if not isinstance(target, exp.AnonymousAggFunc) else target.name
            raise refuse(f"{name.upper()} is not answered with its error", self.text, at=call_span(node, self.text))
        if self._is_aggregate(node):
            raise refuse(
                "arithmetic on aggregates is not answered with its error",
                self.text,
                node,
                hint="Ask for the aggregates themselves; a share is AVG(CASE WHEN ... THEN 1 ELSE 0 END).",
            )
        self.scope.check(node)
        sql = self.scope.sql(node)
        for i, key in enumerate(self.keys):
            if key.sql == sql:
                return f"k{i}"
        if isinstance(node, exp.Column):
            raise refuse(f'"{node.name}" must appear in GROUP BY or inside an aggregate', self.text, node)
        raise refuse("this expression must appear in GROUP BY or inside an aggregate", self.text, node)

    def _aggregate(self, name: str, node: Node, *, hidden: bool) -> str:
        found = self.terms.aggregate(name, node, hidden=hidden)
        for j, known in enumerate(self.aggregates):
            if (known.kind, known.numerator, known.denominator, known.share) == (
                found.kind,
                found.numerator,
                found.denominator,
                found.share,
            ) and (hidden or known.hidden):
                if not hidden:
                    self.aggregates[j] = found
                return f"a{j}"
        self.aggregates.append(found)
        return f"a{len(self.aggregates) - 1}"

    def _on_answer(self, node: Node) -> str:
        """SQL over the answer's own columns, for HAVING and ORDER BY."""

        def replace(part: Node) -> Node:
            bare = part.unnest()
            inner = bare.this if isinstance(bare, exp.Filter) else bare
            if isinstance(inner, AGGREGATES) or (isinstance(bare, exp.Anonymous) and bare.name.upper() in ENDS):
                return exp.column(self._column("", bare, hidden=True), quoted=True)
            if isinstance(bare, exp.Column):
                known = self.aliases.get(bare.name.lower()) if not bare.table else None
                return exp.column(self._column("", known if known is not None else bare, hidden=True), quoted=True)
            for i, key in enumerate(self.keys):
                if not isinstance(bare, exp.Literal | exp.Boolean) and self._same(bare, key):
                    return exp.column(f"k{i}", quoted=True)
            return part

        replaced = node.copy().transform(replace)
        for part in replaced.walk():
            if isinstance(part, exp.Subquery | exp.Select | exp.Window):
                raise refuse("subqueries and window functions are not answered from a release", self.text, node)
        self.scope_free_check(replaced, node)
        return str(replaced.sql(dialect="duckdb", comments=False))

    def _same(self, node: Node, key: Key) -> bool:
        try:
            return self.scope.sql(node) == key.sql
        except QueryError:
            return False

    def scope_free_check(self, replaced: Node, node: Node) -> None:
        """The allow-list, for an expression whose columns are already those of the answer."""
        from .scalar import ALLOWED

        for part in replaced.walk():
            if not isinstance(part, (*ALLOWED, exp.Ordered)):
                raise refuse(f"{type(part).__name__.upper()} is not allowed here", self.text, node)

    def _having(self, having: Node | None) -> str | None:
        return None if having is None else self._on_answer(having.this)

    def _order(self, order: Node | None) -> str | None:
        if order is None:
            return None
        parts = []
        for ordered in order.expressions:
            node = ordered.this
            if isinstance(node, exp.Literal) and not node.is_string:
                place = int(node.name) if node.name.isdigit() else 0
                if not 1 <= place <= len(self.columns):
                    raise QueryError(
                        f"ORDER BY position {node.name} is not in SELECT", sql=self.text, position=span(node)
                    )
                parts.append(self._ordered(ordered, f'"{self.columns[place - 1][1]}"'))
            else:
                parts.append(self._ordered(ordered, self._on_answer(node)))
        return ", ".join(parts)

    def _ordered(self, ordered: Node, sql: str) -> str:
        text = sql + (" DESC" if ordered.args.get("desc") else "")
        first = ordered.args.get("nulls_first")
        return text + (" NULLS FIRST" if first else " NULLS LAST")

    def _number(self, limit: Node | None) -> int | None:
        if limit is None:
            return None
        value = limit.args.get("expression")
        more = {name for name, part in limit.args.items() if part} - {"expression"}  # PERCENT, WITH TIES, BY
        if more or not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
            raise refuse("LIMIT and OFFSET take a whole number", self.text, limit)
        return int(value.name)


def _conjuncts(node: Node) -> list[Node]:
    node = node.unnest()
    return _conjuncts(node.left) + _conjuncts(node.right) if isinstance(node, exp.And) else [node]


def _default_name(node: Node) -> str:
    """DuckDB's name for an item without an alias, for the forms people leave unnamed."""
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star):
        return "count_star()"
    if isinstance(node, exp.Column):
        return str(node.name)
    text = str(node.sql(dialect="duckdb", comments=False))
    if isinstance(node, exp.AggFunc):
        head, _, rest = text.partition("(")
        return head.lower() + "(" + rest
    return text


__all__ = ["nearest", "parse"]
