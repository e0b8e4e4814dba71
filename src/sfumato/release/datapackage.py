"""datapackage.json (Data Package v2), so that other tools can read a release."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..model.types import ColumnType, Kind, cell_type_named
from .manifest import ColumnModel, Manifest

PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"


_FIELD_TYPES = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "integer",
    Kind.REAL: "number",
    Kind.DECIMAL: "number",
    Kind.TEXT: "string",
    Kind.DATE: "date",
    Kind.TIME: "time",
    Kind.TIMESTAMP: "datetime",
    Kind.BYTES: "any",
}


def datapackage(manifest: Manifest, sizes: dict[str, int], schemas: dict[str, pa.Schema]) -> dict[str, Any]:
    """The description of the bundle's files for readers that do not know sfumato."""
    stated = {c.name: _field_type(cell_type_named(c.released_type or c.type)) for c in manifest.columns}
    described = {c.name: _described(c) for c in manifest.columns}
    resources = []
    for name, file in manifest.files.items():
        fields = [
            {"name": f.name, "type": stated.get(f.name) or _arrow_type(f.type), **described.get(f.name, {})}
            for f in schemas[name]
        ]
        resources.append(
            {
                "name": name.removesuffix(".parquet"),
                "path": name,
                "format": "parquet",
                "mediatype": "application/vnd.apache.parquet",
                "bytes": sizes[name],
                "hash": f"sha256:{file.sha256}",
                "schema": {"fields": fields},
            }
        )
    return {
        "$schema": PROFILE,
        "name": "sfumato-release",
        "description": (
            f"{manifest.guarantee.statement} Values are randomised or regrouped: do not count them as they are."
        ),
        "resources": resources,
    }


def _described(column: ColumnModel) -> dict[str, Any]:
    """Title and codebook of a field, where the release has some."""
    found: dict[str, Any] = {} if column.title is None else {"title": column.title}
    if column.labels:
        found["categories"] = [{"value": label.value, "label": label.label} for label in column.labels]
    return found


def _field_type(kind: ColumnType) -> str:
    """Table Schema's name of a column's type."""
    return "array" if kind.listed else _FIELD_TYPES[kind.kind]


def _arrow_type(kind: pa.DataType) -> str:
    """The type of a column that only the release has (a block, its count)."""
    if pa.types.is_integer(kind):
        return "integer"
    return "number" if pa.types.is_floating(kind) else "string" if pa.types.is_string(kind) else "any"
