"""From what is asked (a release, or one that a plan foresees) to cells, variables and functionals.

The only module of this folder that knows how rows are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from ..answering.estimate import FEW
from ..answering.observe import look_at_domains, truth
from ..answering.subject import Subject
from ..engines.codes import factorise, part_numbers
from ..engines.statements import column, distinct, double, expression, grouped
from ..engines.statements import columns_of as named_columns
from ..errors import QueryError, SpecError, UnsupportedQuery
from ..laws.functionals import Cells, CodedUnit, Functionals, IndependentRows, KroneckerWeights
from ..model.public import Codes, Floats, Scalar
from ..model.types import Kind
from ..reports.text import visible
from ..sql.nodes import TRUE, Truth
from ..sql.parse import parse
from ..sql.scalar import nearest
from ..stats.joint_codes import distinct_rows
from .formula import Variable, label

MOST_VALUES = 20_000  # joint values of the randomised columns that one analysis tells apart
MOST_GROUPS = 1_000  # groups that one comparison, or one table of quantiles, has


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Everything an analysis reads: variables on cells x joint values, who takes part, and what can be summed."""

    variables: Mapping[str, Variable]
    weight: Floats  # (cells, values): 1 where a row takes part, else 0
    flags: tuple[Floats, ...]  # (cells, values): 1 where a condition asked for holds
    cells: Cells
    functionals: Functionals
    method: str
    cell_rows: Floats  # (cells,) published rows
    caveats: tuple[str, ...]
    units: Mapping[str, int]  # randomised column -> the unit that it is randomised in
    extremes: tuple[tuple[float, float], ...]  # least and largest number of every measure, of rows that take part
    fourths: tuple[float, ...]  # sum of the fourth powers of every measure, of the same rows
    sums: Callable[[Cells], Functionals]  # those of the same rows in other cells

    def published(self, x: str, y: str) -> Floats | None:
        """(cells, values) published rows by published value, where publishing keeps x and y independent; else None.

        Columns of one unit are redrawn together, which mixes their joint distribution with another one.
        """
        together = x in self.units and self.units[x] == self.units.get(y)
        untouched = bool((self.weight == self.weight[:, :1]).all())
        rows = self.functionals.kept_independent() if untouched else None
        return None if rows is None or (together and not self.functionals.exact) else rows * self.weight


def read(
    subject: Subject,
    columns: Sequence[str],
    *,
    where: str | None = None,
    recode: Recode | None = None,
    measures: Sequence[Measure] = (),
    flags: Sequence[str] = (),
    target: str = "table",
) -> Grid:
    """The grid over these columns; `flags` are SQL conditions whose truth is wanted on the grid."""
    for name in columns:
        check_column(subject, name)
    conditions = [
        _WhereCondition(subject, where, push=True),
        *(_WhereCondition(subject, sql, push=False) for sql in flags),
    ]
    asked = {subject.schema.units[c] for c in columns if c in subject.schema.units}
    units = tuple(sorted(asked.union(*(c.query.units() for c in conditions))))
    plain = [c for c in dict.fromkeys(columns) if c not in subject.schema.units]
    leaves = [sql for c in conditions for sql in c.rows]
    seen = observe(subject, plain, leaves, units, conditions[0].query.pushed, measures)
    keys = [factorise(seen[f"c{j}"]) for j in range(len(plain))]
    truths = [truth(seen[f"l{j}"]) for j in range(len(leaves))]
    distinct, cell = distinct_rows([*(codes for codes, _ in keys), *truths], seen.num_rows)
    recoder = recoder_of(subject, recode)
    axes = _Axes(subject, units, columns, conditions, recoder)
    variables = {}
    for j, name in enumerate(plain):
        codes = distinct[:, j : j + 1].astype(np.intp)
        variables[name] = recoder.variable(name, tuple(keys[j][1].to_pylist()), codes, randomised=False)
    for name in dict.fromkeys(c for c in columns if c in subject.schema.units):
        variables[name] = axes.variable(name)
    shape, at, truth_of = (len(distinct), axes.values), len(plain), []
    for condition in conditions:
        here = distinct[:, at : at + len(condition.rows)].astype(np.int8)
        truth_of.append(np.broadcast_to(condition.holds(here, axes), shape).astype(np.float64))
        at += len(condition.rows)
    value, part = axes.published(seen)
    inside = (truth_of[0] != 0).any(axis=1)[cell]
    if not inside.any():
        raise QueryError(NO_ROW)
    cells = Cells(
        cell=cell.astype(np.intp),
        part=part,
        value=value,
        moments=moments_of(seen, measures, inside),
        cells=len(distinct),
        rows=subject.rows,
    )
    functionals = functionals_of(subject, cells, axes.coded)
    texts = [*(c.query.condition for c in conditions if c.query.condition is not None), *(m.sql for m in measures)]
    named = [*columns, *(name for sql in texts for name in named_columns(expression(sql)))]
    return Grid(
        variables=variables,
        weight=truth_of[0],
        flags=tuple(truth_of[1:]),
        cells=cells,
        functionals=functionals,
        sums=lambda others: functionals_of(subject, others, axes.coded),
        method=subject.method,
        cell_rows=np.bincount(cells.cell, weights=cells.moments[:, 0, 0], minlength=len(distinct)).astype(np.float64),
        caveats=(*functionals.caveats, *subject.said(target, named)),
        units={c: subject.schema.units[c] for c in columns if c in subject.schema.units},
        extremes=tuple(
            (float(seen[f"least{j}"].to_numpy()[inside].min()), float(seen[f"most{j}"].to_numpy()[inside].max()))
            for j in range(len(measures))
        ),
        fourths=tuple(float(seen[f"q{j}"].to_numpy()[inside].sum()) for j in range(len(measures))),
    )


def functionals_of(subject: Subject, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
    """The sums that the method can tell, or the refusal that names it; where nothing randomised is read, all."""
    if not units:
        return IndependentRows(cells, KroneckerWeights(axes=(), shape=()))
    found = subject.functionals(cells, units)
    if found is None:
        raise UnsupportedQuery(f'"{subject.method}" publishes no estimates whose error is known for models and tests')
    return found


def check_asked(target: str, level: float) -> None:
    """Refuse a target or a level that does not exist."""
    if target not in {"population", "table"}:
        raise SpecError(f'target must be population or table, got "{target}"', field="target")
    if not 0 < level < 1:
        raise SpecError(f"level must lie between 0 and 1, got {level!r}", field="level")


def numbers_on(grid: Grid, name: str) -> tuple[Floats, Floats]:
    """(a column's numbers on the grid, weights that are 0 where it is missing); refuses infinite ones."""
    numbers = np.broadcast_to(grid.variables[name].numbers(), grid.weight.shape)
    if np.isinf(numbers[grid.weight != 0]).any():
        raise QueryError(f'"{name}" holds infinite numbers', hint="Leave those rows out with where.")
    missing = np.isnan(numbers)
    return np.where(missing, 0.0, numbers), np.where(missing, 0.0, grid.weight)


def check_groups(groups: int, by: Sequence[str]) -> None:
    """Refuse more groups than are worked out in seconds."""
    if groups > MOST_GROUPS:
        raise UnsupportedQuery(
            f"{', '.join(by)} make {groups:,} groups; at most {MOST_GROUPS:,} are told apart",
            hint="Merge levels (recode), or choose fewer rows (where).",
        )


def check_column(subject: Subject, name: str) -> None:
    """Refuse a name that is no column of the release, with near ones."""
    shown = [c for c in subject.schema.types if c not in subject.schema.hidden]
    if name not in shown:
        raise QueryError(
            f'there is no column "{name}"{nearest(str(name), shown)}', hint=f"Columns: {listed(shown, 30)}"
        )


def recoder_of(subject: Subject, recode: Recode | None) -> Recoder:
    """The recoder of columns of this subject."""
    for name in recode or {}:
        check_column(subject, name)
    return Recoder(recode or {}, lambda name: is_number(subject, name))


def columns_of(subject: Subject) -> tuple[str, ...]:
    """Columns an analyst may name."""
    return tuple(c for c in subject.schema.types if c not in subject.schema.hidden)


def is_number(subject: Subject, name: str) -> bool:
    """Whether a column holds numbers."""
    kind = subject.schema.types[name]
    return kind.numeric or kind.kind is Kind.BOOLEAN


def is_randomised(subject: Subject, name: str) -> bool:
    """Whether a column is one that the method changes."""
    return name in subject.schema.units


def distinct_values(subject: Subject, name: str, where: str | None) -> list[Scalar]:
    """Values of an untouched column among the rows that a condition leaves, sorted, null last.

    Conditions that only a domain decides leave every row: whether it meets them is not known.
    """
    condition = _WhereCondition(subject, where, push=True)
    seen = subject.reader.run(distinct(name, table="release", where=condition.query.pushed))
    found = factorise(seen["v"])[1].to_pylist()
    if not found:
        raise QueryError(NO_ROW)
    return list(found)


class _WhereCondition:
    """An SQL condition: the parts that the engine evaluates on rows, and those evaluated on a unit's domain.

    With `push` conjuncts on untouched columns are left to the engine's WHERE; else they are evaluated on rows too.
    """

    def __init__(self, subject: Subject, where: str | None, *, push: bool) -> None:
        sql = "SELECT COUNT(*) AS n FROM release" + (f" WHERE {where}" if where else "")
        self.query = parse(sql, subject.schema)
        if self.query.keys or self.query.refined or len(self.query.aggregates) != 1:
            raise QueryError("a condition and nothing else is expected here", sql=sql)
        self.views = look_at_domains(self.query, subject).views
        self._leaves = [i for i, leaf in enumerate(self.query.leaves) if leaf.unit is None]
        self.rows = [self.query.leaves[i].sql for i in self._leaves] + ([] if push else list(self.query.pushed))

    def bits(self, unit: int) -> list[Truth]:
        """Truth of its leaves for every domain value of a unit."""
        return list(self.views[unit].leaves.values()) if unit in self.views else []

    def holds(self, observed: Truth, axes: _Axes) -> NDArray[np.bool_]:
        """Where it is true, on the grid; `observed` (cells, rows) is the truth of the parts evaluated on rows."""
        found: list[Truth] = []
        for i, leaf in enumerate(self.query.leaves):
            if leaf.unit is None:
                found.append(observed[:, self._leaves.index(i)][:, None])
            else:
                found.append(axes.along(leaf.unit, self.views[leaf.unit].leaves[i])[None, :])
        true = self.query.where.truth(found) == TRUE
        also = (observed[:, len(self._leaves) :] == TRUE).all(axis=1)[:, None]
        return np.asarray(true & also)


class _Axes:
    """The randomised units of an analysis; values that it does not tell apart share a class where the method allows."""

    def __init__(
        self,
        subject: Subject,
        units: tuple[int, ...],
        columns: Sequence[str],
        conditions: Sequence[_WhereCondition],
        recoder: Recoder,
    ) -> None:
        self._subject, self._units, self._recoder = subject, units, recoder
        self.classes: list[Codes] = []
        for u in units:
            domain = subject.domains[u]
            if not subject.lumpable:
                self.classes.append(np.arange(len(domain), dtype=np.int32))
                continue
            used = [j for j, c in enumerate(domain.columns) if c in columns]
            bits = [b for condition in conditions for b in condition.bits(u)]
            numbers: dict[tuple[Any, ...], int] = {}
            codes = [
                numbers.setdefault(
                    (*(recoder.level(domain.columns[j], v[j]) for j in used), *(int(b[i]) for b in bits)), len(numbers)
                )
                for i, v in enumerate(domain.values)
            ]
            self.classes.append(np.array(codes, dtype=np.int32))
        self.coded = tuple(CodedUnit(unit=u, classes=c) for u, c in zip(units, self.classes, strict=True))
        self._shape = tuple(unit.size for unit in self.coded)
        self.values = math.prod(self._shape)
        if self.values > MOST_VALUES:
            raise UnsupportedQuery(
                f"the randomised columns have {self.values:,} joint values; at most {MOST_VALUES:,} are told apart",
                hint="Merge levels (recode) or use fewer columns.",
            )
        self._places = np.unravel_index(np.arange(self.values), self._shape) if units else ()
        self._firsts = [np.unique(c, return_index=True)[1] for c in self.classes]

    def along(self, unit: int, per_value: NDArray[Any]) -> NDArray[Any]:
        """A number per domain value of one unit as a number per joint value."""
        axis = self._units.index(unit)
        return per_value[self._firsts[axis]][self._places[axis]]

    def variable(self, name: str) -> Variable:
        """A randomised column on the grid, over its declared domain."""
        unit = self._subject.schema.units[name]
        domain = self._subject.domains[unit]
        held = [v[domain.columns.index(name)] for v in domain.values]
        values = tuple(sorted(set(held), key=lambda v: (v is None, 0 if v is None else v)))
        place = {v: i for i, v in enumerate(values)}
        codes = self.along(unit, np.array([place[v] for v in held], dtype=np.intp))
        return self._recoder.variable(name, values, codes[None, :], randomised=True)

    def published(self, seen: Any) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """(class of the published joint value, or number of the published set; part) of every observed row."""
        subject = self._subject
        value = np.zeros(seen.num_rows, dtype=np.intp)
        if not subject.withheld:
            for u, class_of, size in zip(self._units, self.classes, self._shape, strict=True):
                names = [f"u{u}_{j}" for j in range(len(subject.coders[u].domain.columns))]
                code = subject.coders[u].encode([seen[n] for n in names])
                value = value * subject.sets[u] + code if u in subject.sets else value * size + class_of[code]
        in_parts = PART in seen.column_names
        part = part_numbers(seen[PART], subject.rows) if in_parts else np.zeros(seen.num_rows, dtype=np.int64)
        return value, part


# What an analysis reads of the rows: sums of its measures, cell by cell.


NO_ROW = "no row of the release meets the condition"
PART = "part"  # column of what was observed: group or sub-table


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number of untouched columns that is summed instead of told apart.

    `name` and `column` are what refusals say; `ends` is the SQL whose least and largest number is wanted.
    """

    name: str
    column: str | None
    sql: str
    ends: str


def observe(
    subject: Subject,
    plain: Sequence[str],
    leaves: Sequence[str],
    units: tuple[int, ...],
    pushed: Sequence[str],
    measures: Sequence[Measure],
) -> Any:
    """One GROUP BY over the release: columns c0.., leaves l0.., published values u.., part, moments m_a_b.

    Of every measure also the fourth powers (q0..), how many are missing (v0..), the least and the largest.
    """
    table, weight = subject.reader.source()
    keys = _keys(subject, plain, leaves, units)
    seen = subject.reader.run(grouped(keys, _sums(measures, weight), table=table, where=pushed))
    if seen.num_rows == 0 or seen["m0_0"].null_count:
        raise QueryError(NO_ROW)
    return seen


def _keys(
    subject: Subject, plain: Sequence[str], leaves: Sequence[str], units: tuple[int, ...]
) -> list[tuple[exp.Expression, str]]:
    keys: list[tuple[exp.Expression, str]] = [(column(c), f"c{j}") for j, c in enumerate(plain)]
    keys += [(expression(sql), f"l{j}") for j, sql in enumerate(leaves)]
    if not subject.withheld:
        keys += [(column(c), f"u{u}_{j}") for u in units for j, c in enumerate(subject.coders[u].domain.columns)]
    if units and subject.part:
        keys.append((column(subject.part), PART))
    return keys


def _sums(measures: Sequence[Measure], weight: str | None) -> list[tuple[exp.Expression, str]]:
    one = exp.Literal.number(1) if weight is None else column(weight)
    numbers = [one, *(double(expression(m.sql)) for m in measures)]

    def total(*factors: int) -> exp.Expression:
        product: exp.Expression = one.copy()
        for m in factors:
            if m:
                product = exp.Mul(this=product, expression=numbers[m].copy())
        return double(exp.Sum(this=product))

    sums: list[tuple[exp.Expression, str]] = []
    for b in range(len(numbers)):
        sums += [(total(a, b), f"m{a}_{b}") for a in range(b + 1)]
    for j, measure in enumerate(measures):
        there = exp.Count(this=numbers[j + 1].copy())
        sums.append((total(*[j + 1] * 4), f"q{j}"))
        sums.append((exp.Sub(this=exp.Count(this=exp.Star()), expression=there), f"v{j}"))
        number = double(expression(measure.ends))
        sums += [(exp.Min(this=number.copy()), f"least{j}"), (exp.Max(this=number.copy()), f"most{j}")]
    return sums


def moments_of(seen: Any, measures: Sequence[Measure], inside: NDArray[np.bool_]) -> Floats:
    """(observed rows, 1 + measures, 1 + measures) sums of products; `inside` says which observed rows take part."""
    for j, measure in enumerate(measures):
        if np.any(seen[f"v{j}"].to_numpy()[inside]):
            hint = f'Leave them out: where="{measure.column} IS NOT NULL"' if measure.column else None
            raise QueryError(f"{measure.name} is missing for some rows", hint=hint)
    size = 1 + len(measures)
    found = np.empty((size, size, seen.num_rows))  # each product by itself, as it is read
    for b in range(size):
        for a in range(b + 1):
            sums = seen[f"m{a}_{b}"].to_numpy()
            # whoever does not take part may have no number
            found[a, b] = np.where(inside, sums, 0.0) if b else sums
            found[b, a] = found[a, b]
    return found.transpose(2, 0, 1)


# Levels merged before a formula sees them; merging is the cure where a release says too little about one.


Recode = Mapping[str, Mapping[str, Sequence[Scalar]]]


class Recoder:
    """Merges levels: named ones first, in their order, then the values that no level names, in theirs."""

    def __init__(self, recode: Recode, numeric: Callable[[str], bool]) -> None:
        """`numeric` says whether a column holds numbers."""
        self._recode, self._numeric = recode, numeric
        self._level_of: dict[str, dict[str | None, str]] = {}
        for name, groups in recode.items():
            if not isinstance(groups, Mapping) or any(isinstance(held, str) for held in groups.values()):
                raise QueryError(f'recode of "{name}" needs levels, each with a list of the values that it merges')
            found: dict[str | None, str] = {}
            for level, held in groups.items():
                for member in held:
                    if found.setdefault(_key(member), level) != level:
                        raise QueryError(f'recode of "{name}" names "{member}" twice')
            self._level_of[name] = found

    def level(self, name: str, value: Scalar) -> Scalar:
        """The level that a value belongs to."""
        if name not in self._recode:
            return value
        return self._level_of[name].get(_key(value), None if value is None else label(value))

    def variable(self, name: str, values: tuple[Scalar, ...], codes: NDArray[np.intp], *, randomised: bool) -> Variable:
        """The column after merging."""
        numeric = self._numeric(name)
        if name not in self._recode:
            return Variable(name=name, values=values, codes=codes, numeric=numeric, randomised=randomised)
        known = {_key(v) for v in values}
        for member in (m for held in self._recode[name].values() for m in held):
            if randomised and _key(member) not in known:
                near = nearest(str(member), [str(v) for v in values if v is not None])
                raise QueryError(f'"{name}" has no value "{member}"{near}')
        merged = [self.level(name, v) for v in values]
        order = [lv for lv in self._recode[name] if lv in merged]
        order += [lv for lv in dict.fromkeys(merged) if lv not in order]  # type: ignore[misc]
        place = {lv: i for i, lv in enumerate(order)}
        table = np.array([place[lv] for lv in merged], dtype=np.intp)  # type: ignore[index]
        return Variable(name=name, values=tuple(order), codes=table[codes], numeric=False, randomised=randomised)


def _key(value: Scalar) -> str | None:
    """What makes two spellings one value: 1, 1.0 and "1" are the same, and null is only itself."""
    return None if value is None else label(value)


# Errors that hang on few rows: an interval is normal, and an error whose square is that of a few rows is not.
#
# The rule for sums in SQL, of squares: a mean, a coefficient or a correlation has an error that is the root of a sum of
# squares. docs/explanation/inference.md, section 10.


class Powers(NamedTuple):
    """Of some rows: how many, and sums of squares and of fourth powers of their numbers."""

    rows: float
    squares: float
    fourths: float


def powers(rows: Floats, numbers: Floats) -> Powers:
    """Sums over estimated rows.

    A count below 0 stands for no row; what is left is brought back to as many rows as are estimated in all.
    """
    counted = np.maximum(rows, 0.0)
    total = max(float(rows.sum()), 0.0)
    counted *= total / max(float(counted.sum()), 1e-300)
    with np.errstate(over="ignore", invalid="ignore"):
        return Powers(total, float((counted * numbers**2).sum()), float((counted * numbers**4).sum()))


def few_rows(name: str, *sums: Powers) -> tuple[str, ...]:
    """What to say of a column whose squares amount to few rows in one of the groups that `sums` are of.

    They amount to 1 / (sum g^4 / (sum g^2)^2 - 2 / n) rows, but to no more than the n there are: a normal column,
    whose sum g^4 is 3 (sum g^2)^2 / n, amounts to all of its rows.
    """
    rows, squares, fourths = (np.array(column) for column in zip(*sums, strict=True))
    with np.errstate(over="ignore"):
        told = np.isfinite(squares**2) & np.isfinite(fourths) & (squares > 0)  # else too large to be raised, or all 0
    rows, squares, fourths = rows[told], squares[told], fourths[told]
    if not (np.maximum(1 / rows, fourths / squares**2 - 2 / rows) > 1 / FEW).any():
        return ()
    return (f"{visible(name)}: the errors hang on few rows; intervals are approximate",)


MOST_NAMED = 6
LONGEST = 80  # characters of a name


def listed(names: Sequence[str], most: int = MOST_NAMED) -> str:
    """The first few names, and how many more there are."""
    shown = [name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..." for name in names[:most]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
