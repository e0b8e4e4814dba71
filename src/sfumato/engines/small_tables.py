"""Look-up tables that a reader brings along: small files or data frames, read into columns of plain values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

from ..errors import DataError

MOST_ROWS = 10_000
MOST_BYTES = 20_000_000
NAME = re.compile(r"[A-Za-z_]\w{0,62}")


def small_table(given: Any, name: str) -> dict[str, list[Any]]:
    """Column -> values, row by row, of a CSV or Parquet file or of any data frame."""
    if not NAME.fullmatch(name) or name.lower() == "release":
        raise DataError(f'"{name[:60]}" is no name for a look-up table')
    table = _file(Path(given), name) if isinstance(given, str | Path) else _frame(given, name)
    if table.num_rows > MOST_ROWS:
        raise DataError(f'the look-up table "{name}" has {table.num_rows:,} rows; at most {MOST_ROWS:,} are read')
    return {column: table[column].to_pylist() for column in table.column_names}


def _file(path: Path, name: str) -> pa.Table:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f'the file "{path.name}" is too large for a look-up table')
        if path.suffix.lower() == ".csv":
            return pc.read_csv(path)
        if path.suffix.lower() in {".parquet", ".pq"}:
            return pq.read_table(path)
    except (OSError, pa.ArrowInvalid):  # the library's own message may quote a cell
        raise DataError(f'the file "{path.name}" of the look-up table "{name}" cannot be read') from None
    raise DataError(f'a look-up table is a CSV or Parquet file, "{path.name}" is neither')


def _frame(given: Any, name: str) -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    try:
        import narwhals as nw

        return nw.from_native(given, eager_only=True).to_arrow()
    except (TypeError, ImportError):
        raise DataError(f'the look-up table "{name}" is no path and no data frame') from None
