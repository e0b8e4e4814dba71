"""A release as CSV files or as one Excel workbook."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from ..errors import ReleaseError, SpecError
from .contents import Contents, flat
from .databases import ABOUT, RELEASE, SIDE, WEIGHTS, names_of

MISSING = "writing Excel needs the extra: pip install 'sfumato[files]'"
DIGITS = 15  # of a number in a sheet
LONGEST = 32_767  # characters of a cell; the library would cut the rest off
MOST_ROWS = 1_048_575  # of a sheet, beside its header


def _tables(contents: Contents) -> list[tuple[str, pa.Schema, Iterable[pa.RecordBatch]]]:
    """(name, columns, rows) of everything but the rows."""
    found = []
    if contents.side is not None:
        side = flat(contents.side)
        found.append((SIDE, side.schema, side.to_batches()))
    for ending, weights in zip(names_of(contents.weights), contents.weights, strict=True):
        found.append((WEIGHTS + ending, weights.table.schema, weights.table.to_batches()))
    return found


def to_csv(contents: Contents, path: Path, beside: str) -> list[Path]:
    """The rows in `path`; other tables in files beside it, whose names begin with `beside`."""
    written = [path]
    everything = [(RELEASE, contents.schema, contents.rows()), *_tables(contents)]
    for name, schema, batches in everything:
        place = path if name == RELEASE else path.with_name(f"{beside}-{_plain(name)}.csv")
        written += [] if name == RELEASE else [place]
        empty = flat(pa.RecordBatch.from_pylist([], schema=schema), texts=True)
        with pacsv.CSVWriter(place, empty.schema) as writer:
            for batch in batches:
                writer.write_batch(flat(batch, texts=True))
    return written


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_ " else "_" for c in name)


def to_excel(contents: Contents, path: Path) -> None:
    """One workbook: rows, what leaves by group, weights, and what to know about them."""
    try:
        import xlsxwriter
    except ImportError:
        raise SpecError(MISSING, field="target") from None
    if contents.release.manifest.rows > MOST_ROWS:
        raise ReleaseError(f"a sheet of Excel holds {MOST_ROWS:,} rows; export this release as CSV")
    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "tmpdir": str(path.parent),
    }
    book = xlsxwriter.Workbook(str(path), options)
    day, moment = book.add_format({"num_format": "yyyy-mm-dd"}), book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
    sheets = [(RELEASE, contents.schema, contents.rows()), *_tables(contents)]
    taken: set[str] = set()
    for name, schema, batches in sheets:
        sheet = book.add_worksheet(_sheet_name(name, taken))
        sheet.write_row(0, 0, schema.names)
        try:
            _fill(sheet, batches, day, moment)
        except ReleaseError:
            book.close()  # it holds files open
            raise
    about = book.add_worksheet(ABOUT)
    for row, pair in enumerate(contents.about.items()):
        about.write_row(row, 0, pair)
    try:
        book.close()
    except OSError as error:
        raise ReleaseError(f"the workbook cannot be written: {error.strerror}") from None


def _fill(sheet: Any, batches: Iterable[pa.RecordBatch], day: Any, moment: Any) -> None:
    """The rows below the first."""
    row = 1
    for batch in batches:
        for cells in zip(*[column.to_pylist() for column in flat(batch, texts=True).columns], strict=True):
            for place, cell in enumerate(cells):
                _put(sheet, row, place, cell, day, moment)
            row += 1


def _sheet_name(name: str, taken: set[str]) -> str:
    short = _plain(name)[:31]
    while short.lower() in taken or short.lower() == ABOUT:
        short = f"{short[:28]}-{len(taken)}"
    taken.add(short.lower())
    return short


def _put(sheet: Any, row: int, place: int, cell: Any, day: Any, moment: Any) -> None:
    if cell is None:
        return
    if isinstance(cell, datetime.datetime):
        sheet.write_datetime(row, place, cell.replace(tzinfo=None), moment)
    elif isinstance(cell, datetime.date):
        sheet.write_datetime(row, place, datetime.datetime.combine(cell, datetime.time()), day)
    elif isinstance(cell, bool):
        sheet.write_boolean(row, place, cell)
    elif isinstance(cell, int | float | decimal.Decimal):
        exact = isinstance(cell, float) or len(str(abs(cell)).replace(".", "").strip("0")) <= DIGITS
        if exact and math.isfinite(cell):
            sheet.write_number(row, place, float(cell))
        else:  # a sheet knows no other numbers
            sheet.write_string(row, place, str(cell))
    elif isinstance(cell, datetime.time):
        sheet.write_string(row, place, str(cell))
    elif len(cell) > LONGEST:
        raise ReleaseError(f"a cell of Excel holds {LONGEST:,} characters; export this release as CSV")
    else:
        sheet.write(row, place, cell)
