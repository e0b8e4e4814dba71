"""How often intervals hold the truth, by method and question, over many releases of one table.

    python -m benchmarks.coverage --releases 200

The table has 24 values of falling frequency (the rarest has one row), a column that goes with the value, narrow blocks
and a skewed measure. Every question is asked of every release and compared with the table itself. `pooled` is the share
of all numbers that were held; `worst` that of the number that was held least often, with exact binomial limits of 99 %
(Clopper and Pearson) over the releases: the worst of many is expected a little below its level.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import beta

import sfumato as sf
from benchmarks.redrawn import Redrawn

WHOLE_PATH = 20  # each so many-th release is published with files and checks; the others are the same rows in memory
ROWS, VALUES, BLOCKS = 4_000, 24, 16
ROLES = sf.Roles(sensitive="s", quasi=["sex", "block", "wage"])
METHODS = {
    "subset-response": sf.SubsetResponse(rho1="1/10", rho2="1/4"),
    "uniform": sf.UniformPerturbation(rho1="1/10", rho2="1/4"),
    "small-domain": sf.SmallDomain(rho1="1/10", rho2="1/4", min_size=300),
    "small-domain, values": sf.SmallDomain(rho1="1/10", rho2="1/4", min_size=300, report="value"),
    "splu": sf.Splu(gamma=3),
    "randomized-response": sf.RandomizedResponse(scope="s", keep={"s": 0.5}),
    "rr of two columns": sf.RandomizedResponse(scope="both", keep={"s": 0.5, "sex": 0.8}),
    "anatomy": sf.Anatomy(l=3),
}


@dataclass(frozen=True, slots=True)
class Question:
    """SQL whose aggregate is n, asked at a level; `rare` keeps the values with at most ten rows.

    `chosen` are the clauses that choose rows by their estimates: a release counts as held where all of them are.
    """

    sql: str
    level: float = 0.95
    simultaneous: bool = False
    rare: bool = False
    chosen: str = ""


CELLS = "SELECT sex, s, COUNT(*) AS n FROM release GROUP BY sex, s ORDER BY sex, s"
NARROW = "SELECT block, s, COUNT(*) AS n FROM release GROUP BY block, s ORDER BY block, s"
QUESTIONS = {
    "value by sex, 50 %": Question(CELLS, level=0.5),
    "value by sex, 90 %": Question(CELLS, level=0.9),
    "value by sex, 95 %": Question(CELLS),
    "value by sex, 99 %": Question(CELLS, level=0.99),
    "rare values by sex": Question(CELLS, rare=True),
    "totals": Question("SELECT s, COUNT(*) AS n FROM release GROUP BY s ORDER BY s"),
    "narrow groups": Question(NARROW),
    "narrow groups, 99 %": Question(NARROW, level=0.99),
    "narrow groups, simultaneous": Question(NARROW, simultaneous=True),
    "groups chosen by an interval": Question(NARROW, chosen="HAVING INTERVAL_LOW(n) > 20"),
    "groups chosen by an estimate": Question(NARROW, chosen="HAVING COUNT(*) > 60"),
    "the five largest groups": Question(NARROW, chosen="ORDER BY n DESC LIMIT 5"),
    "sets of values": Question(
        "SELECT block, COUNT(*) AS n FROM release WHERE s IN (1, 5, 12, 20) GROUP BY block ORDER BY block"
    ),
    "SUM(wage) by sex": Question("SELECT sex, s, SUM(wage) AS n FROM release GROUP BY sex, s ORDER BY sex, s"),
    "AVG(wage)": Question("SELECT s, AVG(wage) AS n FROM release GROUP BY s ORDER BY s"),
    "share of a sex": Question(
        "SELECT s, AVG(CASE WHEN sex = 'f' THEN 1.0 ELSE 0.0 END) AS n FROM release GROUP BY s ORDER BY s"
    ),
}


def people() -> pa.Table:
    """The table: frequencies fall by a fifth from value to value, the last one has one row."""
    rng = np.random.default_rng(3)
    shares = 0.8 ** np.arange(VALUES - 1)
    s = rng.choice(VALUES - 1, ROWS, p=shares / shares.sum())
    s[:VALUES] = np.arange(VALUES)
    return pa.table(
        {
            "s": pa.array(s, pa.int32()),
            "sex": np.where(rng.random(ROWS) < np.linspace(0.2, 0.8, VALUES)[s], "f", "m"),
            "block": pa.array(np.arange(ROWS) % BLOCKS, pa.int32()),
            "wage": np.round(rng.lognormal(3, 1.2, ROWS), 1),
        }
    )


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of one question: (releases, numbers) held, how wide on average, and points that were not exact."""

    held: NDArray[np.bool_]
    width: float
    points: int
    unanswered: int

    @property
    def pooled(self) -> float:
        """Share of all numbers."""
        return float(self.held.mean())

    def worst(self) -> tuple[float, float, float]:
        """Least share of any number, with exact limits."""
        hits, n = int(self.held.sum(axis=0).min()), len(self.held)
        return hits / n, *limits(hits, n)

    def together(self) -> int:
        """Releases in which all numbers were held."""
        return int(self.held.all(axis=1).sum())


def limits(hits: int, n: int, level: float = 0.99) -> tuple[float, float]:
    """Exact limits of a share of which `hits` of `n` were seen."""
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, n - hits + 1))
    return low, 1.0 if hits == n else float(beta.ppf(1 - tail, hits + 1, n - hits))


def truth(table: pa.Table, question: Question) -> tuple[dict[tuple[object, ...], float], set[int]]:
    """(the true number of every row of the answer, the values with at most ten rows)."""
    with duckdb.connect() as original:
        original.register("release", table)
        rows = original.sql(question.sql).fetchall()
    few = {int(s) for s in np.flatnonzero(np.bincount(table["s"].to_numpy()) <= 10)}
    return {tuple(row[:-1]): float(row[-1]) for row in rows}, few


def measure(method: str, questions: Sequence[str], releases: int, seed: int = 1) -> Iterator[tuple[str, Coverage]]:
    """Coverage of every question over releases with seeds of their own."""
    table = people()
    drawn = Redrawn(table, roles=ROLES, method=METHODS[method])
    made = [drawn.published(seed + k) if k % WHOLE_PATH == 0 else drawn.release(seed + k) for k in range(releases)]
    for name in questions:
        question = QUESTIONS[name]
        true, few = truth(table, question)
        held, widths, points, unanswered = [], [], 0, 0
        for release in made:
            asked = (
                question.sql if not question.chosen else f"{question.sql.partition(' ORDER BY ')[0]} {question.chosen}"
            )
            together = None if question.chosen else question.simultaneous
            answer = release.sql(asked, level=question.level, simultaneous=together)
            mine = []
            for row in answer.rows():
                keys = tuple(v for k, v in row.items() if not k.startswith("n"))
                if question.rare and row["s"] not in few:
                    continue
                right = true.get(keys, None if "AVG" in question.sql else 0.0)
                if right is None:
                    continue
                low, high = row["n_low"], row["n_high"]
                if low is None or high is None:
                    unanswered += 1
                    mine.append(False)
                    continue
                slack = 1e-9 * max(1.0, abs(right))
                mine.append(low - slack <= right <= high + slack)
                widths.append(high - low)
                points += low == high and abs(right - low) > slack
            held.append([all(mine)] if question.chosen else mine)
        yield name, Coverage(np.array(held), sum(widths) / max(1, len(widths)), points, unanswered)


def line(method: str, name: str, found: Coverage) -> str:
    """One row of the table, in Markdown."""
    share, low, high = found.worst()
    n = len(found.held)
    together = f"{found.together()} of {n}" if QUESTIONS[name].simultaneous else ""
    return (
        f"| {method} | {name} | {found.pooled:.3f} | {share:.2f} ({low:.2f}-{high:.2f}) | {together} | "
        f"{found.width:.4g} | {found.points or ''} | {found.unanswered or ''} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--method", choices=METHODS, action="append")
    parser.add_argument("--question", choices=QUESTIONS, action="append")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("| method | question | pooled | worst (99 % limits) | all held | mean width | wrong points | no interval |")
    print("|---|---|---|---|---|---|---|---|")
    for method in given.method or METHODS:
        for name, found in measure(method, given.question or list(QUESTIONS), given.releases, given.seed):
            print(line(method, name, found), flush=True)


if __name__ == "__main__":
    main()
