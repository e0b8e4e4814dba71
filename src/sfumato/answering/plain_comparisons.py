"""Comparisons of a column with constants, on the values of its domain: most conditions, and no engine is asked.

Only what cannot be read in two ways: whole numbers in order, texts byte by byte for equality. All else is left to the
engine, whose word it is what a condition means.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from sqlglot import exp

from ..engines.statements import parsed
from ..model.public import Domain, Scalar
from ..model.types import ColumnType, Kind
from ..sql.nodes import FALSE, TRUE, UNKNOWN, Truth

EQUAL: dict[type[exp.Expression], Callable[[Any, Any], bool]] = {exp.EQ: operator.eq, exp.NEQ: operator.ne}
ORDER: dict[type[exp.Expression], Callable[[Any, Any], bool]] = {
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
MOST_DIGITS = 18  # of a whole number that no engine takes for anything else


def plain_comparison(sql: str, domain: Domain, kind: ColumnType) -> Truth | None:
    """The truth of a condition for every value of a domain of one column; None where the engine must say."""
    if len(domain.columns) != 1 or kind.kind not in {Kind.INTEGER, Kind.TEXT}:
        return None
    test = _test(parsed(sql), domain.columns[0], kind)
    if test is None:
        return None
    found = [UNKNOWN if value is None else TRUE if test(value) else FALSE for (value,) in domain.values]
    return np.array(found, dtype=np.int8)


def _test(node: exp.Expression, column: str, kind: ColumnType) -> Callable[[Scalar], bool] | None:
    if not isinstance(node.this, exp.Column) or node.this.name != column:
        return None
    if isinstance(node, exp.In):
        if {name for name, part in node.args.items() if part} != {"this", "expressions"}:
            return None
        listed = [_constant(part, kind) for part in node.expressions]
        return None if None in listed else set(listed).__contains__
    compare = EQUAL.get(type(node)) or (ORDER.get(type(node)) if kind.kind is Kind.INTEGER else None)
    constant = _constant(node.expression, kind) if compare is not None else None
    if compare is None or constant is None:
        return None
    return lambda value: compare(value, constant)


def _constant(node: exp.Expression, kind: ColumnType) -> int | str | None:
    """The whole number or the text that a literal stands for; None for any other."""
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and kind.kind is Kind.INTEGER:
        found = _constant(node.this, kind)
        return -found if isinstance(found, int) else None
    if not isinstance(node, exp.Literal) or node.is_string != (kind.kind is Kind.TEXT):
        return None
    if node.is_string:
        return str(node.this)
    return int(node.this) if node.this.isascii() and node.this.isdigit() and len(node.this) <= MOST_DIGITS else None
