"""A formula such as `income ~ age + C(sex) * C(occupation)`: read by us, term by term, before anything computes it.

Formulas are taken as hostile. Operators are read here, expressions by `expressions`; what is handed on is a list of
terms over numbered factors, never the text. `a + b`, `a - b`, `a:b`, `a * b`, `a / b`, `(...) ** 2`, `0` and `1` mean
what they mean in R; names that are no identifiers stand in backticks, outcomes such as {occupation == 'Sales'} in
braces.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass

from ..errors import QueryError
from .expressions import ALLOWED, Expression, FormulaText, call_name, expression

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
