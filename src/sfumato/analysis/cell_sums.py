"""What an analysis reads of the rows: sums of its measures, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from ..answering.subject import Subject
from ..engines.statements import column, double, expression, grouped
from ..errors import QueryError
from ..model.public import Floats

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
