"""A formula such as `income ~ age + C(sex) * C(occupation)`: read by us, term by term, before anything computes it.

Formulas are taken as hostile. Operators are read here, expressions by `expression`; what is handed on is a list of
terms over numbered factors, never the text. `a + b`, `a - b`, `a:b`, `a * b`, `a / b`, `(...) ** 2`, `0` and `1` mean
what they mean in R; names that are no identifiers stand in backticks, outcomes such as {occupation == 'Sales'} in
braces.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError
from ..model.public import Floats, Scalar
from ..sql.scalar import quoted

MOST_CHARACTERS = 2_000
MOST_TERMS = 200
MOST_NESTED = 40
TOKEN = re.compile(r"\s*(?:(\*\*|[-+*/:^()~])|(\d+(?:\.\d*)?)|([`{])|([^\W\d]\w*(?:\.[^\W\d]\w*)*)|(\S))")
WORD = re.compile(r"[^\W\d]\w*")
PREPARED = "_column{}_"
Term = tuple[int, ...]  # numbers of its factors; () is the intercept


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """A column, a transformed number, or levels: what terms are made of. `levels` None: the column's type decides."""

    name: str  # as typed, without needless blanks
    expression: Expression
    levels: bool | None
    base: str | float | None = None  # the reference level, if one was chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """The outcome, the factors of the right side, and its terms in order of their degree."""

    text: str
    outcome: Factor
    factors: tuple[Factor, ...]
    terms: tuple[Term, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the right side."""
        return tuple(dict.fromkeys(c for f in self.factors for c in f.expression.columns))


def read_formula(text: str, columns: Collection[str]) -> Formula:
    """The formula over these columns, or a QueryError that points into the text."""
    if not isinstance(text, str):
        raise QueryError("a formula is a text such as 'income ~ age + C(sex)'")
    if len(text) > MOST_CHARACTERS:
        raise QueryError(f"the formula has {len(text)} characters; at most {MOST_CHARACTERS} are read")
    reader = _Reader(text.replace("\n", " ").replace("\t", " ").replace("\r", " "), columns)
    return reader.formula()


class _Reader:
    """A precedence parser over the text: `**` above `:` above `* /` above `+ -`."""

    def __init__(self, text: str, columns: Collection[str]) -> None:
        self.text, self.columns = text, columns
        self.at, self.depth = 0, 0
        self.factors: list[Factor] = []

    def formula(self) -> Formula:
        outcome = self._leaf_here("the left side of ~ must be one outcome")
        kind, _, start = self._peek()
        if kind != "~":
            raise self._refuse("a formula has one ~ after its outcome", start, "For example: income ~ age + C(sex)")
        self._take()
        if self._peek()[0] == "":
            raise self._refuse("nothing stands right of ~", len(self.text), "Write 1 for the intercept alone.")
        self.factors = []
        terms = self._sum(intercept=True)
        kind, word, start = self._peek()
        if kind:
            raise self._refuse("this is not part of a formula", start, end=start + max(1, len(word)))
        ordered = tuple(sorted(terms, key=len))
        if not ordered:
            raise self._refuse("the right side has no terms left", len(self.text))
        used = sorted({i for term in ordered for i in term})
        number = {old: new for new, old in enumerate(used)}
        return Formula(
            text=self.text,
            outcome=outcome,
            factors=tuple(self.factors[i] for i in used),
            terms=tuple(tuple(number[i] for i in term) for term in ordered),
        )

    # --- tokens ----------------------------------------------------------------------------------------------

    def _peek(self) -> tuple[str, str, int]:
        """(kind, text, place) of the next token; kind is the operator itself, "0-9", "leaf", "?" or "" at the end."""
        found = TOKEN.match(self.text, self.at)
        if found is None:
            return "", "", len(self.text)
        operator, number, opening, name, other = found.groups()
        start = found.end() - len(operator or number or opening or name or other)
        kind = operator or ("0-9" if number else "leaf" if opening or name else "?")
        return ("**" if kind == "^" else kind), operator or number or opening or name or other, start

    def _take(self) -> tuple[str, str, int]:
        token = self._peek()
        self.at = token[2] + len(token[1])
        return token

    def _refuse(self, what: str, at: int, hint: str | None = None, *, end: int | None = None) -> QueryError:
        return QueryError(what, sql=self.text, position=(at, end if end is not None else at + 1), hint=hint)

    # --- operators: lists of terms without doubles --------------------------------------------------------------

    def _sum(self, *, intercept: bool = False) -> list[Term]:
        terms: list[Term] = [()] if intercept else []
        sign = "+"
        if self._peek()[0] in {"+", "-"}:
            sign = self._take()[0]
        while True:
            more, removes = self._product()
            # `0` takes the intercept away, and so does `- 1`; `- 0` puts it back
            if removes:
                more, sign = [()], "-" if sign == "+" else "+"
            gone = {frozenset(t) for t in more}
            terms = [t for t in terms if frozenset(t) not in gone] if sign == "-" else self._joined(terms, more)
            if self._peek()[0] not in {"+", "-"}:
                return terms
            sign = self._take()[0]

    def _product(self) -> tuple[list[Term], bool]:
        terms, zero = self._interaction()
        while self._peek()[0] in {"*", "/"}:
            operator, _, start = self._take()
            right, other = self._interaction()
            if zero or other:
                raise self._refuse("0 stands alone, between + and -", start)
            crossed = self._crossed(terms, right)
            if operator == "*":
                terms = self._joined(self._joined(terms, right), crossed)
            else:
                everything = tuple(dict.fromkeys(i for t in terms for i in t))
                terms = self._joined(terms, self._crossed([everything], right))
        return terms, zero

    def _interaction(self) -> tuple[list[Term], bool]:
        terms, zero = self._power()
        while self._peek()[0] == ":":
            start = self._take()[2]
            right, other = self._power()
            if zero or other:
                raise self._refuse("0 stands alone, between + and -", start)
            terms = self._crossed(terms, right)
        return terms, zero

    def _power(self) -> tuple[list[Term], bool]:
        terms, zero = self._atom()
        while self._peek()[0] == "**":
            self._take()
            kind, word, start = self._take()
            if kind != "0-9" or word not in {"1", "2", "3", "4"}:
                raise self._refuse("a power of terms is 1, 2, 3 or 4", start, "For a square of a number: I(x**2)")
            base = terms
            for _ in range(int(word) - 1):
                terms = self._joined(terms, self._crossed(terms, base))
        return terms, zero

    def _atom(self) -> tuple[list[Term], bool]:
        kind, word, start = self._peek()
        if kind == "(":
            self._take()
            self.depth += 1
            if self.depth > MOST_NESTED:
                raise self._refuse("the formula is nested too deeply", start)
            terms = self._sum()
            closing, _, place = self._take()
            if closing != ")":
                raise self._refuse("a bracket is not closed", min(place, len(self.text)))
            self.depth -= 1
            return terms, False
        if kind == "0-9":
            self._take()
            if word not in {"0", "1"}:
                raise self._refuse("a number alone is 0 or 1, for the intercept", start, end=start + len(word))
            return [()], word == "0"
        factor = self._leaf_here("a column, a call or a bracket is expected here")
        names = [f.name for f in self.factors]
        if factor.name in names:
            return [(names.index(factor.name),)], False
        self.factors.append(factor)
        return [(len(self.factors) - 1,)], False

    def _crossed(self, left: list[Term], right: list[Term]) -> list[Term]:
        return self._joined([], [tuple(dict.fromkeys(a + b)) for a in left for b in right])

    def _joined(self, terms: list[Term], more: list[Term]) -> list[Term]:
        """Both, without terms that differ in the order of their factors only."""
        seen = {frozenset(t) for t in terms}
        found = list(terms)
        for term in more:
            if frozenset(term) not in seen:
                seen.add(frozenset(term))
                found.append(term)
        if len(found) > MOST_TERMS:
            raise QueryError(f"the formula has more than {MOST_TERMS} terms")
        return found

    # --- leaves: columns, calls, braces -----------------------------------------------------------------------------

    def _leaf_here(self, expected: str) -> Factor:
        kind, word, start = self._peek()
        if kind != "leaf":
            raise self._refuse(expected, min(start, len(self.text)), f"Allowed: {ALLOWED}.")
        end = self._end_of_leaf(word, start)
        self.at = end
        braced = self.text[start] == "{"
        source = self._source(start + braced, end - braced)
        return self._factor(source, braced=braced)

    def _end_of_leaf(self, word: str, start: int) -> int:
        """One past the name, the closing backtick or the closing bracket; strings inside are stepped over."""
        if word == "`":
            end = self.text.find("`", start + 1)
            if end < 0:
                raise self._refuse("a backtick is not closed", start)
            return end + 1
        if word != "{":
            after = start + len(word)
            opening = re.match(r"\s*\(", self.text[after:])
            if not opening:
                return after
            place = after + opening.end() - 1
        else:
            place = start
        depth, quote = 0, ""
        while place < len(self.text):
            c = self.text[place]
            if quote:
                place += c == "\\"
                quote = "" if c == quote else quote
            elif c in "'\"`":
                quote = c
            elif c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
                if depth == 0:
                    return place + 1
            place += 1
        raise self._refuse("a bracket or a quote is not closed", start)

    def _source(self, start: int, end: int) -> FormulaText:
        """The piece of text with names in backticks replaced by identifiers, strings left alone."""
        out: list[str] = []
        origin: list[int] = []
        names: dict[str, str] = {}
        place, quote = start, ""
        while place < end and self.text[place] == " ":
            place += 1
        while place < end:
            c = self.text[place]
            closing = self.text.find("`", place + 1, end) if c == "`" and not quote else -1
            word = WORD.match(self.text, place, end) if not quote else None
            named = self.text[place + 1 : closing] if closing >= 0 else word[0] if word else c
            # Python would spell a name its own way: the micro sign of µg as the Greek letter
            if closing >= 0 or (word and not named.isascii() and named in self.columns):
                key = PREPARED.format(len(names))
                names[key] = named
                out.append(key)
                origin += [place] * len(key)
                place = closing + 1 if closing >= 0 else place + len(named)
                continue
            taken = word[0] if word else c
            if quote:
                quote = "" if c == quote else quote
            elif c in "'\"":
                quote = c
            out.append(taken)
            origin += range(place, place + len(taken))
            place += len(taken)
        text = "".join(out)
        if not text.strip():
            raise self._refuse("nothing stands between the braces", start)
        return FormulaText(text=text, origin=(*origin, end), names=names, formula=self.text)

    def _factor(self, source: FormulaText, *, braced: bool) -> Factor:
        node = source.parse()
        if isinstance(node, ast.Call) and call_name(node) == "C":
            return self._levels(source, node)
        if isinstance(node, ast.Call) and call_name(node) == "I":
            if len(node.args) != 1 or node.keywords:
                raise source.refuse("I() takes one expression", node)
            inner = self._expression(source, node.args[0])
            return Factor(name=f"I({self._name(source, node.args[0])})", expression=inner, levels=False)
        found = self._expression(source, node)
        plain = found.column is not None and not braced
        return Factor(name=self._name(source, node), expression=found, levels=None if plain else False)

    def _expression(self, source: FormulaText, node: ast.expr) -> Expression:
        return expression(source, node, lambda name: name in self.columns)

    def _levels(self, source: FormulaText, node: ast.Call) -> Factor:
        """C(x), C(x, contr.treatment(base="a")), or C(x, Treatment("a")) as patsy has it."""
        if not 1 <= len(node.args) <= 2 or node.keywords:
            raise source.refuse("C() takes a column and, if you like, contr.treatment(base=...)", node)
        base: str | float | None = None
        if len(node.args) == 2:
            base = self._base(source, node.args[1])
        inner = self._expression(source, node.args[0])
        chosen = "" if base is None else f", base={base!r}"
        return Factor(name=f"C({self._name(source, node.args[0])}{chosen})", expression=inner, levels=True, base=base)

    def _base(self, source: FormulaText, node: ast.expr) -> str | float:
        named = isinstance(node, ast.Call) and call_name(node) in {"contr.treatment", "Treatment"}
        if isinstance(node, ast.Call) and named and len(node.args) + len(node.keywords) == 1:
            fine = not node.keywords or node.keywords[0].arg in {"base", "reference"}
            value = node.args[0] if node.args else node.keywords[0].value
            if fine and isinstance(value, ast.Constant) and type(value.value) in {str, int, float}:
                return value.value  # type: ignore[return-value]
        raise source.refuse(
            "only treatment contrasts are offered", node, 'Write C(x, contr.treatment(base="...")) for the reference.'
        )

    def _name(self, source: FormulaText, node: ast.expr) -> str:
        """The expression as results name it: the text of the tree, with the columns' own names."""
        text = ast.unparse(node)
        for key, column in source.names.items():
            text = text.replace(key, column)
        return text


# The small language of numbers inside a formula, evaluated by us: no text of the analyst's is ever run as code.
#
# An expression is parsed by `ast`, checked node by node against a list, and then either computed on arrays or written
# as DuckDB SQL. What is not on the list is refused with its place in the text.


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
