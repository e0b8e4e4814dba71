"""JSON lines: one object a line, types from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb

from ...errors import DataError
from ..source import Source
from .bound import Bound
from .connection import connect, plain_path
from .files import check_names
from .packed_files import compression_of, in_plain

NEWLINES = "newline_delimited"
PLAIN_KINDS = ("BOOLEAN", "BIGINT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "TIME", "UUID", "HUGEINT", "UBIGINT")


def json_bound(files: Sequence[str], source: Source) -> Bound:
    """The files as one table. A column that holds several kinds of values, or objects, is refused."""
    plain, kept = in_plain(files, "utf-8")
    paths = [plain_path(Path(file)) for file in plain]
    options: dict[str, Any] = {"compression": compression_of(plain[0]), "format": NEWLINES, "hive_partitioning": False}
    if not _lines(paths, options):
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
        elif kind not in PLAIN_KINDS:
            raise DataError(f'column "{name}" holds lists or objects; leave it out, or make it plain', column=name)

    def bind(con: duckdb.DuckDBPyConnection, _: object = kept) -> duckdb.DuckDBPyRelation:
        return con.read_json(paths, columns=types, **options)  # type: ignore[arg-type] # it takes lists

    return Bound(bind=bind)


def _lines(paths: list[str], options: dict[str, Any]) -> bool:
    """Whether the first character that is no space begins an object, not a list of them."""
    from .packed_files import unpacked

    if options["compression"] != "none":
        return True
    with unpacked(paths[0]) as handle:
        return not handle.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
