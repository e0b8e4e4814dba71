"""Files that an optional library reads: workbooks by fastexcel, files of SPSS, Stata and SAS by pyreadstat.

A sheet is held in memory. The statistics packages know real numbers, texts and dates, of which rows come in chunks, and
labels, which become a codebook; a text without a character is what they write for a missing one.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import DataError, SpecError
from ..model.codebook import Labels

NO_FASTEXCEL = "reading Excel needs the extra: pip install 'sfumato[files]'"
NO_PYREADSTAT = "reading SPSS, Stata and SAS needs the extra: pip install 'sfumato[files]'"
CHUNK = 50_000  # rows
READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


def sheet(file: str, name: str | None) -> pa.Table:
    """One sheet as a table; its first row names the columns. Without a name, the only sheet."""
    try:
        import fastexcel
    except ImportError:
        raise SpecError(NO_FASTEXCEL, field="source") from None
    said = f'"{Path(file).name}"'
    try:
        book = fastexcel.read_excel(file)
        sheets = list(book.sheet_names)
    except Exception:  # of a library that may quote cells, in errors of its own
        raise DataError(f"{said} is damaged or not a readable workbook") from None
    if name is None and len(sheets) > 1:
        raise SpecError(f"{said} has {len(sheets)} sheets: {', '.join(sheets)}; name one with --table", field="table")
    if name is not None and name not in sheets:
        raise SpecError(f'{said} has no sheet "{name}"; its sheets: {", ".join(sheets)}', field="table")
    wanted = name if name is not None else sheets[0]
    try:
        header = pa.record_batch(
            book.load_sheet(wanted, header_row=None, n_rows=1, schema_sample_rows=None, dtypes="string")
        )
        rows = pa.record_batch(book.load_sheet(wanted, schema_sample_rows=None))
    except Exception:  # as above
        raise DataError(f"the sheet of {said} cannot be read as a table with a first row of names") from None
    names = [column[0].as_py() if len(column) else None for column in header.columns]
    if not names or any(n is None or not n.strip() for n in names) or len(names) != rows.num_columns:
        raise DataError(f"the first row of {said} must name every column")
    if not rows.num_rows:
        raise DataError(f"{said} has a first row of names and no others")
    fields = [pa.field(n, f.type) for n, f in zip(names, rows.schema, strict=True)]
    return pa.Table.from_batches([pa.RecordBatch.from_arrays(rows.columns, schema=pa.schema(fields))])


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsFile:
    """The rows, to be read once, and what the file says about its columns."""

    reader: pa.RecordBatchReader
    labels: Mapping[str, Labels]


def statistics_file(file: str, encoding: str | None) -> StatisticsFile:
    """The table in the file; rows are read when asked for."""
    try:
        import pyreadstat
    except ImportError:
        raise SpecError(NO_PYREADSTAT, field="source") from None
    read = vars(pyreadstat)[READERS[Path(file).suffix.lower()]]
    options: dict[str, Any] = {"output_format": "dict"}
    if encoding is not None and Path(file).suffix.lower() != ".por":
        options["encoding"] = encoding

    def rows(offset: int, limit: int, **some: Any) -> tuple[dict[str, list[Any]], Any]:
        try:
            found: tuple[dict[str, list[Any]], Any] = read(file, row_offset=offset, row_limit=limit, **options, **some)
        except Exception:  # of a library that may quote cells, in errors of its own
            raise DataError(f'"{Path(file).name}" is damaged or not a readable file of its kind') from None
        return found

    first, meta = rows(0, CHUNK)
    if not first or not any(len(column) for column in first.values()):
        raise DataError(f'"{Path(file).name}" holds no rows')

    def later(name: str) -> Any:
        """The first cell of a column that is missing in all of the first rows."""
        offset, cells = 0, first[name]
        while len(cells) == CHUNK and all(cell is None for cell in cells):
            offset += CHUNK
            cells = rows(offset, CHUNK, usecols=[name])[0].get(name, [])
        return next((cell for cell in cells if cell is not None), None)

    text = {name for name, kind in meta.readstat_variable_types.items() if kind == "string"}
    kinds = {name: pa.string() if name in text else _kind(later(name)) for name in first}
    schema = pa.schema([pa.field(name, kind) for name, kind in kinds.items()])

    def batches() -> Iterator[pa.RecordBatch]:
        chunk, offset = first, 0
        while True:
            size = max((len(column) for column in chunk.values()), default=0)
            if size:
                yield pa.RecordBatch.from_arrays([_column(chunk[f.name], f) for f in schema], schema=schema)
            if size < CHUNK:
                return
            offset += size
            chunk, _ = rows(offset, CHUNK)

    return StatisticsFile(reader=pa.RecordBatchReader.from_batches(schema, batches()), labels=_labels(meta))


def _kind(some: Any) -> pa.DataType:
    """Arrow's type of a column of numbers, dates or times, from the first that there is."""
    if isinstance(some, datetime.datetime):
        return pa.timestamp("us")
    if isinstance(some, datetime.date):
        return pa.date32()
    return pa.time64("us") if isinstance(some, datetime.time) else pa.float64()


def _column(cells: list[Any], field: pa.Field) -> pa.Array:
    try:
        if pa.types.is_string(field.type):
            return pa.array([cell or None for cell in cells], type=field.type)
        return pa.array(cells, type=field.type, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        message = f'column "{field.name}" begins with values of one kind and goes on with others'
        raise DataError(message, column=field.name) from None


def _labels(meta: Any) -> dict[str, Labels]:
    """Titles and value labels by column; whole codes as whole numbers."""
    found = {}
    for name in meta.column_names:
        text = meta.readstat_variable_types.get(name) == "string"  # letters among numbers mark missing ones
        given = {v: t for v, t in meta.variable_value_labels.get(name, {}).items() if isinstance(v, str) == text}
        values = tuple(
            (int(v) if isinstance(v, float) and v.is_integer() else v, str(text)) for v, text in given.items()
        )
        title = meta.column_names_to_labels.get(name) or None
        if values or title:
            found[name] = Labels(title=title, values=values)
    return found
