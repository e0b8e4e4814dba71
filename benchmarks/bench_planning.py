"""Planning and choosing, in whole processes: many values, a search for keep probabilities, `compare`, `recommend`."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench_publish import ONE, RHO, source
from benchmarks.measure import SFUMATO, Row, failed, python, run

COMPARED_ROWS = 1_000_000
MANY_VALUES = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq
rng, rows = np.random.default_rng(1), 300_000
columns = {"age": rng.integers(0, 73, rows), "occupation": rng.integers(0, 15_000, rows)}
pq.write_table(pa.table(columns), sys.argv[1])
"""
ADULT = """
import sys, pyarrow.parquet as pq
from sfumato.datasets import adult
pq.write_table(adult(), sys.argv[1])
"""


def rows(folder: Path, *, n: int) -> list[Row]:
    """Seconds of each command; tables are those of the budgets, `compare` takes at most a million rows."""
    n = min(n, COMPARED_ROWS)
    table, values, adult = str(source(folder, n)), str(folder / "values.parquet"), str(folder / "adult.parquet")
    python(MANY_VALUES, values)
    python(ADULT, adult)
    both = ("--scope", "both", "--risk", "1/6", "--null-as-value")
    people = ("--sa", "occupation", "--qi", "education,income,sex,race", "--rest", "drop")
    chosen = ("--bound", "1/6", "--seed", "1", "--json")
    commands = {
        "plan small-domain, 15,000 values": (
            ("plan", values, "--sa", "occupation", "--qi", "age", "--method", "small-domain", *RHO),
            5.0,
        ),
        "plan randomized-response both, Adult": (
            ("plan", adult, "--method", "randomized-response", *people, *both),
            10.0,
        ),
        f"compare all methods, {n:,} rows": (("compare", table, *ONE, *chosen), 180.0),
        f"recommend, {n:,} rows": (("recommend", table, *ONE, *chosen), 20.0),
    }
    found = list[Row]()
    for name, (words, budget) in commands.items():
        try:
            done = run((*SFUMATO, *words))
        except RuntimeError as error:
            found.append(failed(name, error))
            continue
        note = f"{done.cpu_seconds:.1f} s of processor, {done.peak_mib:,.0f} MiB"
        found.append(Row(name=name, value=done.seconds, unit="s", budget=budget, note=note))
    return found
