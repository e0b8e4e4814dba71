"""Whether the columns of a release's files are the stated ones: each once, and of its type. No row is read."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from ..errors import VerificationError
from ..model.types import ColumnType, Kind

_OF_KIND = {
    Kind.BOOLEAN: "bool",
    Kind.TEXT: "text",
    Kind.DATE: "date32",
    Kind.TIME: "time64",
    Kind.BYTES: "bytes",
}


def check_once(name: str, schema: pa.Schema) -> None:
    """Refuse a file with two columns of one name: readers differ in which of them they take, and in minding case."""
    folded = [column.lower() for column in schema.names]
    if len(set(folded)) < len(folded):
        raise VerificationError(f"{name} has a column twice, or two whose names differ in case only")


def check_stated(schemas: Mapping[str, pa.Schema], expected: Mapping[str, Mapping[str, ColumnType]]) -> None:
    """Refuse files whose columns are not the expected ones."""
    for name, schema in schemas.items():
        if name not in expected:
            raise VerificationError(f"{name} is no file of a release of this method")
        if set(schema.names) != set(expected[name]):
            raise VerificationError(f"the columns of {name} are not the ones release.json states")
        for field in schema:
            if written_family(field.type) != stated_family(expected[name][field.name]):
                raise VerificationError(f'"{field.name}" of {name} is not of the type that release.json states')
    missing = sorted(set(expected) - set(schemas))
    if missing:
        raise VerificationError(f"release.json names no {missing[0]}, which a release of this method has")


def stated_family(kind: ColumnType) -> str:
    """What `written_family` says of a column of this type."""
    if kind.kind is Kind.INTEGER:
        found = f"{'' if kind.signed else 'u'}int{kind.bits}"
    elif kind.kind is Kind.REAL:
        found = "float" if kind.bits == 32 else "double"
    elif kind.kind is Kind.DECIMAL:
        found = f"decimal {kind.scale}"
    elif kind.kind is Kind.TIMESTAMP:
        found = "zoned timestamp" if kind.zoned else "timestamp"
    else:
        found = _OF_KIND[kind.kind]
    return f"list of {found}" if kind.listed else found


def written_family(kind: pa.DataType) -> str:
    """Types that Parquet writes alike have one name."""
    if pa.types.is_dictionary(kind):
        return written_family(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "bytes"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "zoned timestamp"
    if pa.types.is_temporal(kind):
        return str(kind).partition("[")[0]
    if pa.types.is_decimal(kind):
        return f"decimal {kind.scale}"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list of {written_family(kind.value_type)}"
    return str(kind)
