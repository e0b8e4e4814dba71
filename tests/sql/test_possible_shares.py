"""Shares of sums: inside 0 to 1 where every number that is summed is 0 or more, anywhere where one is not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.answering import covariance
from sfumato.errors import QueryError, UnsupportedQuery
from sfumato.methods import REGISTRY
from sfumato.methods.registry import BUILT_IN

ROWS = 300
METHODS = tuple(name for name in BUILT_IN if name not in {"target-distribution", "distribution-draw", "l-diversity"})
SHARES = (
    "SELECT s, SUM(wage) / SUM(SUM(wage)) OVER () AS p FROM release WHERE s < 4 AND wage > 60 GROUP BY s",
    "SELECT s, SUM(wage) / SUM(SUM(wage)) OVER () AS p FROM release WHERE g = 'a' GROUP BY s",
    "SELECT g, SUM(wage) / SUM(SUM(wage)) OVER () AS p FROM release WHERE s = 1 AND wage > 40 GROUP BY g",
    "SELECT s, SUM(s) / SUM(SUM(s)) OVER () AS p FROM release WHERE s < 4 AND g = 'b' GROUP BY s",
    "SELECT s, COUNT(*) / SUM(COUNT(*)) OVER () AS p FROM release WHERE s < 3 AND wage > 60 GROUP BY s",
    "SELECT SUM(wage) FILTER (WHERE s = 1) / SUM(wage) FILTER (WHERE s < 3) AS p FROM release WHERE wage > 60",
    "SELECT COUNT(*) FILTER (WHERE s = 1) / COUNT(*) FILTER (WHERE s < 3) AS p FROM release WHERE wage > 60",
)


def table() -> pa.Table:
    rng = np.random.default_rng(8)
    s = rng.integers(0, 6, ROWS)
    wage = np.round(rng.gamma(2, 15, ROWS))
    return pa.table({"s": s, "g": np.where(rng.random(ROWS) < 0.5, "a", "b"), "wage": wage, "gain": wage - 14 * s})


@cache
def published(method: str) -> sf.Release:
    spec = REGISTRY[method].spec(**REGISTRY[method].example.spec)
    if method == "randomized-response":
        spec = sf.RandomizedResponse(scope="s", keep={"s": 0.6})
    roles = sf.Roles(sensitive="s", quasi=["g"], insensitive=["wage", "gain"])
    return sf.publish(table(), roles=roles, method=spec, seed=4, accept_unprotected=True)


@pytest.mark.parametrize("method", METHODS)
def test_a_share_of_numbers_that_are_not_negative_is_from_0_to_1(method: str) -> None:
    for sql in SHARES:
        for row in published(method).sql(sql).rows():
            low, high = row["p_low"], row["p_high"]
            if low is not None:
                assert 0 <= low <= high <= 1 + 1e-12, (sql, row)
            else:
                assert row["p"] is None, (sql, row)


@pytest.mark.parametrize("sql", [SHARES[0], SHARES[5]])
def test_some_share_was_near_its_end(sql: str) -> None:
    """That intervals are cut is seen: without it some would reach below 0."""
    rows = [row for method in METHODS for row in published(method).sql(sql).rows() if row["p_se"]]
    assert any(row["p"] - 1.96 * row["p_se"] < 0 <= row["p_low"] for row in rows if row["p"] is not None)


def test_a_share_of_numbers_below_0_is_not_cut() -> None:
    """The gains of one value are below 0 together, and the share it has of the total is."""
    kept = sf.RandomizedResponse(scope="s", keep={"s": 0.98})
    roles = sf.Roles(sensitive="s", quasi=["g"], insensitive=["wage", "gain"])
    release = sf.publish(table(), roles=roles, method=kept, seed=4)
    sql = "SELECT s, SUM(gain) / SUM(SUM(gain)) OVER () AS p FROM release WHERE s < 4 GROUP BY s"
    gain, s = table()["gain"].to_numpy(), table()["s"].to_numpy()
    whole = gain[s < 4].sum()
    outside = 0
    for row in release.sql(sql).rows():
        if row["s"] < 4:
            true = gain[s == row["s"]].sum() / whole
            outside += not 0 <= true <= 1
            assert row["p_low"] <= true <= row["p_high"]
    assert outside == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_a_look_up_table_may_have_codes_that_nobody_has(method: str, join: str) -> None:
    release = published(method)
    wide = pa.table({"code": [0, 1, 2, 3, 4, 5, 6, 77], "kind": ["x", "x", "y", "y", "y", "z", "z", "w"]})
    asked = f"SELECT l.kind, COUNT(*) AS n FROM release r {join} l ON r.s = l.code GROUP BY l.kind"
    kind = "CASE WHEN s < 2 THEN 'x' WHEN s < 5 THEN 'y' ELSE 'z' END"
    plain = f"SELECT {kind} AS kind, COUNT(*) AS n FROM release GROUP BY 1"
    found = {row["kind"]: row for row in release.sql(asked, tables={"l": wide}).rows() if row["n_high"]}
    assert found == {row["kind"]: row for row in release.sql(plain).rows()}


def test_a_join_of_which_no_code_occurs_is_refused() -> None:
    wrong = pa.table({"code": ["c", "d"], "kind": ["x", "y"]})
    with pytest.raises(QueryError, match='no key of the look-up table "l" is a value of "g"'):
        published("uniform").sql("SELECT COUNT(*) FROM release r JOIN l ON r.g = l.code", tables={"l": wrong})
    with pytest.raises(QueryError, match='"g" has no value "c"'):
        published("uniform").sql(
            "SELECT COUNT(*) FROM release r JOIN l ON r.g = l.code WHERE g = 'c'", tables={"l": wrong}
        )


@pytest.mark.parametrize("method", METHODS)
def test_a_total_is_worked_out_once_however_many_rows_it_stands_in(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share of 15,000 rows took 28 seconds of processor time, and four times as much for twice the rows."""
    asked, before = [], covariance.Influence.variance

    def variance(self: covariance.Influence, slopes: covariance.Slopes) -> np.ndarray:
        asked.append(len(slopes.row))
        return before(self, slopes)

    monkeypatch.setattr(covariance.Influence, "variance", variance)
    answer = published(method).sql(
        "SELECT wage, s, COUNT(*) / SUM(COUNT(*)) OVER () AS p FROM release GROUP BY wage, s"
    )
    rows = answer.rows()
    assert len(rows) > 300
    assert asked == [1]
    assert sum(row["p"] for row in rows) == pytest.approx(1)
    assert all(0 <= row["p_low"] <= row["p_high"] <= 1 for row in rows)


@pytest.mark.parametrize("method", METHODS)
def test_arithmetic_that_would_take_minutes_is_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT wage, COUNT(*) / SUM(COUNT(*)) OVER () AS p FROM release WHERE s = 1 AND g = 'a' GROUP BY wage"
    assert len(published(method).sql(sql).rows()) > 40
    monkeypatch.setattr(covariance, "MOST_WORK", 1_000)
    with pytest.raises(UnsupportedQuery, match=r"too many for numbers.*\n(.*\n)*Group by fewer") as refused:
        published(method).sql(sql)
    assert refused.value.position is not None
