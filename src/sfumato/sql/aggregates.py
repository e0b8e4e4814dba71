"""Aggregates as sums of terms, and predicates as trees of leaves: what all of SELECT, WHERE and FILTER share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from .nodes import ALWAYS, Aggregate, Arithmetic, Condition, Leaf, Lookup, Term, conjunction
from .scalar import ANSWERED, BOOLEAN, JOINED, Node, Scope, call_span, refuse, span, typed

QUANTILES = (exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc)
AGGREGATES = (exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, *QUANTILES)
# numbers that the engine computes from untouched columns
DIRECT: tuple[type[Any], ...] = (exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Corr)
DIRECT += (exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2, exp.RegrCount, exp.RegrAvgx)
DIRECT += (exp.RegrAvgy, exp.Skewness, exp.Kurtosis, exp.ApproxDistinct)
NAMED_DIRECT = {"MAD", "ENTROPY", "GEOMEAN", "GEOMETRIC_MEAN", "KURTOSIS_POP", "SEM", "KURTOSIS"}


def is_direct(node: Node) -> bool:
    """Whether a call is answered from untouched columns or not at all."""
    named = isinstance(node, exp.Anonymous) and node.name.upper() in NAMED_DIRECT
    distinct = isinstance(node, exp.Count | exp.Sum | exp.Avg) and isinstance(node.this, exp.Distinct)
    return named or distinct or isinstance(node, DIRECT)


LARGEST = 1e100  # of a factor: its square is summed over rows


@dataclass(slots=True)
class Terms:
    """Collects leaves, measures, values and look-ups while expressions are taken apart."""

    scope: Scope
    leaves: list[Leaf] = field(default_factory=list)
    measures: list[str] = field(default_factory=lambda: ["1"])
    values: list[tuple[int, str]] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)

    # --- predicates --------------------------------------------------------------------------------------------

    def condition(self, node: Node, *, count: bool = True) -> Condition:
        """The predicate as a tree; `count` False only registers its look-ups."""
        node = node.unnest()
        if isinstance(node, exp.And | exp.Or):
            op = "and" if isinstance(node, exp.And) else "or"
            return Condition(op, (self.condition(node.left, count=count), self.condition(node.right, count=count)))
        if isinstance(node, exp.Not):
            return Condition("not", (self.condition(node.this, count=count),))
        if isinstance(node, exp.Boolean):
            return ALWAYS if node.this else Condition("not", (ALWAYS,))
        self.scope.check(node)
        units = self.scope.units(node)
        if len(units) > 1:
            return self._mixed(node, count=count)
        self._look_up(node)
        if not count:
            return ALWAYS
        return self._leaf(self.scope.sql(node), next(iter(units), None))

    def _leaf(self, sql: str, unit: int | None) -> Condition:
        leaf = Leaf(sql, unit)
        if leaf not in self.leaves:
            self.leaves.append(leaf)
        return Condition("leaf", leaf=self.leaves.index(leaf))

    def _mixed(self, node: Node, *, count: bool) -> Condition:
        """A predicate over several units, taken apart where SQL allows it."""
        if isinstance(node, exp.Between):
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            return Condition("and", (self.condition(low, count=count), self.condition(high, count=count)))
        raise refuse(
            "this predicate compares a randomised column with another column, which rows of a release cannot tell",
            self.scope.text,
            node,
            hint="Compare each column with constants.",
        )

    def _look_up(self, node: Node) -> None:
        """Remember literals that are compared for equality with a column."""
        if isinstance(node, exp.EQ | exp.NEQ):
            pairs = [(node.left.unnest(), [node.right.unnest()]), (node.right.unnest(), [node.left.unnest()])]
        elif isinstance(node, exp.In):
            pairs = [(node.this.unnest(), [e.unnest() for e in node.expressions])]
        else:
            return
        for column, literals in pairs:
            if isinstance(column, exp.Column):
                name = self.scope.column(column)
                for literal in literals:
                    if isinstance(literal, exp.Literal):
                        value = literal.name if literal.is_string else float(literal.name)
                        self.lookups.append(Lookup(name, value, span(literal), literal.meta.get(JOINED)))

    # --- aggregates --------------------------------------------------------------------------------------------

    def aggregate(self, name: str, node: Node, *, hidden: bool = False) -> Aggregate:
        """An aggregate call, perhaps with FILTER, as terms."""
        text, position = self.scope.text, call_span(node, self.scope.text)
        wanted = ALWAYS
        call = node
        if isinstance(node, exp.Filter):
            wanted, call = self.condition(node.expression.this), node.this
        made = Aggregate(
            name=name, kind="sum", numerator=(), text=self.scope.sql(node), position=position, hidden=hidden
        )
        if is_direct(call):
            return replace(made, kind="direct", numerator=self._direct(call, node))
        if isinstance(call, exp.CountIf):
            met = Term(conjunction((wanted, self.condition(call.this))))
            return replace(made, numerator=(met,), rows=(tuple(self._present(call.this, wanted)),))
        if isinstance(call, exp.Count):
            if call.expressions:
                raise refuse("COUNT of several columns is not answered from a release", text, node)
            if call.this is None or isinstance(call.this, exp.Star | exp.Literal):
                return replace(made, numerator=(Term(wanted),))
            return replace(made, numerator=tuple(self._present(call.this, wanted)))
        inner = call.this
        if inner is None or isinstance(inner, exp.Distinct):
            raise refuse("DISTINCT inside an aggregate is not answered from a release", text, node)
        if isinstance(call, exp.Sum):
            added = tuple(self._numbers(inner, wanted))
            return replace(made, numerator=added, rows=(tuple(self._present(inner, wanted)),))
        if isinstance(call, exp.Avg):
            numerator, denominator = tuple(self._numbers(inner, wanted)), tuple(self._present(inner, wanted))
            return replace(made, kind="ratio", numerator=numerator, denominator=denominator)
        kind = "min" if isinstance(call, exp.Min) else "max" if isinstance(call, exp.Max) else "quantile"
        share = None
        if kind == "quantile":
            share = 0.5 if isinstance(call, exp.Median) else self._share(call)
            chosen = self.scope.sql(node.expression.this) if isinstance(node, exp.Filter) else None
            made = replace(made, source=self.scope.sql(inner.unnest()), chosen=chosen)
        return replace(made, kind=kind, numerator=tuple(self._numbers(inner, wanted)), share=share)

    def _direct(self, call: Node, node: Node) -> tuple[Term, ...]:
        """No terms; refuses what reads a randomised column."""
        arguments = call.this.expressions if isinstance(call.this, exp.Distinct) else None
        if arguments is None:
            listed = [call.this, call.args.get("expression"), *call.expressions]
            arguments = [part for part in listed if isinstance(part, exp.Expression)]
        for part in [*arguments, *([node.expression.this] if isinstance(node, exp.Filter) else [])]:
            self.scope.check(part)
            if not self.scope.units(part) <= {None}:
                raise self.untouched_only(node)
        return ()

    def untouched_only(self, node: Node) -> Exception:
        """The refusal of an aggregate that the engine would compute from randomised rows."""
        call = node.this if isinstance(node, exp.Filter) else node
        distinct = " DISTINCT" if isinstance(call.this, exp.Distinct) else ""
        said = typed(call, self.scope.text) + distinct
        return refuse(
            f"{said} is answered for untouched columns only, under conditions on untouched columns",
            self.scope.text,
            at=call_span(node, self.scope.text),
            hint=ANSWERED,
        )

    def _share(self, call: Node) -> float:
        quantile = call.args.get("quantile") or call.args.get("expression")
        if not isinstance(quantile, exp.Literal) or quantile.is_string or not 0 <= float(quantile.name) <= 1:
            raise refuse("a quantile takes a number between 0 and 1", self.scope.text, call)
        return float(quantile.name)

    def _branches(self, node: Node, wanted: Condition) -> list[tuple[Condition, Node]] | None:
        """(condition, value) of a CASE or of a Boolean used as a number; None for anything else."""
        if isinstance(node, exp.Cast | exp.TryCast) and isinstance(node.this.unnest(), BOOLEAN):
            node = node.this.unnest()
        if isinstance(node, exp.Case):
            branches, before = [], [wanted]
            for case in node.args["ifs"]:
                test = case.this
                if node.this is not None:
                    test = exp.EQ(this=node.this.copy(), expression=test.copy())
                taken = self.condition(test)
                branches.append((conjunction([*before, taken]), case.args["true"].unnest()))
                before.append(Condition("not", (Condition("sure", (taken,)),)))
            if node.args.get("default") is not None:
                branches.append((conjunction(before), node.args["default"].unnest()))
            return branches
        if isinstance(node, BOOLEAN) and not isinstance(node, exp.Null):
            holds = self.condition(node)
            return [
                (conjunction((wanted, holds)), exp.Literal.number(1)),
                (conjunction((wanted, Condition("not", (holds,)))), exp.Literal.number(0)),
            ]
        return None

    def _numbers(self, node: Node, wanted: Condition) -> list[Term]:
        """Terms whose total is the SUM of the expression over the wanted rows; NULL adds nothing."""
        node = node.unnest()
        branches = self._branches(node, wanted)
        if branches is not None:
            return [term for condition, value in branches for term in self._numbers(value, condition)]
        if isinstance(node, exp.Null):
            return []
        if isinstance(node, exp.Literal):
            if node.is_string:
                raise refuse("this aggregate needs a number", self.scope.text, node)
            if float(node.name) > LARGEST:
                raise refuse("this number is too large to be added up with its error", self.scope.text, node)
            return [Term(wanted, scale=float(node.name))] if float(node.name) else []
        if isinstance(node, exp.Neg):
            return [replace(t, scale=-t.scale) for t in self._numbers(node.this, wanted)]
        self.scope.check(node)
        units = self.scope.units(node)
        if units <= {None}:
            return [Term(wanted, measure=self._measure(node))]
        if len(units) == 1:
            return [Term(wanted, value=self._value(node, next(iter(units))))]
        if isinstance(node, exp.Mul) and len(units) == 2 and None in units:
            left, right = node.left.unnest(), node.right.unnest()
            if self.scope.units(left) != {None}:
                left, right = right, left
            if self.scope.units(left) == {None} and None not in self.scope.units(right):
                (unit,) = self.scope.units(right)
                return [Term(wanted, measure=self._measure(left), value=self._value(right, unit))]
        raise refuse(
            "this expression mixes a randomised column with another column in a way that has no error formula",
            self.scope.text,
            node,
            hint="Products of one untouched and one randomised expression are answered.",
        )

    def _measure(self, node: Node) -> int:
        sql = self.scope.sql(node)
        if sql not in self.measures:
            self.measures.append(sql)
        return self.measures.index(sql)

    def _value(self, node: Node, unit: int | None) -> int:
        assert unit is not None
        value = (unit, self.scope.sql(node))
        if value not in self.values:
            self.values.append(value)
        return self.values.index(value)

    def _present(self, node: Node, wanted: Condition) -> list[Term]:
        """Terms that count the wanted rows where the expression is not NULL."""
        node = node.unnest()
        branches = self._branches(node, wanted)
        if branches is not None:
            return [term for condition, value in branches for term in self._present(value, condition)]
        if isinstance(node, exp.Null):
            return []
        if isinstance(node, exp.Literal):
            return [Term(wanted)]
        self.scope.check(node)
        units = self.scope.units(node)
        if len(units) <= 1:
            there = self._leaf(f"({self.scope.sql(node)}) IS NOT NULL", next(iter(units), None))
            return [Term(conjunction((wanted, there)))]
        parts = [
            self._leaf(f"({self.scope.sql(c)}) IS NOT NULL", self.scope.schema.units.get(self.scope.column(c)))
            for c in node.find_all(exp.Column)
        ]
        return [Term(conjunction((wanted, *parts)))]


# Arithmetic between aggregates: what is one sum or one ratio becomes that, the rest a tree for the delta method.
#
# `COUNT(*) FILTER (...) - COUNT(*) FILTER (...)` is one sum over rows, `100.0 * SUM(a) / SUM(b)` one ratio of two: they
# get the errors of sums and ratios. A difference of two averages, or a share of a total over groups, is a tree.


NUMBERS = {"DOUBLE", "FLOAT", "REAL", "DECIMAL"}
OPERATIONS: dict[type[Any], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}


LeafOf = Callable[[Node], Arithmetic | None]  # the aggregate, or its total over groups, that a node is
Refuse = Callable[[Node], Exception]


def rounded(node: Node) -> tuple[Node, int | None]:
    """The expression inside an outermost ROUND, and the digits that are kept."""
    node = node.unnest()
    if not isinstance(node, exp.Round):
        return node, None
    digits = node.args.get("decimals")
    if digits is None:
        return node.this, 0
    if isinstance(digits, exp.Literal) and digits.name.isdigit():
        return node.this, int(digits.name)
    return node, None


def tree_of(node: Node, leaf: LeafOf, refuse: Refuse) -> Arithmetic:
    """The node as a tree, or the refusal."""
    node = node.unnest()
    found = leaf(node)
    if found is not None:
        return found
    if isinstance(node, exp.Literal) and not node.is_string:
        return Arithmetic("number", number=float(node.name))
    if isinstance(node, exp.Neg):
        return Arithmetic("*", (Arithmetic("number", number=-1.0), tree_of(node.this, leaf, refuse)))
    if isinstance(node, exp.Cast | exp.TryCast) and node.to.this.name in NUMBERS:
        return tree_of(node.this, leaf, refuse)
    if isinstance(node, exp.Nullif) and isinstance(node.expression, exp.Literal) and node.expression.name == "0":
        return tree_of(node.this, leaf, refuse)  # a division by 0 has no answer anyway
    op = OPERATIONS.get(type(node))
    if op is None:
        raise refuse(node)
    return Arithmetic(op, (tree_of(node.left, leaf, refuse), tree_of(node.right, leaf, refuse)))


def as_aggregate(tree: Arithmetic, like: Aggregate) -> Aggregate | None:
    """One sum or one ratio of sums that the tree is, under the name of `like`; None where it is neither."""
    total = _linear(tree)
    if total is not None and total.constant == 0 and total.terms:
        return replace(like, kind="sum", numerator=total.terms, rows=total.rows)
    ratio = _ratio(tree)
    if ratio is None:
        return None
    top, bottom = ratio
    if top.constant or bottom.constant or not top.terms or not bottom.terms:
        return None
    whole = bottom.terms == (Term(ALWAYS),) and len(top.terms) == 1  # a share of all rows lies between 0 and 1
    rows = tuple(dict.fromkeys(top.rows + bottom.rows))
    return replace(like, kind="ratio", numerator=top.terms, denominator=bottom.terms, within=whole, rows=rows)


@dataclass(frozen=True, slots=True)
class _Linear:
    terms: tuple[Term, ...]
    constant: float = 0.0
    rows: tuple[tuple[Term, ...], ...] = ()

    def times(self, factor: float) -> _Linear:
        terms = tuple(replace(t, scale=t.scale * factor) for t in self.terms)
        return _Linear(terms, self.constant * factor, self.rows)


def _linear(tree: Arithmetic) -> _Linear | None:
    """The tree as a sum of terms and a constant."""
    if tree.op == "number":
        return _Linear((), tree.number)
    if tree.leaf is not None:
        own = tree.leaf.kind == "sum" and tree.over is None
        return _Linear(tree.leaf.numerator, rows=tree.leaf.rows) if own else None
    left, right = (_linear(part) for part in tree.parts)
    if left is None or right is None:
        return None
    if tree.op in "+-":
        right = right.times(1.0 if tree.op == "+" else -1.0)
        rows = tuple(dict.fromkeys(left.rows + right.rows))
        return _Linear(left.terms + right.terms, left.constant + right.constant, rows)
    if tree.op == "*" and not left.terms:
        return right.times(left.constant)
    if not right.terms and (tree.op == "*" or right.constant):
        return left.times(right.constant if tree.op == "*" else 1 / right.constant)
    return None


def _ratio(tree: Arithmetic) -> tuple[_Linear, _Linear] | None:
    """(above, below) of a ratio of two sums, times a number."""
    if tree.leaf is not None:
        return None
    if tree.op == "/":
        above, below = _linear(tree.parts[0]), _linear(tree.parts[1])
        if above is not None and below is not None:
            return above, below
    if tree.op in "*/":
        for one, other in ((0, 1), (1, 0)) if tree.op == "*" else ((0, 1),):
            ratio, factor = _ratio(tree.parts[one]), _linear(tree.parts[other])
            if ratio is not None and factor is not None and not factor.terms and factor.constant:
                return ratio[0].times(factor.constant if tree.op == "*" else 1 / factor.constant), ratio[1]
    return None


def numbered(tree: Arithmetic, number: Callable[[Aggregate], int]) -> Arithmetic:
    """The tree over aggregates of the question, which `number` registers."""
    if tree.leaf is not None:
        return replace(tree, leaf=None, aggregate=number(tree.leaf))
    return replace(tree, parts=tuple(numbered(part, number) for part in tree.parts))
