"""From an open release to the cells, variables and functionals that an analysis works on.

The only module of this folder that knows how a release is read and which method made it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import QueryError, UnsupportedQuery
from ..methods.anatomy.functionals import GroupedValues, GroupFunctionals
from ..methods.shared.linear_functionals import (
    Cells,
    Functionals,
    IndependentRows,
    KroneckerWeights,
    in_parts,
    keep_or_redraw,
)
from ..methods.splu.functionals import DecoyFunctionals
from ..model.public import Codes, Floats, Scalar
from ..sql.nodes import TRUE, Query
from ..sql.observation import quoted
from ..sql.parse import parse
from ..sql.scalar import nearest
from ..strata import distinct_rows, factorise, truth
from .expressions import Variable, label

NUMBERS = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "REAL", "BOOL")
MOST_VALUES = 20_000  # joint values of the randomised columns that one analysis tells apart
Recode = Mapping[str, Mapping[str, Sequence[Scalar]]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grid:
    """Everything an analysis reads: variables on cells x joint values, who takes part, and what can be summed."""

    variables: Mapping[str, Variable]
    weight: Floats  # (cells, values): 1 where a row takes part, else 0
    cells: Cells
    functionals: Functionals
    method: str
    cell_rows: Floats  # (cells,) published rows

    @property
    def values(self) -> int:
        return self.weight.shape[1]

    def published(self) -> Floats | None:
        """(cells, values) published rows by published value, where publishing keeps independence; else None."""
        if self.method not in INDEPENDENT or not isinstance(self.functionals, IndependentRows):
            return None
        return self.functionals.published()


def read(
    release: Any,
    columns: Sequence[str],
    *,
    where: str | None = None,
    recode: Recode | None = None,
    measures: Sequence[str] = (),
) -> Grid:
    """The grid over these columns; `measures` are SQL numbers of untouched columns, summed instead of told apart."""
    for name in columns:
        check_column(release, name)
    query = _condition(release, where)
    views = release._views(query).views
    units = tuple(sorted({release.schema.units[c] for c in columns if c in release.schema.units} | set(query.units())))
    plain = [c for c in dict.fromkeys(columns) if c not in release.schema.units]
    leaves = [i for i, leaf in enumerate(query.leaves) if leaf.unit is None]
    seen = _observe(release, plain, [query.leaves[i].sql for i in leaves], units, query.pushed, measures)
    keys = [factorise(seen[f"c{j}"]) for j in range(len(plain))]
    truths = [truth(seen[f"l{j}"]) for j in range(len(leaves))]
    distinct, cell = distinct_rows([*(codes for codes, _ in keys), *truths], seen.num_rows)
    C = len(distinct)
    recoder = Recoder(release, recode or {})
    variables: dict[str, Variable] = {}
    for j, name in enumerate(plain):
        variables[name] = recoder.variable(
            name, tuple(keys[j][1].to_pylist()), distinct[:, j : j + 1].astype(np.intp), randomised=False
        )
    classes = _classes(release, columns, units, views, recoder)
    shape = tuple(int(c.max()) + 1 for c in classes)
    V = math.prod(shape)
    if V > MOST_VALUES:
        raise UnsupportedQuery(
            f"the randomised columns have {V:,} joint values; at most {MOST_VALUES:,} are told apart",
            hint="Merge levels (recode) or use fewer columns.",
        )
    places = np.unravel_index(np.arange(V), shape) if shape else ()
    firsts = [np.unique(c, return_index=True)[1] for c in classes]
    for name in dict.fromkeys(c for c in columns if c in release.schema.units):
        axis = units.index(release.schema.units[name])
        domain = release.domains[units[axis]]
        held = [v[domain.columns.index(name)] for v in domain.values]
        values = tuple(sorted(set(held), key=lambda v: (v is None, 0 if v is None else v)))  # type: ignore[misc]
        place = {v: i for i, v in enumerate(values)}
        codes = np.array([place[held[i]] for i in firsts[axis]], dtype=np.intp)[places[axis]]
        variables[name] = recoder.variable(name, values, codes[None, :], randomised=True)
    weight = _weight(query, leaves, distinct[:, len(plain) :], units, views, firsts, places, (C, V))
    value, part = _published(release, seen, units, classes, shape)
    cells = Cells(
        cell=cell.astype(np.intp),
        part=part,
        value=value,
        moments=_moments(seen, len(measures) + 1),
        cells=C,
        rows=release.manifest.rows,
    )
    made = METHODS.get(release.manifest.method)
    if units and made is None:
        raise UnsupportedQuery(
            f'"{release.manifest.method}" publishes no estimate with a known error for models and tests'
        )
    functionals = (
        made(release, units, classes, cells)
        if units and made is not None
        else IndependentRows(cells, KroneckerWeights(axes=(), shape=()))
    )
    counted = np.bincount(cells.cell, weights=cells.moments[:, 0, 0], minlength=C).astype(np.float64)
    return Grid(
        variables=variables,
        weight=weight,
        cells=cells,
        functionals=functionals,
        method=release.manifest.method,
        cell_rows=counted,
    )


def check_column(release: Any, name: str) -> None:
    """Refuse a name that is no column of the release, with near ones."""
    shown = [c for c in release.schema.types if c not in release.schema.hidden]
    if name not in shown:
        raise QueryError(f'there is no column "{name}"{nearest(str(name), shown)}', hint=f"Columns: {', '.join(shown)}")


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


def _condition(release: Any, where: str | None) -> Query:
    sql = "SELECT COUNT(*) AS n FROM release" + (f" WHERE {where}" if where else "")
    query = parse(sql, release.schema)
    if query.keys or query.refined or len(query.aggregates) != 1:
        raise QueryError("where takes a condition and nothing else", sql=sql)
    release._check_values(query)
    return query


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


class Recoder:
    """Merges levels before the formula sees them: named levels first, in their order, then the rest in theirs."""

    def __init__(self, release: Any, recode: Recode) -> None:
        self._release, self._recode = release, recode
        for name, groups in recode.items():
            check_column(release, name)
            if not isinstance(groups, Mapping):
                raise QueryError(f'recode of "{name}" needs levels, each with the values that it merges')

    def level(self, name: str, value: Scalar) -> Scalar:
        """The level that a value belongs to."""
        for level, members in self._recode.get(name, {}).items():
            if any(_same(value, m) for m in members):
                return level
        return label(value) if name in self._recode and value is not None else value

    def variable(self, name: str, values: tuple[Scalar, ...], codes: NDArray[np.intp], *, randomised: bool) -> Variable:
        """The column after merging."""
        numeric = is_number(self._release, name)
        if name not in self._recode:
            return Variable(name=name, values=values, codes=codes, numeric=numeric, randomised=randomised)
        for level, members in self._recode[name].items():
            if isinstance(members, str):
                raise QueryError(f'recode of "{name}": level "{level}" needs a list of values')
            for member in members:
                if randomised and not any(_same(v, member) for v in values):
                    near = nearest(str(member), [str(v) for v in values if v is not None])
                    raise QueryError(f'"{name}" has no value "{member}"{near}')
        merged = [self.level(name, v) for v in values]
        order = [lv for lv in self._recode[name] if lv in merged]
        order += [lv for lv in dict.fromkeys(merged) if lv not in order]  # type: ignore[misc]
        place = {lv: i for i, lv in enumerate(order)}
        table = np.array([place[lv] for lv in merged], dtype=np.intp)  # type: ignore[index]
        return Variable(name=name, values=tuple(order), codes=table[codes], numeric=False, randomised=randomised)


def _same(value: Scalar, member: Scalar) -> bool:
    return value == member or (value is not None and member is not None and str(value) == str(member))


def _classes(
    release: Any, columns: Sequence[str], units: tuple[int, ...], views: Mapping[int, Any], recoder: Recoder
) -> list[Codes]:
    """For each unit the class of every domain value: values that the analysis does not tell apart share one."""
    found = []
    for u in units:
        domain = release.domains[u]
        if not release.mechanism.LUMPABLE:
            found.append(np.arange(len(domain), dtype=np.int32))
            continue
        used = [j for j, c in enumerate(domain.columns) if c in columns]
        bits = [views[u].leaves[i] for i in views[u].leaves] if u in views else []
        numbers: dict[tuple[Any, ...], int] = {}
        codes = [
            numbers.setdefault(
                (*(recoder.level(domain.columns[j], v[j]) for j in used), *(int(b[i]) for b in bits)), len(numbers)
            )
            for i, v in enumerate(domain.values)
        ]
        found.append(np.array(codes, dtype=np.int32))
    return found


def _weight(
    query: Query,
    leaves: list[int],
    observed: NDArray[Any],
    units: tuple[int, ...],
    views: Mapping[int, Any],
    firsts: Sequence[NDArray[np.intp]],
    places: Sequence[NDArray[np.intp]],
    shape: tuple[int, int],
) -> Floats:
    """1 where the condition is true of a cell and a joint value."""
    found: list[NDArray[np.int8]] = []
    for i, leaf in enumerate(query.leaves):
        if leaf.unit is None:
            found.append(observed[:, leaves.index(i)].astype(np.int8)[:, None])
        else:
            axis = units.index(leaf.unit)
            found.append(views[leaf.unit].leaves[i][firsts[axis]][places[axis]][None, :])
    return np.broadcast_to(query.where.truth(found) == TRUE, shape).astype(np.float64)


def _published(
    release: Any, seen: Any, units: tuple[int, ...], classes: Sequence[Codes], shape: tuple[int, ...]
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """(class of the published joint value, part) of every observed row."""
    value = np.zeros(seen.num_rows, dtype=np.intp)
    if not release.mechanism.WITHHELD:
        for u, class_of, size in zip(units, classes, shape, strict=True):
            names = [f"u{u}_{j}" for j in range(len(release.domains[u].columns))]
            value = value * size + class_of[release._coders[u].encode([seen[n] for n in names])]
    part = (
        seen["part"].to_numpy().astype(np.int64)
        if units and release.mechanism.PART
        else np.zeros(seen.num_rows, dtype=np.int64)
    )
    return value, part


# --- the functionals of each method ----------------------------------------------------------------------------

Make = Callable[[Any, tuple[int, ...], Sequence[Codes], Cells], Functionals]


def _uniform(release: Any, units: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    tables = release.plan.tables
    B = keep_or_redraw(float(tables.p[0]), float(tables.q[0]), np.bincount(classes[0]))
    return IndependentRows(cells, KroneckerWeights(axes=(B,), shape=(len(B),)))


def _small_domain(release: Any, units: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    tables, V = release.plan.tables, int(classes[0].max()) + 1
    blocks = []
    for i in range(len(tables)):
        held, sizes = np.unique(classes[0][tables.domain(i)], return_counts=True)
        blocks.append((held.astype(np.intp), keep_or_redraw(float(tables.p[i]), float(tables.q[i]), sizes)))
    weights, state = in_parts(blocks, V)
    return IndependentRows(cells, weights, state[cells.part, cells.value])


def _randomised_response(release: Any, units: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    axes: list[Floats | None] = []
    for u, class_of in zip(units, classes, strict=True):
        theta = release.plan.thetas[u]
        q = (1 - theta) / len(class_of)
        axes.append(None if theta == 1.0 else keep_or_redraw(theta, q, np.bincount(class_of)))
    shape = tuple(int(c.max()) + 1 for c in classes)
    return IndependentRows(cells, KroneckerWeights(axes=tuple(axes), shape=shape))


def _splu(release: Any, units: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    if len(units) > 1:
        raise UnsupportedQuery("models over several decoy columns at once are not answered", hint="Use one of them.")
    (channel,) = release.mechanism.channels_of(release.plan, release.evidence, units)
    if not channel.identifiable.all():
        raise UnsupportedQuery("not identifiable: some values are in so many groups that nothing tells who has them")
    one = np.eye(len(channel.active))
    return DecoyFunctionals(
        cells,
        channel=channel.matrix.forward(one),
        inverse=channel.matrix.weights(one),
        published=channel.published,
        total_counts=channel.counts,
        values=len(classes[0]),
        active=channel.active,
    )


def _anatomy(release: Any, units: tuple[int, ...], classes: Sequence[Codes], cells: Cells) -> Functionals:
    memo = release.evidence.memo
    if "grouped values" not in memo:
        from ..stats.anatomised import groups_of

        side = release.evidence.side
        groups = groups_of(side["group_id"], side["unit0"], len(classes[0]))
        memo["grouped values"] = GroupedValues(groups.members, groups.sizes, groups.values)
    if not memo["grouped values"].identified:
        raise UnsupportedQuery("not identifiable: the groups of this release do not tell some of the values apart")
    return GroupFunctionals(cells, memo["grouped values"])


METHODS: Mapping[str, Make] = {
    "uniform": _uniform,
    "small-domain": _small_domain,
    "randomized-response": _randomised_response,
    "splu": _splu,
    "anatomy": _anatomy,
}
INDEPENDENT = ("uniform", "randomized-response")  # noise that does not depend on any other column
