"""Where an estimate rests on an assumption that nobody can check, its interval is what is certain, and holds always."""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato

ROLES = sfumato.Roles(sensitive="job", quasi=["age", "sex"], insensitive=["wage"])
QUESTIONS = (
    "SELECT COUNT(*) AS x FROM release WHERE age < 31",
    "SELECT SUM(wage) AS x FROM release WHERE age < 31",
    "SELECT AVG(wage) AS x FROM release WHERE age < 31",
    "SELECT AVG(wage) AS x FROM release WHERE age < 31 AND job = 'a'",
    "SELECT AVG(age) AS x FROM release WHERE sex = 'f'",
    "SELECT COUNT(*) FILTER (WHERE age < 31 AND wage > 2500) / COUNT(*) FILTER (WHERE age < 31) AS x FROM release",
    "SELECT AVG(CASE WHEN wage > 2500 THEN 1 ELSE 0 END) AS x FROM release WHERE age < 31",
    "SELECT SUM(wage) FILTER (WHERE age < 31) / COUNT(*) FILTER (WHERE age < 31) AS x FROM release",
    "SELECT age // 10 AS d, AVG(wage) AS x FROM release GROUP BY age // 10 ORDER BY d",
)


def table(seed: int) -> pa.Table:
    """Wages that follow age closely: inside a class nothing is spread evenly."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, 600)
    return pa.table({
        "age": age, "sex": rng.choice(["f", "m"], 600), "job": rng.choice(list("abcdefgh"), 600),
        "wage": (age * 100 + rng.normal(0, 300, 600)).round(0),
    })  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_intervals_of_l_diversity_hold_always(seed: int) -> None:
    release = table(seed)
    found = sfumato.publish(release, roles=ROLES, method=sfumato.LDiversity(l=4), seed=seed)
    for question in QUESTIONS:
        truth = duckdb.sql(question).fetchall()
        answer = found.sql(question)
        for row, true in zip(answer.rows(), truth, strict=True):
            low, high = (row[f"x_{end}"] for end in ("low", "high"))
            assert low is None or low <= true[-1] + 1e-9, (question, row)
            assert high is None or high >= true[-1] - 1e-9, (question, row)
        json.loads(answer.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
