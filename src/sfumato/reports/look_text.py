"""`sfumato look` for people."""

from __future__ import annotations

from typing import Any

from .text import table


def render(found: dict[str, Any]) -> str:
    """The columns, and what the quasi-identifiers tell."""
    shown = any("examples" in column for column in found["columns"])
    rows = []
    for column in found["columns"]:
        cells = [
            column["name"],
            column["type"],
            f"{column['distinct']:,}",
            f"{column['missing']:,}",
            column["suggested"],
        ]
        rows.append([*cells, column["why"], *([", ".join(column["examples"])] if shown else [])])
    header = ["column", "type", "values", "missing", "suggested", "why", *(["most frequent"] if shown else [])]
    parts = [f"{found['rows']:,} rows; for the custodian only, nothing is written", table(header, rows)]
    if "linkage" in found:
        parts.append(linkage_text(found["linkage"], found["rows"]))
    return "\n\n".join(parts)


def linkage_text(found: dict[str, Any], rows: int) -> str:
    """What a reader who knows the quasi-identifiers can do, in a few lines."""

    def share(part: int) -> str:
        return f"{part:,} rows ({part / rows:.1%})"

    lines = [
        f"whoever knows {', '.join(found['quasi'])} tells {found['cells']:,} cells apart:",
        f"  {share(found['unique_rows'])} are alone in theirs",
        f"  {share(found['rows_in_small_cells'])} are in cells of fewer than 5",
    ]
    if "sharpened_rows" in found:
        lines.append(
            f"  {share(found['sharpened_rows'])} are in cells that alone give a value of at most {found['rho1']} of "
            f"the table more than {found['rho1']}: rho1 does not cover a reader who knows them"
        )
    return "\n".join(lines)
