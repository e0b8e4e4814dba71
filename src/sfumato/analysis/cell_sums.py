"""What an analysis reads of the rows: sums of its measures, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from ..answering.observation import ROWS_AS_THEY_ARE, lying_cells
from ..answering.observing import beside
from ..answering.subject import Subject
from ..engines.statements import CELL, WEIGHT, column, double, expression, grouped
from ..errors import QueryError
from ..model.part_cells import PartCells
from ..model.public import Floats

NO_ROW = "no row of the release meets the condition"
PART, FINE = "part", "fine"  # columns of what was observed: group or sub-table; number of the cell in `PartCells`


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
) -> tuple[Any, PartCells | None]:
    """One GROUP BY over the release: columns c0.., leaves l0.., published values u.., part, moments m_a_b.

    Of every measure also the fourth powers (q0..), how many are missing (v0..), the least and the largest. Where parts
    are of a few rows each, hardly two rows agree: the cells of all columns that are read are looked at instead, and how
    they lie in the parts, or rows are taken as they are.
    """

    def statement(table: str, weight: str | None, *, by_row: bool = False, by_cell: bool = False) -> exp.Select:
        columns = _keys(subject, plain, leaves, units, by_cell=by_cell)
        return grouped(columns, _sums(measures, weight, by_row=by_row), table=table, where=pushed, group=not by_row)

    prepare = subject.prepare_sums if units else None
    with beside(None if prepare is None else partial(prepare, None)):
        table, weight = subject.reader.source(whole=subject.whole and bool(units))
        wanted, lying = statement(table, weight), None
        if units and (found := lying_cells(wanted, subject, WEIGHT)) is not None:
            cells, lying = found
            wanted = statement(cells, WEIGHT, by_cell=True)
        elif units and subject.part and subject.handfuls and subject.rows <= ROWS_AS_THEY_ARE:
            wanted = statement(table, weight, by_row=True)
        seen = subject.reader.run(wanted)
    if lying is not None and prepare is not None:
        with suppress(Exception):  # what fails fails again, where it is told
            prepare(lying)
    if seen.num_rows == 0 or seen["m0_0"].null_count:
        raise QueryError(NO_ROW)
    return seen, lying


def _keys(
    subject: Subject, plain: Sequence[str], leaves: Sequence[str], units: tuple[int, ...], *, by_cell: bool
) -> list[tuple[exp.Expression, str]]:
    keys: list[tuple[exp.Expression, str]] = [(column(c), f"c{j}") for j, c in enumerate(plain)]
    keys += [(expression(sql), f"l{j}") for j, sql in enumerate(leaves)]
    if not subject.withheld:
        keys += [(column(c), f"u{u}_{j}") for u in units for j, c in enumerate(subject.coders[u].domain.columns)]
    if units and subject.part:
        keys.append((column(CELL), FINE) if by_cell else (column(subject.part), PART))
    return keys


def _sums(measures: Sequence[Measure], weight: str | None, *, by_row: bool) -> list[tuple[exp.Expression, str]]:
    one = exp.Literal.number(1) if weight is None else column(weight)
    numbers = [one, *(double(expression(m.sql)) for m in measures)]
    sums: list[tuple[exp.Expression, str]] = []
    for b in range(len(numbers)):
        for a in range(b + 1):
            product: exp.Expression = one.copy()
            for m in (a, b):
                if m:
                    product = exp.Mul(this=product, expression=numbers[m].copy())
            sums.append((double(product if by_row else exp.Sum(this=product)), f"m{a}_{b}"))
    for j, measure in enumerate(measures):
        fourth: exp.Expression = one.copy()
        for _ in range(4):
            fourth = exp.Mul(this=fourth, expression=numbers[j + 1].copy())
        sums.append((double(fourth if by_row else exp.Sum(this=fourth)), f"q{j}"))
        missing: exp.Expression = exp.Is(this=numbers[j + 1].copy(), expression=exp.Null())
        if not by_row:
            missing = exp.Sub(this=exp.Count(this=exp.Star()), expression=exp.Count(this=numbers[j + 1].copy()))
        sums.append((missing, f"v{j}"))
        number = double(expression(measure.ends))
        ends = ((exp.Min, "least"), (exp.Max, "most"))
        sums += [(number.copy() if by_row else end(this=number.copy()), f"{name}{j}") for end, name in ends]
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
