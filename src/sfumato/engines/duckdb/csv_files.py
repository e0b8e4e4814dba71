"""CSV files in their dialects: delimiter, encoding, compression, texts that mean "missing", and types from all cells.

Messages of the reading libraries may quote cells of the table, so none of them is passed on.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb

from ...errors import DataError
from ..source import Source
from .bound import Bound
from .connection import connect, plain_path, quoted
from .csv_cells import PATTERNS, POINT, TEXT, CellForms, foreign_note, foreign_tests
from .files import check_names, shown
from .packed_files import compression_of, in_plain, unpacked

DELIMITERS = (",", ";", "\t", "|")
FEW, FEW_OF = 20, 10  # so many cells, and at most one of so many, decide a type alone: worth a note
SHOWN_ROWS = 5
AT_ONCE = 64  # columns that one statement looks at: its time grows with their square, reading the file again does not
UTF_8 = "utf-8-sig"

SAMPLE = 10_000  # rows that tell what a column of text looks like
_SAID = {
    "BOOLEAN": "true or false",
    "BIGINT": "whole numbers",
    "DOUBLE": "numbers",
    "DATE": "dates",
    "TIMESTAMP": "dates with a time",
}


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
    with connect() as con:
        text = con.read_csv(paths, columns=dict.fromkeys(names, "VARCHAR"), **options)  # type: ignore[arg-type] # it takes lists
        text.create_view("text")
        forms = CellForms(point=source.decimal or POINT, dates=source.dates)
        types, notes = _types(con, names, forms, said=set(source.types))
    read = {name: forms.value(name, kind) for name, kind in types.items() if forms.differs(kind)}
    for name, kind in source.types.items():
        written = forms.plain(name, kind.strip().upper())
        if written and name in types:
            read[name] = written
    native = {name: TEXT if name in read else kind for name, kind in types.items()}

    def bind(con: duckdb.DuckDBPyConnection, _: object = kept) -> duckdb.DuckDBPyRelation:
        table = con.read_csv(paths, columns=native, **options)  # type: ignore[arg-type] # it takes lists
        if not read:
            return table
        return table.project(", ".join(f"{read.get(name, quoted(name))} AS {quoted(name)}" for name in names))

    return Bound(bind=bind, notes=tuple(notes), seen=True)


def _types(
    con: duckdb.DuckDBPyConnection, names: list[str], forms: CellForms, said: set[str]
) -> tuple[dict[str, str], list[str]]:
    """(the type of every column from all its cells, notes on types that a few cells decided); `said` stay text."""
    try:
        parts = (names[first : first + AT_ONCE] for first in range(0, len(names), AT_ONCE))
        counts = [count for some in parts for count in _fits(con, some, forms)]
        types, notes = {}, []
        for name, (filled, *fits) in zip(names, counts, strict=True):
            kinds = [kind for kind, fit in zip(PATTERNS, fits, strict=True) if filled and fit == filled]
            types[name] = TEXT if name in said or not kinds else kinds[0]
            almost = _almost(filled, dict(zip(PATTERNS, fits, strict=True)), types[name])
            if almost and name not in said:
                misfits = filled - fits[list(PATTERNS).index(almost)]
                notes.append(_note(con, name, forms.value(name, almost), almost, types[name], misfits))
        notes += _foreign(con, [name for name, kind in types.items() if kind == TEXT and name not in said])
    except duckdb.Error as error:
        raise csv_error(error) from None
    return types, notes


def _foreign(con: duckdb.DuckDBPyConnection, names: Sequence[str]) -> Iterator[str]:
    """Notes on columns of text whose first cells are numbers or days as another country writes them."""
    for first in range(0, len(names), AT_ONCE):
        some = names[first : first + AT_ONCE]
        tests = [test for name in some for test in foreign_tests(name)]
        counts = con.execute(f"SELECT {', '.join(tests)} FROM (SELECT * FROM text LIMIT {SAMPLE})").fetchall()[0]
        width = len(counts) // len(some)
        found = (foreign_note(name, counts[i * width : (i + 1) * width]) for i, name in enumerate(some))
        yield from (note for note in found if note)


def _fits(con: duckdb.DuckDBPyConnection, names: Sequence[str], forms: CellForms) -> Iterator[Sequence[int]]:
    """For every column how many cells are filled, and how many of them fit each pattern and are of its type."""
    tests = ["count(*)"]
    for name in names:
        tests += [f"count({quoted(name)})"]
        # CASE, not FILTER: the engine needs quadratic time for many filtered aggregates
        tests += [f"count({forms.value(name, kind)})" for kind in PATTERNS]
    counts = con.execute(f"SELECT {', '.join(tests)} FROM text").fetchall()[0]
    if not counts[0]:
        raise DataError("the CSV file has a header and no rows")
    width = 1 + len(PATTERNS)
    yield from (counts[1 + i * width : 1 + (i + 1) * width] for i in range(len(names)))


def _almost(filled: int, fits: dict[str, int], chosen: str) -> str | None:
    """The type that all but a few cells have, where it is not the one that was chosen."""
    narrower = {TEXT: tuple(PATTERNS), "DOUBLE": ("BIGINT",)}.get(chosen, ())
    near = [kind for kind in narrower if 0 < filled - fits[kind] <= min(FEW, filled // FEW_OF)]
    return max(near, key=lambda kind: fits[kind], default=None)


def _note(con: duckdb.DuckDBPyConnection, name: str, value: str, almost: str, chosen: str, misfits: int) -> str:
    """Which rows decided the type; never what they hold. `value` is SQL: the cell as the type that almost all have."""
    numbered = f"SELECT row_number() OVER () AS row, {quoted(name)} IS NOT NULL AND ({value}) IS NULL AS odd FROM text"
    found = con.execute(f"SELECT row FROM ({numbered}) WHERE odd LIMIT {SHOWN_ROWS}").fetchall()
    rows = [str(row) for (row,) in found]
    more = ", ..." if misfits > len(rows) else ""
    cells, where = ("1 cell", "row") if misfits == 1 else (f"{misfits} cells", "rows")
    read = "text" if chosen == TEXT else "numbers with fractions"
    return (
        f'"{name}" is read as {read} because of {cells} ({where} {", ".join(rows)}{more} after the header); all others '
        f"are {_SAID[almost]}: mend the file, or say --null or --types"
    )


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
