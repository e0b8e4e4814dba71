"""CSV files in their dialects: delimiter, encoding, compression, texts that mean "missing", and types from all cells.

Messages of the reading libraries may quote cells of the table, so none of them is passed on.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ...errors import DataError
from ..source import Source
from .bound import Bound, HeldTable
from .connection import plain_path, quoted
from .csv_cells import POINT, TEXT, CellForms
from .csv_errors import UTF_8, csv_error, not_text
from .csv_pieces import NotPlainError, plain_pieces
from .csv_rows import engine_pieces, in_types, read_once
from .csv_types import CELL, FIRST, VIEW, column_types
from .files import check_names, shown
from .held_rows import SHARE
from .packed_files import PLAIN, check_unpacked, compression_of, in_plain, unpacked
from .session import Allowance, Session, engine_error, out_of_memory

DELIMITERS = (",", ";", "\t", "|")
HEADER_AGAIN = (
    "row {} after the header holds the names of the columns again and counts as a row: files that were put together "
    "have one header each; remove it if it is one"
)
LONGEST = 2_000_000  # characters of the header, as many as bytes of any other line


def csv_bound(files: Sequence[str], source: Source, allowed: Allowance) -> Bound:
    """The files as one table; the types of its columns are those that all their cells have.

    They are read once where an eighth of the memory that is allowed holds their rows.
    """
    encoding = source.encoding or UTF_8
    encoding = UTF_8 if codecs.lookup(encoding).name == "utf-8" else encoding
    names, found = header(files[0], source.delimiter, encoding)
    for file in files[1:]:
        if header(file, found, encoding)[0] != names:
            raise DataError(f"{shown(file)} has other columns than {shown(files[0])}")
    plain, kept = in_plain(files, encoding)
    options: dict[str, Any] = {
        "delimiter": found,
        "header": True,
        "quotechar": '"',
        "escapechar": '"',
        "strict_mode": True,
        "null_padding": False,
        "auto_detect": False,
        "hive_partitioning": False,
        "compression": compression_of(plain[0]),
        "na_values": ["", *source.null],
    }
    paths = [plain_path(Path(file)) for file in plain]
    forms = CellForms(point=source.decimal or POINT, dates=source.dates)
    with Session(allowed, None) as session:
        con = session.con
        try:
            text = con.read_csv(paths, columns=dict.fromkeys(names, TEXT), **options)  # type: ignore[arg-type] # it takes lists
            reading = con, names, forms, SHARE * session.room(), allowed
            try:
                if options["compression"] != PLAIN:
                    raise NotPlainError
                read = read_once(plain_pieces(plain, names, found, source.null), *reading)
            except NotPlainError:
                read = read_once(engine_pieces(text), *reading)
            (text if read.held is None else con.from_arrow(read.held)).create_view(VIEW)
            con.register(FIRST, read.head)
            types, notes = column_types(con, read.fits, forms, source.types)
            notes += [HEADER_AGAIN.format(read.header)] if read.header else []
            rows = None if read.held is None else in_types(con, read.held, _values(types, forms, source.types))
            room = session.room()
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise (engine_error if out_of_memory(error) else csv_error)(error) from None
    if rows is not None:
        held = HeldTable(rows=rows, kinds=types, room=room)
        return Bound(bind=lambda con: con.from_arrow(rows), notes=tuple(notes), seen=True, held=held)
    otherwise = {n: value for n, kind in types.items() if (value := _otherwise(n, kind, source.types.get(n), forms))}
    native = {name: TEXT if name in otherwise else kind for name, kind in types.items()}

    def bind(con: duckdb.DuckDBPyConnection, _: object = kept) -> duckdb.DuckDBPyRelation:
        table = con.read_csv(paths, columns=native, **options)  # type: ignore[arg-type] # it takes lists
        cells = (f"{otherwise.get(name, quoted(name))} AS {quoted(name)}" for name in names)
        return table.project(", ".join(cells)) if otherwise else table

    return Bound(bind=bind, notes=tuple(notes), seen=True, large=True)


def _otherwise(name: str, kind: str, said: str | None, forms: CellForms) -> str | None:
    """SQL of a cell that the reading library would not read as it is meant; None: it would."""
    if said is not None:
        return forms.plain(name, said.strip().upper())
    return forms.value(name, kind) if forms.differs(kind) else None


def _values(types: Mapping[str, str], forms: CellForms, said: Mapping[str, str]) -> dict[str, str]:
    """SQL of CELL in the type of each column, where that is not the text itself."""
    found = {}
    for name, kind in types.items():
        plain = None if kind == TEXT else f"CAST({quoted(CELL)} AS {kind})"
        value = _otherwise(CELL, kind, said.get(name), forms) or plain
        if value is not None:
            # -0.0 is 0.0, as equal numbers must be equal values
            found[name] = f"CASE WHEN {value} = 0 THEN 0 ELSE {value} END" if kind == "DOUBLE" else value
    return found


def header(file: str, delimiter: str | None, encoding: str = UTF_8) -> tuple[list[str], str]:
    """Column names of the first line, and the delimiter (the most frequent candidate in it unless given)."""
    check_unpacked(file)
    try:
        with unpacked(file) as handle, io.TextIOWrapper(handle, encoding=encoding, newline="") as text:
            outside = re.sub('"[^"]*"', "", next(_first_lines(text, file), ""))
            found = delimiter or max(DELIMITERS, key=outside.count)
        with unpacked(file) as handle, io.TextIOWrapper(handle, encoding=encoding, newline="") as text:
            names = next(csv.reader(_without_mark(_first_lines(text, file)), delimiter=found), [])
    except UnicodeError:
        raise DataError(not_text(shown(file), encoding)) from None
    except csv.Error:
        raise DataError(f"{shown(file)} cannot be read as CSV: its first line is no header") from None
    if names[:1] and names[0].lower().startswith("sep="):
        raise DataError(f"the first line of {shown(file)} is no header but names the delimiter; remove that line")
    if not names or any(not name.strip() for name in names):
        raise DataError(f"{shown(file)} needs a header line that names every column")
    check_names(names, shown(file))
    return names, found


def _first_lines(text: io.TextIOBase, file: str) -> Iterator[str]:
    """The lines, up to LONGEST characters in all: no header is longer, whatever the file is."""
    left = LONGEST
    while line := text.readline(left + 1):
        left -= len(line)
        if left < 0:
            raise DataError(f"{shown(file)} needs a header line, which may have 2 MB at most")
        yield line


def _without_mark(lines: Iterable[str]) -> Iterator[str]:
    """The lines without the mark of byte order, which encodings that state the order leave in the first."""
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix("\ufeff")
