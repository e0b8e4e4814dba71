"""Plain text for terminals: the same on a screen, in a file and in the documentation."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns, numbers to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    right = [bool(rows) and all(_numeric(row[i]) for row in rows) for i in range(len(header))]
    texts = []
    for line in lines:
        cells = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)]
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


def bullets(title: str, items: Sequence[str]) -> str:
    """A title and its items, one a line."""
    return "\n".join([title, *(f"  - {item}" for item in items)])


def number(value: float | None) -> str:
    """A number as people read it; a dash where there is none."""
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"


def _numeric(cell: str) -> bool:
    return cell == "-" or cell[:1].isdigit() or (cell[:1] == "-" and cell[1:2].isdigit())
