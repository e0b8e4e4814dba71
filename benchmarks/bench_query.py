"""Counting in a release against DuckDB counting in the same Parquet file, first question and later ones."""

from __future__ import annotations

from pathlib import Path

from benchmarks.bench_publish import METHODS, methods, publish, source
from benchmarks.measure import Row, median, python

# name: (target ratio when open, target ratio cold); the others have no target of their own.
TARGETS: dict[str, tuple[float | None, float | None]] = {
    "uniform": (1.0, 2.0),
    "small-domain": (1.0, 2.0),
    "splu": (1.0, 2.0),
    "randomized-response": (3.0, None),
    "anatomy": (5.0, None),
}
SMALL_ROWS, SMALL_MS = 300_000, 20.0
CUBE_TARGET = 3.0
COUNT = "SELECT COUNT(*) AS n FROM {} {}"
CUBE = (
    "SELECT gender, marital, race, workclass, COUNT(*) AS n FROM {} {} GROUP BY CUBE (gender, marital, race, workclass)"
)

SFUMATO_COUNT = """
import json, statistics, sys, time
import sfumato
path, repeat = sys.argv[1], int(sys.argv[2])
question = "SELECT COUNT(*) AS n FROM release WHERE occupation = {} AND age > {} AND gender = {}"
ask = sfumato.open_release  # loads the code, the parser's dialect included; what is measured is the work
import sqlglot
sqlglot.parse_one("SELECT 1", dialect="duckdb").sql(dialect="duckdb")
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
print(json.dumps({"cold": cold, "warm": statistics.median(warm), "cube": statistics.median(cube)}))
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
print(json.dumps({"cold": cold, "warm": statistics.median(warm), "cube": statistics.median(cube)}))
"""


def parquet_of(release: Path) -> str:
    """What DuckDB reads: the one data file, or the glob of the parts."""
    single = release / "data.parquet"
    return str(single if single.exists() else release / "data" / "*.parquet")


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
            # Where the sensitive column is not in the data file, the plain count leaves its condition out.
            test = "(1 = 1 OR {} = 0)" if (release / "sensitive.parquet").exists() else "occupation = {}"
            # A CUBE of an anatomy release goes through its groups once per subtotal: asked of the small one only.
            cube = COUNT if method == "anatomy" else CUBE
            ours = [python(SFUMATO_COUNT, release, 25, cube).result for _ in range(repeat)]
            theirs = [python(DUCKDB_COUNT, parquet_of(release), 25, threads, test, cube).result for _ in range(repeat)]
            little = python(SFUMATO_COUNT, small, 25, CUBE).result
        except RuntimeError as error:
            found.append(Row(name=f"query {method}", value=float("nan"), unit="x", note=str(error)[-160:]))
            continue
        wanted = TARGETS.get(method, (None, None))
        for when, target in zip(("warm", "cold", "cube"), (*wanted, CUBE_TARGET if wanted[1] else None), strict=True):
            if when == "cube" and cube is COUNT:
                continue
            mine, plain = median([r[when] for r in ours]), median([r[when] for r in theirs])
            note = f"{1000 * mine:.1f} ms against {1000 * plain:.1f} ms"
            found.append(Row(name=f"query {method}, {when}", value=mine / plain, unit="x", target=target, note=note))
        target = SMALL_MS if TARGETS.get(method, (None, None))[1] else None
        name = f"query {method}, {SMALL_ROWS:,} rows, warm"
        found.append(Row(name=name, value=1000 * little["warm"], unit="ms", target=target))
    return found
