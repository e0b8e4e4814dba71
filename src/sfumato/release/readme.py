"""README.md of a release, for people without sfumato: made from what release.json states, and from nothing else."""

from __future__ import annotations

import hashlib

from ..methods.registry import BUILT_IN
from .manifest import DocumentModel, Manifest

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
        f"{_names(changed)}: {WRONG}",
        '```sh\npip install sfumato-*.whl\nsfumato verify .\nsfumato query . "SELECT COUNT(*) AS n FROM release"\n```',
        *([] if manifest.method in BUILT_IN else [OF_ANOTHER_PACKAGE.format(manifest.method)]),
        EXPORTED,
        "## Columns",
        _table(manifest),
        *_recoded(manifest),
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


def documented(manifest: Manifest) -> Manifest:
    """The manifest with the digest of the README that belongs to it."""
    sha256 = hashlib.sha256(readme(manifest).encode("utf-8")).hexdigest()
    return manifest.model_copy(update={"documents": {README: DocumentModel(sha256=sha256)}})


def _table(manifest: Manifest) -> str:
    changed = {name for unit in manifest.units for name in unit.columns}
    lines = ["| column | role | type | |", "|---|---|---|---|"]
    for c in manifest.columns:
        about = [c.title or "", "randomised or regrouped" if c.name in changed else ""]
        about.append(f"{len(c.labels)} labels in `datapackage.json`" if c.labels else "")
        cells = (c.name, _ROLES[c.role], c.released_type or c.type, "; ".join(a for a in about if a))
        lines.append("| " + " | ".join(_plain(cell) for cell in cells) + " |")
    return "\n".join(lines)


def _recoded(manifest: Manifest) -> list[str]:
    return _bullets("Made coarser before publishing:", [r.said for r in manifest.recodings()])


def _bullets(title: str, lines: list[str]) -> list[str]:
    return [title, "\n".join(f"- {_plain(line)}" for line in lines)] if lines else []


def _names(names: list[str]) -> str:
    return ", ".join(f"`{_plain(name)}`" for name in names) or "No column"


def _plain(text: str) -> str:
    """One line without what a table, a list or a link would be made of."""
    line = " ".join(text.split())
    for sign in "\\|`<>[]":
        line = line.replace(sign, f"\\{sign}")
    return line
