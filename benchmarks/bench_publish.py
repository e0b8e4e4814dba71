"""Publishing in whole processes, from Parquet by every method and from CSV, beside DuckDB's copy in random order."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import SFUMATO, Row, Run, failed, median, python, run

QUASI = "age,gender,education,marital,race,workclass,country,salary"
ONE = ("--sa", "occupation", "--qi", QUASI)
RHO = ("--rho1", "1/13", "--rho2", "1/6")
KEEP = ",".join(f"{column}=0.9" for column in (*QUASI.split(","), "occupation"))
OPTIONS: dict[str, tuple[str, ...]] = {
    "subset-response": RHO,
    "uniform": RHO,
    "small-domain": RHO,
    "splu": ("--gamma", "occupation=6"),
    "target-distribution": ("--target", "uniform", "--partition-by", "age"),
    "randomized-response": ("--keep-probability", KEEP),  # given: searching for them has a budget of its own
    "anatomy": ("--l", "6"),
    "l-diversity": ("--l", "6"),
    "distribution-draw": (),
}
SECONDS = {1_000_000: 3.0, 10_000_000: 15.0}
MEMORY_MIB = {10_000_000: 2048.0, 100_000_000: 3072.0}
COPIES, SLOW_COPIES = 2.5, 4.0  # times DuckDB's copy
SLOW = ("randomized-response", "anatomy", "target-distribution", "l-diversity")
GROWTH = 10**0.05  # linear: a slope of at most 1.05 in logarithms, which is 1.12 for ten times the rows
COPIED = 10_000_000  # rows above which no copy is made beside, and at which the budget may be a multiple of it

CENSUS = """
import sys, pyarrow.parquet as pq
from sfumato.datasets import census
reader = census(int(sys.argv[1]), 1)
with pq.ParquetWriter(sys.argv[2], reader.schema, compression="zstd") as writer:
    for batch in reader:
        writer.write_batch(batch, row_group_size=1 << 17)
"""
TO_CSV = """
import sys, duckdb
duckdb.execute(f"COPY (FROM read_parquet('{sys.argv[1]}')) TO '{sys.argv[2]}' (FORMAT csv, HEADER)")
"""
COPY = """
import sys, duckdb
read = "read_csv" if sys.argv[1].endswith(".csv") else "read_parquet"
shuffled = f"SELECT * FROM {read}('{sys.argv[1]}') ORDER BY random()"
duckdb.connect(config={"threads": 2}).execute(f"COPY ({shuffled}) TO '{sys.argv[2]}' (FORMAT parquet)")
"""
REGISTERED = """
import json
from sfumato.methods import REGISTRY
print(json.dumps({name: 1 for name in REGISTRY}))
"""


def source(folder: Path, rows: int) -> Path:
    """A census table of that many rows on disk; made once per folder."""
    path = folder / f"census-{rows}.parquet"
    if not path.exists():
        python(CENSUS, rows, path)
    return path


def methods(chosen: Sequence[str]) -> list[str]:
    """The registered methods, or those of them that were chosen."""
    return [name for name in python(REGISTERED).result if not chosen or name in chosen]


def publish(table: Path, out: Path, method: str) -> Run:
    """One finished `sfumato publish`."""
    shutil.rmtree(out, ignore_errors=True)
    if method not in OPTIONS:
        raise RuntimeError(f"benchmarks/bench_publish.py has no options of {method}")
    return run((*SFUMATO, "publish", str(table), str(out), "--method", method, *ONE, *OPTIONS[method]))


def in_turns(table: Path, out: Path, method: str, repeat: int) -> tuple[list[Run], list[Run]]:
    """Publications, and DuckDB's copies of the same table in random order: in turns, because machines drift."""
    releases, copies = [], []
    for _ in range(repeat):
        copies.append(python(COPY, table, out.parent / "copied.parquet"))
        releases.append(publish(table, out, method))
    return releases, copies


def rows(folder: Path, *, sizes: Sequence[int], repeat: int | None, chosen: Sequence[str]) -> list[Row]:
    """For each size and method: seconds, memory, and how processor time grew from one size to the next."""
    found, before = list[Row](), dict[str, float]()
    for n in sizes:
        took = list[float]()
        for method in methods(chosen):
            name, out = f"publish {method}, {n:,} rows", folder / f"release-{method}-{n}"
            try:
                if n > COPIED:
                    releases, copies = [publish(source(folder, n), out, method)], list[Run]()
                else:
                    releases, copies = in_turns(source(folder, n), out, method, repeats(n, repeat))
            except RuntimeError as error:
                found.append(failed(name, error))
                continue
            work = median([one.cpu_seconds for one in releases])
            found += _of_method(name, method, n, releases, copies)
            if n > COPIED and method in before:
                growth, told = work / before[method], f"{work:.0f} s of processor"
                found.append(Row(name=f"{name}: growth", value=growth, unit="x", budget=GROWTH, note=told))
                shutil.rmtree(out)
            before[method] = 10 * work
            took += [one.seconds for one in copies]
        if took:
            found.append(Row(name=f"DuckDB's copy in random order, {n:,} rows", value=median(took), unit="s"))
    return found


def _of_method(name: str, method: str, n: int, releases: Sequence[Run], copies: Sequence[Run]) -> list[Row]:
    """Seconds and memory. The budget of seconds is one of seconds or, if that allows more, a multiple of the copy."""
    seconds, note, budget = median([one.seconds for one in releases]), "", SECONDS.get(n)
    if copies:
        copy = median([one.seconds for one in copies])
        note = f"{seconds / copy:.2f} times the copy"
        if n == COPIED:
            budget = max(SECONDS[n], copy * (SLOW_COPIES if method in SLOW else COPIES))
    peak = max(one.peak_mib for one in releases)
    return [
        Row(name=name, value=seconds, unit="s", budget=budget, note=note),
        Row(name=f"{name}: memory", value=peak, unit="MiB", budget=MEMORY_MIB.get(n)),
    ]


def csv_rows(folder: Path, *, n: int, repeat: int | None) -> list[Row]:
    """`uniform` from CSV, beside DuckDB's copy of the same file."""
    table, out = folder / f"census-{n}.csv", folder / "release-csv"
    if not table.exists():
        python(TO_CSV, source(folder, n), table)
    releases, copies = in_turns(table, out, "uniform", repeats(n, repeat))
    seconds, copy = (median([one.seconds for one in runs]) for runs in (releases, copies))
    name, note = f"publish uniform from CSV, {n:,} rows", f"DuckDB's own copy: {copy:.1f} s"
    return [Row(name=name, value=seconds / copy, unit="x", budget=COPIES if n in SECONDS else None, note=note)]


def repeats(n: int, asked: int | None) -> int:
    """How often to measure: what was asked for, else three times up to a million rows and once above."""
    return asked or (3 if n <= 1_000_000 else 1)
