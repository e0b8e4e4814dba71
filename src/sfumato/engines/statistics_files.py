"""Files of SPSS, Stata and SAS, by pyreadstat: rows in chunks, labels as a codebook.

These packages know real numbers, texts and dates. A text without a character is what they write for a missing one.
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

MISSING = "reading SPSS, Stata and SAS needs the extra: pip install 'sfumato[files]'"
CHUNK = 50_000  # rows
READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}


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
        raise SpecError(MISSING, field="source") from None
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
