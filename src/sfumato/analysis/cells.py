"""From an open release to the cells, variables and functionals that an analysis works on.

The only module of this folder that knows how a release is read and which method made it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError, UnsupportedQuery
from ..methods.shared.linear_functionals import Cells, Functionals, IndependentRows
from ..model.public import Codes, Floats, Scalar
from ..sql.nodes import TRUE, Truth
from ..sql.observation import quoted
from ..sql.parse import parse
from ..strata import distinct_rows, factorise, truth
from .channels import INDEPENDENT, METHODS, caveats_of, exact_rows
from .expressions import Variable, nearest
from .recoding import Recode, Recoder

NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "REAL", "BOOL")
MOST_VALUES = 20_000  # joint values of the randomised columns that one analysis tells apart


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

    def published(self, x: str, y: str) -> Floats | None:
        """(cells, values) published rows by published value, where publishing keeps x and y independent; else None.

        Columns of one unit are redrawn together, which mixes their joint distribution with another one.
        """
        together = x in self.units and self.units[x] == self.units.get(y)
        kept = (self.method in INDEPENDENT and not together) or self.functionals.exact
        untouched = bool((self.weight == self.weight[:, :1]).all())
        if kept and untouched and isinstance(self.functionals, IndependentRows):
            return self.functionals.published() * self.weight
        return None


def read(
    release: Any,
    columns: Sequence[str],
    *,
    where: str | None = None,
    recode: Recode | None = None,
    measures: Sequence[str] = (),
    flags: Sequence[str] = (),
) -> Grid:
    """The grid over these columns; `measures` are SQL numbers of untouched columns, summed instead of told apart.

    `flags` are SQL conditions whose truth is wanted on the grid.
    """
    method = release.manifest.method
    if method not in METHODS:
        raise UnsupportedQuery(f'"{method}" publishes no estimates whose error is known for models and tests')
    for name in columns:
        check_column(release, name)
    conditions = [_Condition(release, where, push=True), *(_Condition(release, sql, push=False) for sql in flags)]
    asked = {release.schema.units[c] for c in columns if c in release.schema.units}
    units = tuple(sorted(asked.union(*(c.query.units() for c in conditions))))
    plain = [c for c in dict.fromkeys(columns) if c not in release.schema.units]
    leaves = [sql for c in conditions for sql in c.rows]
    seen = _observe(release, plain, leaves, units, conditions[0].query.pushed, measures)
    keys = [factorise(seen[f"c{j}"]) for j in range(len(plain))]
    truths = [truth(seen[f"l{j}"]) for j in range(len(leaves))]
    distinct, cell = distinct_rows([*(codes for codes, _ in keys), *truths], seen.num_rows)
    recoder = recoder_of(release, recode)
    axes = _Axes(release, units, columns, conditions, recoder)
    variables = {}
    for j, name in enumerate(plain):
        codes = distinct[:, j : j + 1].astype(np.intp)
        variables[name] = recoder.variable(name, tuple(keys[j][1].to_pylist()), codes, randomised=False)
    for name in dict.fromkeys(c for c in columns if c in release.schema.units):
        variables[name] = axes.variable(name)
    shape, at, truth_of = (len(distinct), axes.values), len(plain), []
    for condition in conditions:
        here = distinct[:, at : at + len(condition.rows)].astype(np.int8)
        truth_of.append(np.broadcast_to(condition.holds(here, axes), shape).astype(np.float64))
        at += len(condition.rows)
    value, part = axes.published(seen)
    cells = Cells(
        cell=cell.astype(np.intp),
        part=part,
        value=value,
        moments=_moments(seen, len(measures) + 1),
        cells=len(distinct),
        rows=release.manifest.rows,
    )
    return Grid(
        variables=variables,
        weight=truth_of[0],
        flags=tuple(truth_of[1:]),
        cells=cells,
        functionals=METHODS[method](release, units, axes.classes, cells) if units else exact_rows(cells),
        method=method,
        cell_rows=np.bincount(cells.cell, weights=cells.moments[:, 0, 0], minlength=len(distinct)).astype(np.float64),
        caveats=caveats_of(release),
        units={c: release.schema.units[c] for c in columns if c in release.schema.units},
    )


def check_column(release: Any, name: str) -> None:
    """Refuse a name that is no column of the release, with near ones."""
    shown = [c for c in release.schema.types if c not in release.schema.hidden]
    if name not in shown:
        raise QueryError(f'there is no column "{name}"{nearest(str(name), shown)}', hint=f"Columns: {', '.join(shown)}")


def recoder_of(release: Any, recode: Recode | None) -> Recoder:
    """The recoder of columns of this release."""
    for name in recode or {}:
        check_column(release, name)
    return Recoder(recode or {}, lambda name: is_number(release, name))


def columns_of(release: Any) -> tuple[str, ...]:
    """Columns an analyst may name."""
    return tuple(c for c in release.schema.types if c not in release.schema.hidden)


def is_number(release: Any, name: str) -> bool:
    """Whether a column holds numbers."""
    kind = release.schema.types[name].upper()
    return any(word in kind for word in NUMBERS) and "INTERVAL" not in kind


def is_randomised(release: Any, name: str) -> bool:
    """Whether a column is one that the method changes."""
    return name in release.schema.units


def distinct_values(release: Any, name: str, most: int) -> list[Scalar]:
    """Values of an untouched column, sorted, null last; at most `most` + 1 of them."""
    column = quoted(name)
    found = release.reader.query(f"SELECT DISTINCT {column} AS v FROM release ORDER BY v NULLS LAST LIMIT {most + 1}")
    return list(found["v"].to_pylist())


class _Condition:
    """An SQL condition: the parts that the engine evaluates on rows, and those evaluated on a unit's domain.

    With `push` conjuncts on untouched columns are left to the engine's WHERE; else they are evaluated on rows too.
    """

    def __init__(self, release: Any, where: str | None, *, push: bool) -> None:
        sql = "SELECT COUNT(*) AS n FROM release" + (f" WHERE {where}" if where else "")
        self.query = parse(sql, release.schema)
        if self.query.keys or self.query.refined or len(self.query.aggregates) != 1:
            raise QueryError("a condition and nothing else is expected here", sql=sql)
        release._check_values(self.query)
        self.views = release._views(self.query).views
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
        release: Any,
        units: tuple[int, ...],
        columns: Sequence[str],
        conditions: Sequence[_Condition],
        recoder: Recoder,
    ) -> None:
        self._release, self._units, self._recoder = release, units, recoder
        self.classes: list[Codes] = []
        for u in units:
            domain = release.domains[u]
            if not release.mechanism.LUMPABLE:
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
        self._shape = tuple(int(c.max()) + 1 for c in self.classes)
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
        unit = self._release.schema.units[name]
        domain = self._release.domains[unit]
        held = [v[domain.columns.index(name)] for v in domain.values]
        values = tuple(sorted(set(held), key=lambda v: (v is None, 0 if v is None else v)))
        place = {v: i for i, v in enumerate(values)}
        codes = self.along(unit, np.array([place[v] for v in held], dtype=np.intp))
        return self._recoder.variable(name, values, codes[None, :], randomised=True)

    def published(self, seen: Any) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """(class of the published joint value, part) of every observed row."""
        mechanism, release = self._release.mechanism, self._release
        value = np.zeros(seen.num_rows, dtype=np.intp)
        if not mechanism.WITHHELD:
            for u, class_of, size in zip(self._units, self.classes, self._shape, strict=True):
                names = [f"u{u}_{j}" for j in range(len(release.domains[u].columns))]
                value = value * size + class_of[release._coders[u].encode([seen[n] for n in names])]
        in_parts = bool(self._units) and mechanism.PART is not None
        part = seen["part"].to_numpy() if in_parts else np.zeros(seen.num_rows)
        return value, part.astype(np.int64)


def _observe(
    release: Any,
    plain: Sequence[str],
    leaves: Sequence[str],
    units: tuple[int, ...],
    pushed: Sequence[str],
    measures: Sequence[str],
) -> Any:
    """One GROUP BY over the release: columns c0.., leaves l0.., published values u.., part, moments m_a_b."""
    table, weight = release.reader.source()
    selected = [f"{quoted(c)} AS c{j}" for j, c in enumerate(plain)]
    selected += [f"({sql}) AS l{j}" for j, sql in enumerate(leaves)]
    if not release.mechanism.WITHHELD:
        selected += [f"{quoted(c)} AS u{u}_{j}" for u in units for j, c in enumerate(release.domains[u].columns)]
    if units and release.mechanism.PART:
        selected.append(f"{quoted(release.mechanism.PART)} AS part")
    keys = len(selected)
    n = weight or "1"
    numbers = ["1", *(f"({sql})" for sql in measures)]
    for b in range(len(numbers)):
        for a in range(b + 1):
            selected.append(f"CAST(SUM({n} * {numbers[a]} * {numbers[b]}) AS DOUBLE) AS m{a}_{b}")
    selected += [f"COUNT(*) - COUNT({sql}) AS miss{j}" for j, sql in enumerate(numbers[1:])]
    conditions = f" WHERE {' AND '.join(f'({sql})' for sql in pushed)}" if pushed else ""
    group = f" GROUP BY {', '.join(str(i + 1) for i in range(keys))}" if keys else ""
    seen = release.reader.query(f"SELECT {', '.join(selected)} FROM {table}{conditions}{group}")
    if seen.num_rows == 0 or seen["m0_0"].null_count:
        raise QueryError("no row of the release meets the condition")
    return seen


def _moments(seen: Any, measures: int) -> Floats:
    missing = sum(int(np.sum(seen[f"miss{j}"].to_numpy())) for j in range(measures - 1))
    if missing:
        raise QueryError(
            "the outcome or the weight is missing for some rows", hint='Leave them out: where="... IS NOT NULL"'
        )
    found = np.zeros((seen.num_rows, measures, measures))
    for b in range(measures):
        for a in range(b + 1):
            found[:, a, b] = found[:, b, a] = seen[f"m{a}_{b}"].to_numpy()
    return found
