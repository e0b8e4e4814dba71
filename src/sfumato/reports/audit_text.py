"""The audit as text, and as a page with a figure."""

from __future__ import annotations

from html import escape
from typing import Any

from .text import percent, table

LEFT, WIDE, ROW = 230, 420, 26


def render(document: dict[str, Any]) -> str:
    """The table of `sfumato audit`."""
    header = ("attack", "success", f"{percent(document['level'])} interval", "blind guess", "promised", "")
    rows = [
        (
            line["attack"],
            f"{line['success']:.1%}",
            f"{line['low']:.1%} to {line['high']:.1%}",
            f"{line['blind']:.1%}",
            "nothing" if line["bound"] is None else f"{line['bound']:.1%}",
            "ABOVE THE PROMISE" if line["breaks"] else "",
        )
        for line in document["attacks"]
    ]
    parts = [
        f"{document['method']}: {document['rows']:,} rows, {document['targets']:,} targets",
        f"{document['linkable']:,} records can be told apart by what is published as it is",
        table(header, rows),
        *(f"{line['attack']}: she knows {line['knows']}" for line in document["attacks"]),
    ]
    if document["not_looked_at"]:
        parts.append(
            f"columns not looked at (bytes, NaN, dates beyond calendars): {', '.join(document['not_looked_at'])}"
        )
    parts += [f"not tried: {line['attack']} ({line['why']})" for line in document["left_out"]]
    return "\n".join(parts)


def figure(document: dict[str, Any]) -> str:
    """Success of every attack with its interval (blue), the blind guess (grey) and the promise (red), as SVG."""
    lines = document["attacks"]
    height = ROW * len(lines) + 60

    def x(share: float) -> float:
        return LEFT + WIDE * share

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDE + 40} {height}" font-size="12">',
        f'<rect width="{LEFT + WIDE + 40}" height="{height}" fill="#ffffff"/>',
    ]
    for tick in (0, 0.25, 0.5, 0.75, 1):
        parts.append(f'<line x1="{x(tick):g}" x2="{x(tick):g}" y1="10" y2="{height - 46}" stroke="#e2e3ea"/>')
        parts.append(f'<text x="{x(tick):g}" y="{height - 30}" text-anchor="middle">{tick:.0%}</text>')
    for i, line in enumerate(lines):
        y = 24 + ROW * i
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(line["attack"])}</text>')
        parts.append(_tick(x(line["blind"]), y, "#888888"))
        if line["bound"] is not None:
            parts.append(_tick(x(line["bound"]), y, "#c0392b"))
        parts.append(
            f'<line x1="{x(line["low"]):g}" x2="{x(line["high"]):g}" y1="{y}" y2="{y}" stroke="#2b6cb0" '
            'stroke-width="3"/>'
        )
        parts.append(f'<circle cx="{x(line["success"]):g}" cy="{y}" r="4" fill="#2b6cb0"/>')
    note = "blue: success with its interval; grey: blind guess; red: promised"
    parts += [f'<text x="{LEFT}" y="{height - 10}" fill="#5d6070">{note}</text>', "</svg>"]
    return "\n".join(parts)


def _tick(x: float, y: int, colour: str) -> str:
    return f'<line x1="{x:g}" x2="{x:g}" y1="{y - 9}" y2="{y + 9}" stroke="{colour}" stroke-width="2"/>'


def audit_page(document: dict[str, Any]) -> str:
    """The page of `sfumato audit --report`."""
    title = f"Audit: {document['method']}, {document['rows']:,} rows"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}pre{white-space:pre-wrap}</style>"
        f"<h1>{escape(title)}</h1><p>For the custodian: it was scored with the original table.</p>"
        f"<figure>{figure(document)}</figure><pre>{escape(render(document))}</pre></html>\n"
    )
