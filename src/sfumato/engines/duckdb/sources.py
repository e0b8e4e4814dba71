"""Open whatever people have (CSV, Parquet, Arrow IPC, data frames, relations) as a DuckDB relation.

Messages of the reading libraries may quote cells of the table, so none of them is passed on.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.fs

from ...errors import DataError, SpecError
from ...lazily import dataset as ds
from .connection import connect, plain_path, quoted
from .files import check_digits, check_names, check_same, files_of, kind_of, shown

Bind = Callable[[duckdb.DuckDBPyConnection], duckdb.DuckDBPyRelation]
DELIMITERS = (",", ";", "\t", "|")


def binder(source: Any, delimiter: str | None = None) -> Bind:
    """A function that gives the source as a fresh relation on a connection, once per pass."""
    if isinstance(source, str | Path):
        return _file_binder(str(source), delimiter)
    if delimiter is not None:
        raise SpecError("a delimiter is for CSV files only", field="delimiter")
    if isinstance(source, pa.RecordBatchReader):
        raise SpecError("a RecordBatchReader can be read once and publishing needs two passes; give a table or a file")
    if isinstance(source, duckdb.DuckDBPyRelation):
        check_names(source.columns)
        return lambda con: con.from_arrow(source.to_arrow_reader())
    if isinstance(source, pa.Table):
        check_names(source.column_names)
        check_digits(source.schema)
        return lambda con: con.from_arrow(source)
    if type(source).__module__.split(".")[0] == "pandas":
        if type(source).__name__ != "DataFrame":
            raise SpecError(f"cannot read a table from a pandas {type(source).__name__}; give a DataFrame")
        check_names(list(source.columns))
        return lambda con: con.from_df(source)
    return _frame_binder(source)


def _frame_binder(source: Any) -> Bind:
    import narwhals as nw

    try:
        frame = nw.from_native(source)
        table = (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_arrow()
    except TypeError:
        raise SpecError(
            f"cannot read a table from {type(source).__name__}; give a path, a pandas, Polars or Arrow table, "
            "or a DuckDB relation"
        ) from None
    check_names(table.column_names)
    check_digits(table.schema)
    return lambda con: con.from_arrow(table)


def _file_binder(path: str, delimiter: str | None) -> Bind:
    files = files_of(path)
    kinds = {kind_of(f) for f in files}
    if len(kinds) > 1:
        raise DataError("the files are of different kinds; give CSV, Parquet or Arrow files, not a mix")
    (kind,) = kinds
    if delimiter is not None and kind != "csv":
        raise SpecError("a delimiter is for CSV files only", field="delimiter")
    for file in files:
        try:
            with Path(file).open("rb") as handle:
                if not handle.read(1):
                    raise DataError(f"{shown(file)} is empty")
        except OSError as error:
            raise DataError(f"cannot read {shown(file)}: {error.strerror}") from None
    if kind == "csv":
        return _csv_binder(files, delimiter)
    check_same(files, kind)
    if kind == "parquet":
        plain = [plain_path(Path(file)) for file in files]
        return lambda con: con.read_parquet(plain, hive_partitioning=False, union_by_name=False, filename=False)
    dataset = ds.dataset([str(Path(f).absolute()) for f in files], format="ipc", filesystem=pa.fs.LocalFileSystem())
    return lambda con: con.from_arrow(dataset)


# --- CSV ---------------------------------------------------------------------------------------------------


# What a column of text becomes: the first type whose pattern every non-empty cell fits. Whole numbers with a leading
# zero (01234) are codes, hence text. The reader's own sniffer is not used: it skips lines that it does not understand.
PATTERNS = {
    "BOOLEAN": "^(true|false|TRUE|FALSE|True|False)$",
    "BIGINT": "^[+-]?(0|[1-9][0-9]{0,17})$",
    "DOUBLE": r"^[+-]?([0-9]|[1-9][0-9]{1,17})?(\.[0-9]*)?([eE][+-]?[0-9]+)?$",
    "DATE": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
    "TIMESTAMP": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?$",
}


def _csv_binder(files: list[str], delimiter: str | None) -> Bind:
    if delimiter is not None and len(delimiter) != 1:
        raise SpecError(f"the delimiter must be one character, got {delimiter!r}", field="delimiter")
    names, found = header(files[0], delimiter)
    for file in files[1:]:
        if header(file, found)[0] != names:
            raise DataError(f"{shown(file)} has other columns than {shown(files[0])}")
    options: dict[str, Any] = {
        "delimiter": found,
        "header": True,
        "quotechar": '"',
        "escapechar": '"',
        "strict_mode": True,
        "null_padding": False,
        "auto_detect": False,
        "hive_partitioning": False,
    }
    plain = [plain_path(Path(file)) for file in files]
    with connect() as con:
        text = con.read_csv(plain, columns=dict.fromkeys(names, "VARCHAR"), **options)  # type: ignore[arg-type] # it takes lists
        types = _types(text, names)
    return lambda con: con.read_csv(plain, columns=types, **options)  # type: ignore[arg-type] # it takes lists


def _types(text: duckdb.DuckDBPyRelation, names: list[str]) -> dict[str, str]:
    """The type of every column, from all its cells."""
    tests = ["count(*)"]
    for name in names:
        cell = quoted(name)
        tests += [f"count({cell})"]
        tests += [  # CASE, not FILTER: the engine needs quadratic time for many filtered aggregates
            f"count(CASE WHEN regexp_matches({cell}, '{pattern}') THEN TRY_CAST({cell} AS {kind}) END)"
            for kind, pattern in PATTERNS.items()
        ]
    try:
        counts = text.aggregate(", ".join(tests)).fetchall()[0]
    except duckdb.Error as error:
        raise csv_error(error) from None
    if not counts[0]:
        raise DataError("the CSV file has a header and no rows")
    width, types = 1 + len(PATTERNS), {}
    for i, name in enumerate(names):
        filled, *fits = counts[1 + i * width : 1 + (i + 1) * width]
        kinds = [kind for kind, fit in zip(PATTERNS, fits, strict=True) if filled and fit == filled]
        types[name] = kinds[0] if kinds else "VARCHAR"
    return types


def header(file: str, delimiter: str | None) -> tuple[list[str], str]:
    """Column names of the first line, and the delimiter (the most frequent candidate in it unless given)."""
    try:
        with Path(file).open(encoding="utf-8-sig", newline="") as handle:
            line = handle.readline()
            found = delimiter or max(DELIMITERS, key=line.count)
            handle.seek(0)
            names = next(csv.reader(handle, delimiter=found), [])
    except UnicodeDecodeError:
        raise DataError(f"{shown(file)} is not UTF-8 text; convert it first") from None
    if not names or any(not name.strip() for name in names):
        raise DataError(f"{shown(file)} needs a header line that names every column")
    check_names(names, shown(file))
    return names, found


def csv_error(error: Exception) -> DataError:
    """One line without any cell of the file."""
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    where = f" (line {line.group(1)})" if line else ""
    if "Invalid unicode" in text:
        return DataError(f"the CSV file is not UTF-8 text{where}; convert it first")
    if "Expected Number of Columns" in text:
        return DataError(f"the CSV file is ragged: a line has more or fewer fields than the header{where}")
    if "unterminated quote" in text:
        return DataError(f"the CSV file has an unbalanced quote{where}")
    return DataError(f"the file cannot be read as CSV{where}")
