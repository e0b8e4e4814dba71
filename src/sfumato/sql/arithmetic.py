"""Arithmetic between aggregates: what is one sum or one ratio becomes that, the rest a tree for the delta method.

`COUNT(*) FILTER (...) - COUNT(*) FILTER (...)` is one sum over rows, `100.0 * SUM(a) / SUM(b)` one ratio of two: they
get the errors of sums and ratios. A difference of two averages, or a share of a total over groups, is a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from .nodes import ALWAYS, Aggregate, Arithmetic, Term
from .scalar import Node

NUMBERS = {"DOUBLE", "FLOAT", "REAL", "DECIMAL"}
OPERATIONS: dict[type[Any], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}


@dataclass(frozen=True, slots=True)
class Part:
    """A leaf before it has a number: an aggregate, or its total over the groups that share some keys."""

    aggregate: Aggregate
    over: tuple[int, ...] | None = None


Leaf = Callable[[Node], Part | None]  # the aggregate that a node is; None for anything else
Refuse = Callable[[Node], Exception]


@dataclass(frozen=True, slots=True)
class Tree:
    """An operation over trees, a number, or a leaf."""

    op: str  # + - * / or number, part
    parts: tuple[Tree, ...] = ()
    number: float = 0.0
    part: Part | None = None


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


def tree_of(node: Node, leaf: Leaf, refuse: Refuse) -> Tree:
    """The node as a tree, or the refusal."""
    node = node.unnest()
    found = leaf(node)
    if found is not None:
        return Tree("part", part=found)
    if isinstance(node, exp.Literal) and not node.is_string:
        return Tree("number", number=float(node.name))
    if isinstance(node, exp.Neg):
        return Tree("*", (Tree("number", number=-1.0), tree_of(node.this, leaf, refuse)))
    if isinstance(node, exp.Cast | exp.TryCast) and node.to.this.name in NUMBERS:
        return tree_of(node.this, leaf, refuse)
    if isinstance(node, exp.Nullif) and isinstance(node.expression, exp.Literal) and node.expression.name == "0":
        return tree_of(node.this, leaf, refuse)  # a division by 0 has no answer anyway
    op = OPERATIONS.get(type(node))
    if op is None:
        raise refuse(node)
    return Tree(op, (tree_of(node.left, leaf, refuse), tree_of(node.right, leaf, refuse)))


def as_aggregate(tree: Tree, like: Aggregate) -> Aggregate | None:
    """One sum or one ratio of sums that the tree is, under the name of `like`; None where it is neither."""
    total = _linear(tree)
    if total is not None and total.constant == 0 and total.terms:
        return replace(like, kind="sum", numerator=total.terms)
    ratio = _ratio(tree)
    if ratio is None:
        return None
    top, bottom = ratio
    if top.constant or bottom.constant or not top.terms or not bottom.terms:
        return None
    whole = bottom.terms == (Term(ALWAYS),) and len(top.terms) == 1  # a share of all rows lies between 0 and 1
    return replace(like, kind="ratio", numerator=top.terms, denominator=bottom.terms, within=whole)


@dataclass(frozen=True, slots=True)
class _Linear:
    terms: tuple[Term, ...]
    constant: float = 0.0

    def times(self, factor: float) -> _Linear:
        return _Linear(tuple(replace(t, scale=t.scale * factor) for t in self.terms), self.constant * factor)


def _linear(tree: Tree) -> _Linear | None:
    """The tree as a sum of terms and a constant."""
    if tree.op == "number":
        return _Linear((), tree.number)
    if tree.part is not None:
        aggregate = tree.part.aggregate
        return _Linear(aggregate.numerator) if aggregate.kind == "sum" and tree.part.over is None else None
    left, right = (_linear(part) for part in tree.parts)
    if left is None or right is None:
        return None
    if tree.op in "+-":
        right = right.times(1.0 if tree.op == "+" else -1.0)
        return _Linear(left.terms + right.terms, left.constant + right.constant)
    if tree.op == "*" and not left.terms:
        return right.times(left.constant)
    if not right.terms and (tree.op == "*" or right.constant):
        return left.times(right.constant if tree.op == "*" else 1 / right.constant)
    return None


def _ratio(tree: Tree) -> tuple[_Linear, _Linear] | None:
    """(above, below) of a ratio of two sums, times a number."""
    if tree.part is not None:
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


def numbered(tree: Tree, number: Callable[[Aggregate], int]) -> Arithmetic:
    """The tree over aggregates of the question, which `number` registers."""
    if tree.part is not None:
        return Arithmetic("part", aggregate=number(tree.part.aggregate), over=tree.part.over)
    return Arithmetic(tree.op, tuple(numbered(part, number) for part in tree.parts), number=tree.number)
