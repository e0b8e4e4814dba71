"""Counting in a release against DuckDB counting in the same Parquet file, first question and later ones."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench_publish import METHODS, methods, publish, source
from benchmarks.measure import SFUMATO, Row, median, python, run

# name: (target ratio when open, target ratio cold)
TARGETS: dict[str, tuple[float | None, float | None]] = {
    "uniform": (1.0, 2.0),
    "subset-response": (1.0, 2.0),
    "small-domain": (1.0, 2.0),
    "splu": (1.0, 2.0),
    "distribution-draw": (1.0, 2.0),
    "target-distribution": (1.0, 2.0),
    "randomized-response": (2.5, 2.0),
    "anatomy": (2.0, 2.0),
}
SMALL_ROWS, SMALL_MS = 300_000, 20.0
CUBE_TARGET = 3.0
CUBE = (
    "SELECT gender, marital, race, workclass, COUNT(*) AS n FROM {} {} GROUP BY CUBE (gender, marital, race, workclass)"
)

FIRST = "SELECT COUNT(*) AS n FROM {} WHERE {} AND age > 30 AND gender = 1"

DUCKDB_FIRST = """
import sys, duckdb
duckdb.connect(config={"threads": int(sys.argv[2])}).execute(sys.argv[1]).fetchall()
"""
SFUMATO_COUNT = """
import json, statistics, sys, time
import sfumato
path, repeat = sys.argv[1], int(sys.argv[2])
question = "SELECT COUNT(*) AS n FROM release WHERE occupation = {} AND age > {} AND gender = {}"
ask = sfumato.open_release
ask(sys.argv[4]).sql(question.format(3, 30, 1))  # loads the code; what is measured is the work
start = time.perf_counter()
release = ask(path)
release.sql(question.format(3, 30, 1))
cold = time.perf_counter() - start
warm = []
for i in range(repeat):
    text = question.format(i % 50, 20 + i, i % 2)
    start = time.perf_counter()
    release.sql(text)
    warm.append(time.perf_counter() - start)
cube = []
for i in range(3):
    start = time.perf_counter()
    release.sql(sys.argv[3].format("release", f"WHERE occupation = {i}"))
    cube.append(time.perf_counter() - start)
kept = {"second": warm[0], "first cube": cube[0]}  # each makes what later ones find
print(json.dumps({"cold": cold, "warm": statistics.median(warm), "cube": statistics.median(cube)} | kept))
"""
DUCKDB_COUNT = """
import json, statistics, sys, time
import duckdb
path, repeat, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
question = f"SELECT COUNT(*) AS n FROM read_parquet('{path}') WHERE {{}} AND age > {{}} AND gender = {{}}"
test = sys.argv[4]
start = time.perf_counter()
database = duckdb.connect(config={"threads": threads})
database.execute(question.format(test.format(3), 30, 1)).fetchall()
cold = time.perf_counter() - start
warm = []
for i in range(repeat):
    text = question.format(test.format(i % 50), 20 + i, i % 2)
    start = time.perf_counter()
    database.execute(text).fetchall()
    warm.append(time.perf_counter() - start)
cube = []
for i in range(3):
    start = time.perf_counter()
    database.execute(sys.argv[5].format(f"read_parquet('{path}')", "WHERE " + test.format(i))).fetchall()
    cube.append(time.perf_counter() - start)
kept = {"second": warm[0], "first cube": cube[0]}  # each makes what later ones find
print(json.dumps({"cold": cold, "warm": statistics.median(warm), "cube": statistics.median(cube)} | kept))
"""


def _read(release: Path) -> str:
    return f"read_parquet('{parquet_of(release)}')"


def parquet_of(release: Path) -> str:
    """What DuckDB reads: the one data file, or the glob of the parts."""
    single = release / "data.parquet"
    return str(single if single.exists() else release / "data" / "*.parquet")


def _condition(release: Path) -> str:
    """The plain count's own; where the sensitive column is not in the data file, it leaves its condition out."""
    if (release / "sensitive.parquet").exists():
        return "(1 = 1 OR {} = 0)"
    return "occupation_set = {}" if (release / "sets.parquet").exists() else "occupation = {}"


def asked(title: str, method: str, release: Path, small: Path, *, threads: int, repeat: int) -> list[Row]:
    """Counts in an open release, the first count, and CUBE, by DuckDB's own; and the questions after which cells are
    kept. `small` is asked first, for its code."""
    plain = (parquet_of(release), 25, threads, _condition(release), CUBE)
    ours = [python(SFUMATO_COUNT, release, 25, CUBE, small).result for _ in range(repeat)]
    theirs = [python(DUCKDB_COUNT, *plain).result for _ in range(repeat)]
    wanted, found = TARGETS.get(method, (None, None)), list[Row]()
    for when, target in zip(("warm", "cold", "cube"), (*wanted, CUBE_TARGET if wanted[1] else None), strict=True):
        mine, other = median([r[when] for r in ours]), median([r[when] for r in theirs])
        note = f"{1000 * mine:.1f} ms against {1000 * other:.1f} ms"
        found.append(Row(name=f"{title}, {when}", value=mine / other, unit="x", target=target, note=note))
    for when in ("second", "first cube"):
        mine, other = median([r[when] for r in ours]), median([r[when] for r in theirs])
        note = f"against {1000 * other:.1f} ms"
        found.append(Row(name=f"{title}, {when}", value=1000 * mine, unit="ms", note=note))
    return found


def rows(folder: Path, *, n: int, threads: int, repeat: int, chosen: tuple[str, ...]) -> list[Row]:
    """For each method: the ratio once open, the ratio cold, and milliseconds on a small release."""
    found: list[Row] = []
    for method in methods(chosen):
        if method not in METHODS or method == "l-diversity":  # its labels cannot be compared with numbers in plain SQL
            continue
        try:
            release, small = folder / f"release-{method}", folder / f"release-{method}-small"
            if not release.exists():
                publish(source(folder, n), release, method)
            publish(source(folder, SMALL_ROWS), small, method)
            test = _condition(release)
            found += asked(f"query {method}", method, release, small, threads=threads, repeat=repeat)
            little = python(SFUMATO_COUNT, small, 25, CUBE, small).result
            whole = [
                [
                    run((*SFUMATO, "query", str(release), FIRST.format("release", "occupation = 3")))
                    for _ in range(repeat)
                ],
                [python(DUCKDB_FIRST, FIRST.format(_read(release), test.format(3)), threads) for _ in range(repeat)],
            ]
        except RuntimeError as error:
            found.append(Row(name=f"query {method}", value=float("nan"), unit="x", note=str(error)[-160:]))
            continue
        mine, plain = (median([one.seconds for one in runs]) for runs in whole)
        work = [median([one.cpu_seconds for one in runs]) for runs in whole]
        note = f"{mine:.2f} s against {plain:.2f} s, {work[0]:.2f} s of processor against {work[1]:.2f} s"
        found.append(Row(name=f"query {method}, first, whole processes", value=mine / plain, unit="x", note=note))
        target = SMALL_MS if TARGETS.get(method, (None, None))[1] else None
        name = f"query {method}, {SMALL_ROWS:,} rows, warm"
        found.append(Row(name=name, value=1000 * little["warm"], unit="ms", target=target))
    return found
