"""Writes the tables of readers into README.md and docs/, computed: every method on the bundled table, as its example.

    python tools/build_method_tables.py

A page has the lines `<!-- readers: NAME -->` and `<!-- end of readers -->`; NAME is a method, or `all`.
tests/docs/test_complete.py holds the pages to what is computed; `make golden` rewrites them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.methods.registry import BUILT_IN, REGISTRY
from sfumato.methods.specifications import build
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.reports.text import READER_NAMES, reached, verdict

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- readers: ([\w-]+) -->\n).*?(<!-- end of readers -->)", re.DOTALL)
PAGES = tuple(
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(page.read_text(encoding="utf-8"))
)
ROLES = sf.Roles(sensitive="occupation", quasi=("age", "sex", "education"), rest="drop")


@cache
def readers(name: str) -> list[dict[str, Any]]:
    """The readers of a method's example on the bundled table."""
    spec = build(name, dict(REGISTRY[name].example.options))
    found = prepare(sf.datasets.adult(), roles=ROLES, method=spec, secret=Secret.from_seed(1), null_as_value=True)
    rows: list[dict[str, Any]] = found.readers(found.claim())["readers"]
    return rows


def of_all(page: Path) -> Iterator[str]:
    """One row per method: trust, and the readers with a tick, a figure, or a dash where nothing is stated."""
    yield "| method | trust | " + " | ".join(READER_NAMES) + " | answers |"
    yield "|" + "---|" * (len(READER_NAMES) + 3)
    folder = {ROOT: "docs/methods/", ROOT / "docs" / "methods": ""}.get(page.parent, "../methods/")
    for name in BUILT_IN:
        method = REGISTRY[name]
        cells = [_cell(r) for r in readers(name)]
        yield f"| [`{name}`]({folder}{name}.md) | {method.trust} | {' | '.join(cells)} | {method.answers} |"


def _cell(reader: dict[str, Any]) -> str:
    figure = reached(reader["posterior"])
    return f"**{figure}**" if reader["held"] else figure


def of_one(name: str) -> Iterator[str]:
    """One row per reader, with the reason."""
    said = " ".join(f"--{field.replace('_', '-')} {text}" for field, text in REGISTRY[name].example.options.items())
    yield f"Computed for the bundled Adult table, occupation, `--qi age,sex,education`{f', `{said}`' if said else ''};"
    yield "what the readers are: [readers](../explanation/readers.md)."
    yield ""
    yield "| reader | held | posterior | why |"
    yield "|---|---|---|---|"
    for r in readers(name):
        yield f"| {r['reader']} | {verdict(r['held'])} | {reached(r['posterior'])} | {r['why']} |"


def rewritten(page: Path) -> str:
    """The page with its tables computed anew."""

    def made(match: re.Match[str]) -> str:
        lines = of_all(page) if match[2] == "all" else of_one(match[2])
        return match[1] + "\n" + "\n".join(lines) + "\n\n" + match[3]

    return BLOCK.sub(made, page.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rewritten(page), encoding="utf-8")
