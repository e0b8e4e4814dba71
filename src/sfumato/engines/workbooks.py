"""Sheets of Excel and OpenDocument workbooks, by fastexcel: the whole sheet is held in memory."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ..errors import DataError, SpecError

MISSING = "reading Excel needs the extra: pip install 'sfumato[files]'"


def sheet(file: str, name: str | None) -> pa.Table:
    """One sheet as a table; its first row names the columns. Without a name, the only sheet."""
    try:
        import fastexcel
    except ImportError:
        raise SpecError(MISSING, field="source") from None
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
