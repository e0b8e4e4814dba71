"""The small language of numbers inside a formula, evaluated by us: no text of the analyst's is ever run as code.

An expression is parsed by `ast`, checked node by node against a list, and then either computed on arrays or written as
DuckDB SQL. What is not on the list is refused with its place in the text.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError
from ..model.public import Floats, Scalar
from ..sql.scalar import quoted

ARITHMETIC: dict[type[ast.operator], np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
SQL_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "({} + {})",
    ast.Sub: "({} - {})",
    ast.Mult: "({} * {})",
    ast.Div: "({} / {})",
    ast.FloorDiv: "floor({} / {})",
    ast.Mod: "({0} - floor({0} / {1}) * {1})",
    ast.Pow: "pow({}, {})",
}
COMPARISON: dict[type[ast.cmpop], tuple[Callable[..., NDArray[np.bool_]], str]] = {
    ast.Eq: (np.equal, "="),
    ast.NotEq: (np.not_equal, "<>"),
    ast.Lt: (np.less, "<"),
    ast.LtE: (np.less_equal, "<="),
    ast.Gt: (np.greater, ">"),
    ast.GtE: (np.greater_equal, ">="),
}
FUNCTIONS: dict[str, tuple[np.ufunc, str]] = {
    "log": (np.log, "ln({})"),
    "exp": (np.exp, "exp({})"),
    "sqrt": (np.sqrt, "sqrt({})"),
    "log1p": (np.log1p, "ln(1 + {})"),
}
STATEFUL = ("center", "scale", "standardize", "poly", "bs", "cs", "cr", "cc", "ns", "te", "lag")
ALLOWED = "columns, numbers, + - * / // % **, one comparison, np.log, np.exp, np.sqrt, np.log1p, C() and I()"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Variable:
    """A column on the grid of cells (rows) by joint values (columns): `codes` is (cells, 1) or (1, values)."""

    name: str
    values: tuple[Scalar, ...]  # distinct, in domain order, null last
    codes: NDArray[np.intp]
    numeric: bool
    randomised: bool

    @property
    def labels(self) -> tuple[str, ...]:
        """The values as text, all different; null as NULL."""
        texts = [label(v) for v in self.values]
        return tuple(
            f"{t} (missing)" if v is None and texts.count(t) > 1 else t for v, t in zip(self.values, texts, strict=True)
        )

    def numbers(self) -> Floats:
        """The values as numbers, NaN for null, on the grid."""
        table = np.array([math.nan if v is None else float(v) for v in self.values], dtype=np.float64)  # type: ignore[arg-type]
        return table[self.codes]


def label(value: Scalar) -> str:
    """A value as a level is named."""
    if value is None:
        return "NULL"
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulaText:
    """A piece of a formula: `origin[i]` is the place of its i-th character in the whole text."""

    text: str  # as Python reads it: names in backticks are replaced by `names`' keys
    origin: tuple[int, ...]
    names: Mapping[str, str]
    formula: str

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Half-open place of a node in the formula; `ast` counts UTF-8 bytes."""
        line = self.text.encode()
        ends = (node.col_offset, len(line) if node.end_col_offset is None else node.end_col_offset)
        first, last = (min(len(line[:at].decode(errors="ignore")), len(self.origin) - 1) for at in ends)
        return self.origin[first], max(self.origin[first] + 1, self.origin[last])

    def refuse(self, what: str, node: ast.expr | None = None, hint: str | None = None) -> QueryError:
        """The refusal that points at the node."""
        place = (self.origin[0], self.origin[-1]) if node is None else self.span(node)
        return QueryError(what, sql=self.formula, position=place, hint=hint)

    def parse(self) -> ast.expr:
        """The syntax tree, of one expression."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self.refuse("this part of the formula cannot be read") from None

    def column(self, node: ast.Name) -> str:
        """The column that a name stands for."""
        return self.names.get(node.id, node.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A checked expression: its columns are known, and nothing else is in it."""

    source: FormulaText
    node: ast.expr
    columns: tuple[str, ...]

    @property
    def column(self) -> str | None:
        """The column, where the expression is one and nothing more."""
        return self.source.column(self.node) if isinstance(self.node, ast.Name) else None

    def evaluate(self, variables: Mapping[str, Variable]) -> Floats:
        """The numbers, on the grid; NaN where a column is null."""
        with np.errstate(all="ignore"):
            return np.asarray(self._number(self.node, variables), dtype=np.float64)

    def sql(self, numeric: Callable[[str], bool]) -> str:
        """The same in DuckDB's SQL, a DOUBLE."""
        return self._sql(self.node, numeric)

    def _number(self, node: ast.expr, variables: Mapping[str, Variable]) -> Floats | float:
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name):
            variable = variables[self.source.column(node)]
            if not variable.numeric:
                raise self.source.refuse(f'"{variable.name}" holds no numbers', node, "Compare it, or use C().")
            return variable.numbers()
        if isinstance(node, ast.BinOp):
            left, right = self._number(node.left, variables), self._number(node.right, variables)
            return ARITHMETIC[type(node.op)](np.float64(left), np.float64(right))
        if isinstance(node, ast.UnaryOp):
            value = self._number(node.operand, variables)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Attribute)
            return FUNCTIONS[node.func.attr][0](self._number(node.args[0], variables))
        assert isinstance(node, ast.Compare)
        return self._compared(node, variables)

    def _compared(self, node: ast.Compare, variables: Mapping[str, Variable]) -> Floats:
        compare = COMPARISON[type(node.ops[0])][0]
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Constant) and isinstance(left.value, str):
            left, right = right, left
            compare = COMPARISON[type(_mirrored(node.ops[0]))][0]
        if not (isinstance(right, ast.Constant) and isinstance(right.value, str)):
            a, b = (np.asarray(self._number(side, variables)) for side in (left, right))
            return np.where(np.isnan(a) | np.isnan(b), math.nan, compare(a, b))
        assert isinstance(left, ast.Name)
        variable = variables[self.source.column(left)]
        if variable.numeric or right.value not in variable.labels:
            raise self.source.refuse(f'"{variable.name}" has no value "{right.value}"', right)
        table = np.array([math.nan if v is None else float(compare(str(v), right.value)) for v in variable.values])
        return table[variable.codes]

    def _constant(self, node: ast.Constant) -> float:
        try:
            return float(node.value)  # type: ignore[arg-type]
        except OverflowError:
            raise self.source.refuse("the number is too large", node) from None

    def _sql(self, node: ast.expr, numeric: Callable[[str], bool]) -> str:
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                return "'" + node.value.replace("'", "''") + "'"
            return f"CAST('{self._constant(node)!r}' AS DOUBLE)"
        if isinstance(node, ast.Name):
            column = self.source.column(node)
            if not numeric(column):
                raise self.source.refuse(f'"{column}" holds no numbers', node, "Compare it, or use C().")
            return f"CAST({quoted(column)} AS DOUBLE)"
        if isinstance(node, ast.BinOp):
            return SQL_ARITHMETIC[type(node.op)].format(self._sql(node.left, numeric), self._sql(node.right, numeric))
        if isinstance(node, ast.UnaryOp):
            return f"({'-' if isinstance(node.op, ast.USub) else ''}{self._sql(node.operand, numeric)})"
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Attribute)
            return FUNCTIONS[node.func.attr][1].format(self._sql(node.args[0], numeric))
        assert isinstance(node, ast.Compare)
        sides = [node.left, node.comparators[0]]
        text = any(isinstance(s, ast.Constant) and isinstance(s.value, str) for s in sides)
        parts = [
            quoted(self.source.column(s)) if text and isinstance(s, ast.Name) else self._sql(s, numeric) for s in sides
        ]
        return f"CAST(({parts[0]} {COMPARISON[type(node.ops[0])][1]} {parts[1]}) AS DOUBLE)"


def expression(source: FormulaText, node: ast.expr, known: Callable[[str], bool]) -> Expression:
    """The node as an expression, or the refusal of the first part that is not on the list."""
    columns: dict[str, None] = {}

    def check(part: ast.expr, *, text: bool = False) -> None:
        if isinstance(part, ast.Constant) and type(part.value) in {int, float}:
            return
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and text:
            return
        if isinstance(part, ast.Name):
            name = source.column(part)
            if not known(name):
                raise source.refuse(f'there is no column "{name}"', part)
            columns[name] = None
        elif isinstance(part, ast.BinOp) and type(part.op) in ARITHMETIC:
            check(part.left)
            check(part.right)
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub | ast.UAdd):
            check(part.operand)
        elif isinstance(part, ast.Compare) and len(part.ops) == 1 and type(part.ops[0]) in COMPARISON:
            sides = (part.left, part.comparators[0])
            for side, other in (sides, sides[::-1]):
                check(side, text=isinstance(other, ast.Name))
        elif isinstance(part, ast.Call):
            check(_argument(source, part))
        else:
            raise source.refuse("this is not allowed in a formula", part, f"Allowed: {ALLOWED}.")

    try:
        check(node)
    except RecursionError:
        raise source.refuse("the expression is nested too deeply") from None
    return Expression(source=source, node=node, columns=tuple(columns))


def _argument(source: FormulaText, call: ast.Call) -> ast.expr:
    """The one argument of np.log and its like."""
    name = call_name(call)
    plain = len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)
    if name is not None and name.startswith("np.") and name[3:] in FUNCTIONS and plain:
        return call.args[0]
    if name in STATEFUL:
        raise source.refuse(
            f"{name}() needs all rows, and a formula is worked out on cells",
            call,
            "Write the numbers yourself, for example I(x - 40) or I((x - 40) / 10).",
        )
    raise source.refuse("this call is not allowed in a formula", call, f"Allowed: {ALLOWED}.")


def call_name(call: ast.Call) -> str | None:
    """The name of what is called: f or module.f; None for anything else."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return f"{call.func.value.id}.{call.func.attr}"
    return None


def _mirrored(op: ast.cmpop) -> ast.cmpop:
    other: dict[type[ast.cmpop], ast.cmpop] = {
        ast.Lt: ast.Gt(),
        ast.LtE: ast.GtE(),
        ast.Gt: ast.Lt(),
        ast.GtE: ast.LtE(),
    }
    return other.get(type(op), op)
