"""A question after parsing: frozen, and free of SQL syntax trees.

A predicate is a Boolean tree over *leaves*. A leaf is an SQL expression over untouched columns only, which the
engine evaluates on the release, or over one randomised unit only, which is evaluated on that unit's domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..model.types import ColumnType

Truth = NDArray[np.int8]  # 0 false, 1 unknown (NULL), 2 true: AND is the minimum, OR the maximum
FALSE, UNKNOWN, TRUE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Leaf:
    """A Boolean SQL expression over untouched columns (`unit` None) or over the columns of one unit."""

    sql: str
    unit: int | None


@dataclass(frozen=True, slots=True)
class Condition:
    """A Boolean tree: `op` is and, or, not, leaf, true, or sure (true where its part is true, else false)."""

    op: str
    parts: tuple[Condition, ...] = ()
    leaf: int = -1

    def truth(self, leaves: Sequence[Truth] | Mapping[int, Truth]) -> Truth:
        """Three-valued truth, given the truth of every leaf it mentions (arrays that broadcast together)."""
        if self.op == "leaf":
            return leaves[self.leaf]
        if self.op == "true":
            return np.array(TRUE, dtype=np.int8)
        values = [part.truth(leaves) for part in self.parts]
        if self.op == "not":
            return TRUE - values[0]
        if self.op == "sure":
            return np.where(values[0] == TRUE, np.int8(TRUE), np.int8(FALSE))
        join = np.minimum if self.op == "and" else np.maximum
        result = values[0]
        for value in values[1:]:
            result = join(result, value)
        return result

    def leaves(self) -> set[int]:
        """Numbers of the leaves it mentions."""
        found = {self.leaf} if self.op == "leaf" else set()
        return found.union(*(part.leaves() for part in self.parts))


ALWAYS = Condition("true")


def conjunction(parts: Sequence[Condition]) -> Condition:
    """All of them."""
    parts = [part for part in parts if part.op != "true"]
    if not parts:
        return ALWAYS
    return parts[0] if len(parts) == 1 else Condition("and", tuple(parts))


@dataclass(frozen=True, slots=True)
class Term:
    """scale * measure * value, summed over the rows that meet the condition.

    `measure` is a number in `Query.measures` (0: the constant 1); `value` one in `Query.values`, or -1.
    """

    condition: Condition
    scale: float = 1.0
    measure: int = 0
    value: int = -1


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`sum`: the numerator's total (COUNT, SUM); `ratio`: AVG; `min`, `max`, `quantile`: where a method bounds them.

    `direct`: of untouched columns, left to the engine. `within`: a ratio whose rows above are among those below.
    `rows`: of each SUM that is a part of it, the rows with a number to add; it is NULL where one has none.
    """

    name: str
    kind: str
    numerator: tuple[Term, ...]
    denominator: tuple[Term, ...] = ()
    text: str = ""
    position: tuple[int, int] | None = None
    share: float | None = None  # of quantile
    hidden: bool = False  # asked by HAVING or ORDER BY only
    within: bool = True
    rows: tuple[tuple[Term, ...], ...] = ()
    source: str = ""  # of quantile: SQL of what it is taken of
    chosen: str | None = None  # of quantile: SQL of FILTER


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A tree of + - * / over numbers (`number`) and aggregates (`part`).

    `over`: the aggregate's total over all output rows that agree on these keys, as SUM(...) OVER (PARTITION BY keys).
    """

    op: str
    parts: tuple[Arithmetic, ...] = ()
    number: float = 0.0
    aggregate: int = -1
    over: tuple[int, ...] | None = None
    leaf: Aggregate | None = None  # the aggregate itself, before it has a number

    def leaves(self) -> tuple[tuple[int, tuple[int, ...] | None], ...]:
        """(aggregate, over) of its parts, each once."""
        own = ((self.aggregate, self.over),) if self.op == "part" else ()
        return tuple(dict.fromkeys(own + tuple(leaf for part in self.parts for leaf in part.leaves())))


@dataclass(frozen=True, slots=True)
class Derived:
    """A number computed from aggregates of the same output row."""

    name: str
    tree: Arithmetic
    text: str
    position: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Key:
    """A GROUP BY expression over untouched columns (`unit` None) or over one unit."""

    name: str
    sql: str
    unit: int | None


@dataclass(frozen=True, slots=True)
class Lookup:
    """A literal that is compared with a column, to be checked against the column's values.

    `table` names the look-up table that it comes from: of those values some may be none of the column's.
    """

    column: str
    literal: str | float
    position: tuple[int, int] | None
    table: str | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A question in normal form. `measures[0]` is the constant 1; `values[i]` is (unit, SQL of a number)."""

    text: str
    keys: tuple[Key, ...]
    sets: tuple[tuple[int, ...], ...]  # GROUPING SETS as key numbers; one set for plain GROUP BY
    leaves: tuple[Leaf, ...]
    measures: tuple[str, ...]
    values: tuple[tuple[int, str], ...]
    where: Condition
    pushed: tuple[str, ...]  # conjuncts of WHERE on untouched columns, left to the engine
    aggregates: tuple[Aggregate, ...]
    columns: tuple[tuple[str, str], ...]  # (shown name, column of the answer), in SELECT order
    having: str | None
    order: str | None
    limit: int | None
    offset: int | None
    lookups: tuple[Lookup, ...]
    derived: tuple[Derived, ...] = ()  # columns d0, d1 ... of the answer
    digits: tuple[tuple[str, int], ...] = ()  # shown name -> digits that ROUND keeps
    condition: str | None = None  # WHERE as it stands
    chosen_by: tuple[str, ...] = ()  # a0, d1 ..: numbers that decide which rows are shown, by HAVING or a sorted LIMIT

    @property
    def refined(self) -> bool:
        """Whether HAVING, ORDER BY or LIMIT apply to the answer."""
        return self.having is not None or self.order is not None or (self.limit, self.offset) != (None, None)

    def units(self) -> tuple[int, ...]:
        """The units the question involves, in order."""
        found = {leaf.unit for leaf in self.leaves} | {key.unit for key in self.keys} | {u for u, _ in self.values}
        return tuple(sorted(u for u in found if u is not None))


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns an analyst may name: type, and the unit (if any) that a column belongs to."""

    types: Mapping[str, ColumnType]
    units: Mapping[str, int]
    hidden: frozenset[str] = frozenset()  # bookkeeping columns of the release
