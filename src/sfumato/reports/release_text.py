"""`sfumato inspect` for people."""

from __future__ import annotations

from typing import Any

from .readers_text import render_readers, render_unprotected
from .text import bullets, table, visible

UNVERIFIED = "(as release.json states it; nothing of it is verified here, sfumato verify does that)"


def render(found: dict[str, Any]) -> str:
    """The same for people."""
    guarantee = found["guarantee"]
    shown = {k: v for k, v in found["parameters"].items() if isinstance(v, str | int | float | bool)}
    columns = []
    for column in found["columns"]:
        domain = f"{len(column['domain'])} values" if "domain" in column else ""
        columns.append([column["name"], column["role"], column["type"], domain])
    parts = [
        f"{found['method']} ({guarantee['trust']}), {found['rows']:,} rows",
        visible(guarantee["statement"]),
        UNVERIFIED,
        visible(", ".join(f"{k} = {v}" for k, v in shown.items())),
        render_readers(guarantee["readers"]) if "readers" in guarantee else "",
        render_unprotected(guarantee.get("unprotected")) or "",
        bullets("assumes", guarantee["assumptions"]),
        bullets("does not cover", guarantee["not_covered"]),
        table(["column", "role", "type", "domain"], columns),
    ]
    if found["reproducible"]:
        parts.append("made with a seed: for tests only")
    return "\n\n".join(part for part in parts if part)
