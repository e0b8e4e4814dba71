"""A release as CSV files or as one Excel workbook."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Sequence
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
LONGEST_NAME = 31  # characters of a sheet's name
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


def csv_endings(contents: Contents) -> list[str]:
    """What follows the stem of the rows' file in the names of the files beside it."""
    names, taken = [name for name, *_ in _tables(contents)], set[str]()
    return [f"-{_free(_plain(name), taken)}.csv" for name in names]


def to_csv(contents: Contents, path: Path, beside: Sequence[Path]) -> None:
    """The rows in `path`; other tables in files beside it, as many as `csv_endings`."""
    everything = [(RELEASE, contents.schema, contents.rows()), *_tables(contents)]
    for place, (_, schema, batches) in zip((path, *beside), everything, strict=True):
        empty = flat(pa.RecordBatch.from_pylist([], schema=schema), texts=True)
        with pacsv.CSVWriter(place, empty.schema) as writer:
            for batch in batches:
                writer.write_batch(flat(batch, texts=True))


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
    taken = {ABOUT}
    for name, schema, batches in sheets:
        sheet = book.add_worksheet(_free(_plain(name)[:LONGEST_NAME], taken))
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


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken yet, in any case; it is now."""
    others = (f"{name[: LONGEST_NAME - 4]}-{number}" for number in range(2, len(taken) + 3))
    found = next(free for free in (name, *others) if free.lower() not in taken)
    taken.add(found.lower())
    return found


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
