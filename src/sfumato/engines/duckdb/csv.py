"""CSV files in their dialects: delimiter, encoding, compression, texts that mean "missing", and types from all cells.

The reader's own sniffer is not used: it skips lines that it does not understand. Messages of the reading library may
quote cells of the table, so none of them is passed on.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ...errors import DataError
from ..files import check_names, check_unpacked, compression_of, in_plain, shown, unpacked
from ..source import Source, date_format, date_pattern
from .connection import Allowance, Session, SourceView, csv_error, engine_error, out_of_memory, plain_path, quoted

UTF_8 = "utf-8-sig"
DELIMITERS = (",", ";", "\t", "|")
LONGEST = 2_000_000  # characters of the header, as many as bytes of any other line
# What a column of text becomes: the first type whose pattern every non-empty cell fits. Whole numbers with a leading
# zero (01234) are codes, hence text; so are numbers and moments with more digits than the type holds, and
# numbers that would become infinite or 0.
PATTERNS = {
    "BOOLEAN": "^(true|false|TRUE|FALSE|True|False)$",
    "BIGINT": "^[+-]?(0|[1-9][0-9]{0,17})$",
    "DOUBLE": r"^[+-]?([0-9]|[1-9][0-9]{1,14})?(\.[0-9]*)?([eE][+-]?0*([0-9]{1,2}|1[0-9]{2}|2[0-8][0-9]))?$",
    "DATE": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "TIMESTAMP": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6}0*)?)?$",
}
TEXT = "VARCHAR"
POINT = "."
FOREIGN = {  # what cells of text may be, how they look, and the option that reads them
    "numbers with a decimal comma": ("^[+-]?([0-9]|[1-9][0-9]{1,14})(,[0-9]+)?$", "--decimal ','"),
    "days, dots between the parts": (r"^[0-9]{1,2}[.][0-9]{1,2}[.][0-9]{4}$", "--dates DD.MM.YYYY"),
    "days, strokes between the parts": ("^[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}$", "--dates DD/MM/YYYY or MM/DD/YYYY"),
}
SIGN = "[,./]"  # stands in one cell at least
SAID = {
    "BOOLEAN": "true or false",
    "BIGINT": "whole numbers",
    "DOUBLE": "numbers",
    "DATE": "dates",
    "TIMESTAMP": "dates with a time",
}
TEXTS, FIRST = "texts", "first_rows"  # the file, all its cells as they are written; its first SAMPLE rows
SAMPLE = 10_000
CELL = "cell"
FEW, FEW_OF = 20, 10  # so many cells, and at most one of so many, decide a type alone: worth a note
SHOWN_ROWS = 5


def csv_view(files: Sequence[str], source: Source, allowed: Allowance) -> SourceView:
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
    with Session.open(allowed) as session:
        try:
            texts = session.con.read_csv(paths, columns=dict.fromkeys(names, TEXT), **options)  # type: ignore[arg-type] # it takes lists
            texts.create_view(TEXTS)
            types, notes = _column_types(session.con, names, forms, source.types)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise (engine_error if out_of_memory(error) else csv_error)(error) from None
    otherwise = {n: value for n, kind in types.items() if (value := _otherwise(n, kind, source.types.get(n), forms))}
    native = {name: TEXT if name in otherwise else kind for name, kind in types.items()}

    def bind(con: duckdb.DuckDBPyConnection, _: object = kept) -> duckdb.DuckDBPyRelation:
        table = con.read_csv(paths, columns=native, **options)  # type: ignore[arg-type] # it takes lists
        cells = (f"{otherwise.get(name, quoted(name))} AS {quoted(name)}" for name in names)
        return table.project(", ".join(cells)) if otherwise else table

    return SourceView(bind=bind, notes=tuple(notes), utf8=True)


# --- the header


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
        raise DataError(_not_text(shown(file), encoding)) from None
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


def _not_text(what: str, encoding: str) -> str:
    """What to say about a file that is not in the encoding."""
    if encoding == UTF_8:
        return f"{what} is not UTF-8 text; say its encoding, for example --encoding latin-1, or utf-16"
    return f"{what} is not text in the encoding {encoding}"


# --- what a cell may be, as the country that wrote the file writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class CellForms:
    """How the cells of a file are written: the sign before a fraction, and days where they are not as 2025-12-31."""

    point: str = POINT
    dates: str | None = None

    def value(self, name: str, kind: str) -> str:
        """SQL: the cell of a column as a value of the kind; NULL where it is none."""
        cell = quoted(name)
        return f"CASE WHEN regexp_matches({cell}, '{self._pattern(kind)}') THEN {self._read(cell, kind)} END"

    def plain(self, name: str, kind: str) -> str | None:
        """SQL: the text of a cell as everybody writes the kind of type that is asked for; None: as it is."""
        cell = quoted(name)
        number = kind in {"DOUBLE", "FLOAT", "REAL"} or kind.startswith(("DECIMAL", "NUMERIC"))
        if number and self.point != POINT:
            fits = f"regexp_matches({cell}, '{self._pattern('DOUBLE')}')"
            return f"CASE WHEN {fits} THEN {self._number(cell)} ELSE {cell} END"
        if kind == "DATE" and self.dates:
            return f"COALESCE(CAST({self.value(name, kind)} AS VARCHAR), {cell})"
        return None

    def differs(self, kind: str) -> bool:
        """Whether the reading library would read values of this kind otherwise."""
        return (kind == "DOUBLE" and self.point != POINT) or (kind == "DATE" and self.dates is not None)

    def _pattern(self, kind: str) -> str:
        if kind == "DATE" and self.dates:
            return date_pattern(self.dates)
        return PATTERNS[kind].replace(r"\.", f"[{self.point}]") if kind == "DOUBLE" else PATTERNS[kind]

    def _read(self, cell: str, kind: str) -> str:
        if kind == "DATE" and self.dates:
            return f"CAST(try_strptime({cell}, '{date_format(self.dates)}') AS DATE)"
        return f"TRY_CAST({self._number(cell) if kind == 'DOUBLE' else cell} AS {kind})"

    def _number(self, cell: str) -> str:
        return cell if self.point == POINT else f"replace({cell}, '{self.point}', '{POINT}')"


def _otherwise(name: str, kind: str, said: str | None, forms: CellForms) -> str | None:
    """SQL of a cell that the reading library would not read as it is meant; None: it would."""
    if said is not None:
        return forms.plain(name, said.strip().upper())
    return forms.value(name, kind) if forms.differs(kind) else None


# --- types of columns from all their cells, and notes on types that a few cells decided


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """How many cells of a column are filled, and how many of them are of each kind that was asked for."""

    filled: int
    kinds: Mapping[str, int]

    @property
    def kind(self) -> str:
        """The first kind that all filled cells are of; text where there is none."""
        return next((k for k in PATTERNS if self.filled and self.kinds.get(k, 0) == self.filled), TEXT)

    def may_be(self, kind: str) -> bool:
        """Whether all but FEW cells are of the kind: no other is chosen or worth a note, however many rows follow."""
        return self.filled - self.kinds.get(kind, 0) <= FEW

    @property
    def almost(self) -> str | None:
        """The kind that all but a few cells are of, where it is not the one that is chosen."""
        narrower = {TEXT: tuple(PATTERNS), "DOUBLE": ("BIGINT",)}.get(self.kind, ())
        most = min(FEW, self.filled // FEW_OF)
        near = [k for k in narrower if 0 < self.filled - self.kinds.get(k, 0) <= most]
        return max(near, key=lambda k: self.kinds.get(k, 0), default=None)


def _column_types(
    con: duckdb.DuckDBPyConnection, names: Sequence[str], forms: CellForms, said: Container[str]
) -> tuple[dict[str, str], list[str]]:
    """(the type of every column of TEXTS, notes); `said` stay text."""
    con.execute(f"CREATE TEMP TABLE {FIRST} AS SELECT * FROM {TEXTS} LIMIT {SAMPLE}")
    again = " AND ".join(f"{quoted(name)} = {_literal(name)}" for name in names)
    rows, headers = con.execute(f"SELECT count(*), count(CASE WHEN {again} THEN 1 END) FROM {TEXTS}").fetchall()[0]
    if not rows:
        raise DataError("the CSV file has a header and no rows")
    found = _fits(con, FIRST, names, list(PATTERNS), forms)
    kinds = {name: [kind for kind in PATTERNS if found[name].may_be(kind)] for name in names}
    undecided = [name for name in names if kinds[name]]
    if undecided:
        asked = [kind for kind in PATTERNS if any(kind in of for of in kinds.values())]
        found |= _fits(con, TEXTS, undecided, asked, forms)
    types, notes = {}, []
    for name, fits in found.items():
        types[name] = TEXT if name in said else fits.kind
        if fits.almost and name not in said:
            notes.append(_note(con, name, forms.value(name, fits.almost), fits))
    notes += _foreign(con, [name for name, kind in types.items() if kind == TEXT and name not in said])
    if headers and len(names) > 1:
        (row,) = _rows_with(con, again, 1)
        notes.append(
            f"row {row} after the header holds the names of the columns again and counts as a row: files that were put "
            "together have one header each; remove it if it is one"
        )
    return types, notes


def _fits(
    con: duckdb.DuckDBPyConnection, table: str, names: Sequence[str], kinds: Sequence[str], forms: CellForms
) -> dict[str, Fits]:
    """What the cells of some columns are."""
    found = _counted(con, table, names, [f"({forms.value(CELL, kind)}) IS NOT NULL" for kind in kinds])
    return {n: Fits(filled=filled, kinds=dict(zip(kinds, fit, strict=True))) for n, (filled, *fit) in found.items()}


def _foreign(con: duckdb.DuckDBPyConnection, names: Sequence[str]) -> Iterator[str]:
    """Notes on columns of text whose first cells are numbers or days as another country writes them."""
    patterns = [SIGN, *(pattern for pattern, _ in FOREIGN.values())]
    counts = _counted(con, FIRST, names, [f"regexp_matches({CELL}, '{pattern}')" for pattern in patterns])
    for name, (filled, signs, *fits) in counts.items():
        written = zip(FOREIGN.items(), fits, strict=True)
        found = next(((what, way) for (what, (_, way)), fit in written if signs and filled == fit), None)
        if found:
            yield f'"{name}" is read as text; its cells look like {found[0]}: if they are, say {found[1]}'


def _counted(
    con: duckdb.DuckDBPyConnection, table: str, names: Sequence[str], tests: Sequence[str]
) -> dict[str, Sequence[int]]:
    """Of each column its filled cells, and those that meet each test (SQL of CELL); equal cells are looked at once."""
    found: dict[str, Sequence[int]] = {name: [0] * (1 + len(tests)) for name in names}
    if names:
        listed = ", ".join(map(quoted, names))
        cells = f"UNPIVOT (SELECT {listed} FROM {table}) ON {listed} INTO NAME name VALUE {CELL}"
        counts = "".join(f", coalesce(sum(n) FILTER ({test}), 0)" for test in tests)
        rows = con.execute(
            f"SELECT name, sum(n){counts} FROM (SELECT name, {CELL}, count(*) AS n FROM ({cells}) GROUP BY ALL) "
            "GROUP BY name"
        )
        found |= {name: [int(count) for count in some] for name, *some in rows.fetchall()}
    return found


def _note(con: duckdb.DuckDBPyConnection, name: str, value: str, fits: Fits) -> str:
    """Which rows decided the type; never what they hold. `value` is SQL: the cell as the type that almost all have."""
    assert fits.almost is not None
    misfits = fits.filled - fits.kinds[fits.almost]
    rows = _rows_with(con, f"{quoted(name)} IS NOT NULL AND ({value}) IS NULL", SHOWN_ROWS)
    more = ", ..." if misfits > len(rows) else ""
    cells, where = ("1 cell", "row") if misfits == 1 else (f"{misfits} cells", "rows")
    read = "text" if fits.kind == TEXT else "numbers with fractions"
    return (
        f'"{name}" is read as {read} because of {cells} ({where} {", ".join(map(str, rows))}{more} after the header); '
        f"all others are {SAID[fits.almost]}: mend the file, or say --null or --types"
    )


def _rows_with(con: duckdb.DuckDBPyConnection, condition: str, most: int) -> list[int]:
    """The numbers, from 1, of the first rows of TEXTS that meet a condition."""
    numbered = f"SELECT row_number() OVER () AS row, {condition} AS meets FROM {TEXTS}"
    return [row for (row,) in con.execute(f"SELECT row FROM ({numbered}) WHERE meets LIMIT {most}").fetchall()]


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
