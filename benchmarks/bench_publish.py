"""Publishing against DuckDB writing the same table in random order: time, memory, and how time grows with rows."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.measure import SFUMATO, Row, Run, median, python, run

# name: (target ratio, options of `publish`). Every registered method is asked for; one that is not here is reported.
QUASI = "age,gender,education,marital,race,workclass,country,salary"
ONE = ("--sa", "occupation", "--qi", QUASI)
RHO = ("--rho1", "1/13", "--rho2", "1/6")
KEEP = ",".join(f"{column}=0.9" for column in (*QUASI.split(","), "occupation"))
METHODS: dict[str, tuple[float | None, tuple[str, ...]]] = {
    "uniform": (1.25, (*ONE, *RHO)),
    "subset-response": (1.25, (*ONE, *RHO)),
    "small-domain": (1.25, (*ONE, *RHO)),
    "splu": (1.25, (*ONE, "--gamma", "occupation=6")),
    # Given keep probabilities: the ratio is about rows; the search for them is a cost of its own (docs/performance.md).
    "randomized-response": (1.6, (*ONE, "--keep-probability", KEEP)),
    "anatomy": (1.6, (*ONE, "--l", "6")),
    "target-distribution": (1.6, (*ONE, "--target", "uniform", "--partition-by", "age")),
    "l-diversity": (1.6, (*ONE, "--l", "6")),
    "distribution-draw": (1.25, (*ONE,)),
}
LISTS, PLAIN, LIST_COST = ("subset-response", "small-domain"), "uniform", 1.3  # a list column, against one value
MEMORY_MIB = {10_000_000: 2048.0, 100_000_000: 3072.0}

WRITE = """
import sys, pyarrow.parquet as pq
from sfumato.datasets import census
reader = census(int(sys.argv[1]), 1)
with pq.ParquetWriter(sys.argv[2], reader.schema, compression="zstd") as writer:
    for batch in reader:
        writer.write_batch(batch, row_group_size=1 << 17)
"""
BASELINE = """
import sys, duckdb
database = duckdb.connect(config={"threads": int(sys.argv[3])})
shuffled = f"SELECT * FROM read_parquet('{sys.argv[1]}') ORDER BY random()"
database.execute(f"COPY ({shuffled}) TO '{sys.argv[2]}' (FORMAT parquet)")
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
        python(WRITE, rows, path)
    return path


def methods(chosen: tuple[str, ...]) -> list[str]:
    """The registered methods, or those of them that were chosen."""
    registered = list(python(REGISTERED).result)
    return [name for name in registered if not chosen or name in chosen]


def publish(table: Path, out: Path, method: str, options: tuple[str, ...] | None = None) -> Run:
    """One finished `sfumato publish`; `options` of the method instead of those of METHODS."""
    shutil.rmtree(out, ignore_errors=True)
    given = METHODS[method][1] if options is None else (*ONE, *options)
    return run((*SFUMATO, "publish", str(table), str(out), "--method", method, *given))


def rows(folder: Path, *, n: int, threads: int, repeat: int, chosen: tuple[str, ...]) -> list[Row]:
    """For each method the ratio to the baseline, run in turns because the speed of machines drifts; the peak memory and
    the growth from n / 10 to n rows."""
    table, small = source(folder, n), source(folder, n // 10)
    out, plain, found, took = folder / "baseline.parquet", list[Run](), list[Row](), dict[str, float]()
    for method in sorted(methods(chosen), key=lambda name: name != PLAIN):  # first what others are compared with
        if method not in METHODS:
            found.append(Row(name=f"publish {method}", value=float("nan"), unit="x", note="no options in METHODS"))
            continue
        release = folder / f"release-{method}"
        beside, large = list[Run](), list[Run]()
        try:
            for _ in range(repeat):
                beside.append(python(BASELINE, table, out, threads))
                large.append(publish(table, release, method))
            tenth = publish(small, folder / "release-small", method).seconds
        except RuntimeError as error:
            found.append(Row(name=f"publish {method}", value=float("nan"), unit="x", note=str(error)[-160:]))
            continue
        baseline, cpu = (median([getattr(one, what) for one in beside]) for what in ("seconds", "cpu_seconds"))
        seconds, peak = median([one.seconds for one in large]), max(one.peak_mib for one in large)
        plain += beside
        target, work = METHODS[method][0], median([one.cpu_seconds for one in large])
        took[method] = seconds / baseline
        note = f"{seconds:.1f} s by {baseline:.1f} s, {work:.1f} s of processor ({work / cpu:.2f} x the baseline's)"
        if method in LISTS and PLAIN in took:
            name = f"publish {method}: beside {PLAIN}, which has no list column"
            found.append(Row(name=name, value=took[method] / took[PLAIN], unit="x", target=LIST_COST))
        found += [
            Row(name=f"publish {method}", value=seconds / baseline, unit="x", target=target, note=note),
            Row(name=f"publish {method}: peak memory", value=peak, unit="MiB", target=MEMORY_MIB.get(n)),
            Row(name=f"publish {method}: time at n over 10 x time at n/10", value=seconds / (10 * tenth), unit="x"),
        ]
    out.unlink(missing_ok=True)
    if not plain:
        return found
    note = f"{median([done.cpu_seconds for done in plain]):.1f} s of processor"
    shuffled = f"baseline: DuckDB writes {n:,} rows in random order"
    return [
        Row(name=shuffled, value=median([done.seconds for done in plain]), unit="s", note=note),
        Row(name="baseline: peak memory", value=max(done.peak_mib for done in plain), unit="MiB"),
        *found,
    ]
