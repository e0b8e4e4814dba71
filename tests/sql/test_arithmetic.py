"""Numbers computed from aggregates, answers of answers, look-up tables: against the same question asked directly.

Every release here is seeded; errors are compared with errors of other questions whose formula is known, not with
themselves. What is exact is compared with DuckDB on the original table.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import QueryError, UnsupportedQuery

METHODS = {
    "uniform": lambda: sf.UniformPerturbation(rho1="1/5", rho2="1/2"),
    "small-domain": lambda: sf.SmallDomain(rho1="1/5", rho2="1/2"),
    "randomized-response": lambda: sf.RandomizedResponse(scope="s", keep={"occupation": "0.6"}),
    "splu": lambda: sf.Splu(gamma=4),
    "anatomy": lambda: sf.Anatomy(l=4),
}
LOOKUP = pa.table({"job": ["Sales", "Tech-support", "Craft-repair"], "kind": ["office", "office", "manual"]})


@cache
def adult() -> pa.Table:
    return sf.datasets.adult()


@cache
def release(method: str) -> sf.Release:
    roles = sf.Roles(sensitive="occupation", rest="quasi")
    return sf.publish(adult(), roles=roles, method=METHODS[method](), null_as_value=True, seed=7)


def rows(method: str, sql: str, **options: Any) -> list[dict[str, Any]]:
    return release(method).sql(sql, **options).rows()


def true(sql: str) -> list[tuple[Any, ...]]:
    adult_table = adult()  # noqa: F841 - named in the SQL
    return duckdb.sql(sql.replace("FROM release", "FROM adult_table")).fetchall()


def guard(method: str) -> float:
    """How much wider than the plain formula the errors may be; `splu` guards those of single values and averages."""
    return 1.4 if method == "splu" else 1.03


SALES, CRAFT = "occupation = 'Sales'", "occupation = 'Craft-repair'"


@pytest.mark.parametrize("method", METHODS)
def test_a_percentage_is_the_share_times_a_hundred(method: str) -> None:
    share = rows(method, f"SELECT sex, AVG(CASE WHEN {SALES} THEN 1 ELSE 0 END) AS n FROM release GROUP BY sex")
    for text in (
        f"100.0 * COUNT(*) FILTER (WHERE {SALES}) / COUNT(*)",
        f"COUNT(*) FILTER (WHERE {SALES}) / NULLIF(COUNT(*), 0) * 100",
        f"100 * AVG(CASE WHEN {SALES} THEN 1 ELSE 0 END)",
    ):
        percent = rows(method, f"SELECT sex, {text} AS n FROM release GROUP BY sex")
        for one, other in zip(share, percent, strict=True):
            assert [other[c] for c in ("n", "n_se")] == pytest.approx([100 * one[c] for c in ("n", "n_se")])


@pytest.mark.parametrize("method", METHODS)
def test_a_difference_of_counts_is_one_sum(method: str) -> None:
    text = f"SELECT COUNT(*) FILTER (WHERE {SALES}) - COUNT(*) FILTER (WHERE {CRAFT}) AS n FROM release WHERE age < 30"
    case = f"SELECT SUM(CASE WHEN {SALES} THEN 1 WHEN {CRAFT} THEN -1 ELSE 0 END) AS n FROM release WHERE age < 30"
    one, other = rows(method, text)[0], rows(method, case)[0]
    assert one["n"] == pytest.approx(other["n"])
    assert one["n_se"] == pytest.approx(other["n_se"])


@pytest.mark.parametrize("method", METHODS)
def test_a_difference_of_means_has_the_error_of_a_comparison(method: str) -> None:
    """Two ratios: the covariance counts, and `compare` states it by another route."""
    text = f"SELECT AVG(age) FILTER (WHERE {CRAFT}) - AVG(age) FILTER (WHERE {SALES}) AS n FROM release"
    found = rows(method, text)[0]
    where = f"{SALES} OR {CRAFT}"
    second, first = release(method).compare(by="occupation", mean="age", where=where, target="table").groups[::-1]
    assert (first.level, second.level) == ("Craft-repair", "Sales")
    assert found["n"] == pytest.approx(-second.difference)
    assert 0.97 < found["n_se"] / second.difference_se < 1.05
    assert found["n_high"] - found["n"] == pytest.approx(1.959963984540054 * found["n_se"])


@pytest.mark.parametrize("method", METHODS)
def test_a_share_of_the_total_over_groups(method: str) -> None:
    """The total over an untouched condition is exact, so the share is the count by a constant."""
    count = rows(method, "SELECT occupation, COUNT(*) AS n FROM release WHERE age < 30 GROUP BY occupation")
    share = rows(
        method,
        "SELECT occupation, COUNT(*) / SUM(COUNT(*)) OVER () AS n FROM release WHERE age < 30 GROUP BY occupation",
    )
    total = sum(row["n"] for row in count)
    for one, other in zip(count, share, strict=True):
        assert other["n"] == pytest.approx(one["n"] / total)
        assert other["n_se"] == pytest.approx(one["n_se"] / total, rel=0.03)


@pytest.mark.parametrize("method", METHODS)
def test_a_share_of_an_estimated_total(method: str) -> None:
    """Among two values the total is estimated too: the share is a ratio, whose error SQL states for one value."""
    where = f"({SALES} OR {CRAFT})"
    share = rows(
        method,
        f"SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER () AS n FROM release WHERE {where} GROUP BY sex ORDER BY sex",
    )
    female = rows(method, f"SELECT AVG(CASE WHEN sex = 'Female' THEN 1 ELSE 0 END) AS n FROM release WHERE {where}")[0]
    assert share[0]["n"] == pytest.approx(female["n"])
    assert 0.97 < share[0]["n_se"] / female["n_se"] < guard(method)
    assert share[1]["n_se"] == pytest.approx(share[0]["n_se"], rel=guard(method) - 1)  # the two add up to 1


@pytest.mark.parametrize("method", METHODS)
def test_sums_over_an_answer_have_the_error_of_the_sum(method: str) -> None:
    inner = "SELECT sex, occupation, COUNT(*) AS n FROM release GROUP BY sex, occupation"
    outer = rows(
        method,
        f"WITH t AS ({inner}) SELECT sex, SUM(n) AS n FROM t WHERE occupation IN ('Sales', 'Craft-repair') "
        "GROUP BY sex ORDER BY sex",
    )
    direct = rows(
        method,
        "SELECT sex, COUNT(*) AS n FROM release WHERE occupation IN ('Sales', 'Craft-repair') GROUP BY sex",
    )
    for one, other in zip(direct, outer, strict=True):
        assert other["n"] == pytest.approx(one["n"])
        assert 0.97 < other["n_se"] / one["n_se"] < guard(method)


def test_covariances_go_with_the_standard_errors_and_the_order_of_the_answer() -> None:
    answer = release("uniform").sql(
        f"SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM release WHERE {SALES} GROUP BY sex ORDER BY sex DESC"
    )
    S = answer.covariance()
    stated = np.array([[row["n_se"], row["a_se"]] for row in answer.rows()]).ravel()
    np.testing.assert_allclose(np.sqrt(np.diag(S)), stated)
    np.testing.assert_allclose(S, S.T)
    assert np.linalg.eigvalsh(S).min() > 0
    assert S[0, 2] == 0  # different rows of untouched groups are randomised independently
    assert S[0, 1] != 0
    by_value = release("uniform").sql("SELECT occupation, COUNT(*) AS n FROM release GROUP BY occupation")
    S = by_value.covariance()
    assert abs(S.sum()) < 1e-6 * np.abs(S).sum()  # all rows together are counted exactly
    assert (S[~np.eye(len(S), dtype=bool)] < 0).all()


def test_covariances_that_are_not_known_are_refused() -> None:
    table = adult().select(["sex", "race", "income"])
    roles = sf.Roles(sensitive="income", rest="quasi")
    drawn = sf.publish(table, roles=roles, method=sf.DistributionDraw(), seed=1)
    answer = drawn.sql("SELECT income, COUNT(*) AS n FROM release GROUP BY income")
    with pytest.raises(UnsupportedQuery, match=r"go together|no error"):
        answer.covariance()


def test_a_simple_outer_question_is_the_inner_one() -> None:
    inner = f"SELECT sex, COUNT(*) AS n, AVG(age) AS a FROM release WHERE {SALES} GROUP BY sex"
    plain = rows("uniform", f"{inner} ORDER BY n DESC")
    nested = rows("uniform", f"SELECT t.sex, n, n_low AS least, a FROM ({inner}) t WHERE n > 100 ORDER BY n DESC")
    assert [r["n_se"] for r in nested] == pytest.approx([r["n_se"] for r in plain])
    together = rows("uniform", f"{inner} ORDER BY n DESC", simultaneous=True)  # estimates choose the rows
    assert [r["least"] for r in nested] == pytest.approx([r["n_low"] for r in together])
    starred = rows("uniform", f"WITH t AS ({inner}), u AS (SELECT * FROM t) SELECT * FROM u ORDER BY n DESC")
    assert [list(r) for r in starred] == [list(r) for r in plain]
    assert [r["a_high"] for r in starred] == pytest.approx([r["a_high"] for r in plain])


def test_lookup_tables_recode_columns() -> None:
    merged = "CASE WHEN occupation IN ('Sales', 'Tech-support') THEN 'office' "
    merged += "WHEN occupation = 'Craft-repair' THEN 'manual' END"
    expected = rows("uniform", f"SELECT {merged} AS kind, COUNT(*) AS n FROM release GROUP BY 1")
    left = "SELECT l.kind, COUNT(*) AS n FROM release r LEFT JOIN jobs l ON r.occupation = l.job GROUP BY l.kind"
    assert rows("uniform", left, tables={"jobs": LOOKUP}) == expected
    inner = left.replace("LEFT JOIN", "JOIN")
    found = {r["kind"]: r["n"] for r in rows("uniform", inner, tables={"jobs": LOOKUP})}
    bare = "SELECT kind, COUNT(*) AS n FROM release LEFT JOIN jobs ON occupation = jobs.job GROUP BY kind"
    assert rows("uniform", bare, tables={"jobs": LOOKUP}) == expected
    same = LOOKUP.rename_columns(["occupation", "kind"])
    using = "SELECT kind, COUNT(*) AS n FROM release LEFT JOIN jobs USING (occupation) GROUP BY kind"
    assert rows("uniform", using, tables={"jobs": same}) == expected
    renamed = bare.replace("SELECT kind", "SELECT kind AS kind") + " ORDER BY kind"
    assert {r["kind"] for r in rows("uniform", renamed, tables={"jobs": LOOKUP})} == {"office", "manual", None}
    counted = (
        "SELECT l.job, COUNT(*) AS kind FROM release LEFT JOIN jobs l ON occupation = l.job GROUP BY job ORDER BY kind"
    )
    numbers = [r["kind"] for r in rows("uniform", counted, tables={"jobs": LOOKUP})]
    assert numbers == sorted(numbers)
    own = pa.table({"job": ["Sales"], "sex": ["x"]})  # a column of the release stays the release's
    asked = "SELECT sex, COUNT(*) AS n FROM release LEFT JOIN jobs ON occupation = jobs.job GROUP BY sex"
    assert rows("uniform", asked, tables={"jobs": own}) == rows(
        "uniform", "SELECT sex, COUNT(*) AS n FROM release GROUP BY sex"
    )
    assert found["office"] == pytest.approx(next(r["n"] for r in expected if r["kind"] == "office"))
    assert found.get(None, 0) == 0
    regions = pa.table({"race": ["White", "Black"], "weight": [1, 3]})
    exact = rows("uniform", "SELECT SUM(w.weight) AS n FROM release JOIN w USING (race)", tables={"w": regions})[0]
    assert exact["n"] == true("SELECT SUM(CASE race WHEN 'White' THEN 1 WHEN 'Black' THEN 3 END) FROM release")[0][0]
    assert exact["n_se"] == 0


@pytest.mark.parametrize(
    "what",
    [
        "STDDEV(age)",
        "STDDEV_POP(age)",
        "VARIANCE(hours_per_week)",
        "CORR(age, hours_per_week)",
        "COVAR_POP(age, hours_per_week)",
        "REGR_SLOPE(hours_per_week, age)",
        "COUNT(DISTINCT race)",
        "SUM(DISTINCT education_num)",
        "SKEWNESS(age)",
        "MEDIAN(age)",
        "QUANTILE_CONT(age, 0.3)",
        "MAD(age)",
        "ENTROPY(race)",
        "STDDEV(age) FILTER (WHERE race = 'White')",
        "STDDEV(age) / AVG(age)",
        "MAX(age) - MIN(age)",
    ],
)
def test_untouched_columns_are_left_to_the_engine(what: str) -> None:
    sql = f"SELECT sex, {what} AS n FROM release WHERE age > 20 GROUP BY sex ORDER BY sex"
    found = rows("uniform", sql)
    assert [r["n"] for r in found] == pytest.approx([n for _, n in true(sql)])
    assert all(r["n_se"] == 0 for r in found)


def test_quantiles_under_a_sensitive_condition_have_an_interval() -> None:
    sql = f"SELECT sex, MEDIAN(age) AS n FROM release WHERE {SALES} GROUP BY sex ORDER BY sex"
    answer = release("randomized-response").sql(sql, level=0.999)
    for row, (_, expected) in zip(answer.rows(), true(sql), strict=True):
        assert row["n_low"] <= expected <= row["n_high"]
        assert row["n_se"] is None
    assert answer.kind == "confidence"
    assert "QUANTILE_DISC" in answer.caveats[0]


def test_rounding_is_of_what_is_shown() -> None:
    plain = rows("uniform", f"SELECT 100.0 * COUNT(*) / 7 AS n FROM release WHERE {SALES}")[0]
    found = rows("uniform", f"SELECT ROUND(100.0 * COUNT(*) / 7, 1) AS n FROM release WHERE {SALES}")[0]
    assert found["n"] == round(plain["n"], 1)
    assert found["n_se"] == plain["n_se"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT LOG(COUNT(*)) AS n FROM release", "LOG of an aggregate has no error formula"),
        (f"SELECT STDDEV(age) FROM release WHERE {SALES}", "untouched columns only"),
        ("SELECT COUNT(DISTINCT occupation) FROM release", "untouched columns only"),
        ("SELECT COUNT(*) OVER () FROM release", "window functions"),
        ("SELECT RANK() OVER (ORDER BY COUNT(*)) FROM release GROUP BY sex", "window functions"),
        ("SELECT SUM(AVG(age)) OVER () FROM release GROUP BY sex", "total over groups is of COUNT or SUM"),
        (
            "SELECT sex, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY race) FROM release GROUP BY sex",
            "columns of GROUP BY",
        ),
        ("SELECT sex, SUM(COUNT(*)) OVER () AS n FROM release GROUP BY ROLLUP (sex)", "plain GROUP BY"),
        ("SELECT MAX(n) FROM (SELECT sex, COUNT(*) AS n FROM release GROUP BY sex) t", "MAX of an answer"),
        ("SELECT x FROM (SELECT COUNT(*) AS n FROM release) t", 'no column "x"'),
        ("WITH RECURSIVE t AS (SELECT COUNT(*) AS n FROM release) SELECT n FROM t", "RECURSIVE"),
        ("SELECT COUNT(*) FROM release r JOIN release s ON r.age = s.age", "look-up tables only"),
        ("SELECT COUNT(*) FROM release r JOIN twice t ON r.race = t.race", "more than once"),
        ("SELECT COUNT(*) FROM release r JOIN jobs l ON r.age > l.job", "one equality"),
        ("SELECT l.nothing, COUNT(*) FROM release r JOIN jobs l ON r.occupation = l.job GROUP BY 1", "no column"),
        ("SELECT (SELECT COUNT(*) FROM release) AS n", "FROM release"),
    ],
)  # fmt: skip
def test_what_has_no_error_is_refused_by_name(sql: str, message: str) -> None:
    tables = {"jobs": LOOKUP, "twice": pa.table({"race": ["White", "White"], "x": [1, 2]})}
    with pytest.raises(QueryError, match=message):
        release("uniform").sql(sql, tables=tables)


@pytest.mark.parametrize(
    "what",
    ["EXP(COUNT(*))", "COUNT(*) > 3", "CAST(COUNT(*) AS INTEGER)", "MODE(age)", "STDDEV(age)", "COUNT(DISTINCT sex)"],
)
def test_a_refusal_of_an_aggregate_names_a_way_out(what: str) -> None:
    with pytest.raises(UnsupportedQuery) as refused:
        release("uniform").sql(f"SELECT {what} AS n FROM release WHERE occupation = 'Sales'")
    assert refused.value.hint
    assert refused.value.position
