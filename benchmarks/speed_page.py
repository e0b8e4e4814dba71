"""Keep what was measured, and write it into docs/performance.md, with the distance from every target.

    python -m benchmarks --only publish --rows 10000000 --repeat 3 --record
    python -m benchmarks.speed_page      # writes the page again from `benchmarks/results/speed.json`

A part that is measured again replaces its rows; `--method` replaces those of the methods. The page has lines
`<!-- speed: PART -->` and `<!-- end of speed -->`; a test holds it to the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.measure import Row

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
FIGURES = Path(__file__).parent / "results" / "speed.json"
BLOCK = re.compile(r"(?<=<!-- speed: )(\w+)( -->\n).*?(?=<!-- end of speed -->)", re.DOTALL)
LEFT_OUT = re.compile(r": time at n over 10 x time at n/10$")


def figures() -> dict[str, Any]:
    """Part -> the command that measured it, and its rows."""
    found: dict[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    return found


def record(parts: Mapping[str, Sequence[Row]], asked: argparse.Namespace) -> None:
    """Nothing; the figures and the page have these rows instead of those that were there under the same names."""
    found = figures()
    for part, rows in parts.items():
        options = [f"--rows {asked.rows}", *([f"--repeat {asked.repeat}"] if asked.repeat > 1 else [])]
        new = {row.name: asdict(row) for row in rows if not math.isnan(row.value) and not LEFT_OUT.search(row.name)}
        old = {row["name"]: row for row in found.get(part, {}).get("figures", ())} if asked.method else {}
        found[part] = {
            "command": " ".join(["python -m benchmarks --only", part, *options]),
            "figures": [*(old | new).values()],
        }
    FIGURES.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(rewritten(), encoding="utf-8")


def rewritten() -> str:
    """The page with the figures as they are kept."""
    found = figures()

    def block(match: re.Match[str]) -> str:
        if match[1] not in found:  # not measured yet
            return match[0]
        return match[1] + match[2] + "\n" + "\n".join(lines(found[match[1]])) + "\n\n"

    return BLOCK.sub(block, PAGE.read_text(encoding="utf-8"))


def lines(part: Mapping[str, Any]) -> Iterator[str]:
    """The command, and a line for every figure."""
    yield f"`{part['command']}`"
    yield ""
    yield "| what | measured | target | | |"
    yield "|---|---|---|---|---|"
    for row in part["figures"]:
        cells = (row["name"], shown(row["value"], row["unit"]), *_against(row), row["note"])
        yield "| " + " | ".join(cells) + " |"


def shown(value: float, unit: str) -> str:
    """The figure as people read it."""
    number = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{number} {unit}".strip()


def _against(row: Mapping[str, Any]) -> tuple[str, str]:
    """(the target, whether it is met or by how much it is missed)."""
    if row["target"] is None:
        return "", ""
    over = row["value"] / row["target"] - 1
    return f"{row['target']:g}", "met" if over <= 0 else f"**missed by {max(over, 0.001):.1%}**".replace("%", " %")


if __name__ == "__main__":
    PAGE.write_text(rewritten(), encoding="utf-8")
