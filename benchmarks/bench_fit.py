"""A regression on a release against the one GROUP BY that counts its cells: the rest must not grow with the rows.

python -m benchmarks.bench_fit [--rows 10000000] [--method uniform] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.bench_publish import methods, publish, source
from benchmarks.measure import Row, python

FITTED = ("uniform", "small-domain", "randomized-response", "splu", "anatomy", "subset-response")
ONE_COLUMN = {"randomized-response": ("--scope", "s", "--keep-probability", "occupation=0.6")}  # instead of all of them
SMALL_ROWS = 1_000_000
FORMULA = "salary ~ age + C(gender) + C(occupation)"
FIT = """
import json, sys, time
import formulaic, pandas, sqlglot
import sfumato
from sfumato.analysis import cells, regression  # what is measured is the work, not its imports
sqlglot.parse_one("SELECT 1", dialect="duckdb").sql(dialect="duckdb")
release = sfumato.open_release(sys.argv[1], check=False)
groups = {"occupation": {f"g{k}": list(range(10 * k, 10 * k + 10)) for k in range(5)}}
spent, observe = [0.0], cells.observe
def timed(*arguments):
    start = time.perf_counter()
    found = observe(*arguments)
    spent[0] += time.perf_counter() - start
    return found
cells.observe = timed
start = time.perf_counter()
fitted = release.fit(sys.argv[2], recode=groups)
print(json.dumps({"fit": time.perf_counter() - start, "count": spent[0], "cells": fitted.cells, "steps": fitted.steps}))
"""


def rows(folder: Path, *, n: int, chosen: tuple[str, ...]) -> list[Row]:
    """For each method: the fit by the count of its cells, and what is left beside it, on all rows and on fewer."""
    found: list[Row] = []
    for method in methods(chosen):
        if method not in FITTED:
            continue
        left = {}
        for size in dict.fromkeys((n, min(n, SMALL_ROWS))):
            release = folder / f"fitted-{method}-{size}"
            if not release.exists():
                publish(source(folder, size), release, method, ONE_COLUMN.get(method))
            seen = python(FIT, release, FORMULA).result
            left[size] = seen["fit"] - seen["count"]
            note = f"{seen['fit']:.2f} s, counting {seen['count']:.2f} s; {seen['cells']:.0f} cells"
            if size == n:
                found.append(
                    Row(name=f"fit {method}, {n:,} rows", value=seen["fit"] / seen["count"], unit="x", note=note)
                )
        if n <= SMALL_ROWS:
            continue
        growth = left[n] / left[min(n, SMALL_ROWS)]
        note = f"{left[n]:.2f} s against {left[min(n, SMALL_ROWS)]:.2f} s beside counting"
        found.append(Row(name=f"fit {method}, growth of the rest", value=growth, unit="x", target=2.0, note=note))
    return found


def main() -> None:
    """Measure and print."""
    from benchmarks.__main__ import render

    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_fit", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--method", action="append")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sfumato-bench-") as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        print(render(rows(folder, n=asked.rows, chosen=tuple(asked.method or ()))))


if __name__ == "__main__":
    main()
