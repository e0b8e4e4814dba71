"""What describes a bundle beside release.json: datapackage.json for other tools, README.md for people.

Both are made from what release.json and the files state, and from nothing else.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..engines.codes import value_columns
from ..methods.registry import BUILT_IN
from ..model.types import Kind, type_named
from .manifest import PARTS, Manifest

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
README = "README.md"
WRONG = (
    "values are randomised or regrouped, so that shares, counts and averages of the rows as they are here are "
    "**wrong**. The numbers that undo the noise on the whole stand in `release.json`. With sfumato (Python, free "
    "software; whoever gave you this knows where to get its source or wheel) every answer comes with its error:"
)
EXPORTED = (
    "`sfumato export . tables.duckdb` writes weights beside the rows where the method has them, so that ordinary SQL "
    "gives estimates and standard errors in DuckDB, SQLite or PostgreSQL."
)
JOINED = """\
Rows show the number of a set of values. `sets.parquet` says for every set which values are in it (`member`) and, for
every value, what a row that shows the set adds to its count (`weight`) and to the variance of that count
(`variance_weight`). So a join counts, in DuckDB for example:

```sql
SELECT {values}, SUM(s.weight) AS n, SQRT(GREATEST(SUM(s.variance_weight), 0)) AS n_se
FROM 'data.parquet' AS d JOIN 'sets.parquet' AS s USING ({number})
GROUP BY {values} ORDER BY n DESC
```"""
OF_ANOTHER_PACKAGE = "The method `{}` comes from a package of its own; install that beside sfumato."
_TRUST = {
    "proved": "proved: the bound holds for the stated reader",
    "conditional": "conditional: it holds under assumptions that a real adversary may break",
    "baseline": "baseline: for comparison only",
}
_ROLES = {
    "sensitive": "sensitive",
    "quasi": "quasi-identifier",
    "insensitive": "kept",
    "group": "group of the row",
    "set": "number of the set that the row shows",
}


def datapackage(manifest: Manifest, sizes: dict[str, int], schemas: dict[str, pa.Schema]) -> dict[str, Any]:
    """The description of the bundle's files for readers that do not know sfumato."""
    described: dict[str, dict[str, Any]] = {}  # type, title and codebook of the columns that release.json states
    for c in manifest.columns:
        about = described[c.name] = {"type": _FIELD_TYPES[type_named(c.released_type or c.type).kind]}
        if c.title is not None:
            about["title"] = c.title
        if c.labels:
            about["categories"] = [{"value": label.value, "label": label.label} for label in c.labels]
    resources = []
    others = [(name,) for name in manifest.files if name not in manifest.data_files]
    for names in (manifest.data_files, *others):  # all files that hold rows are one resource
        one = names[0] if len(names) == 1 else None  # a digest belongs to one file; those of parts are in release.json
        fields = [
            {"name": f.name, **(described.get(f.name) or {"type": _arrow_type(f.type)})} for f in schemas[names[0]]
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


def _arrow_type(kind: pa.DataType) -> str:
    """The type of a column that only the release has (a block, its count)."""
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "number" if pa.types.is_floating(kind) else "string" if pa.types.is_string(kind) else "any"


def readme(manifest: Manifest) -> str:
    """The text; a function of release.json alone."""
    said = manifest.guarantee
    changed = [name for unit in manifest.units for name in unit.columns]
    parts = [
        "# A table published with a privacy guarantee",
        f"{manifest.rows:,} rows by the method `{manifest.method}` of sfumato {_plain(manifest.software.version)}.",
        "## What is promised",
        f"{_plain(said.statement)} ({_TRUST[said.trust]})",
        *_bullets("It assumes:", said.assumptions),
        *_bullets("It does not cover:", said.not_covered),
        *(["**Made with a seed, for tests: the noise can be undone.**"] if manifest.reproducible else []),
        "## Do not count these values as they are",
        f"{', '.join(f'`{_plain(name)}`' for name in changed) or 'No column'}: {WRONG}",
        '```sh\npip install sfumato-*.whl\nsfumato verify .\nsfumato query . "SELECT COUNT(*) AS n FROM release"\n```',
        *([] if manifest.method in BUILT_IN else [OF_ANOTHER_PACKAGE.format(manifest.method)]),
        EXPORTED,
        *_join(manifest),
        "## Columns",
        _table(manifest),
        *_bullets("Made coarser before publishing:", [r.said for r in manifest.recodings()]),
        "## Files",
        "\n".join(
            [
                "- `release.json`: method, parameters, guarantee, columns, domains, digests",
                "- `datapackage.json`: the same files for tools that know Data Packages",
                *(f"- `{name}`: {file.rows:,} rows, SHA-256 `{file.sha256}`" for name, file in manifest.files.items()),
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _join(manifest: Manifest) -> list[str]:
    """SQL that counts every value by sets.parquet, where rows show sets and a block of code can name its columns."""
    numbers = [column.name for column in manifest.columns if column.role == "set"]
    values = [name for unit in manifest.units for name in value_columns(unit.columns)]
    if not numbers or not all(name.isprintable() and "`" not in name for name in (*numbers, *values)):
        return []
    number, *shown = ('"' + name.replace('"', '""') + '"' for name in (*numbers, *values))
    return [JOINED.format(number=number, values=", ".join(f"s.{name}" for name in shown))]


def _table(manifest: Manifest) -> str:
    changed = {name for unit in manifest.units for name in unit.columns}
    lines = ["| column | role | type | |", "|---|---|---|---|"]
    for c in manifest.columns:
        about = [c.title or "", "randomised or regrouped" if c.name in changed else ""]
        about.append(f"{len(c.labels)} labels in `datapackage.json`" if c.labels else "")
        cells = (c.name, _ROLES[c.role], c.released_type or c.type, "; ".join(a for a in about if a))
        lines.append("| " + " | ".join(_plain(cell) for cell in cells) + " |")
    return "\n".join(lines)


def _bullets(title: str, lines: list[str]) -> list[str]:
    return [title, "\n".join(f"- {_plain(line)}" for line in lines)] if lines else []


def _plain(text: str) -> str:
    """One line without what a table, a list or a link would be made of."""
    line = " ".join(text.split())
    for sign in "\\|`<>[]":
        line = line.replace(sign, f"\\{sign}")
    return line
