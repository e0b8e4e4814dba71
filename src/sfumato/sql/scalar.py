"""Which scalar SQL is allowed, and which columns an expression touches."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any

from sqlglot import exp

from ..errors import QueryError, UnsupportedQuery
from .nodes import Schema

Node = Any  # sqlglot's expression classes are not typed strictly
JOINED = "joined"  # mark of a literal: the look-up table that holds it


def quoted(name: str) -> str:
    """The name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


BOOLEAN: tuple[type[Any], ...] = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)
BOOLEAN += (exp.Like, exp.ILike, exp.Is, exp.And, exp.Or, exp.Not, exp.Boolean, exp.Null, exp.NullSafeEQ)
BOOLEAN += (exp.NullSafeNEQ,)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Abs, exp.Floor, exp.Ceil, exp.Round)
TEXT = (exp.Substring, exp.Left, exp.Right, exp.Lower, exp.Upper, exp.Length, exp.Trim, exp.DPipe, exp.Concat)
DATES: tuple[type[Any], ...] = (exp.Year, exp.Month, exp.Day, exp.Quarter, exp.Week, exp.DayOfWeek, exp.DayOfYear)
DATES += (exp.Extract, exp.DateTrunc, exp.TimestampTrunc, exp.Date, exp.Interval, exp.Var)
OTHER: tuple[type[Any], ...] = (exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Tuple, exp.Case, exp.If)
OTHER += (exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least)
OTHER += (exp.Escape,)
ALLOWED = BOOLEAN + ARITHMETIC + TEXT + DATES + OTHER


def span(node: Node) -> tuple[int, int] | None:
    """Half-open place of the node in the text: from its first to its last token that has a place."""
    places = [(n.meta["start"], n.meta["end"] + 1) for n in node.walk() if "start" in n.meta]
    return (min(a for a, _ in places), max(b for _, b in places)) if places else None


def call_span(node: Node, text: str) -> tuple[int, int] | None:
    """`span`, widened to the name and the brackets of the function call."""
    found = span(node)
    if found is None:
        return None
    before = re.search(r"\w+\s*\(\s*$", text[: found[0]])
    after = re.match(r"\s*\)", text[found[1] :])
    return (before.start() if before else found[0], found[1] + (after.end() if after else 0))


def typed(node: Node, text: str) -> str:
    """The node in the words of the question: the name of a function in capitals, or the expression as it was typed."""
    if isinstance(node, exp.Func) and "start" in node.meta:
        return text[node.meta["start"] : node.meta["end"] + 1].upper()
    place = call_span(node, text) if isinstance(node, exp.Func) else span(node)
    said = text[slice(*place)] if place else str(node.sql(dialect="duckdb", comments=False))
    name = re.match(r"\w+(?=\s*\()", said) if isinstance(node, exp.Func) else None
    return name[0].upper() if name else f"`{said}`"


# the ways out of refusals that several places give
ANSWERED = "Ask for COUNT(*), SUM, AVG, a share or a quantile, or leave randomised columns out of the question."
COMPUTED = "Between aggregates and numbers + - * / are computed with their errors."


def refuse(
    what: str, text: str, node: Node | None = None, *, hint: str | None = None, at: tuple[int, int] | None = None
) -> UnsupportedQuery:
    """The refusal that points at the node."""
    return UnsupportedQuery(what, sql=text, position=at or (span(node) if node is not None else None), hint=hint)


def nearest(word: str, choices: Iterable[str]) -> str:
    """ "; did you mean ...?" with up to three near names, or the empty text."""
    folded = {c.lower(): c for c in choices}
    close = difflib.get_close_matches(word.lower(), folded, n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(folded[c]) for c in close)}?" if close else ""


class Scope:
    """Resolves the columns of a release, as DuckDB does: names fold case unless quoted."""

    def __init__(self, schema: Schema, text: str) -> None:
        self.schema, self.text = schema, text
        self._folded = {name.lower(): name for name in schema.types}

    def column(self, node: Node) -> str:
        """The release's column that the node names."""
        name = node.name
        if node.args.get("db") or (node.table and node.table.lower() != "release"):
            raise refuse(f'unknown table "{node.table}"; the only table is release', self.text, node)
        found = self._folded.get(name.lower())
        if found is None or found in self.schema.hidden:
            shown = [c for c in self.schema.types if c not in self.schema.hidden]
            raise QueryError(
                f'there is no column "{name}"{nearest(name, shown)}',
                sql=self.text,
                position=span(node),
                hint=f"Columns: {', '.join(shown)}",
            )
        return found

    def check(self, node: Node) -> None:
        """Refuse anything that is not on the list, by name."""
        for part in node.walk():
            if isinstance(part, exp.Subquery | exp.Select | exp.Exists):
                raise refuse("subqueries are not answered from a release", self.text, part, hint="Ask them one by one.")
            if isinstance(part, exp.Window):
                raise refuse("window functions are not answered from a release", self.text, part)
            if isinstance(part, exp.AggFunc):
                raise refuse(f"{typed(part, self.text)} is not allowed here", self.text, part)
            if not isinstance(part, ALLOWED):
                said = typed(part, self.text)
                raise refuse(f"{said} is not among the functions sfumato answers", self.text, part)

    def units(self, node: Node) -> set[int | None]:
        """Units of the columns mentioned; None stands for untouched columns."""
        return {self.schema.units.get(self.column(c)) for c in node.find_all(exp.Column)}

    def sql(self, node: Node) -> str:
        """DuckDB's text of the expression, with the release's own column names, quoted."""
        named = node.transform(lambda n: exp.column(self.column(n), quoted=True) if isinstance(n, exp.Column) else n)
        return str(named.sql(dialect="duckdb", comments=False))


def conjuncts(node: Node) -> list[Node]:
    """The conditions that AND joins."""
    node = node.unnest()
    return conjuncts(node.left) + conjuncts(node.right) if isinstance(node, exp.And) else [node]


def default_name(node: Node) -> str:
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
