"""Numbers computed from aggregates that have no standard error, and answers of answers: an interval, or a refusal.

Quantiles, averages whose denominator may be zero and certain bounds have intervals of their own; what is computed from
them lies between what these intervals can make, each at the level that lets all of them hold at once.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS
from sfumato.errors import QueryError

ENDS = ("_low", "_high")


@cache
def people() -> pa.Table:
    rng = np.random.default_rng(11)
    s = rng.permutation(np.repeat(np.arange(4), 225))
    age, sex, town = rng.integers(20, 60, 900) + 3 * s, rng.choice(["f", "m"], 900), rng.choice(["x", "y"], 900)
    return pa.table({"sex": sex, "age": age, "town": town, "s": s})


@cache
def release(method: str) -> sf.Release:
    roles = sf.Roles(sensitive="s", quasi=["town"], rest="keep")  # l-diversity merges towns
    return sf.publish(people(), roles=roles, method=METHODS[method], seed=2)


def answer(method: str, sql: str, **options: Any) -> sf.Answer | None:
    """None where the method refuses the question."""
    try:
        return release(method).sql(sql, **options)
    except QueryError:
        return None


def ends(method: str, what: str, where: str, **options: Any) -> tuple[float, float] | None:
    found = answer(method, f"SELECT {what} AS n FROM release WHERE {where}", **options)
    return None if found is None else tuple(found.rows()[0][f"n{end}"] for end in ENDS)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("where", ["s = 1", "s >= 2 AND sex = 'f'", "age > 30"])
def test_arithmetic_of_quantiles_has_an_interval(method: str, where: str) -> None:
    middle = ends(method, "MEDIAN(age)", where)
    if middle is None:
        assert ends(method, "MEDIAN(age) - 1", where) is None
        return
    assert ends(method, "MEDIAN(age) - 1", where) == pytest.approx([end - 1 for end in middle])
    assert ends(method, "10 - 2 * MEDIAN(age)", where) == pytest.approx([10 - 2 * end for end in middle[::-1]])
    tenth, nine = (ends(method, f"QUANTILE(age, {share})", where, level=0.975) for share in (0.1, 0.9))
    assert tenth is not None
    assert nine is not None
    expected = {"/": (nine[0] / tenth[1], nine[1] / tenth[0]), "-": (nine[0] - tenth[1], nine[1] - tenth[0])}
    for op, (low, high) in expected.items():
        found = answer(method, f"SELECT QUANTILE(age, 0.9) {op} QUANTILE(age, 0.1) AS n FROM release WHERE {where}")
        (row,) = found.rows()
        assert (row["n_low"], row["n_high"]) == pytest.approx((low, high))
        assert low <= row["n"] <= high
        if low < high:
            assert row["n_se"] is None
            assert "n: without a standard error its interval is made of those of its parts" in found.caveats


@pytest.mark.parametrize("method", METHODS)
def test_a_quantile_beside_an_average_has_an_interval(method: str) -> None:
    found = answer(method, "SELECT MEDIAN(age) / AVG(age) AS n FROM release WHERE s = 1")
    if found is None:
        return
    (row,) = found.rows()
    assert row["n_low"] <= row["n"] <= row["n_high"]
    assert (row["n_se"] is None) == (row["n_low"] < row["n_high"])
    middle, mean = (ends(method, what, "s = 1", level=0.975) for what in ("MEDIAN(age)", "AVG(age)"))
    assert (row["n_low"], row["n_high"]) == pytest.approx((middle[0] / mean[1], middle[1] / mean[0]))


@pytest.mark.parametrize("method", METHODS)
def test_a_difference_of_averages_whose_denominators_may_be_zero(method: str) -> None:
    one, other = ("AVG(age) FILTER (WHERE s = 1 AND age > 57)", "AVG(age) FILTER (WHERE s = 2 AND age > 57)")
    found = answer(method, f"SELECT {one} - {other} AS gap FROM release")
    assert found is not None
    (row,) = found.rows()
    assert not any(caveat.startswith(":") for caveat in found.caveats)
    if row["gap"] is None:
        first, second = (ends(method, what, "age > 0", level=0.975) for what in (one, other))
        assert (row["gap_low"], row["gap_high"]) == pytest.approx((first[0] - second[1], first[1] - second[0]))
    else:
        assert row["gap_low"] <= row["gap"] <= row["gap_high"]


def test_averages_without_an_error_are_left_out_of_an_answer_over_them() -> None:
    inner = "SELECT age // 3 AS a, AVG(age) AS m, COUNT(*) AS n FROM release WHERE s = 1 GROUP BY 1"
    asked = release("uniform")
    unknown = sum(row["m"] is None for row in asked.sql(inner).rows())
    assert unknown
    with pytest.raises(QueryError, match="have no error") as refused:
        asked.sql(f"SELECT AVG(m) AS mean FROM ({inner}) t")
    assert "IS NOT NULL" in (refused.value.hint or "")
    found = asked.sql(f"SELECT AVG(m) AS mean FROM ({inner}) t WHERE m_se IS NOT NULL")
    assert found.rows()[0]["mean_se"] > 0
    assert any("chosen by their estimates" in caveat for caveat in found.caveats)
    assert asked.sql(f"SELECT SUM(n) AS total FROM ({inner}) t").rows()[0]["total_se"] > 0  # m is not in it


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_an_answer_are_counted(method: str) -> None:
    for key, groups in (("sex", 2), ("s", 4)):
        inner = f"SELECT {key}, COUNT(*) AS n FROM release GROUP BY {key}"
        found = release(method).sql(f"SELECT COUNT(*) AS c FROM ({inner}) t")
        assert found.kind == "exact"
        assert found.rows() == [{"c": groups, "c_se": 0, "c_low": groups, "c_high": groups}]


def test_how_many_rows_are_chosen_by_their_estimates_is_not_exact() -> None:
    found = release("uniform").sql(
        "SELECT COUNT(*) AS c FROM (SELECT s, COUNT(*) AS n FROM release GROUP BY s) t WHERE n > 225"
    )
    assert found.kind == "confidence"
    assert found.rows()[0]["c_se"] is None
    assert any("chosen by their estimates" in caveat for caveat in found.caveats)
