"""Keep what was measured, and write it into docs/performance.md: tables of budgets and one figure.

    python -m benchmarks --rows 10000000 --record
    python -m benchmarks.speed_page      # writes the page again from `benchmarks/results/speed.json`

A figure that is measured again replaces the one of its name. The page has lines `<!-- budgets: TABLE -->` and
`<!-- end of budgets -->`; a test holds it to the figures.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.bench_publish import OPTIONS
from benchmarks.measure import Row

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"
FIGURE = ROOT / "docs" / "figures" / "performance-scale.svg"
FIGURES = Path(__file__).parent / "results" / "speed.json"
BLOCK = re.compile(r"(?<=<!-- budgets: )(\w+)( -->\n).*?(?=<!-- end of budgets -->)", re.DOTALL)
COPY = "DuckDB's copy in random order"
SIZES = {1_000_000: "1 million", 10_000_000: "10 million", 100_000_000: "100 million"}
# heading -> name of a figure; {} is the method
PUBLISHING = {
    "1 million rows (3 s)": "publish {}, 1,000,000 rows",
    "10 million (15 s, or 2.5 copies)": "publish {}, 10,000,000 rows",
    "memory (2,048 MiB)": "publish {}, 10,000,000 rows: memory",
    "100 million": "publish {}, 100,000,000 rows",
    "memory (3,072 MiB)": "publish {}, 100,000,000 rows: memory",
    "growth (1.12 x)": "publish {}, 100,000,000 rows: growth",
}
ASKING = {
    "first answer, 1 million rows (1.5 s)": "{}, 1,000,000 rows: first answer",
    "10 million (2.5 s)": "{}, 10,000,000 rows: first answer",
    "count, open (DuckDB's + 50 ms)": "{}, 10,000,000 rows: count",
    "CUBE, open (5 times DuckDB's)": "{}, 10,000,000 rows: CUBE",
}


def figures() -> dict[str, Row]:
    """What was measured last, by name."""
    found = json.loads(FIGURES.read_text(encoding="utf-8"))
    return {row["name"]: Row(**row) for row in found}


def record(rows: Sequence[Row]) -> None:
    """Keep the rows instead of those that were kept under the same names, and write page and figure."""
    found = figures() | {row.name: row for row in rows if not math.isnan(row.value)}
    FIGURES.write_text(json.dumps([asdict(row) for row in found.values()], indent=1) + "\n", encoding="utf-8")
    write()


def write() -> None:
    """Write page and figure from what is kept."""
    PAGE.write_text(rewritten(), encoding="utf-8")
    FIGURE.write_text(figure(), encoding="utf-8")


def rewritten() -> str:
    """The page with the figures that are kept."""
    found = figures()
    tables = {"publishing": by_method(found, PUBLISHING), "asking": by_method(found, ASKING), "others": others(found)}
    lines = {name: "\n".join(table) for name, table in tables.items()}
    return BLOCK.sub(lambda block: f"{block[1]}{block[2]}\n{lines[block[1]]}\n\n", PAGE.read_text(encoding="utf-8"))


def by_method(found: Mapping[str, Row], columns: Mapping[str, str]) -> Iterator[str]:
    """A line for each method, a column for each budget, which its heading states."""
    yield "| method | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for method in OPTIONS:
        cells = [_cell(found.get(name.format(method))) for name in columns.values()]
        yield f"| `{method}` | " + " | ".join(cells) + " |"
    copies = [_cell(found.get(name.replace("publish {}", COPY))) for name in columns.values()]
    if columns is PUBLISHING:
        yield f"| {COPY} | " + " | ".join(copies) + " |"


def others(found: Mapping[str, Row]) -> Iterator[str]:
    """A line for each figure that is of no method."""
    of_methods = {name.format(method) for name in (*PUBLISHING.values(), *ASKING.values()) for method in OPTIONS}
    yield "| | measured | budget | |"
    yield "|---|---|---|---|"
    for name, row in found.items():
        if name not in of_methods and row.budget is not None:
            yield f"| {name} | {shown(row.value, row.unit)} | {shown(row.budget, row.unit)} | {row.verdict} |"


def shown(value: float, unit: str) -> str:
    """The figure as people read it."""
    number = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{number} {unit}"


def _cell(row: Row | None) -> str:
    """The figure; where it is above its budget, bold and with what is allowed."""
    if row is None:
        return "-"
    told = shown(row.value, row.unit)
    return told if row.verdict in {"", "met"} else f"**{told}** ({row.verdict})"


def figure() -> str:
    """Recorded seconds of publishing by rows, a line for each method, as SVG."""
    from sfumato.model.public import Curve
    from sfumato.reports.pages import svg

    found, series = figures(), dict[str, tuple[tuple[float, float], ...]]()
    for line, name in {**{method: f"publish {method}" for method in OPTIONS}, COPY: COPY}.items():
        rows = {n: found.get(f"{name}, {n:,} rows") for n in SIZES}
        series[line] = tuple((float(n), row.value) for n, row in rows.items() if row)
    return svg(Curve(title="Publishing, whole processes", x="rows", y="seconds", series=series, log=True)) + "\n"


if __name__ == "__main__":
    write()
