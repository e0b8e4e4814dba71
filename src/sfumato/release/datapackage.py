"""datapackage.json (Data Package v2), so that other tools can read a release."""

from __future__ import annotations

from typing import Any

from .manifest import Manifest

PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"


def datapackage(manifest: Manifest, sizes: dict[str, int]) -> dict[str, Any]:
    """The description of the bundle's files for readers that do not know sfumato."""
    in_side = (
        {name for unit in manifest.units for name in unit.columns} if "sensitive.parquet" in manifest.files else set()
    )
    resources = []
    for name, file in manifest.files.items():
        keep = [
            c for c in manifest.columns if (c.name in in_side) == (name == "sensitive.parquet") or c.role == "group"
        ]
        resources.append(
            {
                "name": name.removesuffix(".parquet"),
                "path": name,
                "format": "parquet",
                "mediatype": "application/vnd.apache.parquet",
                "bytes": sizes[name],
                "hash": f"sha256:{file.sha256}",
                "schema": {"fields": [{"name": c.name, "type": _field_type(c.released_type or c.type)} for c in keep]},
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


def _field_type(kind: str) -> str:
    if kind.endswith("INT") or kind in {"INTEGER", "UINTEGER"}:
        return "integer"
    if kind in {"FLOAT", "DOUBLE"} or kind.startswith("DECIMAL"):
        return "number"
    if kind.startswith("TIMESTAMP"):
        return "datetime"
    return {"BOOLEAN": "boolean", "DATE": "date", "TIME": "time"}.get(kind, "string" if kind == "VARCHAR" else "any")
