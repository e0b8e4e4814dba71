"""The one aggregate over the release that a question needs, and how to read what comes back."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ..engines.statements import CELL, WEIGHT, column, columns_of, double, expression, grouped, rows_of
from ..model.part_cells import ROW_BYTES, PartCells
from ..sql.nodes import Aggregate, Query
from .subject import Subject

ROWS_AS_THEY_ARE = 20_000_000  # of larger releases the rows would fill the memory: the engine counts them together
MOST_SUMS = 5_000_000  # numbers by cell and value that are kept of the cells of some columns
MOST_BYTES = 2 << 30  # while rows are put in the order of their parts, each as the number of its cell


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
    by_row: bool = False  # rows are not yet added up: only the part tells them apart
    cell: str | None = None  # number of the cell, where parts are looked at cell by cell
    numbers: tuple[str, ...] = ()  # measures that rows are told apart by
    of_rows: bool = True  # the statement is about the rows of the release, not about cells


def observation(
    query: Query,
    units: tuple[tuple[str, ...], ...],
    *,
    lumpable: bool,
    withheld: bool,
    handfuls: bool,
    roomy: bool,
    part: str | None,
    table: str,
    weight: str | None,
    by_cell: bool = False,
    by_number: bool = False,
) -> Observation:
    """One GROUP BY over `table`, whose rows stand for `weight` rows of the release each (None: one).

    `by_cell`: the rows of `table` are taken as they are, under their numbers. `roomy`: rows fit the memory, and
    are told apart by the numbers that are added up where the method wants them `by_number`.
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
    in_part = part if part is not None and wanted else None
    if in_part is not None:
        columns.append((column(CELL), "cell") if by_cell else (column(in_part), "part"))
    # Groups of a few rows, and nothing else to tell rows apart: adding up by array is faster than by hashing.
    # Where there is something else, hardly two rows agree: they are taken as they are, if there is room for them.
    by_row = by_cell or (handfuls and in_part is not None and (len(columns) == 1 or roomy))
    numbers = [_number(sql) for sql in query.measures[1:]]
    apart = tuple(f"g{m}" for m in range(1, len(numbers) + 1)) if by_number and roomy and in_part is not None else ()
    columns += [(number.copy(), name) for number, name in zip(numbers, apart, strict=False)]
    moments = tuple((a, b) for b in range(len(numbers) + 1) for a in range(b + 1))
    positive = {m: f"p{m}" for m in range(1, len(numbers) + 1)}
    sums = [] if by_row and weight is None else [(_weight(weight) if by_row else rows_of(weight), "m0")]
    for j, (a, b) in enumerate(moments[1:], start=1):
        factors = [numbers[m - 1] for m in (a, b) if m]
        sums.append((_total(factors, weight, by_row=by_row), f"m{j}"))
    for m, name in positive.items():
        cut = exp.Greatest(this=numbers[m - 1].copy(), expressions=[exp.Literal.number(0)])
        sums.append((_total([cut], weight, by_row=by_row), name))
    return Observation(
        statement=grouped(
            columns, [(double(e), name) for e, name in sums], table=table, where=query.pushed, group=not by_row
        ),
        keys=keys,
        leaves=leaves,
        raw=raw,
        bits=bits,
        part="part" if in_part is not None and not by_cell else None,
        moments=moments,
        positive=positive,
        by_row=by_row,
        cell="cell" if by_cell else None,
        numbers=apart,
        of_rows=weight is None,
    )


def _number(sql: str) -> exp.Expression:
    """A measure as a number; NULL adds nothing."""
    return exp.Coalesce(this=double(expression(sql)), expressions=[exp.Literal.number(0)])


def _weight(weight: str | None) -> exp.Expression:
    return exp.Literal.number(1) if weight is None else column(weight)


def _total(factors: list[exp.Expression], weight: str | None, *, by_row: bool) -> exp.Expression:
    """The sum over rows of the product of the factors, or the product itself where rows are added up later."""
    product = _weight(weight)
    for factor in factors:
        product = exp.Mul(this=product, expression=factor.copy())
    return product if by_row else exp.Sum(this=product)


def direct(query: Query, aggregate: Aggregate, keys: tuple[int, ...]) -> exp.Select:
    """An aggregate of untouched columns under untouched conditions, which the engine answers exactly."""
    columns = [(expression(query.keys[i].sql), f"k{i}") for i in keys]
    return grouped(columns, [(double(expression(aggregate.text)), "v")], table="release", where=query.pushed)


def wanted_of(
    query: Query, subject: Subject, table: str, weight: str | None, *, by_cell: bool = False, by_value: bool = False
) -> Observation:
    """What the question needs to see of a release; `by_value`: published values, also where their truth would do."""
    units = tuple(coder.domain.columns for coder in subject.coders)
    lumpable = subject.lumpable and not by_value
    roomy = subject.rows <= ROWS_AS_THEY_ARE

    def make() -> Observation:
        return observation(
            query,
            units,
            lumpable=lumpable,
            withheld=subject.withheld,
            handfuls=subject.handfuls,
            roomy=roomy,
            part=subject.part,
            table=table,
            weight=weight,
            by_cell=by_cell,
            by_number=subject.by_number,
        )

    way = (units, lumpable, subject.withheld, subject.handfuls, subject.by_number, roomy, subject.part, table, weight)
    return subject.known.wanted_of(query, (*way, by_cell), make)


def wanted_now(query: Query, subject: Subject) -> tuple[Observation, PartCells | None]:
    """What the question needs to see, of rows or of cells, and how cells lie in the parts where it needs to know."""
    again = subject.handfuls and len(query.sets) > 1  # rows of parts would be looked at for every grouping set
    table, weight = subject.reader.source(whole=(subject.whole or again) and bool(query.units()))
    wanted = wanted_of(query, subject, table, weight)
    if weight is None or wanted.part is None or query.derived:  # computed numbers: errors by row
        return wanted, None
    found = lying_cells(wanted.statement, subject, weight)
    if found is None:
        return wanted, None
    cells, inside = found
    return wanted_of(query, subject, cells, WEIGHT, by_cell=True), inside


def lying_cells(statement: exp.Select, subject: Subject, weight: str | None) -> tuple[str, PartCells] | None:
    """(table of the cells over the columns of a statement, how they lie in the parts); None: rows are looked at."""
    if subject.part is None or not subject.handfuls or subject.rows * ROW_BYTES > MOST_BYTES:
        return None
    columns = sorted({*columns_of(statement)} - {subject.part, weight})
    return subject.reader.in_parts(columns, subject.part, MOST_SUMS // max(1, sum(map(len, subject.domains))))
