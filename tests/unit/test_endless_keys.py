"""Keys that are no finite numbers: told apart in Python, and as words in documents."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS
from sfumato.errors import QueryError, UnsupportedQuery

ROWS = 600
KEYS = (1.5, math.nan, math.inf, -math.inf, None)
QUESTION = "SELECT q, COUNT(*) AS n FROM release WHERE v = 'a' GROUP BY q"


@pytest.fixture(scope="module")
def release() -> sf.Release:
    at = np.arange(ROWS)
    keys = pa.array([KEYS[i % len(KEYS)] for i in at], pa.float64())  # a None among them is missing, a NaN is not
    table = pa.table({"v": [("a", "b", "c")[i % 3] for i in at], "k": at % 2, "q": keys})
    roles = sf.Roles(sensitive="v", quasi=["k"], insensitive=["q"])
    return sf.publish(table, roles=roles, method=sf.UniformPerturbation(rho1="1/3", rho2="1/2"), seed=1)


def test_groups_are_told_apart(release: sf.Release) -> None:
    answer = release.sql(QUESTION)
    found = [row["q"] for row in answer.rows()]
    assert sorted(map(str, found)) == sorted(map(str, KEYS))
    assert all(isinstance(row["n"], float) and math.isfinite(row["n"]) for row in answer.rows())

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    told = json.loads(answer.to_json(), parse_constant=refuse)["rows"]
    words = {1.5, "NaN", "Infinity", "-Infinity", None}
    assert {row["q"] for row in told} == words
    shown = {line.split()[0] for line in str(answer).splitlines()[1:]}
    assert shown == {"1.5", "NaN", "Infinity", "-Infinity", "NULL"}
    assert {line.split(",")[0] for line in answer.to_csv().splitlines()[1:]} == {"1.5", "nan", "inf", "-inf", ""}


@pytest.mark.parametrize("asked", ["MAX(q)", "SUM(q)", "AVG(q)", "MEDIAN(q)"])
def test_they_are_refused_as_numbers_with_a_way_out_that_works(asked: str, release: sf.Release) -> None:
    with pytest.raises(QueryError, match="the question is about numbers that are infinite") as refused:
        release.sql(f"SELECT {asked} AS m FROM release")
    condition = str(refused.value).rpartition("example: ")[2].rstrip(".").replace("column", "q")
    (row,) = release.sql(f"SELECT {asked} AS m FROM release {condition}").rows()
    assert row["m"] == (1.5 * ROWS / len(KEYS) if asked == "SUM(q)" else 1.5)


@pytest.mark.parametrize("name", METHODS)
def test_aggregates_that_the_engine_tells_by_key_find_theirs(name: str) -> None:
    """Numbers that are looked up by key: those of NaN are those of the same rows under a key that is a number."""
    at = np.arange(ROWS)
    keys = pa.array([KEYS[i % len(KEYS)] for i in at], pa.float64())
    table = pa.table({"s": at // 5 % 4, "k": at // 20 % 2, "w": at * 7 % 11, "q": keys, "r": at % len(KEYS)})
    roles = sf.Roles(sensitive="s", quasi=["k"], insensitive=["w", "q", "r"])
    release = sf.publish(table, roles=roles, method=METHODS[name], seed=1)
    for asked in ("AVG(w)", "MAX(w)", "MEDIAN(w)"):
        for where in ("", "WHERE s IN (1, 2)"):
            found = []
            for key in ("q", "r"):
                try:
                    rows = release.sql(f"SELECT {key}, {asked} AS n FROM release {where} GROUP BY {key}").rows()
                except UnsupportedQuery:
                    continue
                numbers = [[x for name, x in row.items() if name != key] for row in rows]
                found.append(sorted(numbers, key=str))
            assert len(found) in {0, 2}
            assert not found or found[0] == found[1]
