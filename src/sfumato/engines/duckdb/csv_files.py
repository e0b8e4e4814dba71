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
from .bound import Bound
from .connection import connect, plain_path, quoted
from .csv_cells import POINT, TEXT, CellForms
from .csv_types import VIEW, column_types
from .files import check_names, shown
from .packed_files import PLAIN, compression_of, in_plain, unpacked

DELIMITERS = (",", ";", "\t", "|")
HELD_BYTES = 2**25  # of files that stay in memory
UTF_8 = "utf-8-sig"


def csv_bound(files: Sequence[str], source: Source) -> Bound:
    """The files as one table; the types of its columns are those that all their cells have."""
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
    with connect() as con:
        try:
            text = con.read_csv(paths, columns=dict.fromkeys(names, TEXT), **options)  # type: ignore[arg-type] # it takes lists
            held = _held(text, plain)
            (text if held is None else con.from_arrow(held)).create_view(VIEW)
            types, notes = column_types(con, names, forms, set(source.types), held)
            read = _written_otherwise(types, forms, source.types)
            typed = None if held is None else con.table(VIEW).project(_cast(types, read)).to_arrow_table()
        except duckdb.Error as error:
            raise csv_error(error) from None
    if typed is not None:
        return Bound(bind=lambda con: con.from_arrow(typed), notes=tuple(notes), seen=True)
    native = {name: TEXT if name in read else kind for name, kind in types.items()}

    def bind(con: duckdb.DuckDBPyConnection, _: object = kept) -> duckdb.DuckDBPyRelation:
        table = con.read_csv(paths, columns=native, **options)  # type: ignore[arg-type] # it takes lists
        return table.project(_cast(dict.fromkeys(names, TEXT), read)) if read else table

    return Bound(bind=bind, notes=tuple(notes), seen=True)


def _written_otherwise(types: Mapping[str, str], forms: CellForms, said: Mapping[str, str]) -> dict[str, str]:
    """SQL of the columns whose cells the reading library would not read as they are meant."""
    read = {name: forms.value(name, kind) for name, kind in types.items() if forms.differs(kind)}
    for name, kind in said.items():
        written = forms.plain(name, kind.strip().upper())
        if written and name in types:
            read[name] = written
    return read


def _cast(types: Mapping[str, str], read: Mapping[str, str]) -> str:
    """SQL: every column in its type, of a table whose cells are texts; or as `read` says."""
    cells = {name: quoted(name) if kind == TEXT else f"CAST({quoted(name)} AS {kind})" for name, kind in types.items()}
    return ", ".join(f"{read.get(name, cell)} AS {quoted(name)}" for name, cell in cells.items())


def _held(text: duckdb.DuckDBPyRelation, files: Sequence[str]) -> pa.Table | None:
    """The rows of files that are small: reading them once is enough. None where they are not."""
    plain = all(compression_of(file) == PLAIN for file in files)
    small = plain and sum(Path(file).stat().st_size for file in files) <= HELD_BYTES
    return text.to_arrow_table() if small else None


def header(file: str, delimiter: str | None, encoding: str = UTF_8) -> tuple[list[str], str]:
    """Column names of the first line, and the delimiter (the most frequent candidate in it unless given)."""
    try:
        with unpacked(file) as handle, io.TextIOWrapper(handle, encoding=encoding, newline="") as text:
            outside = re.sub('"[^"]*"', "", text.readline())
            found = delimiter or max(DELIMITERS, key=outside.count)
        with unpacked(file) as handle, io.TextIOWrapper(handle, encoding=encoding, newline="") as text:
            names = next(csv.reader(_without_mark(text), delimiter=found), [])
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


def _without_mark(lines: Iterable[str]) -> Iterator[str]:
    """The lines without the mark of byte order, which encodings that state the order leave in the first."""
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix("\ufeff")


def not_text(what: str, encoding: str) -> str:
    """What to say about a file that is not in the encoding."""
    if encoding == UTF_8:
        return f"{what} is not UTF-8 text; say its encoding, for example --encoding latin-1, or utf-16"
    return f"{what} is not text in the encoding {encoding}"


def csv_error(error: Exception) -> DataError:
    """One line without any cell of the file."""
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    where = f" (line {line.group(1)})" if line else ""
    if "Invalid unicode" in text:
        return DataError(f"the CSV file is not UTF-8 text{where}; say its encoding, for example --encoding latin-1")
    if "Expected Number of Columns" in text:
        return DataError(f"the CSV file is ragged: a line has more or fewer fields than the header{where}")
    if "unterminated quote" in text:
        return DataError(f"the CSV file has an unbalanced quote{where}")
    if "Maximum line size" in text:
        return DataError(f"the CSV file has a line of more than 2 MB{where}; leave its long text out, or write Parquet")
    if "GZIP" in text or "gzip" in text:
        return DataError("the compressed file is damaged or cut off")
    return DataError(f"the file cannot be read as CSV{where}")
