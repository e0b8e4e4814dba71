"""Types of columns beside those that a file states: those that people ask for, and whole numbers that came as real."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace

import duckdb

from ...errors import DataError, ReleaseError, SpecError
from ...model.types import ColumnType, Kind, type_named
from .bound import Bind, Bound
from .connection import connect, quoted

SHOWN_ROWS = 5
WHOLE = 2**53  # a real number below it stands for one whole number
_TYPE = re.compile(r"[A-Z][A-Z0-9_ ]*(\(\d{1,2}(,\s?\d{1,2})?\))?")


def typed(bound: Bound, types: Mapping[str, str]) -> Bound:
    """The source with some columns in other types; DataError where a cell has no value in the type asked for."""
    with connect() as con:
        source = bound.bind(con)
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
    return projected(bound, {name: f"CAST({quoted(name)} AS {kind})" for name, kind in wanted.items()})


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


def without_excess(bound: Bound) -> Bound:
    """The source with whole numbers and days as such, where a file knows real numbers and moments only."""
    with connect() as con:
        source = bound.bind(con)
        kinds = dict(zip(source.columns, map(str, source.types), strict=True))
        tests = {
            name: _whole(name) if kind == "DOUBLE" else _midnight(name)
            for name, kind in kinds.items()
            if kind == "DOUBLE" or kind.startswith("TIMESTAMP")
        }
        if not tests:
            return bound
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
    return projected(bound, cast) if cast else bound


def _whole(name: str) -> str:
    cell = quoted(name)
    return f"isfinite({cell}) AND abs({cell}) < {WHOLE} AND {cell} = trunc({cell})"


def _midnight(name: str) -> str:
    cell = quoted(name)
    return f"{cell} = date_trunc('day', {cell})"


def projected(bound: Bound, changed: Mapping[str, str]) -> Bound:
    """The source with some columns replaced by SQL expressions of its columns."""
    inner: Bind = bound.bind

    def bind(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        source = inner(con)
        return source.project(", ".join(f"{changed.get(n, quoted(n))} AS {quoted(n)}" for n in source.columns))

    return replace(bound, bind=bind, held=None)
