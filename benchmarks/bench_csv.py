"""Publishing a census table from CSV against DuckDB's own copy of the file to Parquet in random order."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench_publish import MEMORY_MIB, publish, source
from benchmarks.bench_shapes import COPY, CSV_TARGET
from benchmarks.bench_sources import WRITE, WRITERS
from benchmarks.measure import Row, median, python


def rows(folder: Path, *, n: int, repeat: int) -> list[Row]:
    """Whole processes, one after the other in turns: the ratio of their times, and the peak memory."""
    table = folder / f"census-{n}.csv"
    if not table.exists():
        python(WRITE + WRITERS["csv"], source(folder, n), table)
    copies, releases = [], []
    for _ in range(repeat):
        copies.append(python(COPY, table, folder / "copied.parquet"))
        releases.append(publish(table, folder / "release-csv", "uniform"))
    took, copied = median([one.seconds for one in releases]), median([one.seconds for one in copies])
    work, least = median([one.cpu_seconds for one in releases]), median([one.cpu_seconds for one in copies])
    note = f"{took:.1f} s against {copied:.1f} s; processor {work:.1f} s against {least:.1f} s ({work / least:.2f} x)"
    name, peak = f"publish uniform from CSV, {n:,} rows", max(one.peak_mib for one in releases)
    return [
        Row(name=name, value=took / copied, unit="x", target=CSV_TARGET, note=note),
        Row(name=f"{name}: peak memory", value=peak, unit="MiB", target=MEMORY_MIB.get(n)),
    ]
