"""A question put to the engine: the one GROUP BY over the release that it needs, and what came back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from ..engines.codes import part_numbers
from ..engines.statements import column, double, expression, grouped, rows_of
from ..model.public import Codes
from ..sql.nodes import Aggregate, Query
from .domains import checked_views
from .functionals import Layout, layout
from .subject import Subject

MOST_APART = 20_000_000  # rows of a release, up to which they are told apart by the numbers that are added up


@dataclass(frozen=True, slots=True)
class Observation:
    """The statement for the engine, and the names of the columns it returns.

    `bits[u]` are the leaves of unit u that are evaluated on the published value; a unit that needs its value as
    such (GROUP BY it, SUM of it, or a method that is not lumpable) is listed in `raw` instead.
    """

    statement: exp.Select
    keys: dict[int, str]  # untouched key number -> column
    leaves: dict[int, str]  # leaf number -> column: untouched leaves, and the bits of units
    raw: dict[int, tuple[str, ...]]  # unit -> columns that hold its published value
    bits: dict[int, tuple[int, ...]]  # unit -> leaf numbers
    part: str | None
    moments: tuple[tuple[int, int], ...]  # (a, b): sum of measure a times measure b; (0, 0) counts rows
    positive: dict[int, str]  # measure -> sum of its positive part
    numbers: tuple[str, ...] = ()  # measures that rows are told apart by


@dataclass(frozen=True, slots=True)
class Frame:
    """A question and what was observed for it."""

    query: Query
    wanted: Observation
    seen: pa.Table
    place: Layout
    codes: Mapping[int, Codes]  # unit -> published code of every observed row
    labels: Mapping[int, pa.Array]  # unit key -> value of every group


def observe(query: Query, subject: Subject) -> Frame:
    """What the engine says to the question, laid out over the domains; ReleaseError for parts that cannot be."""
    views = checked_views(query, subject)
    wanted = wanted_of(query, subject, *subject.reader.source())
    seen = subject.reader.run(wanted.statement, text=query.text)
    if wanted.part is not None:
        at = seen.column_names.index(wanted.part)
        seen = seen.set_column(at, wanted.part, pa.array(part_numbers(seen[wanted.part], subject.rows)))
    return Frame(
        query=query,
        wanted=wanted,
        seen=seen,
        place=layout(query.units(), views.views, lumpable=subject.lumpable, sets=subject.sets),
        codes={u: subject.coders[u].encode([seen[c] for c in names]) for u, names in wanted.raw.items()},
        labels=views.labels,
    )


def wanted_of(query: Query, subject: Subject, table: str, weight: str | None) -> Observation:
    """What the question needs to see of a release, made once where the question is kept."""
    units = tuple(coder.domain.columns for coder in subject.coders)
    by_number = subject.by_number and subject.rows <= MOST_APART

    def make() -> Observation:
        return observation(
            query,
            units,
            lumpable=subject.lumpable,
            withheld=subject.withheld,
            by_number=by_number,
            part=subject.part,
            table=table,
            weight=weight,
        )

    way = (units, subject.lumpable, subject.withheld, by_number, subject.part, table, weight)
    return subject.known.wanted_of(query, way, make)


def observation(
    query: Query,
    units: tuple[tuple[str, ...], ...],
    *,
    lumpable: bool,
    withheld: bool,
    by_number: bool,
    part: str | None,
    table: str,
    weight: str | None,
) -> Observation:
    """One GROUP BY over `table`, whose rows stand for `weight` rows of the release each (None: one).

    `by_number`: rows of a part are told apart by the numbers that the question adds up.
    """
    wanted = query.units()
    columns: list[tuple[exp.Expression, str]] = []
    keys = {i: f"k{i}" for i, key in enumerate(query.keys) if key.unit is None}
    columns += [(expression(query.keys[i].sql), name) for i, name in keys.items()]
    needs_value = {key.unit for key in query.keys} | {u for u, _ in query.values}
    raw, bits, leaves = {}, {}, {}
    for u in wanted:
        if withheld:
            continue
        if lumpable and u not in needs_value:
            bits[u] = tuple(i for i, leaf in enumerate(query.leaves) if leaf.unit == u)
        else:
            raw[u] = tuple(f"u{u}_{j}" for j in range(len(units[u])))
            columns += [(column(name), alias) for name, alias in zip(units[u], raw[u], strict=True)]
    for i, leaf in enumerate(query.leaves):
        if leaf.unit is None or leaf.unit in bits:
            leaves[i] = f"l{i}"
            columns.append((expression(leaf.sql), leaves[i]))
    in_part = part if wanted else None
    if in_part is not None:
        columns.append((column(in_part), "part"))
    numbers = [_number(sql) for sql in query.measures[1:]]
    apart = tuple(f"g{m}" for m in range(1, len(numbers) + 1)) if by_number and in_part is not None else ()
    columns += [(number.copy(), name) for number, name in zip(numbers, apart, strict=False)]
    moments = tuple((a, b) for b in range(len(numbers) + 1) for a in range(b + 1))
    positive = {m: f"p{m}" for m in range(1, len(numbers) + 1)}
    sums = [(rows_of(weight), "m0")]
    for j, (a, b) in enumerate(moments[1:], start=1):
        sums.append((_total([numbers[m - 1] for m in (a, b) if m], weight), f"m{j}"))
    for m, name in positive.items():
        cut = exp.Greatest(this=numbers[m - 1].copy(), expressions=[exp.Literal.number(0)])
        sums.append((_total([cut], weight), name))
    return Observation(
        statement=grouped(columns, [(double(e), name) for e, name in sums], table=table, where=query.pushed),
        keys=keys,
        leaves=leaves,
        raw=raw,
        bits=bits,
        part=None if in_part is None else "part",
        moments=moments,
        positive=positive,
        numbers=apart,
    )


def _number(sql: str) -> exp.Expression:
    """A measure as a number; NULL adds nothing."""
    return exp.Coalesce(this=double(expression(sql)), expressions=[exp.Literal.number(0)])


def _total(factors: list[exp.Expression], weight: str | None) -> exp.Expression:
    """The sum over rows of the product of the factors."""
    product: exp.Expression = exp.Literal.number(1) if weight is None else column(weight)
    for factor in factors:
        product = exp.Mul(this=product, expression=factor.copy())
    return exp.Sum(this=product)


def direct(query: Query, aggregate: Aggregate, keys: tuple[int, ...]) -> exp.Select:
    """An aggregate of untouched columns under untouched conditions, which the engine answers exactly."""
    columns = [(expression(query.keys[i].sql), f"k{i}") for i in keys]
    return grouped(columns, [(double(expression(aggregate.text)), "v")], table="release", where=query.pushed)
