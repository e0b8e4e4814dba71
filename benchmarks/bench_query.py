"""Asking releases: the first answer of a fresh process, and counts and CUBE of an open release beside DuckDB's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench_publish import methods, publish, repeats, source
from benchmarks.measure import SFUMATO, Row, failed, median, python, run

FIRST = {1_000_000: 1.5, 10_000_000: 2.5}  # seconds
COUNT_MS, CUBE_TIMES = 50.0, 5.0  # a count: DuckDB's and this more; a CUBE: times DuckDB's
QUESTION = "SELECT COUNT(*) AS n FROM release WHERE occupation = 3 AND age > 30 AND gender = 1"
# Both ask the same questions: argv[1] is a release, or the Parquet file that it was made of.
TIMED = """
import json, statistics, sys, time


def timed(question, many):
    took = []
    for i in range(many):
        text = question.format(i % 50, 20 + i, i % 2)
        start = time.perf_counter()
        ask(text)
        took.append(1000 * (time.perf_counter() - start))
    return statistics.median(took)


ask("SELECT COUNT(*) AS n FROM release WHERE occupation = 7 AND age > 40 AND gender = 0")
count = timed("SELECT COUNT(*) AS n FROM release WHERE occupation = {} AND age > {} AND gender = {}", 15)
columns = "gender, marital, race, workclass"
cube = timed(f"SELECT {columns}, COUNT(*) AS n FROM release WHERE occupation = {{}} GROUP BY CUBE ({columns})", 3)
print(json.dumps({"count": count, "cube": cube}))
"""
OURS = """
import sys, sfumato
ask = sfumato.open_release(sys.argv[1]).sql
"""
DUCKDB = """
import sys, duckdb
database = duckdb.connect(config={"threads": 2})
database.execute(f"CREATE VIEW release AS FROM read_parquet('{sys.argv[1]}')")
def ask(text):
    return database.execute(text).fetchall()
"""


def rows(folder: Path, *, sizes: Sequence[int], repeat: int | None, chosen: Sequence[str]) -> list[Row]:
    """For each size and method: seconds of a first answer, milliseconds of a count and of a CUBE once open."""
    found = list[Row]()
    for n in sizes:
        table, many = source(folder, n), repeats(n, repeat)
        for method in methods(chosen):
            release = folder / f"release-{method}-{n}"
            try:
                if not release.exists():
                    publish(table, release, method)
                first = median([run((*SFUMATO, "query", str(release), QUESTION)).seconds for _ in range(many)])
                plain, ours = python(DUCKDB + TIMED, table).result, python(OURS + TIMED, release).result
            except RuntimeError as error:
                found.append(failed(f"{method}, {n:,} rows: first answer", error))
                continue
            count, cube = (plain["count"] + COUNT_MS, plain["cube"] * CUBE_TIMES) if n in FIRST else (None, None)
            told = {what: f"DuckDB {plain[what]:.0f} ms" for what in plain}
            name = f"{method}, {n:,} rows"
            found += [
                Row(name=f"{name}: first answer", value=first, unit="s", budget=FIRST.get(n)),
                Row(name=f"{name}: count", value=ours["count"], unit="ms", budget=count, note=told["count"]),
                Row(name=f"{name}: CUBE", value=ours["cube"], unit="ms", budget=cube, note=told["cube"]),
            ]
    return found
