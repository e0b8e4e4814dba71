"""Choosing: `compare` and `recommend` on many rows, and on a sensitive column of thousands of values; seconds."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.bench_publish import ONE, source
from benchmarks.measure import SFUMATO, Row, Run, python, run

MOST_ROWS = 1_000_000
COMPARE, RECOMMEND, PUBLISH, CONDITIONAL = 60.0, 10.0, 3.0, 10.0  # seconds
SALARIES = """
import sys
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
rng, n = np.random.default_rng(7), 5_000
salary = np.round(rng.lognormal(10.6, 0.5, n) / 10).astype(int) * 10  # about 3,600 different ones
columns = {name: rng.integers(0, size, n) for name, size in (("age", 73), ("sex", 2), ("education", 16))}
pq.write_table(pa.table(columns | {"salary": salary}), sys.argv[1])
"""
PAID = ("--sa", "salary", "--qi", "age,sex,education")


def rows(folder: Path, *, n: int, chosen: tuple[str, ...]) -> list[Row]:
    """`compare` of all methods, or of those chosen, `recommend`, and both kinds of work on many salaries."""
    n = min(n, MOST_ROWS)
    table, paid, out = source(folder, n), folder / "salaries.parquet", folder / "release-salaries"
    python(SALARIES, paid)
    shutil.rmtree(out, ignore_errors=True)
    some = ("--methods", ",".join(chosen)) if chosen else ()
    at_bound = ("--bound", "1/6", "--seed", "1", "--json")
    told = f"compare {', '.join(chosen) or 'all methods'}, {n:,} rows"
    target = ("--method", "target-distribution", "--target", "uniform")
    return [
        _row(told, run((*SFUMATO, "compare", str(table), *ONE, *at_bound, *some)), COMPARE),
        _row(f"recommend, {n:,} rows", run((*SFUMATO, "recommend", str(table), *ONE, *at_bound)), RECOMMEND),
        _row(
            "publish target-distribution, 5,000 rows, many salaries",
            run((*SFUMATO, "publish", str(paid), str(out), *PAID, *target)),
            PUBLISH,
        ),
        _row(
            "recommend --trust conditional, 5,000 rows, many salaries",
            run((*SFUMATO, "recommend", str(paid), *PAID, "--bound", "1/3", "--trust", "conditional", "--json")),
            CONDITIONAL,
        ),
    ]


def _row(name: str, done: Run, target: float) -> Row:
    note = f"{done.cpu_seconds:.1f} s of processor, {done.peak_mib:,.0f} MiB"
    return Row(name=name, value=done.seconds, unit="s", target=target, note=note)
