"""Run the benchmarks and print one table; `--json FILE` keeps the figures, `--record` those of docs/performance.md."""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from benchmarks import (
    bench_choosing,
    bench_csv,
    bench_fit,
    bench_import,
    bench_others,
    bench_publish,
    bench_query,
    bench_scale,
    bench_serve,
    bench_shapes,
    bench_sources,
    bench_spark,
    speed_page,
)
from benchmarks.measure import Row

PARTS = (
    "import",
    "publish",
    "query",
    "csv",
    "scale",
    "shapes",
    "choosing",
    "fit",
    "serve",
    "sources",
    "spark",
    "others",
)


def options() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the census table (default %(default)s)")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part instead of all; may be repeated")
    parser.add_argument("--method", action="append", help="one method instead of all; may be repeated")
    parser.add_argument("--threads", type=int, default=2, help="threads of the baseline (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each measurement; the median counts")
    parser.add_argument("--folder", type=Path, help="where tables and releases go and stay; default a temporary one")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument(
        "--record", action="store_true", help="keep the figures and write them into docs/performance.md"
    )
    parser.add_argument("--strict", action="store_true", help="leave with 1 when a target is missed")
    return parser.parse_args()


def compile_package() -> None:
    """Nothing; the package is compiled, as it is where it was installed. A checkout compiles what it imports, and
    where PYTHONDONTWRITEBYTECODE is set every process does so again: 0.3 s of each."""
    found = find_spec("sfumato")
    for folder in (found.submodule_search_locations or ()) if found else ():
        compileall.compile_dir(folder, quiet=2)


def measure(part: str, asked: argparse.Namespace, folder: Path) -> list[Row]:
    """The rows of one part of the report."""
    n, repeat, chosen = asked.rows, asked.repeat, tuple(asked.method or ())
    several = {"n": n, "threads": asked.threads, "repeat": repeat, "chosen": chosen}
    few = n if asked.only else min(n, 1_000_000)
    parts: dict[str, Callable[[], list[Row]]] = {
        "import": lambda: bench_import.rows(folder, repeat=repeat),
        "publish": lambda: bench_publish.rows(folder, **several),
        "query": lambda: bench_query.rows(folder, **several),
        "csv": lambda: bench_csv.rows(folder, n=n, repeat=repeat),
        "scale": lambda: bench_scale.rows(folder, **several),
        "shapes": lambda: bench_shapes.rows(folder, repeat=repeat),
        "choosing": lambda: bench_choosing.rows(folder, n=n, chosen=chosen),
        "fit": lambda: bench_fit.rows(folder, n=n, chosen=chosen),
        "serve": lambda: bench_serve.rows(folder, n=n),
        "sources": lambda: bench_sources.rows(folder, n=few, repeat=repeat),
        "spark": lambda: bench_spark.rows(folder, **several),
        "others": lambda: bench_others.rows(folder, n=n if asked.only else min(n, 100_000)),
    }
    return parts[part]()


def render(found: list[Row]) -> str:
    """One line per figure: name, value, target, verdict, note."""
    width = max(len(row.name) for row in found)
    lines = []
    for row in found:
        target = "" if row.target is None else f"<= {row.target:g}"
        lines.append(f"{row.name:<{width}}  {row.value:>10.3f} {row.unit:<3}  {target:<8} {row.verdict:<6} {row.note}")
    return "\n".join(line.rstrip() for line in lines)


def main() -> int:
    """Measure, print, and keep the figures if asked."""
    asked = options()
    with tempfile.TemporaryDirectory(prefix="sfumato-bench-") as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        compile_package()
        parts = {part: measure(part, asked, folder) for part in PARTS if part in (asked.only or PARTS)}
    found = [row for rows in parts.values() for row in rows]
    if asked.record:
        speed_page.record(parts, asked)
    print(f"{asked.rows:,} rows; {os.cpu_count()} cores; Python {platform.python_version()}\n")
    print(render(found))
    if asked.json:
        rows = [{**asdict(row), "verdict": row.verdict} for row in found]
        asked.json.write_text(json.dumps({"rows": asked.rows, "cores": os.cpu_count(), "figures": rows}, indent=2))
    return int(asked.strict and any(row.verdict == "MISSED" for row in found))


if __name__ == "__main__":
    sys.exit(main())
