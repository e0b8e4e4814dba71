"""How publishing grows with the rows: seconds and peak memory at a hundredth, a tenth and all of them, and the slope.

python -m benchmarks --only scale --rows 100000000 --record
python -m benchmarks.bench_scale docs/figures/performance-scale.svg      # draws the figures that were recorded
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench_publish import MEMORY_MIB, METHODS, methods, publish, source
from benchmarks.bench_query import TARGETS, asked
from benchmarks.measure import Row, median
from benchmarks.speed_page import figures
from sfumato.model.public import Curve
from sfumato.reports.pages import svg

START_ROWS = 1_000  # a table whose publishing is all start-up
SLOPE = 1.05


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the least-squares line through the logarithms: 1 is linear."""
    x, y = ([math.log(point[j]) for point in points] for j in (0, 1))
    middle = sum(x) / len(x), sum(y) / len(y)
    spread = sum((one - middle[0]) ** 2 for one in x)
    return sum((a - middle[0]) * (b - middle[1]) for a, b in zip(x, y, strict=True)) / spread


def rows(folder: Path, *, n: int, threads: int, repeat: int, chosen: tuple[str, ...]) -> list[Row]:
    """For each method its seconds and memory by rows, the slope of processor time without that of starting, and what
    counts in the largest release take."""
    found: list[Row] = []
    out, small = folder / "release-scale", folder / "release-start"
    for method in methods(chosen):
        if method not in METHODS:
            continue
        start = publish(source(folder, START_ROWS), small, method).cpu_seconds
        points, reached = [], 0
        for size in (n // 100, n // 10, n):
            try:
                runs = [publish(source(folder, size), out, method) for _ in range(repeat)]
            except RuntimeError as error:
                found.append(
                    Row(name=f"scale {method}, {size:,} rows", value=math.nan, unit="s", note=str(error)[-160:])
                )
                break
            seconds, work = median([r.seconds for r in runs]), median([r.cpu_seconds for r in runs])
            peak = max(r.peak_mib for r in runs)
            points += [(size, work - start)] if work > start else []  # a small table may be noise alone
            reached, note = size, f"{work:.1f} s of processor"
            found.append(Row(name=f"scale {method}, {size:,} rows", value=seconds, unit="s", note=note))
            limit = MEMORY_MIB.get(size)
            found.append(Row(name=f"scale {method}, {size:,} rows: peak memory", value=peak, unit="MiB", target=limit))
        if len(points) > 1:
            note = f"{start:.1f} s of starting taken off"
            name = f"scale {method}: slope of processor time in logarithms"
            found.append(Row(name=name, value=slope(points), unit="", target=SLOPE, note=note))
        if reached == n and method in TARGETS:
            found += asked(f"scale {method}, {n:,} rows asked", method, out, small, threads=threads, repeat=repeat)
    return found


def figure() -> str:
    """Recorded seconds by rows, a line for each method, as SVG."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in figures()["scale"]["figures"]:
        name, _, size = row["name"].removeprefix("scale ").partition(", ")
        if row["name"].startswith("scale ") and size.endswith(" rows") and not math.isnan(row["value"]):
            series.setdefault(name, []).append((float(size[:-5].replace(",", "")), row["value"]))
    lines = {name: tuple(points) for name, points in series.items()}
    return svg(Curve(title="Publishing, whole processes", x="rows", y="seconds", series=lines, log=True))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(figure() + "\n")
