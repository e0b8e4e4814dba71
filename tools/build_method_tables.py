"""Writes the tables of methods between the markers of README.md and docs/methods/index.md, from the registry.

    python tools/build_method_tables.py

tests/docs/test_complete.py holds the pages to the registry; `make golden` rewrites them.
"""

from __future__ import annotations

import re
from pathlib import Path

from sfumato.methods.registry import BUILT_IN, REGISTRY

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "methods" / "index.md")
MARKED = re.compile(r"(?<=<!-- methods -->\n).*?(?=<!-- /methods -->)", re.DOTALL)


def table(page: Path) -> str:
    """Name, promise, answers and trust of every built-in method, with links as they are written on the page."""
    folder = "" if page.parent.name == "methods" else "docs/methods/"
    lines = ["| method | guarantee, in short | answers | trust |", "|---|---|---|---|"]
    for name in BUILT_IN:
        method = REGISTRY[name]
        lines.append(f"| [`{name}`]({folder}{name}.md) | {method.promise} | {method.answers} | {method.trust} |")
    return "\n".join(lines) + "\n"


def rewritten(page: Path) -> str:
    """The text of the page with its table made anew."""
    text, times = MARKED.subn(table(page).replace("\\", r"\\"), page.read_text(encoding="utf-8"))
    if times != 1:
        raise ValueError(f"{page.name} has {times} pairs of markers")
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(rewritten(page), encoding="utf-8")
