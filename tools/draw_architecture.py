"""Draws docs/figures/architecture.svg from the layers that import-linter enforces (pyproject.toml).

    python tools/draw_architecture.py

A room without a caption here, or a caption without a room, is an error; tests/docs/test_architecture.py compares.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
FIGURE = ROOT / "docs" / "figures" / "architecture.svg"
CAPTIONS = {
    "cli": "commands, options, terminal",
    "web": "pages for analysts and custodians",
    "choosing": "compare, recommend",
    "audit": "one attack each; score sees the truth",
    "publish": "read, profile, plan, apply, write",
    "query": "parse, observe, reconstruct, answer",
    "analysis": "models, tests, quantiles",
    "exporting": "releases in other tools",
    "answering": "Query + release -> Answer",
    "release": "the bundle: write, open, verify",
    "publishing": "roles, randomness, batches",
    "engines": "tables and readers",
    "laws": "draw, answer, foresee, check rows",
    "methods": "contract, one module each",
    "sql": "text -> Query",
    "datasets": "tables to try",
    "reports": "documents -> text, HTML",
    "stats": "shared formulas",
    "model": "the nouns: public | private",
    "errors": "every exception",
    "version": "a number",
}
WIDTH, ROW, GAP, MARGIN = 860, 46, 12, 20
PLAIN, READER = "#f3f1ec", "#dcebf5"


def contracts() -> list[dict[str, object]]:
    """The import rules of pyproject.toml."""
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(stated["tool"]["importlinter"]["contracts"])


def layers() -> list[list[str]]:
    """The rooms of every layer, from the top."""
    (found,) = (c["layers"] for c in contracts() if c["type"] == "layers")
    assert isinstance(found, list)
    return [[room.strip() for room in layer.split("|")] for layer in found]


def readers() -> set[str]:
    """Rooms that may not import the private nouns."""
    found = [c["source_modules"] for c in contracts() if c["type"] == "forbidden"]
    rooms = found[0]
    assert isinstance(rooms, list)
    return {module.removeprefix("sfumato.") for module in rooms}


def drawing() -> str:
    """The figure: one row for each layer; what stands higher may import what stands lower."""
    rows, private = layers(), readers()
    height = 2 * MARGIN + len(rows) * (ROW + GAP) + 26
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for i, rooms in enumerate(rows):
        y = MARGIN + i * (ROW + GAP)
        wide = (WIDTH - 2 * MARGIN - (len(rooms) - 1) * GAP) / len(rooms)
        for j, room in enumerate(rooms):
            x, fill = MARGIN + j * (wide + GAP), READER if room in private else PLAIN
            parts += [
                f'<rect x="{x:g}" y="{y}" width="{wide:g}" height="{ROW}" rx="5" fill="{fill}" stroke="#555555"/>',
                _text(x + wide / 2, y + 19, room, "15", ' font-weight="bold"'),
                _text(x + wide / 2, y + 37, CAPTIONS[room], "12"),
            ]
    unknown = set(CAPTIONS) - {room for rooms in rows for room in rooms}
    if unknown:
        raise KeyError(f"captions without a room: {sorted(unknown)}")
    note = "A room may import what stands below it, not its neighbours. Blue: may not import model/private."
    parts += [_text(WIDTH / 2, height - MARGIN, note, "13"), "</svg>"]
    return "\n".join(parts) + "\n"


def _text(x: float, y: float, text: str, size: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y}" font-size="{size}" text-anchor="middle" fill="#222222"{more}>{escape(text)}</text>'


if __name__ == "__main__":
    FIGURE.write_text(drawing(), encoding="utf-8")
