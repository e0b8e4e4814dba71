"""With all noise switched off every answer is DuckDB's, and every interval has width 0."""

from __future__ import annotations

import math
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from benchmarks.questions import Question, question

import sfumato as sf
from constants import SEED

QUESTIONS = 250


@pytest.fixture(scope="module")
def original() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.register("release", sf.datasets.adult())
    return con


@pytest.fixture(scope="module")
def noiseless() -> sf.Release:
    """uniform with a keep probability that is 1 in floating point."""
    method = sf.UniformPerturbation(rho1="1/2", rho2=1 - Fraction(1, 10**40))
    roles = sf.Roles(sensitive="occupation", rest="quasi")
    return sf.publish(sf.datasets.adult(), roles=roles, method=method, null_as_value=True, seed=SEED)


def close(a: float | None, b: float | None) -> bool:
    a, b = a or 0, b or 0  # a SUM of no rows is NULL in SQL and 0 here
    return math.isclose(float(a), float(b), rel_tol=1e-6, abs_tol=1e-6)


def check(asked: Question, release: sf.Release, original: duckdb.DuckDBPyConnection) -> None:
    answer = release.sql(asked.sql)
    truth: dict[tuple, list] = {}
    for row in original.sql(asked.sql).to_arrow_table().to_pylist():
        truth.setdefault(tuple(row[k] for k in asked.keys), []).append(row)
    answered: dict[tuple, list] = {}
    for row in answer.rows():
        answered.setdefault(tuple(row[k] for k in asked.keys), []).append(row)
        for n in asked.aggregates:
            if row[n] is not None:
                width = row[f"{n}_high"] - row[f"{n}_low"]
                assert abs(width) <= 1e-5 * max(1.0, abs(row[n])), (asked.sql, row)
    # Under CUBE a key may be NULL for two reasons, so rows of equal keys are matched in any order; a group of the
    # domain that does not occur is answered by 0 or NULL, and DuckDB does not list it.
    for key, rows in truth.items():
        for row in rows:
            matches = [all(close(row[n], other[n]) for n in asked.aggregates) for other in answered.get(key, [])]
            assert any(matches), (asked.sql, row, answered.get(key))
    for key, rows in answered.items():
        for row in rows:
            known = [*truth.get(key, []), dict.fromkeys(asked.aggregates)]
            assert any(all(close(row[n], other[n]) for n in asked.aggregates) for other in known), (asked.sql, row)


@pytest.mark.parametrize("part", range(5))
def test_answers_equal_duckdb(part: int, noiseless: sf.Release, original: duckdb.DuckDBPyConnection) -> None:
    rng = np.random.default_rng([SEED, part])
    for _ in range(QUESTIONS // 5):
        check(question(rng), noiseless, original)


def test_untouched_questions_are_exact(noiseless: sf.Release, original: duckdb.DuckDBPyConnection) -> None:
    rng = np.random.default_rng([SEED, 99])
    for _ in range(50):
        asked = question(rng, sensitive=False)
        check(asked, noiseless, original)
        assert noiseless.sql(asked.sql).kind == "exact", asked.sql
