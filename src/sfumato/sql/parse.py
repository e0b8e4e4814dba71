"""SQL text to a frozen `Query`, or an error that points into the text.

The steps, in order: syntax, clauses, columns of SELECT, WHERE, GROUP BY, aggregates, and what is asked of the answer
(HAVING, ORDER BY, LIMIT).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from ..errors import QueryError, UnsupportedQuery
from ..model.names import ERROR_ENDS
from .aggregates import AGGREGATES, Terms, as_aggregate, is_direct, numbered, rounded, tree_of
from .nesting import Flattener, Lookups, Nested
from .nodes import Aggregate, Arithmetic, Condition, Derived, Key, Query, Schema, conjunction
from .scalar import ALLOWED, ANSWERED, COMPUTED, Node, Scope, call_span, conjuncts, default_name, refuse, span, typed

ENDS = {"INTERVAL_LOW": "_low", "INTERVAL_HIGH": "_high", "STD_ERROR": "_se"}


def parse(text: str, schema: Schema) -> Query:
    """The question that the text asks of a release with this schema."""
    found = read(text, schema)
    if isinstance(found, Nested):
        raise refuse("aggregates of an answer are not allowed here", text, found.outer)
    return found


def read(text: str, schema: Schema, lookups: Lookups | None = None) -> Query | Nested:
    """The question that the text asks, or SQL over the answers of several; `lookups` are tables it may join."""
    try:
        found = Flattener(text, lookups or {}, schema.types).select(single_select(text), {}, 0)
        return found if isinstance(found, Nested) else question(found, text, schema)
    except RecursionError:
        raise QueryError("the query is nested too deeply") from None


def question(select: Node, text: str, schema: Schema) -> Query:
    """The question of one SELECT over release."""
    scope = Scope(schema, text)
    return _Parser(text, scope, Terms(scope)).query(known_clauses(select, text))


@dataclass(slots=True)
class _Parser:
    text: str
    scope: Scope
    terms: Terms
    keys: list[Key] = field(default_factory=list)
    aggregates: list[Aggregate] = field(default_factory=list)
    aliases: dict[str, Node] = field(default_factory=dict)
    columns: tuple[tuple[str, str], ...] = ()
    derived: list[Derived] = field(default_factory=list)
    digits: dict[str, int] = field(default_factory=dict)
    totals: Node | None = None  # the first SUM(...) OVER (...)
    read: dict[str, None] = field(default_factory=dict)  # columns of the answer that HAVING and ORDER BY name

    def query(self, select: Node) -> Query:
        items = self._items(select)
        pushed, where = self._where(select.args.get("where"))
        plain = [node for _, node in items if not self._is_aggregate(node)]
        sets = grouping_sets(select.args.get("group"), plain, lambda node: self._key(node, items), self.text)
        columns = self.columns = tuple((name, self._column(name, node)) for name, node in items)
        doubles = [name for name, _ in columns if [n for n, _ in columns].count(name) > 1]
        if doubles:
            raise QueryError(f'two columns of the answer are named "{doubles[0]}"; give one an alias', sql=self.text)
        self._check_error_columns(columns)
        having = select.args.get("having")
        having = None if having is None else self._on_answer(having.this)
        chosen_by = list(self.read)
        order = select.args.get("order")
        order = None if order is None else self._order(order)
        limit, offset = (whole_number(select.args.get(clause), self.text) for clause in ("limit", "offset"))
        if limit is not None or offset is not None:
            chosen_by = list(self.read)
        if self.totals is not None and (len(sets) > 1 or having is not None):
            raise refuse("a total over groups goes with a plain GROUP BY and without HAVING", self.text, self.totals)
        self._check_direct(where)
        condition = select.args.get("where")
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
            limit=limit,
            offset=offset,
            lookups=tuple(self.terms.lookups),
            derived=tuple(self.derived),
            digits=tuple(self.digits.items()),
            condition=None if condition is None else self.scope.sql(condition.this),
            chosen_by=tuple(dict.fromkeys(name.partition("_")[0] for name in chosen_by if name[0] in "ad")),
        )

    def _check_direct(self, where: Condition) -> None:
        """Refuse aggregates that the engine would compute from rows chosen by randomised values."""
        touched = any(self.terms.leaves[i].unit is not None for i in where.leaves())
        touched = touched or any(key.unit is not None for key in self.keys)
        for aggregate in self.aggregates:
            if aggregate.kind == "direct" and touched:
                raise refuse(
                    f"{aggregate.text} is answered for untouched columns only, under conditions on untouched columns",
                    self.text,
                    at=aggregate.position,
                    hint=ANSWERED,
                )

    def _check_error_columns(self, columns: tuple[tuple[str, str], ...]) -> None:
        """Refuse a name that the error of another column has: n beside n_se."""
        taken = {name.lower() for name, _ in columns}
        for name, column in columns:
            clash = [end for end in ERROR_ENDS if column[0] in "ad" and "_" not in column]
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
            for window in item.find_all(exp.Window):
                self._check_window(window)
            node = item.this if isinstance(item, exp.Alias) else item
            if self._is_aggregate(node):
                node = node.copy().transform(self._earlier)
            if isinstance(item, exp.Alias):
                self.aliases[item.alias.lower()] = node
                name = item.alias
            elif isinstance(node, exp.Column):
                name = self.scope.column(node) if node.name.lower() not in self.aliases else node.name
            else:
                name = default_name(node)
            items.append((name, node))
        return items

    def _earlier(self, part: Node) -> Node:
        """An alias of an earlier aggregate of SELECT as the aggregate."""
        if isinstance(part, exp.Column) and not part.table and self._only_alias(part.name.lower()):
            found = self.aliases[part.name.lower()]
            return exp.paren(found.copy()) if self._is_aggregate(found) else part
        return part

    def _where(self, where: Node | None) -> tuple[tuple[str, ...], Condition]:
        """Conjuncts that the engine can apply, and the condition that needs the method."""
        if where is None:
            return (), conjunction(())
        pushed, kept = [], []
        for part in conjuncts(where.this):
            self.scope.check(part)
            if self.scope.units(part) <= {None}:
                self.terms.condition(part, count=False)  # registers look-ups only
                pushed.append(self.scope.sql(part))
            else:
                kept.append(self.terms.condition(part))
        return tuple(pushed), conjunction(kept)

    # --- GROUP BY ------------------------------------------------------------------------------------------

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
        self.keys.append(Key(default_name(node), sql, next(iter(units), None)))
        return len(self.keys) - 1

    def _only_alias(self, name: str) -> bool:
        return name in self.aliases and name not in {c.lower() for c in self.scope.schema.types}

    # --- aggregates and what is asked of them ----------------------------------------------------------------

    def _is_aggregate(self, node: Node) -> bool:
        """Whether an aggregate is computed in it, or named: by the alias of an earlier one and of nothing else."""
        for part in node.walk():
            name = part.name.lower() if isinstance(part, exp.Column) and not part.table else ""
            if self._only_alias(name) and self.aliases[name].find(exp.AggFunc):
                return True
            if isinstance(part, exp.Anonymous) and part.name.upper() in ENDS:
                return True
            if isinstance(part, exp.AggFunc) or is_direct(part):
                return True
        return False

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
            if not self._is_aggregate(inner):
                raise refuse(f"{node.name.upper()} takes an aggregate or its alias", self.text, node)
            return self._column(name, inner, hidden=True) + ENDS[node.name.upper()]
        found = self._aggregate(name, node, hidden=hidden)
        if found is not None:
            return self._register(found, hidden=hidden)
        if self._is_aggregate(node):
            return self._computed(name, node, hidden=hidden)
        self.scope.check(node)
        sql = self.scope.sql(node)
        for i, key in enumerate(self.keys):
            if key.sql == sql:
                return f"k{i}"
        if isinstance(node, exp.Column):
            raise refuse(f'"{node.name}" must appear in GROUP BY or inside an aggregate', self.text, node)
        raise refuse("this expression must appear in GROUP BY or inside an aggregate", self.text, node)

    def _aggregate(self, name: str, node: Node, *, hidden: bool) -> Aggregate | None:
        """The aggregate that a node is, perhaps with FILTER; None for anything else."""
        call = node.this if isinstance(node, exp.Filter) else node
        if isinstance(call, AGGREGATES) or is_direct(call):
            return self.terms.aggregate(name, node, hidden=hidden)
        if isinstance(call, exp.AggFunc):
            said, at = typed(call, self.text), call_span(node, self.text)
            raise refuse(f"{said} is not answered with its error", self.text, at=at, hint=ANSWERED)
        return None

    def _computed(self, name: str, node: Node, *, hidden: bool) -> str:
        """Arithmetic: one sum or ratio where it is one, a tree otherwise."""
        inner, digits = rounded(node)
        if digits is not None:
            if not hidden:
                self.digits[name] = digits
            return self._column(name, inner, hidden=hidden)
        tree = tree_of(node, self._part, self._no_formula)
        text, place = str(node.sql(dialect="duckdb", comments=False)), span(node)
        like = Aggregate(name=name, kind="sum", numerator=(), text=text, position=place, hidden=hidden)
        simple = as_aggregate(tree, like)
        if simple is not None:
            return self._register(simple, hidden=hidden)
        made = numbered(tree, lambda aggregate: int(self._register(aggregate, hidden=True)[1:]))
        for i, known in enumerate(self.derived):
            if known.tree == made and hidden:
                return f"d{i}"
        self.derived.append(Derived(name, made, text, place))
        return f"d{len(self.derived) - 1}"

    def _part(self, node: Node) -> Arithmetic | None:
        """The aggregate that a node is, or its total over groups."""
        if isinstance(node, exp.Window):
            self._check_window(node)
            found = self.terms.aggregate("", node.this.this, hidden=True)
            if found.kind != "sum":
                raise refuse("a total over groups is of COUNT or SUM", self.text, node)
            keys = tuple(sorted(self._known_key(key) for key in node.args.get("partition_by") or ()))
            self.totals = self.totals or node
            return Arithmetic("part", leaf=found, over=keys)
        aggregate = self._aggregate("", node, hidden=True)
        return None if aggregate is None else Arithmetic("part", leaf=aggregate)

    def _check_window(self, node: Node) -> None:
        """Refuse windows that are not the total of an aggregate over groups."""
        plain = not any(v for k, v in node.args.items() if k not in {"this", "partition_by", "over"})
        if not plain or not isinstance(node.this, exp.Sum) or not isinstance(node.this.this, AGGREGATES):
            raise refuse(
                "window functions are not answered from a release",
                self.text,
                node,
                hint="A total over groups is SUM(COUNT(*)) OVER ().",
            )

    def _known_key(self, node: Node) -> int:
        """Number of a key that is in GROUP BY already."""
        before = len(self.keys)
        number = self._key(node, [])
        if number == before:
            raise refuse("PARTITION BY takes columns of GROUP BY", self.text, node)
        return number

    def _register(self, found: Aggregate, *, hidden: bool) -> str:
        for j, known in enumerate(self.aggregates):
            same = all(
                getattr(known, part) == getattr(found, part)
                for part in ("kind", "numerator", "denominator", "share", "rows")
            )
            if known.kind == "direct":
                same = same and known.text == found.text
            if same and (hidden or known.hidden):
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
            if (
                isinstance(inner, AGGREGATES)
                or is_direct(inner)
                or (isinstance(bare, exp.Anonymous) and bare.name.upper() in ENDS)
            ):
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
            if not isinstance(part, (*ALLOWED, exp.Ordered)):  # its columns are those of the answer already
                raise refuse(f"{typed(part, self.text)} is not allowed here", self.text, node)
        self.read |= dict.fromkeys(column.name for column in replaced.find_all(exp.Column))
        return str(replaced.sql(dialect="duckdb", comments=False))

    def _same(self, node: Node, key: Key) -> bool:
        try:
            return self.scope.sql(node) == key.sql
        except QueryError:
            return False

    def _no_formula(self, node: Node) -> UnsupportedQuery:
        of = " of an aggregate" if isinstance(node, exp.Func) else ""
        return refuse(f"{typed(node, self.text)}{of} has no error formula", self.text, node, hint=COMPUTED)

    def _order(self, order: Node) -> str:
        parts = []
        for ordered in order.expressions:
            node = ordered.this
            if isinstance(node, exp.Literal) and not node.is_string:
                place = int(node.name) if node.name.isdigit() else 0
                if not 1 <= place <= len(self.columns):
                    raise QueryError(
                        f"ORDER BY position {node.name} is not in SELECT", sql=self.text, position=span(node)
                    )
                self.read[self.columns[place - 1][1]] = None
                parts.append(self._ordered(ordered, f'"{self.columns[place - 1][1]}"'))
            else:
                parts.append(self._ordered(ordered, self._on_answer(node)))
        return ", ".join(parts)

    def _ordered(self, ordered: Node, sql: str) -> str:
        text = sql + (" DESC" if ordered.args.get("desc") else "")
        first = ordered.args.get("nulls_first")
        return text + (" NULLS FIRST" if first else " NULLS LAST")


# The one SELECT of a text: syntax, one statement, clauses that are known; or an error that points into the text.


CLAUSES = {"kind", "hint", "distinct", "expressions", "limit", "offset", "from_", "where", "group", "having", "order"}
CLAUSES |= {"exclude", "operation_modifiers"}
MAX_LENGTH = 100_000


def single_select(text: str) -> Node:
    """The one SELECT of the text."""
    if len(text) > MAX_LENGTH:
        raise QueryError(f"the query has {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        statements = [s for s in sqlglot.parse(text, dialect="duckdb") if s is not None]
    except ParseError as error:
        raise _syntax_error(text, error) from None
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError, IndexError, KeyError):
        raise QueryError("the text is not SQL that can be read") from None
    if not statements:
        raise QueryError("the query is empty")
    if len(statements) > 1:
        raise refuse("one statement at a time", text, statements[1])
    select = statements[0]
    if not isinstance(select, exp.Select):
        raise refuse("only SELECT is answered", text, select)
    return select


def known_clauses(select: Node, text: str) -> Node:
    """A SELECT from release with clauses we know, or the refusal."""
    for name, value in select.args.items():
        if value and name not in CLAUSES:
            label = {"with_": "WITH", "joins": "JOIN", "windows": "WINDOW", "laterals": "LATERAL"}.get(
                name, name.upper()
            )
            node = value[0] if isinstance(value, list) else value
            raise refuse(
                f"{label} is not answered from a release", text, node if isinstance(node, exp.Expression) else select
            )
    if select.args.get("distinct"):
        raise refuse(
            "DISTINCT is not answered from a release; use GROUP BY",
            text,
            select.args["distinct"],
            at=_word(text, "DISTINCT"),
        )
    for name in ("kind", "hint", "exclude", "operation_modifiers"):
        if select.args.get(name):
            raise refuse(f"SELECT with {name} is not answered from a release", text, select)
    table = select.args.get("from_")
    if (
        table is None
        or not isinstance(table.this, exp.Table)
        or table.this.name.lower() != "release"
        or table.this.args.get("db")
    ):
        raise refuse("the question must be asked FROM release", text, table or select)
    if {k for k, v in table.this.args.items() if v} - {"this", "alias"}:
        raise refuse("FROM takes the table release alone", text, table)
    return select


def whole_number(limit: Node | None, text: str) -> int | None:
    """The number of LIMIT or OFFSET."""
    if limit is None:
        return None
    value = limit.args.get("expression")
    more = {name for name, part in limit.args.items() if part} - {"expression"}  # PERCENT, WITH TIES, BY
    if more or not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        raise refuse("LIMIT and OFFSET take a whole number", text, limit)
    return int(value.name)


def _syntax_error(text: str, error: ParseError) -> QueryError:
    first = error.errors[0] if error.errors else {}
    line, col = first.get("line"), first.get("col")
    position = None
    if line and col:
        lines = text.split("\n")
        end = sum(len(x) + 1 for x in lines[: line - 1]) + col
        position = (max(0, end - max(1, len(first.get("highlight") or ""))), end)
    return QueryError("the SQL cannot be read here", sql=text, position=position)


def _word(text: str, word: str) -> tuple[int, int] | None:
    at = text.upper().find(word)
    return (at, at + len(word)) if at >= 0 else None


# GROUP BY as grouping sets: tuples of key numbers, from lists, CUBE, ROLLUP and GROUPING SETS.


MOST_SETS = 1_024

Keys = tuple[int, ...]
Number = Callable[[Node], int]  # the number of the key that an expression is


def grouping_sets(group: Node | None, plain: Sequence[Node], number: Number, text: str) -> tuple[Keys, ...]:
    """Every grouping set once, in order; `plain` is what GROUP BY ALL stands for."""
    if group is None:
        return ((),)
    extra = {k for k, v in group.args.items() if v} - {"expressions", "all"}
    if extra:
        raise refuse("this form of GROUP BY is not answered", text, group)
    nodes = plain if group.args.get("all") else group.expressions
    choices = [_alternatives(node, number, text) for node in nodes]
    if math.prod(map(len, choices)) > MOST_SETS:
        raise refuse(f"GROUP BY asks for more than {MOST_SETS:,} grouping sets", text, group)
    combined = [tuple(dict.fromkeys(itertools.chain(*pick))) for pick in itertools.product(*choices)]
    return tuple(dict.fromkeys(combined))


def _alternatives(node: Node, number: Number, text: str) -> list[Keys]:
    """What one element of GROUP BY stands for."""
    if isinstance(node, exp.Cube):
        if 2 ** len(node.expressions) > MOST_SETS:
            raise refuse(f"CUBE asks for more than {MOST_SETS:,} grouping sets", text, node)
        parts = [_keys(n, number) for n in node.expressions]
        return [tuple(itertools.chain(*pick)) for pick in itertools.product(*[(part, ()) for part in parts])]
    if isinstance(node, exp.Rollup):
        parts = [_keys(n, number) for n in node.expressions]
        return [tuple(itertools.chain(*parts[:k])) for k in range(len(parts), -1, -1)]
    if isinstance(node, exp.GroupingSets):
        return [alternative for n in node.expressions for alternative in _alternatives(n, number, text)]
    return [_keys(node, number)]


def _keys(node: Node, number: Number) -> Keys:
    return tuple(map(number, node.expressions)) if isinstance(node, exp.Tuple) else (number(node),)
