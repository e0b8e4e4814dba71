"""HAVING and a sorted LIMIT choose rows by their estimates: intervals then hold for all rows that could be chosen."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS, SILENT

CELLS = "SELECT age, s, COUNT(*) AS n FROM release GROUP BY age, s"
CHOSEN = "rows are chosen by their estimates"


@cache
def release(method: str) -> sf.Release:
    rng = np.random.default_rng(8)
    s = rng.permutation(np.repeat(np.arange(4), 250))
    table = pa.table({"sex": rng.choice(["f", "m"], 1000), "age": rng.integers(20, 40, 1000), "s": s})
    return sf.publish(table, roles=sf.Roles(sensitive="s", rest="quasi"), method=METHODS[method], seed=4)


def cells(method: str, clauses: str, **options: Any) -> tuple[dict[tuple[Any, Any], list[float]], tuple[str, ...]]:
    """Numbers of the cells that an answer shows, and its caveats."""
    answer = release(method).sql(f"{CELLS} {clauses}", **options)
    return {(r["age"], r["s"]): [r["n"], r["n_low"], r["n_high"]] for r in answer.rows()}, answer.caveats


@pytest.mark.parametrize("method", [name for name in METHODS if name not in SILENT | {"l-diversity"}])
@pytest.mark.parametrize(
    "clauses",
    ["HAVING COUNT(*) > 15", "HAVING INTERVAL_LOW(n) > 2", "ORDER BY n DESC LIMIT 5", "ORDER BY 3 LIMIT 5 OFFSET 2"],
)
def test_intervals_hold_for_all_rows_that_could_be_chosen(method: str, clauses: str) -> None:
    every, nothing = cells(method, "", simultaneous=True)
    single, _ = cells(method, "")
    found, caveats = cells(method, clauses)
    assert found
    assert all(every[key] == pytest.approx(numbers) for key, numbers in found.items())
    assert f"{CHOSEN}: the level holds for all {len(every)} that could have been at once" in caveats
    assert not any(CHOSEN in said for said in nothing)
    alone, caveats = cells(method, clauses, simultaneous=False)
    assert all(single[key] == pytest.approx(numbers) for key, numbers in alone.items())
    assert any(CHOSEN in said and "less often" in said for said in caveats)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "l-diversity"])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT age, COUNT(*) AS k, COUNT(*) FILTER (WHERE s = 1) AS n FROM release GROUP BY age HAVING COUNT(*) > 50",
        "SELECT age, COUNT(*) AS k, COUNT(*) FILTER (WHERE s = 1) AS n FROM release GROUP BY age ORDER BY k LIMIT 4",
        "SELECT age, COUNT(*) AS k, COUNT(*) FILTER (WHERE s = 1) AS n FROM release GROUP BY age ORDER BY n",
        "SELECT age, COUNT(*) AS k, COUNT(*) FILTER (WHERE s = 1) AS n FROM release GROUP BY age HAVING age > 30",
    ],
)
def test_rows_that_no_estimate_chooses_have_intervals_one_by_one(method: str, sql: str) -> None:
    answer = release(method).sql(sql)
    plain = {r["age"]: r for r in release(method).sql(sql.partition(" HAVING ")[0].partition(" ORDER ")[0]).rows()}
    assert answer.rows()
    assert all(row == plain[row["age"]] for row in answer.rows())
    assert not any(CHOSEN in said for said in answer.caveats)


def test_simultaneous_intervals_hold_over_all_grouping_sets_and_computed_numbers() -> None:
    """Each set was one answer of its own before, and so were computed numbers."""
    asked = release("uniform")
    one = "SELECT age, COUNT(*) AS n FROM release WHERE s = 1 GROUP BY {}"
    plain, both = (asked.sql(one.format(by), simultaneous=True).rows() for by in ("age", "GROUPING SETS ((age), ())"))
    assert len(both) == len(plain) + 1
    widths = [{r["age"]: r["n_high"] - r["n_low"] for r in rows} for rows in (plain, both)]
    assert all(widths[1][age] > widths[0][age] for age in widths[0])


def test_an_answer_over_chosen_rows_says_so() -> None:
    inner = f"{CELLS} ORDER BY n DESC LIMIT 5"
    answer = release("uniform").sql(f"SELECT SUM(n) AS total, COUNT(*) AS k FROM ({inner}) t")
    assert any("take the choice as given" in said for said in answer.caveats)
    assert answer.rows()[0]["k_se"] is None
