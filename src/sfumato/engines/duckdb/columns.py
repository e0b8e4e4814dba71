"""Columns as the custodian wants them: in types that people ask for, whole where they came as real, or coarser."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import duckdb

from ...errors import DataError, ReleaseError, SpecError
from ...model.coarsening import Recoding
from ...model.types import MOST_DIGITS, ColumnType, Kind, type_named
from ..profiling import bin_sql
from .connection import SourceView, connect, quoted

SHOWN_ROWS = 5
WHOLE = 2**53  # a real number below it stands for one whole number
_TYPE = re.compile(r"[A-Z][A-Z0-9_ ]*(\(\d{1,2}(,\s?\d{1,2})?\))?")


def typed(view: SourceView, types: Mapping[str, str]) -> SourceView:
    """The source with some columns in other types; DataError where a cell has no value in the type asked for."""
    with connect() as con:
        source = view.bind(con)
        for name in types:
            if name not in source.columns:
                near = difflib.get_close_matches(name, source.columns, 1)
                hint = f'; did you mean "{near[0]}"?' if near else ""
                raise SpecError(f'--types names "{name}", which is no column of the table{hint}', field="types")
        wanted = {name: _known(con, name, text) for name, text in types.items()}
        old = dict(zip(source.columns, map(str, source.types), strict=True))
        odd = {name: _misfit(name, old[name], kind) for name, kind in wanted.items()}
        try:
            counts = source.aggregate(", ".join(f"count(CASE WHEN {test} THEN 1 END)" for test in odd.values()))
            for name, count in zip(wanted, counts.fetchall()[0], strict=True):
                if count:
                    numbered = source.project(f"row_number() OVER () AS row, {odd[name]} AS odd").filter("odd")
                    rows = ", ".join(str(r) for (r,) in numbered.project("row").limit(SHOWN_ROWS).fetchall())
                    cells = "1 cell" if count == 1 else f"{count} cells"
                    where = "row" if count == 1 else "rows"
                    more = ", ..." if count > SHOWN_ROWS else ""
                    raise DataError(
                        f'{cells} of "{name}" cannot be read as {wanted[name]} ({where} {rows}{more}); mend the table, '
                        f"or say what means missing (--null){_written(old[name], wanted[name])}",
                        column=name,
                    )
        except duckdb.Error:
            raise DataError("the columns cannot be read in the types that --types asks for") from None
    return projected(view, {name: f"CAST({quoted(name)} AS {kind})" for name, kind in wanted.items()})


def _written(old: str, new: ColumnType) -> str:
    """The option that says how a file of text writes such cells."""
    if old != "VARCHAR":
        return ""
    if new.kind is Kind.DATE:
        return " or how days are written (--dates)"
    return " or how fractions are written (--decimal)" if new.kind in {Kind.REAL, Kind.DECIMAL} else ""


def _known(con: duckdb.DuckDBPyConnection, name: str, text: str) -> ColumnType:
    """The type that people write, as INTEGER, int, text or DECIMAL(10,2)."""
    said = text.strip().upper()
    try:
        if not _TYPE.fullmatch(said):
            raise SpecError("")
        return type_named(str(con.sql(f"SELECT CAST(NULL AS {said}) AS x").types[0]))
    except (duckdb.Error, ReleaseError, SpecError):
        raise SpecError(
            f'--types gives "{name}" the type "{text}"; types are BOOLEAN, INTEGER, BIGINT, DOUBLE, DECIMAL(10,2), '
            "VARCHAR, DATE, TIMESTAMP and DuckDB's others",
            field="types",
        ) from None


def known_type(text: str) -> ColumnType | None:
    """The type that DuckDB calls by this name; None for one that is not published as it is."""
    try:
        return type_named(text)
    except ReleaseError:
        return None


def _misfit(name: str, old: str, new: ColumnType) -> str:
    """SQL: the cell has no exact value in the new type."""
    cell = quoted(name)
    lost = f"{cell} IS NOT NULL AND TRY_CAST({cell} AS {new}) IS NULL"
    if new.kind is Kind.INTEGER and (old in {"VARCHAR", "DOUBLE", "FLOAT"} or old.startswith("DECIMAL")):
        return f"({lost} OR TRY_CAST({cell} AS DOUBLE) <> TRY_CAST({cell} AS {new}))"
    return f"({lost})"


def without_excess(view: SourceView) -> SourceView:
    """The source with whole numbers and days as such, where a file knows real numbers and moments only."""
    with connect() as con:
        source = view.bind(con)
        kinds = dict(zip(source.columns, map(str, source.types), strict=True))
        tests = {
            name: _whole(name) if kind == "DOUBLE" else _midnight(name)
            for name, kind in kinds.items()
            if kind == "DOUBLE" or kind.startswith("TIMESTAMP")
        }
        if not tests:
            return view
        try:
            found = source.aggregate(
                ", ".join(f"count({quoted(n)}), count(CASE WHEN {test} THEN 1 END)" for n, test in tests.items())
            ).fetchall()[0]
        except duckdb.Error:
            raise DataError("the file cannot be read") from None
    cast = {}
    for i, name in enumerate(tests):
        filled, fits = found[2 * i : 2 * i + 2]
        if filled and filled == fits:
            cast[name] = f"CAST({quoted(name)} AS {'BIGINT' if kinds[name] == 'DOUBLE' else 'DATE'})"
        elif kinds[name].startswith("TIMESTAMP") and kinds[name] != "TIMESTAMP":
            cast[name] = f"CAST({quoted(name)} AS TIMESTAMP)"
    return projected(view, cast) if cast else view


def _whole(name: str) -> str:
    cell = quoted(name)
    return f"isfinite({cell}) AND abs({cell}) < {WHOLE} AND {cell} = trunc({cell})"


def _midnight(name: str) -> str:
    cell = quoted(name)
    return f"{cell} = date_trunc('day', {cell})"


def projected(view: SourceView, changed: Mapping[str, str]) -> SourceView:
    """The source with some columns replaced by SQL expressions of its columns."""
    inner = view.bind

    def bind(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        source = inner(con)
        return source.project(", ".join(f"{changed.get(n, quoted(n))} AS {quoted(n)}" for n in source.columns))

    return replace(view, bind=bind)


# --- columns made coarser before anything looks at them: bins, roundings and highest values


def recoded(view: SourceView, recodings: Sequence[Recoding]) -> SourceView:
    """The source with coarser columns; labels of codes that no longer stand there are left out."""
    for recoding in recodings:
        with connect() as con:
            source = view.bind(con)
            if recoding.column not in source.columns:
                raise SpecError(f'there is no column "{recoding.column}" to be made coarser', field="round")
            kind = known_type(str(source.types[source.columns.index(recoding.column)]))
            if recoding.edges:
                _check_edges(source, recoding, kind)
        view = projected(view, {recoding.column: _sql(recoding, kind)})
    changed = {recoding.column for recoding in recodings}
    return replace(
        view,
        labels={n: replace(v, values=()) if n in changed else v for n, v in view.labels.items()},
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
        return bin_sql(cell, recoding.edges)
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


def _number(value: Fraction) -> str:
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
