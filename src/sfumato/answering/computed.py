"""Numbers computed from aggregates, with their errors: the delta method on the trees of `sql.aggregates`.

A quotient of two such numbers, as a share of a total over groups is, gets Fieller's set like every other ratio. Where
an aggregate has an interval and no standard error (a quantile, an average whose denominator may be zero, bounds), the
number lies between the least and the largest that the intervals of its parts can make, whatever their errors have to
do with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlglot import exp

from ..errors import QueryError, UnsupportedQuery
from ..model.names import ENDS
from ..model.public import Floats
from ..sql.nodes import Aggregate, Arithmetic, Key
from ..sql.scalar import ALLOWED, Node, nearest, refuse, span
from ..stats.intervals import fieller
from .answer import Answer
from .covariance import Influence, Slopes, aggregate_slopes, sets_of
from .observe import Frame

CERTAIN_DENOMINATOR = 3.0  # standard errors that a denominator must be away from 0
ROUNDING = 1e-6  # of the errors that are added: a total whose error is less is the known number of all rows

Leaf = tuple[int, tuple[int, ...] | None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Computed:
    """A tree's value in every row, its slope by each leaf, and the largest error that its leaves can add up to."""

    value: Floats
    slopes: dict[Leaf, Floats]
    most: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Told:
    """A computed number in the rows of one grouping set."""

    value: Floats
    se: Floats
    low: Floats
    high: Floats
    empty: NDArray[np.bool_]  # NULL, or a quotient of a number that is surely 0: nothing to say about it


# how many intervals must hold at once -> the answer's columns with intervals that do, and their normal quantile
Together = Callable[[int], tuple[pa.Table, float]]


def with_derived(
    frame: Frame, columns: pa.Table, kind: str, *, z: float, together: Together
) -> tuple[pa.Table, str, tuple[str, ...]]:
    """The answer's columns and those of its computed numbers, d0, d0_se ..; kind; caveats."""
    notes: dict[str, None] = {}
    influences = sets_of(frame)
    for i, derived in enumerate(frame.query.derived):
        try:
            sets = [_OneSet(frame, influence, columns, derived.tree) for influence in influences]
            found = [one.told(z, together) for one in sets]
        except UnsupportedQuery as error:
            text, where = frame.query.text, derived.position
            raise UnsupportedQuery(error.message, sql=text, position=where, hint=error.hint) from None
        value, se, low, high = np.concatenate([(t.value, t.se, t.low, t.high) for t in found], axis=1)
        divides = _divides(derived.tree) or any(
            frame.query.aggregates[j].kind == "ratio" for j, _ in derived.tree.leaves()
        )
        unknown = np.isnan(value) & ~np.concatenate([t.empty for t in found])
        if unknown.any() and divides and kind != "bounds":
            notes[f"{derived.name}: not identifiable where a denominator may be zero"] = None
        if (np.isnan(se) & np.isfinite(low) & np.isfinite(high)).any() and len(derived.tree.leaves()) > 1:
            notes[f"{derived.name}: without a standard error its interval is made of those of its parts"] = None
        if (np.nan_to_num(se) > 0).any() and kind == "exact":
            kind = "confidence"
        for end, numbers in (("", value), ("_se", se), ("_low", low), ("_high", high)):
            columns = columns.append_column(f"d{i}{end}", pa.array(numbers, type=pa.float64(), from_pandas=True))
    return columns, kind, tuple(notes)


class _OneSet:
    """One computed number over the rows of one grouping set."""

    def __init__(self, frame: Frame, influence: Influence, columns: pa.Table, tree: Arithmetic) -> None:
        self._aggregates: tuple[Aggregate, ...] = frame.query.aggregates
        self._influence, self._columns, self._tree = influence, columns, tree
        self._part = part = columns.slice(influence.first, influence.rows)
        self._labels = {over: _labels(part, over) for _, over in tree.leaves() if over is not None}
        self._leaves: dict[Leaf, tuple[Floats, Floats]] = {}
        self._nothing = np.zeros(influence.rows, dtype=bool)  # NULL among the aggregates of a row
        for j, over in tree.leaves():
            value, se = (part[f"a{j}{end}"].to_numpy(zero_copy_only=False) for end in ("", "_se"))
            nothing = np.all([part[f"a{j}{end}"].is_null().to_numpy() for end in ("", "_low", "_high")], axis=0)
            if over is None:
                self._nothing |= nothing
            else:
                value, se = self._total(j, over, *(np.where(nothing, 0.0, x) for x in (value, se)))
            self._leaves[j, over] = (value, se)
        self._moving = [leaf for leaf, (_, se) in self._leaves.items() if (np.nan_to_num(se) > 0).any()]
        self._silent = np.any([np.isnan(se) for _, se in self._leaves.values()], axis=0) & ~self._nothing

    def _total(self, j: int, over: tuple[int, ...], value: Floats, se: Floats) -> tuple[Floats, Floats]:
        """(value, error) of an aggregate's total over the rows that agree on some keys, in each row."""
        label = self._labels[over]
        total, together = (np.bincount(label, weights=x).astype(np.float64)[label] for x in (value, se))
        if not (np.nan_to_num(se) > 0).any():
            return total, together
        _, first = np.unique(label, return_index=True)  # rows of one class have one total
        plain = self._plain(j)[first]
        slopes = Slopes(row=first, own=np.zeros_like(plain), total=plain, label=label)
        error = np.sqrt(self._influence.variance(slopes))[label]
        return total, np.where(error <= ROUNDING * together, 0.0, error)

    def told(self, z: float, together: Together) -> Told:
        """The number with its error and interval."""
        quotient = _quotient(self._tree)
        if quotient is not None and self._moving and not self._silent.all():
            found = self._ratio(*quotient, z)
        else:
            made = self._evaluated(self._tree)
            value = np.where(np.isfinite(made.value), made.value, np.nan)
            se = np.where(np.isnan(value), np.nan, self._error(made))
            found = Told(value=value, se=se, low=value - z * se, high=value + z * se, empty=self._nothing)
        lost = self._silent | (np.isnan(found.low) & ~found.empty)
        if not lost.any():
            return found
        low, high = self._between(together)
        se, low, high = np.where(lost, (np.full_like(low, np.nan), low, high), (found.se, found.low, found.high))
        return replace(found, se=se, low=low, high=high)

    def _between(self, together: Together) -> tuple[Floats, Floats]:
        """Least and largest number that aggregates within their intervals can make."""
        columns, z = together(sum((se != 0).any() for _, se in self._leaves.values()))
        part = columns.slice(self._influence.first, self._influence.rows)
        ends: dict[Leaf, tuple[Floats, Floats]] = {}
        for (j, over), (value, se) in self._leaves.items():
            own = (part[f"a{j}_low"], part[f"a{j}_high"])
            ends[j, over] = (
                (value - z * se, value + z * se)
                if over is not None
                else (own[0].to_numpy(zero_copy_only=False), own[1].to_numpy(zero_copy_only=False))
            )
        return _hull(self._tree, ends, self._influence.rows)

    def _evaluated(self, tree: Arithmetic) -> Computed:
        return _evaluated(tree, self._leaves, self._influence.rows)

    def _error(self, found: Computed) -> Floats:
        moving = [leaf for leaf in self._moving if leaf in found.slopes]
        if not moving:
            exact = all(not np.isnan(self._leaves[leaf][1]).any() for leaf in found.slopes)
            return np.full(self._influence.rows, 0.0 if exact else np.nan)
        if len(moving) == 1 and moving[0][1] is None:
            return np.abs(found.slopes[moving[0]]) * self._leaves[moving[0]][1]
        return np.sqrt(self._influence.variance(self._slopes(found)))

    def _ratio(self, top: Arithmetic, bottom: Arithmetic, scale: float, z: float) -> Told:
        """Fieller's set; where the number below is exact, the interval of a single aggregate above, divided."""
        above, below = self._evaluated(top), self._evaluated(bottom)
        A, B, VA = scale * above.value, below.value, (scale * self._error(above)) ** 2
        C = VB = np.zeros_like(A)
        if any(leaf in below.slopes for leaf in self._moving):
            VA, C, VB = self._influence.paired(self._slopes(above), self._slopes(below))
            VA, C = scale**2 * VA, scale * C
        found = fieller(A, B, VA, C, VB, z, *self._possible(top, bottom, scale))
        sure, empty = (VB == 0) & (B > 0), ((VB == 0) & (B == 0)) | self._nothing
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = A / B
            se = np.sqrt(np.maximum(VA - 2 * ratio * C + ratio**2 * VB, 0.0)) / np.abs(B)
            low, high = found.low, found.high
            if top.op == "part" and top.over is None and scale > 0:
                own = (self._part[f"a{top.aggregate}{end}"].to_numpy(zero_copy_only=False) for end in ("_low", "_high"))
                low, high = (np.where(sure, scale * end / B, x) for end, x in zip(own, (low, high), strict=True))
        known = sure | found.bounded
        ratio, se = np.where(known, ratio, np.nan), np.where(known, se, np.nan)
        return Told(
            value=ratio, se=se, low=np.where(empty, np.nan, low), high=np.where(empty, np.nan, high), empty=empty
        )

    def _possible(self, top: Arithmetic, bottom: Arithmetic, scale: float) -> tuple[Floats, Floats]:
        """Least and largest quotient that is possible in each row: a part is at most the whole."""
        rows = self._influence.rows
        sign = 0.0 if self._not_negative(top) and self._not_negative(bottom) else -np.inf
        least, most = np.full(rows, sign), np.full(rows, np.inf)
        if sign == 0.0 and top.op == bottom.op == "part" and top.aggregate == bottom.aggregate and top.over is None:
            return np.full(rows, min(scale, 0.0)), np.full(rows, max(scale, 0.0))
        above, below = self._plain_slopes(top), self._plain_slopes(bottom)
        if above is not None and below is not None:
            ends = self._influence.quotients(above, below)
            least, most = np.maximum(least, ends[0]), np.minimum(most, ends[1])
        return (scale * least, scale * most) if scale >= 0 else (scale * most, scale * least)

    def _not_negative(self, tree: Arithmetic) -> bool:
        """Whether the number is made of numbers that are 0 or more."""
        if tree.op == "part":
            return self._aggregates[tree.aggregate].kind == "sum" and self._influence.not_negative(tree.aggregate)
        plain = tree.number >= 0 and tree.op in {"number", "+", "*"}
        return plain and all(self._not_negative(part) for part in tree.parts)

    def _plain(self, j: int) -> Floats:
        """(rows, J) slopes of the sum above an aggregate."""
        return self._influence.slopes_of(j, np.zeros(self._influence.rows), None)

    def _plain_slopes(self, tree: Arithmetic) -> Slopes | None:
        """How a number depends on sums, as they are; None where it is no sum of them."""
        found = self._evaluated(tree)
        if not _linear(tree) or any(self._aggregates[j].kind != "sum" for j, _ in found.slopes):
            return None
        return self._added(found, list(found.slopes), self._plain)

    def _slopes(self, found: Computed) -> Slopes:
        """How a number depends on sums, to the errors that the answer states for its aggregates."""
        leaves = [leaf for leaf in self._moving if leaf in found.slopes]
        made = self._added(
            found,
            leaves,
            lambda j: aggregate_slopes(self._influence, self._aggregates[j], j, self._columns),
        )
        if made is None:
            raise UnsupportedQuery("totals over different groups in one expression are not answered")
        return made

    def _added(self, found: Computed, leaves: Sequence[Leaf], own_slopes: Callable[[int], Floats]) -> Slopes | None:
        """The slopes of the leaves, added up; None where totals are over different groups."""
        own, total, label = np.zeros_like(self._plain(0)), None, None
        for j, over in leaves:
            slope = np.nan_to_num(found.slopes[j, over])[:, None]
            if over is None:
                own = own + slope * own_slopes(j)
                continue
            if label is not None and not np.array_equal(label, self._labels[over]):
                return None
            label, plain = self._labels[over], slope * self._plain(j)
            total = plain if total is None else total + plain
        return Slopes(row=np.arange(self._influence.rows), own=own, total=total, label=label)


def _quotient(tree: Arithmetic, scale: float = 1.0) -> tuple[Arithmetic, Arithmetic, float] | None:
    """(above, below, factor) of a tree that is one quotient times a number; both sides without a quotient inside."""
    if tree.op == "/" and tree.parts[1].op != "number":
        top, bottom = tree.parts
        while top.op == "*" and "number" in {part.op for part in top.parts}:
            number, top = top.parts if top.parts[0].op == "number" else top.parts[::-1]
            scale *= number.number
        return None if _divides(top) or _divides(bottom) else (top, bottom, scale)
    if tree.op in "*/" and "number" in {part.op for part in tree.parts}:
        number, rest = tree.parts if tree.parts[0].op == "number" else tree.parts[::-1]
        factor = number.number if tree.op == "*" else 1 / number.number if number.number else np.nan
        return _quotient(rest, scale * factor)
    return None


def _divides(tree: Arithmetic) -> bool:
    return tree.op == "/" or any(_divides(part) for part in tree.parts)


def _linear(tree: Arithmetic) -> bool:
    """Whether a tree adds up aggregates times numbers, and nothing else."""
    if tree.op == "*":
        return "number" in {part.op for part in tree.parts} and all(
            _linear(part) or part.op == "number" for part in tree.parts
        )
    return tree.op == "part" or (tree.op in {"+", "-"} and all(_linear(part) for part in tree.parts))


def _labels(part: pa.Table, keys: tuple[int, ...]) -> NDArray[np.intp]:
    """The class of every row: rows that agree on the keys."""
    rows = list(zip(*(part[f"k{i}"].to_pylist() for i in keys), strict=True)) if keys else [()] * part.num_rows
    number: dict[tuple[Any, ...], int] = {}
    return np.array([number.setdefault(row, len(number)) for row in rows], dtype=np.intp)


def _evaluated(tree: Arithmetic, leaves: dict[Leaf, tuple[Floats, Floats]], rows: int) -> Computed:
    """Value and slopes, from the leaves up."""
    if tree.op == "number":
        return Computed(value=np.full(rows, tree.number), slopes={}, most=np.zeros(rows))
    if tree.op == "part":
        value, se = leaves[tree.aggregate, tree.over]
        return Computed(value=value, slopes={(tree.aggregate, tree.over): np.ones(rows)}, most=np.nan_to_num(se))
    left, right = (_evaluated(part, leaves, rows) for part in tree.parts)
    a, b = left.value, right.value
    with np.errstate(divide="ignore", invalid="ignore"):
        if tree.op == "+":
            value, by_left, by_right = a + b, np.ones(rows), np.ones(rows)
        elif tree.op == "-":
            value, by_left, by_right = a - b, np.ones(rows), -np.ones(rows)
        elif tree.op == "*":
            value, by_left, by_right = a * b, b, a
        else:
            # A denominator that may be 0 has no useful ratio; its error is at most the sum of those of its leaves.
            sure = (b != 0) & (np.abs(b) >= CERTAIN_DENOMINATOR * right.most)
            value = np.where(sure, a / b, np.nan)
            by_left, by_right = np.where(sure, 1 / b, np.nan), np.where(sure, -a / b**2, np.nan)
        slopes: dict[Leaf, Floats] = {}
        for side, by in ((left, by_left), (right, by_right)):
            for leaf, slope in side.slopes.items():
                slopes[leaf] = slopes.get(leaf, np.zeros(rows)) + by * slope
        most = np.abs(np.nan_to_num(by_left)) * left.most + np.abs(np.nan_to_num(by_right)) * right.most
    return Computed(value=value, slopes=slopes, most=most)


def _hull(tree: Arithmetic, ends: dict[Leaf, tuple[Floats, Floats]], rows: int) -> tuple[Floats, Floats]:
    """Both ends of what leaves between their ends can make; infinite where a denominator may be 0."""
    if tree.op == "number":
        return np.full(rows, tree.number), np.full(rows, tree.number)
    if tree.op == "part":
        return ends[tree.aggregate, tree.over]
    (a, b), (c, d) = (_hull(part, ends, rows) for part in tree.parts)
    if tree.op == "+":
        return a + c, b + d
    if tree.op == "-":
        return a - d, b - c
    if tree.op == "/":
        with np.errstate(divide="ignore"):
            none = (c <= 0) & (d >= 0)
            c, d = np.where(none, -np.inf, 1 / d), np.where(none, np.inf, 1 / c)
    with np.errstate(invalid="ignore"):
        corners = [np.where((x == 0) | (y == 0), 0.0, x * y) for x in (a, b) for y in (c, d)]
    return np.min(corners, axis=0), np.max(corners, axis=0)


# --- nested -----------------------------------------------------------------------------------------------------------
# Ordinary SQL over the answer of a question: its numbers carry their errors through sums and arithmetic.
#
# The outer SELECT runs in the engine on the estimates. Each of its numbers is a function of them; its slopes, taken by
# moving one estimate at a time, and the covariances of the inner answer give its error. Rows are recognised by their
# keys, because an engine may give the groups of equal statements in another order each time; which rows take part, and
# their order, are those of the estimates themselves.


TABLE, ROW, KEY = "__inner__", "__row__", "__key{}__"
MOST_NUMBERS = 400  # estimates that are moved one by one
STEP = 1e-4  # of a standard error
SMOOTH = (exp.Sum, exp.Avg, exp.Count)
STRUCTURE: tuple[type[Any], ...] = (exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Alias, exp.Where, exp.Group)
STRUCTURE += (exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Star, exp.Window, *SMOOTH)
STEADY: tuple[type[Any], ...] = (exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Add, exp.Sub, exp.Mul, exp.Div)
STEADY += (exp.Neg, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Nullif, exp.Window, exp.Star, *SMOOTH)

Run = Callable[[Any, pa.Table], pa.Table]  # (statement, inner table) -> result


def over(
    outer: Node, name: str, inner: Answer, text: str, run: Run, z: Callable[[int], float], keys: tuple[Key, ...] = ()
) -> Answer:
    """The answer of the outer SELECT over an inner answer that it calls `name`.

    `keys` are those of the inner answer: a randomised one has a row for every value, whether people have it or not.
    """
    estimates = {a.lower() for a in inner.aggregates}
    statement, items = _checked(outer, name, inner, estimates, text)
    reading = [shown for shown, node in items if _reads(node, estimates)]
    carrying = [shown for shown, node in items if shown in reading or node.find(exp.AggFunc) is not None]
    uncertain = {a.lower() for a in inner.aggregates if inner.kind != "exact" and not _is_exact(inner.table[f"{a}_se"])}
    told = uncertain | {shown.lower() for shown in reading}
    chosen = inner.chosen or any(_reads(part, told) for part in _choosing(outer))
    table = inner.table.cast(pa.schema([_plain(field) for field in inner.table.schema]))
    table = table.append_column(ROW, pa.array(range(table.num_rows), type=pa.int64()))
    table = _chosen(statement, items, table, run)
    statement.set("where", None)
    base = run(statement, table)
    for shown in carrying:
        kind = base[shown].type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            raise refuse(f'"{shown}" is computed from estimates and is no number', text, dict(items)[shown])
    errors = _errors(statement, table, inner, carrying, base, run, text) if reading and uncertain else None
    columns: dict[str, Any] = {}
    width = z(max(1, base.num_rows * len(carrying)))
    for shown, _ in items:
        if shown not in carrying:
            columns[shown] = base[shown]
            continue
        value = base[shown].cast(pa.float64()).to_numpy(zero_copy_only=False)
        se = np.where(np.isnan(value), np.nan, 0.0) if errors is None else errors[:, carrying.index(shown)]
        if chosen:  # how many rows are chosen, and what is as it is in them, has an error that is not known
            se = np.where(se == 0, np.nan, se)
        for end, numbers in (("", value), ("_se", se), ("_low", value - width * se), ("_high", value + width * se)):
            columns[shown + end] = pa.array(numbers, type=pa.float64(), from_pandas=True)
    caveats = list(inner.caveats)
    if chosen:
        caveats.append("rows of the inner answer are chosen by their estimates; the errors take the choice as given")
    listed = [key.name for key in keys if key.unit is not None]
    if listed and any(isinstance(f, exp.Avg | exp.Count) for f in _functions(outer)):
        caveats.append(f"COUNT and AVG take every value of {', '.join(listed)} for a group, also one that no row has")
    return Answer(
        method=inner.method,
        level=inner.level,
        kind=inner.kind if chosen or (reading and uncertain) else "exact",
        table=pa.table(columns),
        aggregates=tuple(carrying),
        caveats=tuple(caveats),
        chosen=chosen,
    )


def _checked(
    outer: Node, name: str, inner: Answer, estimates: set[str], text: str
) -> tuple[Node, list[tuple[str, Node]]]:
    """The statement over TABLE and its (shown name, expression), or the refusal."""
    known = {c.lower(): c for c in inner.table.column_names}
    outer = outer.copy()
    outer.set("from_", exp.From(this=exp.to_table(TABLE)))
    for part in outer.walk():
        if isinstance(part, exp.Subquery | exp.Join | exp.Distinct) or not isinstance(part, ALLOWED + STRUCTURE):
            what = part.sql_name() if isinstance(part, exp.Func) else type(part).__name__.upper()
            raise refuse(f"{what} of an answer is not answered with its error", text, part)
        if isinstance(part, exp.Column):
            aliases = {e.alias.lower() for e in outer.expressions if e.alias}
            if part.name.lower() not in {*known, *aliases} or part.table.lower() not in {"", name.lower()}:
                raise QueryError(
                    f'the inner answer has no column "{part.name}"{nearest(part.name, known)}',
                    sql=text,
                    position=span(part),
                    hint=f"Columns: {', '.join(known)}",
                )
    for aggregate in outer.find_all(exp.AggFunc):
        if aggregate.find(exp.Column) is not None and not isinstance(aggregate, SMOOTH):
            raise refuse(f"{aggregate.sql_name()} of an answer is not answered with its error", text, aggregate)
    group = outer.args.get("group")
    for key in group.expressions if group is not None else ():
        if _reads(key, estimates):
            raise refuse("GROUP BY an estimate is not answered", text, key)
    items: list[tuple[str, Node]] = []
    for item in outer.expressions:
        if isinstance(item, exp.Star):
            raise refuse("* over an answer that is aggregated again", text, item)
        node = item.this if isinstance(item, exp.Alias) else item
        if _reads(node, estimates):
            for part in node.walk():
                if not isinstance(part, STEADY):
                    what = part.sql_name() if isinstance(part, exp.Func) else type(part).__name__.upper()
                    raise refuse(f"{what} of an estimate has no error formula", text, part)
        items.append((item.alias or node.sql(dialect="duckdb", comments=False), node))
    made = outer.copy()
    for column in made.find_all(exp.Column):
        column.set("table", None)
    shown = [exp.alias_(n.copy(), name, quoted=True) for name, n in _bare(items)]
    made.set("expressions", [*shown, *(exp.alias_(k, KEY.format(i), quoted=True) for i, k in enumerate(_keys(made)))])
    return made, items


def _chosen(statement: Node, items: Sequence[tuple[str, Node]], table: pa.Table, run: Run) -> pa.Table:
    """The rows of the inner answer that meet the statement's WHERE; it may name what the statement computes."""
    where = statement.args.get("where")
    if where is None:
        return table
    known, computed = {c.lower() for c in table.column_names}, {name.lower(): node for name, node in _bare(items)}
    condition = where.this.transform(
        lambda part: (
            exp.paren(computed[part.name.lower()].copy())
            if isinstance(part, exp.Column) and part.name.lower() not in known
            else part
        )
    )
    asked = exp.select(exp.column(ROW, quoted=True)).from_(exp.to_table(TABLE)).where(condition)
    return table.take(pa.array(sorted(run(asked, table)[ROW].to_pylist()), type=pa.int64()))


def _keys(statement: Node) -> list[Node]:
    """What tells the rows of a statement apart: its groups, nothing where all rows are one, else the row itself."""
    group = statement.args.get("group")
    if group is None:
        alone = any(isinstance(f, exp.AggFunc) and f.find_ancestor(exp.Window) is None for f in _functions(statement))
        return [] if alone else [exp.column(ROW, quoted=True)]
    if group.args.get("all"):
        return [item.unalias().copy() for item in statement.expressions if item.find(exp.AggFunc) is None]
    found: list[Node] = []
    for key in group.expressions:
        at = int(key.this) - 1 if isinstance(key, exp.Literal) and not key.is_string else None
        item = key if at is None or not 0 <= at < len(statement.expressions) else statement.expressions[at].unalias()
        found.append(item.copy())
    return found


def _functions(statement: Node) -> list[Node]:
    return [f for item in statement.expressions for f in item.find_all(exp.AggFunc)]


def _bare(items: Sequence[tuple[str, Node]]) -> list[tuple[str, Node]]:
    found = []
    for shown, node in items:
        copy = node.copy()
        for column in [copy, *copy.find_all(exp.Column)]:
            if isinstance(column, exp.Column):
                column.set("table", None)
        found.append((shown, copy))
    return found


def _reads(node: Node, estimates: set[str]) -> bool:
    names = {name + end for name in estimates for end in ENDS}
    return any(c.name.lower() in names for c in node.find_all(exp.Column))


def _choosing(outer: Node) -> list[Node]:
    limited = outer.args.get("limit") is not None or outer.args.get("offset") is not None
    clauses = ("where", "having", "order") if limited else ("where", "having")
    return [outer.args[clause] for clause in clauses if outer.args.get(clause) is not None]


def _is_exact(errors: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.fill_null(pc.equal(errors, 0.0), False)).as_py())


def _plain(field: Any) -> Any:
    return pa.field(field.name, field.type.value_type) if pa.types.is_dictionary(field.type) else field


def _used(statement: Node, table: pa.Table, inner: Answer) -> NDArray[np.bool_]:
    """Numbers of the inner answer that the statement reads: named by it, in rows that it takes, and not NULL."""
    taken = np.isin(np.arange(inner.table.num_rows), table[ROW].to_numpy())
    found = []
    for name in inner.aggregates:
        null = np.all([inner.table[name + end].is_null().to_numpy() for end in ("", "_low", "_high")], axis=0)
        found.append(taken & ~null & _reads(statement, {name.lower()}))
    return np.stack(found, axis=1).ravel()


def _errors(
    statement: Node, table: pa.Table, inner: Answer, carrying: list[str], base: pa.Table, run: Run, text: str
) -> Floats:
    """(rows, carrying) standard errors."""
    numbers = inner.table.num_rows * len(inner.aggregates)
    if numbers > MOST_NUMBERS:
        raise QueryError(
            f"the inner answer has {numbers:,} numbers; at most {MOST_NUMBERS} are aggregated again", sql=text
        )
    S, used = inner.covariance(), _used(statement, table, inner)
    if not np.isfinite(S[np.ix_(used, used)]).all():
        raise QueryError(
            "some numbers of the inner answer have no error, so that nothing can be computed of them",
            sql=text,
            hint=f"Leave them out, for example: WHERE {inner.aggregates[0]}_se IS NOT NULL.",
        )
    S = np.where(used[:, None] & used[None, :], S, 0.0)

    free = statement.copy()
    for clause in ("having", "order", "limit", "offset"):
        free.set(clause, None)

    def values(of: pa.Table) -> dict[tuple[str, ...], Floats]:
        keys = [of[c].to_pylist() for c in of.column_names if c.startswith(KEY[:5])]
        rows = np.stack([of[c].cast(pa.float64()).to_numpy(zero_copy_only=False) for c in carrying], axis=1)
        return {tuple(repr(key[r]) for key in keys): row for r, row in enumerate(rows)}

    start = values(base)
    slopes = np.zeros((base.num_rows, len(carrying), numbers))
    se = np.sqrt(np.maximum(np.diag(S), 0.0))
    place_of = {row: i for i, row in enumerate(table[ROW].to_pylist())}
    for i in np.flatnonzero(se > 0):
        row, place = divmod(int(i), len(inner.aggregates))
        if row not in place_of:
            continue
        moved = []
        for sign in (1.0, -1.0):
            name = inner.aggregates[place]
            column = table[name].to_numpy(zero_copy_only=False).copy()
            column[place_of[row]] += sign * STEP * se[i]
            at = table.column_names.index(name)
            moved.append(values(run(free, table.set_column(at, name, pa.array(column, type=pa.float64())))))
        for r, key in enumerate(start):
            slopes[r, :, i] = (moved[0][key] - moved[1][key]) / (2 * STEP * se[i])
    variance = np.einsum("rci,ij,rcj->rc", slopes, S, slopes, optimize=True)
    error = np.sqrt(np.maximum(variance, 0.0))
    error = np.where(error <= ROUNDING * (np.abs(slopes) @ se), 0.0, error)
    found = np.stack(list(start.values())) if start else np.zeros(variance.shape)
    return np.where(np.isnan(found), np.nan, error)
