"""Generated questions asked of releases of Adult, compared with DuckDB on the original: every method, every feature.

    python -m benchmarks.differential [--questions 1000] [--releases 3] [--method uniform]

Numbers that a release calls exact must be equal; certain bounds must hold, always; intervals must cover at their level,
overall and for each SQL feature. Prints one line per method and feature.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np

import sfumato as sf
from benchmarks.questions import Question, question
from sfumato.errors import UnsupportedQuery
from sfumato.methods.registry import build

METHODS: dict[str, dict[str, Any]] = {
    "uniform": {"rho1": "1/5", "rho2": "1/2"},
    "subset-response": {"rho1": "1/5", "rho2": "1/3"},
    "small-domain": {"rho1": "1/5", "rho2": "1/2"},
    "splu": {"gamma": "4"},
    "randomized-response": {"keep": "occupation=0.6,sex=0.9"},
    "anatomy": {"l": "4"},
    "target-distribution": {"partition_by": ("sex",), "fakes": "0"},
}
EVERYTHING = "everything"


@dataclass(slots=True)
class Score:
    """What was found for one method and feature."""

    exact: int = 0
    bounds: int = 0
    intervals: int = 0
    covered: int = 0
    no_answer: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def coverage(self) -> float:
        return self.covered / self.intervals if self.intervals else math.nan


def release_of(method: str, seed: int) -> sf.Release:
    """A release of Adult by the method."""
    roles = sf.Roles(sensitive="occupation", rest="quasi")
    return sf.publish(
        sf.datasets.adult(), roles=roles, method=build(method, METHODS[method]), null_as_value=True, seed=seed
    )


def compare(release: sf.Release, original: duckdb.DuckDBPyConnection, asked: Question) -> Iterator[tuple[str, str]]:
    """(outcome, detail) of every number of the answer: exact, bounds, covered, missed, none, or fault."""
    try:
        answer = release.sql(asked.sql)
    except UnsupportedQuery:
        yield "none", asked.sql
        return
    truth: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in original.sql(asked.sql).to_arrow_table().to_pylist():
        truth[tuple(row[k] for k in asked.keys)].append(row)
    answered: dict[tuple[Any, ...], int] = defaultdict(int)
    for row in answer.rows():
        answered[tuple(row[k] for k in asked.keys)] += 1
    for row in answer.rows():
        key = tuple(row[k] for k in asked.keys)
        if len(truth[key]) > 1 or answered[key] > 1:  # NULL as a value and as a subtotal under CUBE: which is which?
            continue
        for n in asked.aggregates:
            true = truth[key][0][n] if truth[key] else None
            true = 0.0 if true is None and "AVG" not in asked.sql else true
            yield judge(row, n, true, asked.sql, certain=answer.kind == "bounds")


def judge(row: dict[str, Any], n: str, true: float | None, sql: str, *, certain: bool = False) -> tuple[str, str]:
    """(outcome, detail) of one number beside the truth; ends without an estimate are `certain`, or a level's."""
    low, high, se = row[f"{n}_low"], row[f"{n}_high"], row[f"{n}_se"]
    if true is None or low is None or high is None:
        return "none", sql
    true, slack = float(true), 1e-6 * max(1.0, abs(float(true)))
    detail = f"{row} truth {true}: {sql}"
    least, most = row.get(f"{n}_min"), row.get(f"{n}_max")
    if least is not None and most is not None and not least - slack <= true <= most + slack:
        return "fault", "outside the certain bounds: " + detail
    if se == 0 and low == high:
        return ("exact", "") if abs(true - low) <= slack else ("fault", "called exact: " + detail)
    inside = low - slack <= true <= high + slack
    if se is None and certain:
        return ("bounds", "") if inside else ("fault", "outside the certain bounds: " + detail)
    return ("covered" if inside else "missed"), detail


def run(method: str, *, questions: int, releases: int, seed: int = 1) -> dict[str, Score]:
    """Scores by feature, over questions spread evenly on releases."""
    scores: dict[str, Score] = defaultdict(Score)
    with duckdb.connect() as original:
        original.register("release", sf.datasets.adult())
        for r in range(releases):
            release, rng = release_of(method, seed + r), np.random.default_rng([seed, r])
            for _ in range(questions // releases):
                asked = question(rng)
                for outcome, detail in compare(release, original, asked):
                    for feature in (EVERYTHING, *asked.features):
                        _count(scores[feature], outcome, detail)
    return scores


def _count(score: Score, outcome: str, detail: str) -> None:
    score.exact += outcome == "exact"
    score.bounds += outcome == "bounds"
    score.intervals += outcome in {"covered", "missed"}
    score.covered += outcome == "covered"
    score.no_answer += outcome == "none"
    if outcome == "fault":
        score.faults.append(detail)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--releases", type=int, default=4)
    parser.add_argument("--method", choices=list(METHODS), action="append")
    given = parser.parse_args()
    titles = f"{'exact':>7}{'bounds':>8}{'intervals':>11}{'coverage':>10}{'no answer':>11}{'faults':>8}"
    print(f"{'method':21}{'feature':12}{titles}")
    for method in given.method or METHODS:
        scores = run(method, questions=given.questions, releases=given.releases)
        for feature in sorted(scores, key=lambda f: (f != EVERYTHING, f)):
            s = scores[feature]
            found = f"{s.exact:7}{s.bounds:8}{s.intervals:11}{s.coverage:10.3f}{s.no_answer:11}{len(s.faults):8}"
            print(f"{method:21}{feature:12}{found}", flush=True)
        for fault in scores[EVERYTHING].faults[:3]:
            print("  fault:", fault[:400])


if __name__ == "__main__":
    main()
