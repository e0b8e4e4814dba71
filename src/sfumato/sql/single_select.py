"""The one SELECT of a text: syntax, one statement, clauses that are known; or an error that points into the text."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from ..errors import QueryError
from .scalar import Node, refuse

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
