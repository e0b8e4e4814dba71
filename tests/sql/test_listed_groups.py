"""Groups that WHERE or the domain leaves empty are not listed, as in SQL; all others are. Over every method."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS
from constants import SEED

LOOKUP = pa.table({"code": ["a", "b", "c", "z"], "kind": ["low", "low", "high", "none"]})


@cache
def table() -> pa.Table:
    """Every combination of s and g has people."""
    rng = np.random.default_rng(SEED)
    s, g = rng.choice(list("abcd"), 1200), rng.choice(["x", "y"], 1200)
    return pa.table({"s": s, "g": g, "age": rng.integers(20, 60, 1200)})


@cache
def release(method: str) -> sf.Release:
    return sf.publish(table(), roles=sf.Roles(sensitive="s", rest="quasi"), method=METHODS[method], seed=1)


def groups(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The keys of an answer, sorted; the aggregate is called n."""
    return sorted((tuple(v for name, v in row.items() if name[0] == "k") for row in rows), key=str)


QUESTIONS = (
    "SELECT s AS k, COUNT(*) AS n FROM release WHERE s IN ('a', 'b') GROUP BY s",
    "SELECT s AS k, AVG(age) AS n FROM release WHERE s IN ('a', 'b') GROUP BY s",
    "SELECT g AS k, s AS k2, COUNT(*) AS n FROM release WHERE s <> 'a' OR g = 'x' GROUP BY g, s",
    "SELECT s = 'a' AS k, COUNT(*) AS n FROM release WHERE s = 'a' GROUP BY 1",
    "SELECT s AS k, COUNT(*) FILTER (WHERE s = 'a') AS n FROM release WHERE s <= 'b' GROUP BY s",
    "SELECT g AS k, s AS k2, COUNT(*) AS n FROM release WHERE s = 'a' GROUP BY CUBE (g, s)",
    "SELECT g AS k, COUNT(*) AS n FROM release WHERE s LIKE 'z%' GROUP BY g",
    "SELECT g AS k, s AS k2, COUNT(*) AS n FROM release WHERE s LIKE 'z%' GROUP BY ROLLUP (g, s)",
    "SELECT COUNT(*) AS n FROM release WHERE s LIKE 'z%'",
    "SELECT j.kind AS k, COUNT(*) AS n FROM release r JOIN codes j ON r.s = j.code GROUP BY j.kind",
    "SELECT j.kind AS k, COUNT(*) AS n FROM release r LEFT JOIN codes j ON r.s = j.code GROUP BY j.kind",
    "SELECT s AS k, COUNT(*) / SUM(COUNT(*)) OVER () AS n FROM release WHERE s > 'b' GROUP BY s",
)


@pytest.mark.parametrize("method", METHODS)
def test_groups_are_those_of_sql(method: str) -> None:
    con = duckdb.connect()
    con.register("release", table())
    con.register("codes", LOOKUP)
    for sql in QUESTIONS:
        if "OVER" in sql and method in {"target-distribution", "distribution-draw"}:
            continue  # no errors to compute with
        answer = release(method).sql(sql, tables={"codes": LOOKUP})
        assert groups(answer.rows()) == groups(con.sql(sql).to_arrow_table().to_pylist()), sql


@pytest.mark.parametrize("method", ["uniform", "small-domain", "splu", "randomized-response", "subset-response"])
def test_averages_over_groups_count_those_that_may_be(method: str) -> None:
    """Of two values that WHERE keeps; before, the two others were groups of 0 people."""
    inner = "SELECT s, COUNT(*) AS n FROM release WHERE s IN ('a', 'b') GROUP BY s"
    each = [row["n"] for row in release(method).sql(inner).rows()]
    answer = release(method).sql(f"WITH t AS ({inner}) SELECT AVG(n) AS mean, COUNT(*) AS k FROM t")
    (row,) = answer.rows()
    assert (row["mean"], row["k"]) == (pytest.approx(sum(each) / 2), 2)
    assert any("every value of s" in caveat for caveat in answer.caveats)
    plain = release(method).sql(f"WITH t AS ({inner}) SELECT SUM(n) AS total FROM t")
    assert not any("every value of s" in caveat for caveat in plain.caveats)


def test_levels_that_hold_together_count_the_groups_that_are_told() -> None:
    """The interval of the only group of a question is that of the question without groups."""
    options = {"simultaneous": True}
    grouped = release("uniform").sql("SELECT s, COUNT(*) AS n FROM release WHERE s = 'a' GROUP BY s", **options)
    alone = release("uniform").sql("SELECT COUNT(*) AS n FROM release WHERE s = 'a'", **options)
    assert [row["n_high"] for row in grouped.rows()] == [row["n_high"] for row in alone.rows()]


def test_pairs_that_the_domain_does_not_have_are_not_listed() -> None:
    """Two columns that are randomised as one value."""
    pairs = np.array([("a", "1"), ("a", "2"), ("b", "2"), ("c", "3"), ("c", "1")])
    rows = pairs[np.random.default_rng(SEED).integers(0, 5, 1000)]
    both = pa.table({"s": rows[:, 0], "t": rows[:, 1]})
    roles = sf.Roles(sensitive=["s", "t"])
    made = sf.publish(both, roles=roles, method=sf.SmallDomain(rho1="1/3", rho2="2/3", min_size=100), seed=1)
    answer = made.sql("SELECT s AS k, t AS k2, COUNT(*) AS n FROM release GROUP BY s, t")
    assert groups(answer.rows()) == sorted({tuple(pair) for pair in pairs.tolist()})
