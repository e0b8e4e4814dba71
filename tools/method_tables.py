"""The tables of readers in README.md and docs/, computed: every method on the bundled table with its own example.

    python tools/method_tables.py            rewrite what stands between the markers
    python tools/method_tables.py --check    exit code 1 where a page shows something else

A page has the lines `<!-- readers: NAME -->` and `<!-- end of readers -->`; NAME is a method, or `all`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import sfumato as sf
from sfumato.cli.method_options import specification
from sfumato.methods import REGISTRY
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.reports.readers_text import READER_NAMES, reached, verdict

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"(<!-- readers: ([\w-]+) -->\n).*?(<!-- end of readers -->)", re.DOTALL)
ROLES = sf.Roles(sensitive="occupation", quasi=("age", "sex", "education"), rest="drop")


@cache
def readers(name: str) -> list[dict[str, Any]]:
    """The readers of a method's example on the bundled table."""
    spec = specification(name, dict(REGISTRY[name].example.options))
    found = prepare(sf.datasets.adult(), roles=ROLES, method=spec, secret=Secret.from_seed(1), null_as_value=True)
    rows: list[dict[str, Any]] = found.readers(found.claim())["readers"]
    return rows


def of_all(page: Path) -> Iterator[str]:
    """One row per method: trust, and the readers with a tick, a figure, or a dash where nothing is stated."""
    yield "| method | trust | " + " | ".join(READER_NAMES) + " | answers |"
    yield "|" + "---|" * (len(READER_NAMES) + 3)
    base = "docs/methods" if page.parent == ROOT else "../methods"
    for name, method in REGISTRY.items():
        cells = [_cell(r) for r in readers(name)]
        trust = f"{method.trust}{'; epsilon proved' if name == 'randomized-response' else ''}"
        yield f"| [`{name}`]({base}/{name}.md) | {trust} | {' | '.join(cells)} | {method.answers} |"


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


def main() -> int:
    """Rewrites the pages, or says which differ."""
    wrong = [
        page
        for page in PAGES
        if BLOCK.search(page.read_text(encoding="utf-8")) and rewritten(page) != page.read_text(encoding="utf-8")
    ]
    if "--check" not in sys.argv:
        for page in wrong:
            page.write_text(rewritten(page), encoding="utf-8")
        return 0
    for page in wrong:
        print(f"{page.relative_to(ROOT)} shows other readers than the methods compute")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
