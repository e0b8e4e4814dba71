"""GROUP BY as grouping sets: tuples of key numbers, from lists, CUBE, ROLLUP and GROUPING SETS."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from sqlglot import exp

from .scalar import Node, refuse

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
