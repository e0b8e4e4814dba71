"""Open paths and data frames as a Spark DataFrame. A path that exists here is that path; others are Spark's to find."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...errors import DataError, SpecError
from ...model.types import TEXT, ColumnType, type_named
from ..duckdb.csv import PATTERNS, header
from ..files import check_names, check_same, files_of, kind_of, shown
from ..source import path_of
from .session import plainly

_GLOB = re.compile(r"([\\*?\[\]{}])")
_KINDS = {".parquet": "parquet", ".pq": "parquet", ".orc": "orc", ".csv": "csv", ".tsv": "csv", ".txt": "csv"}
_SPARK = {"BOOLEAN": "boolean", "BIGINT": "bigint", "DOUBLE": "double", "DATE": "date", "TIMESTAMP": "timestamp_ntz"}


def frame_of(session: Any, source: Any, delimiter: str | None) -> tuple[Any, bool]:
    """(the source as a DataFrame, whether its partitions are files: read again, they hold the same rows in order)."""
    if is_frame(source):
        if delimiter is not None:
            raise SpecError("a delimiter is for CSV files only", field="delimiter")
        check_names(source.columns)
        return source, False
    if not isinstance(source, str | Path):
        raise SpecError(
            f"the spark engine reads paths and Spark DataFrames, not {type(source).__name__}; take the local engine"
        )
    text = path_of(str(source))
    with plainly("Spark cannot read the source"):
        frame = _afar(session, text, delimiter) if _is_address(text) else _files(session, text, delimiter)
        check_names(frame.columns)
    return frame, True


def is_frame(source: Any) -> bool:
    """Whether the source is a DataFrame of Spark."""
    kind = type(source)
    return kind.__module__.startswith("pyspark.sql") and kind.__name__ == "DataFrame"


def addresses(files: Sequence[str | Path]) -> list[str]:
    """Files of this machine as Spark calls them, whatever characters their names hold."""
    return [_GLOB.sub(r"\\\1", Path(file).absolute().as_uri().replace("%20", " ")) for file in files]


def _is_address(text: str) -> bool:
    return re.match(r"[a-z][a-z0-9+.-]*://", text) is not None


def _files(session: Any, text: str, delimiter: str | None) -> Any:
    """Files that this machine sees too: the same checks as the local engine's."""
    files = files_of(text)
    kinds = {kind_of(file) for file in files}
    if len(kinds) > 1:
        raise DataError("the files are of different kinds; give CSV or Parquet files, not a mix")
    (kind,) = kinds
    if kind == "parquet":
        if delimiter is not None:
            raise SpecError("a delimiter is for CSV files only", field="delimiter")
        check_same(files, kind)
        return session.read.parquet(*addresses(files))
    if kind != "csv":
        raise DataError("the spark engine reads CSV and Parquet; take the local engine for Arrow IPC")
    names, found = header(files[0], delimiter)
    for file in files[1:]:
        if header(file, found)[0] != names:
            raise DataError(f"{shown(file)} has other columns than {shown(files[0])}")
    return _typed_csv(_csv(session, addresses(files), names, found))


def _afar(session: Any, text: str, delimiter: str | None) -> Any:
    """A path in a store that only Spark may see: its ending tells the kind, a folder is Parquet."""
    kind = _KINDS.get(Path(text.rstrip("/*")).suffix.lower(), "parquet")
    if kind != "csv":
        if delimiter is not None:
            raise SpecError("a delimiter is for CSV files only", field="delimiter")
        return session.read.format(kind).load(text)
    first = session.read.text(text).limit(1).toArrow()
    line = str(first.column(0)[0].as_py()) if first.num_rows else ""
    found = delimiter or max((",", ";", "\t", "|"), key=line.count)
    names = session.read.option("sep", found).option("header", "true").csv(text).columns
    return _typed_csv(_csv(session, [text], names, found))


def _csv(session: Any, files: Sequence[str], names: Sequence[str], delimiter: str) -> Any:
    """All columns as text; an empty cell is missing."""
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField(name, StringType()) for name in names])
    reader = session.read.schema(schema).option("header", "true").option("sep", delimiter)
    reader = reader.option("quote", '"').option("escape", '"').option("multiLine", "true").option("mode", "FAILFAST")
    return reader.option("encoding", "UTF-8").option("enforceSchema", "false").csv(list(files)).replace("", None)


def _typed_csv(text: Any) -> Any:
    """The columns in the first type whose pattern every cell fits, as the local engine decides it."""
    from pyspark.sql import functions as fn

    def cell(name: str) -> Any:
        return fn.col(f"`{name.replace('`', '``')}`")

    def cast(name: str, kind: str) -> Any:
        return cell(name).try_cast(_SPARK[kind])

    wanted = [fn.count(fn.lit(1))]
    for name in text.columns:
        wanted.append(fn.count(cell(name)))
        wanted += [fn.count(fn.when(cell(name).rlike(p), cast(name, kind))) for kind, p in PATTERNS.items()]
    counts = list(text.agg(*wanted).collect()[0])
    if not counts[0]:
        raise DataError("the CSV file has a header and no rows")
    columns, width = [], 1 + len(PATTERNS)
    for i, name in enumerate(text.columns):
        filled, *fits = counts[1 + i * width : 1 + (i + 1) * width]
        kinds = [kind for kind, fit in zip(PATTERNS, fits, strict=True) if filled and fit == filled]
        columns.append(cast(name, kinds[0]).alias(name) if kinds else cell(name))
    return text.select(*columns)


_NAMES = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
    "binary": "BLOB",
}


def released_type(name: str, kind: Any) -> ColumnType:
    """Type of a Spark column as published; DataError for one that no release has."""
    text = str(kind.simpleString())
    if text.startswith("decimal"):
        return type_named(text.upper())
    if text.startswith(("varchar", "char", "string")):
        return TEXT
    if text not in _NAMES:
        shown = text.split("<", maxsplit=1)[0].split("(", maxsplit=1)[0]
        raise DataError(f'column "{name}" has type {shown}; drop it or turn it into plain values', column=name)
    return type_named(_NAMES[text])


def struct(kinds: Mapping[str, pa.DataType]) -> Any:
    """Spark's schema of columns of these Arrow types, for what a task gives back."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, from_arrow_type(kind, True)) for name, kind in kinds.items()])
