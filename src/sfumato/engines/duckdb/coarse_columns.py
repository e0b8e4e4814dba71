"""Columns made coarser before anything looks at them: SQL of bins, roundings and highest values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import duckdb

from ...errors import DataError, SpecError
from ...model.coarsening import Recoding
from ...model.types import MOST_DIGITS, ColumnType, Kind
from .bound import Bound
from .column_types import known_type, projected
from .connection import connect, quoted


def recoded(bound: Bound, recodings: Sequence[Recoding]) -> Bound:
    """The source with coarser columns; labels of codes that no longer stand there are left out."""
    for recoding in recodings:
        with connect() as con:
            source = bound.bind(con)
            if recoding.column not in source.columns:
                raise SpecError(f'there is no column "{recoding.column}" to be made coarser', field="round")
            kind = known_type(str(source.types[source.columns.index(recoding.column)]))
            if recoding.edges:
                _check_edges(source, recoding, kind)
        bound = projected(bound, {recoding.column: _sql(recoding, kind)})
    changed = {recoding.column for recoding in recodings}
    return replace(
        bound,
        labels={n: replace(v, values=()) if n in changed else v for n, v in bound.labels.items()},
        recoded=tuple(recodings),
    )


def _sql(recoding: Recoding, kind: ColumnType | None) -> str:
    name, cell = recoding.column, quoted(recoding.column)
    if recoding.period is not None:
        if kind is None or kind.kind not in {Kind.DATE, Kind.TIMESTAMP}:
            raise SpecError(f'"{name}" cannot be rounded to a {recoding.period}; it holds no dates', field="round")
        return f"CAST(date_trunc('{recoding.period}', {cell}) AS DATE)"
    if kind is None or not kind.numeric:
        raise SpecError(f'"{name}" is not a column of numbers; it cannot be rounded or cut', field="round")
    if recoding.edges:
        whens = [
            f"WHEN {cell} < {cut!r} THEN '{label}'"
            for cut, label in zip(recoding.edges[1:], recoding.labels[:-1], strict=True)
        ]
        empty = f"{cell} IS NULL" + (f" OR isnan({cell})" if kind.kind is Kind.REAL else "")
        return f"CASE WHEN {empty} THEN NULL {' '.join(whens)} ELSE '{recoding.labels[-1]}' END"
    if recoding.top is not None:
        if kind.kind is Kind.INTEGER and recoding.top.denominator != 1:
            raise SpecError(f'"{name}" holds whole numbers; its highest value must be one', field="top-code")
        top = f"CAST({_number(recoding.top)} AS {kind})"
        odd = f"isnan({cell}) OR " if kind.kind is Kind.REAL else ""
        return f"CASE WHEN {odd}{cell} <= {top} THEN {cell} WHEN {cell} IS NOT NULL THEN {top} END"
    return _rounding(name, recoding, kind)


def _rounding(name: str, recoding: Recoding, kind: ColumnType) -> str:
    """Nearest multiple, halves away from zero: whole and decimal columns exactly."""
    assert recoding.step is not None
    cell, step = quoted(name), recoding.step
    if kind.kind is Kind.INTEGER:
        if step.denominator != 1:
            raise SpecError(f'"{name}" holds whole numbers; it is rounded to a whole step, not {step}', field="round")
        wide, n = f"CAST({cell} AS HUGEINT)", step.numerator
        return f"CAST(sign({cell}) * ((abs({wide}) * 2 + {n}) // {2 * n}) * {n} AS BIGINT)"
    digits = len(f"{float(step):.12f}".rstrip("0").partition(".")[2])
    number = f"round(round(CAST({cell} AS DOUBLE) / {float(step)!r}) * {float(step)!r}, {digits})"
    if kind.kind is Kind.REAL:
        return number
    precision = min(kind.precision + 1, MOST_DIGITS)
    return f"CAST({number} AS DECIMAL({precision},{kind.scale}))"


def _number(value: object) -> str:
    from fractions import Fraction

    assert isinstance(value, Fraction)
    return str(value.numerator) if value.denominator == 1 else repr(float(value))


def _check_edges(source: duckdb.DuckDBPyRelation, recoding: Recoding, kind: ColumnType | None) -> None:
    if kind is None or not kind.numeric:
        raise SpecError(f'bins are given for "{recoding.column}", which is not a column of numbers', field="bins")
    try:
        test = f"count(CASE WHEN {quoted(recoding.column)} < {recoding.edges[0]!r} THEN 1 END)"
        below = source.aggregate(test).fetchall()[0][0]
    except duckdb.Error:
        raise DataError(f'column "{recoding.column}" cannot be read') from None
    if below:
        raise DataError(
            f'{below} rows of "{recoding.column}" lie below the first edge of its bins; lower the edge',
            column=recoding.column,
        )
