"""Measure the budgets of docs/performance.md and say which are met: `make bench`.

The table has 1 million rows; with `--rows 10000000` that of 10 million is measured besides, with `--full` 100 million
too. Other sizes are measured without a verdict.
"""

from __future__ import annotations

import argparse
import compileall
import os
import platform
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from benchmarks import bench_planning, bench_publish, bench_query, bench_spark, bench_start, speed_page
from benchmarks.measure import Row

PARTS = ("start", "publish", "query", "csv", "planning", "spark")
ASKED_ROWS = 10_000_000  # rows above which only publishing has budgets


def options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the largest table (default %(default)s)")
    parser.add_argument("--full", action="store_true", help="the same as --rows 100000000")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part instead of all; may be repeated")
    parser.add_argument("--method", action="append", help="one method instead of all; may be repeated")
    parser.add_argument("--repeat", type=int, help="runs of each measurement; the median counts")
    parser.add_argument("--folder", type=Path, help="where tables and releases go and stay; default a temporary one")
    parser.add_argument("--record", action="store_true", help="write the figures into docs/performance.md")
    asked = parser.parse_args()
    asked.rows = 100_000_000 if asked.full else asked.rows
    return asked


def compile_package() -> None:
    """Compile the package, as an installation does; otherwise every process would, where it may not keep the result."""
    found = find_spec("sfumato")
    for folder in (found.submodule_search_locations or ()) if found else ():
        compileall.compile_dir(folder, quiet=2)


def measure(part: str, asked: argparse.Namespace, folder: Path) -> list[Row]:
    """The rows of one part of the report."""
    sizes = [n for n in (1_000_000, 10_000_000) if n < asked.rows] + [asked.rows]
    small = [n for n in sizes if n <= ASKED_ROWS]
    chosen, repeat = tuple(asked.method or ()), asked.repeat
    parts: dict[str, Callable[[], list[Row]]] = {
        "start": lambda: bench_start.rows(folder),
        "publish": lambda: bench_publish.rows(folder, sizes=sizes, repeat=repeat, chosen=chosen),
        "query": lambda: bench_query.rows(folder, sizes=small, repeat=repeat, chosen=chosen),
        "csv": lambda: bench_publish.csv_rows(folder, n=small[-1], repeat=repeat),
        "planning": lambda: bench_planning.rows(folder, n=small[-1]),
        "spark": lambda: bench_spark.rows(folder, n=small[-1]),
    }
    return parts[part]()


def render(found: list[Row]) -> str:
    """One line per figure: name, value, budget, verdict, note."""
    width = max(len(row.name) for row in found)
    lines = []
    for row in found:
        budget = "" if row.budget is None else f"<= {row.budget:,.5g}"
        lines.append(f"{row.name:<{width}}  {row.value:>9,.2f} {row.unit:<3}  {budget:<9} {row.verdict:<17} {row.note}")
    return "\n".join(line.rstrip() for line in lines)


def main() -> None:
    """Measure, print, and record the figures if asked."""
    asked = options()
    compile_package()
    print(f"{asked.rows:,} rows; {os.cpu_count()} cores; Python {platform.python_version()}\n", flush=True)
    found = list[Row]()
    with tempfile.TemporaryDirectory(prefix="sfumato-bench-") as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for part in (part for part in PARTS if part in (asked.only or PARTS)):
            rows = measure(part, asked, folder)
            print(render(rows), flush=True)
            found += rows
    judged = [row for row in found if row.verdict]
    missed = [f"\n{row.name}: {row.verdict}" for row in judged if row.verdict != "met"]
    print(f"\n{len(judged) - len(missed)} of {len(judged)} budgets met{''.join(missed)}")
    if asked.record:
        speed_page.record(found)


if __name__ == "__main__":
    main()
