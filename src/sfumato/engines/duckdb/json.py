"""JSON lines: one object a line, types from all of them."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from ...errors import DataError
from ..files import check_names, compression_of, in_plain, unpacked
from ..source import MORE_DIGITS, Source
from .connection import connect, plain_path, quoted
from .session import SourceView

MARK = codecs.BOM_UTF8
NEWLINES = "newline_delimited"
KINDS = ("BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "TIME", "UUID", "HUGEINT", "UBIGINT")
PLAIN = {*KINDS, "TIMESTAMP WITH TIME ZONE"}


def json_view(files: Sequence[str], source: Source) -> SourceView:
    """The files as one table. A column that holds several kinds of values, or objects, is refused."""
    plain, kept = in_plain(files, "utf-8-sig", copied=any(_begins(file).startswith(MARK) for file in files))
    paths = [plain_path(Path(file)) for file in plain]
    options: dict[str, Any] = {"compression": compression_of(plain[0]), "format": NEWLINES, "hive_partitioning": False}
    if not _lines(paths):
        options["format"] = "array"
    try:
        with connect() as con:
            found = con.read_json(paths, sample_size=-1, union_by_name=True, **options)  # type: ignore[arg-type] # it takes lists
            types = {name: str(kind) for name, kind in zip(found.columns, found.types, strict=True)}
            rows = found.aggregate("count(*)").fetchall()[0][0]
    except duckdb.Error:
        raise DataError("the file cannot be read as JSON lines: one object a line, all with the same names") from None
    check_names(list(types))
    if not rows or list(types) == ["json"]:
        raise DataError("the JSON file holds no rows, or its rows are not objects with names")
    for name, kind in types.items():
        if kind == "JSON" and name in source.types:
            types[name] = "VARCHAR"
        elif kind == "JSON":
            raise DataError(
                f'column "{name}" holds values of several kinds, or none; say which it shall be with --types',
                column=name,
            )
        elif kind not in PLAIN:
            raise DataError(f'column "{name}" holds lists or objects; leave it out, or make it plain', column=name)

    wide = _wide(paths, types, options)
    types |= dict.fromkeys(wide, "VARCHAR")

    def bind(con: duckdb.DuckDBPyConnection, _: object = kept) -> duckdb.DuckDBPyRelation:
        return con.read_json(paths, columns=types, **options)  # type: ignore[arg-type] # it takes lists

    notes = tuple(f'"{name}" {MORE_DIGITS}' for name in wide if name not in source.types)
    return SourceView(bind=bind, notes=notes, utf8=True)


def _wide(paths: list[str], types: Mapping[str, str], options: Mapping[str, Any]) -> list[str]:
    """Columns of real numbers that hold whole ones of more digits than a real number has."""
    real = [name for name, kind in types.items() if kind == "DOUBLE"]
    if not real:
        return []
    tests = [f"count(CASE WHEN regexp_matches({quoted(name)}, '^-?[0-9]{{16,}}$') THEN 1 END)" for name in real]
    try:
        with connect() as con:
            texts = con.read_json(paths, columns=dict.fromkeys(real, "VARCHAR"), **options)  # type: ignore[arg-type] # it takes lists
            counts = texts.aggregate(", ".join(tests)).fetchall()[0]
    except duckdb.Error:
        raise DataError("the file cannot be read as JSON lines: one object a line, all with the same names") from None
    return [name for name, count in zip(real, counts, strict=True) if count]


def _begins(file: str) -> bytes:
    with unpacked(file) as handle:
        return handle.read(64)


def _lines(paths: list[str]) -> bool:
    """Whether the first character that is no space begins an object, not a list of them."""
    return not _begins(paths[0]).lstrip().startswith(b"[")
