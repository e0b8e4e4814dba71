"""Spark's types in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ...errors import DataError
from ...model.types import TEXT, ColumnType, Kind, type_named

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


def arrow_type(kind: ColumnType) -> pa.DataType:
    """What Spark hands to Python for a column of this type."""
    match kind.kind:
        case Kind.BOOLEAN:
            return pa.bool_()
        case Kind.INTEGER:
            return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bits]
        case Kind.REAL:
            return pa.float32() if kind.bits == 32 else pa.float64()
        case Kind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us", tz="UTC" if kind.zoned else None)
        case Kind.BYTES:
            return pa.binary()
    return pa.string()


def struct(kinds: Mapping[str, pa.DataType]) -> Any:
    """Spark's schema of columns of these Arrow types, for what a task gives back."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, from_arrow_type(kind, True)) for name, kind in kinds.items()])
