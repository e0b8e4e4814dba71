"""Questions that certainly no row meets: NULL where SQL says NULL, by every method; never a 0 that is called exact."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS


@cache
def people() -> pa.Table:
    """600 people; `bonus` is known of women only, `code` of nobody."""
    rng = np.random.default_rng(5)
    sex = rng.choice(["f", "m"], 600)
    return pa.table(
        {
            "sex": sex,
            "age": rng.integers(20, 60, 600),
            "bonus": pa.array(rng.integers(0, 3, 600), mask=sex == "m"),
            "code": pa.nulls(600, type=pa.int64()),
            "s": rng.permutation(np.repeat(np.arange(4), 150)),
        }
    )


@cache
def release(method: str) -> sf.Release:
    # l-diversity merges groups of quasi-identifiers: what is asked about here stays as it is
    roles = sf.Roles(sensitive="s", quasi=["age"], insensitive=["sex", "bonus", "code"])
    return sf.publish(people(), roles=roles, method=METHODS[method], seed=1)


def true(sql: str) -> list[dict[str, Any]]:
    """DuckDB's answer on the true table."""
    known = people()  # noqa: F841 - named in the SQL
    return duckdb.sql(sql.replace("FROM release", "FROM known")).to_arrow_table().to_pylist()


NUMBERS = (
    "SUM(bonus) AS a, COUNT(bonus) AS b, AVG(bonus) AS c",
    "SUM(code) AS a, SUM(code + 1) AS b, COUNT_IF(code > 0) AS c, COUNT_IF(bonus > 0) AS d",
    "SUM(bonus) FILTER (WHERE bonus > 9) AS a, COUNT_IF(bonus > 1) FILTER (WHERE bonus > 9) AS b",
    "SUM(CASE WHEN bonus > 9 THEN 1 END) AS a, SUM(CASE WHEN bonus > 9 THEN 1 ELSE 0 END) AS b",
    "SUM(bonus) - COUNT(*) AS a, COUNT(*) - SUM(code) AS b, 2 * SUM(code) AS c, SUM(bonus) / COUNT(*) AS d",
    "SUM(bonus) * SUM(bonus) AS a, AVG(bonus) - AVG(code) AS b, (AVG(bonus) + 1) * 2 AS c",
    "SUM(1) FILTER (WHERE bonus > 9) AS a, COUNT(*) FILTER (WHERE bonus > 9) AS b",
)


@pytest.mark.parametrize("method", METHODS)
def test_what_no_row_has_is_null(method: str) -> None:
    for numbers, where, keys in itertools.product(NUMBERS, ("", "WHERE bonus > 9", "WHERE sex = 'm'"), ("", "sex")):
        grouped = f"GROUP BY {keys} ORDER BY {keys}" if keys else ""
        sql = f"SELECT {keys + ',' if keys else ''} {numbers} FROM release {where} {grouped}"
        for row, known in zip(release(method).sql(sql).rows(), true(sql), strict=True):
            for name, number in known.items():
                assert row[name] == (pytest.approx(number) if isinstance(number, float) else number), (sql, row, known)


@pytest.mark.parametrize("method", METHODS)
def test_a_sum_that_no_row_can_add_to_is_null_under_a_sensitive_condition(method: str) -> None:
    (row,) = release(method).sql("SELECT SUM(age) AS a, COUNT(*) AS n FROM release WHERE s = 1 AND bonus > 9").rows()
    assert [row[f"a{end}"] for end in ("", "_se", "_low", "_high")] == [None] * 4
    assert row["n"] == row["n_low"] == row["n_high"] == 0


def test_averages_over_answers_leave_nothing_out_and_add_no_zeros() -> None:
    inner = (
        "SELECT age, SUM(bonus) FILTER (WHERE bonus > 1) AS total FROM release WHERE age < 25 OR sex = 'm' GROUP BY age"
    )
    sql = f"WITH t AS ({inner}) SELECT AVG(total) AS mean, COUNT(total) AS n FROM t"
    (row,), (known,) = release("uniform").sql(sql).rows(), true(sql)
    assert known["n"] == 5
    assert row["mean"] == pytest.approx(known["mean"])
