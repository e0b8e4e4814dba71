"""datapackage.json (Data Package v2), so that other tools can read a release."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..model.types import ColumnType, Kind, cell_type_named
from .manifest import ColumnModel, Manifest
from .placing import PARTS

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
    for names in _resources(manifest):
        one = names[0] if len(names) == 1 else None  # a digest belongs to one file; those of parts are in release.json
        fields = [
            {"name": f.name, "type": stated.get(f.name) or _arrow_type(f.type), **described.get(f.name, {})}
            for f in schemas[names[0]]
        ]
        resources.append(
            {
                "name": PARTS if names[0].startswith(PARTS) else names[0].removesuffix(".parquet"),
                "path": one or list(names),
                "format": "parquet",
                "mediatype": "application/vnd.apache.parquet",
                "bytes": sum(sizes[name] for name in names),
                **({"hash": f"sha256:{manifest.files[one].sha256}"} if one else {}),
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


def _resources(manifest: Manifest) -> list[tuple[str, ...]]:
    """The files of each resource: all that hold rows are one."""
    others = [(name,) for name in manifest.files if name not in manifest.data_files]
    return [manifest.data_files, *others]


def _field_type(kind: ColumnType) -> str:
    """Table Schema's name of a column's type."""
    return "array" if kind.listed else _FIELD_TYPES[kind.kind]


def _arrow_type(kind: pa.DataType) -> str:
    """The type of a column that only the release has (a block, its count)."""
    if pa.types.is_integer(kind):
        return "integer"
    return "number" if pa.types.is_floating(kind) else "string" if pa.types.is_string(kind) else "any"
