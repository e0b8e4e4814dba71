"""Run the benchmarks and print one table; `--json FILE` keeps the figures."""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import sys
import tempfile
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
    parser.add_argument("--strict", action="store_true", help="leave with 1 when a target is missed")
    return parser.parse_args()


def compile_package() -> None:
    """Nothing; the package is compiled, as it is where it was installed. A checkout compiles what it imports, and
    where PYTHONDONTWRITEBYTECODE is set every process does so again: 0.3 s of each."""
    found = find_spec("sfumato")
    for folder in (found.submodule_search_locations or ()) if found else ():
        compileall.compile_dir(folder, quiet=2)


def measure(asked: argparse.Namespace, folder: Path) -> list[Row]:
    """All rows of the report, part by part."""
    compile_package()
    parts, chosen = asked.only or PARTS, tuple(asked.method or ())
    found = bench_import.rows(repeat=asked.repeat) if "import" in parts else []
    for name, bench in (("publish", bench_publish), ("query", bench_query), ("spark", bench_spark)):
        if name in parts:
            found += bench.rows(folder, n=asked.rows, threads=asked.threads, repeat=asked.repeat, chosen=chosen)
    if "csv" in parts:
        found += bench_csv.rows(folder, n=asked.rows, repeat=asked.repeat)
    if "scale" in parts:
        found += bench_scale.rows(folder, n=asked.rows, repeat=asked.repeat, chosen=chosen)
    if "shapes" in parts:
        found += bench_shapes.rows(folder)
    if "choosing" in parts:
        found += bench_choosing.rows(folder, n=asked.rows, chosen=chosen)
    if "fit" in parts:
        found += bench_fit.rows(folder, n=asked.rows, chosen=chosen)
    if "serve" in parts:
        found += bench_serve.rows(folder, n=asked.rows)
    if "others" in parts:
        found += bench_others.rows(folder, n=asked.rows if asked.only else min(asked.rows, 100_000))
    if "sources" in parts:
        few = asked.rows if asked.only else min(asked.rows, 1_000_000)
        found += bench_sources.rows(folder, n=few, repeat=asked.repeat)
    return found


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
        found = measure(asked, folder)
    print(f"{asked.rows:,} rows; {os.cpu_count()} cores; Python {platform.python_version()}\n")
    print(render(found))
    if asked.json:
        rows = [{**asdict(row), "verdict": row.verdict} for row in found]
        asked.json.write_text(json.dumps({"rows": asked.rows, "cores": os.cpu_count(), "figures": rows}, indent=2))
    return int(asked.strict and any(row.verdict == "MISSED" for row in found))


if __name__ == "__main__":
    sys.exit(main())
