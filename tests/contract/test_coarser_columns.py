"""A column that was made coarser before publishing says so: in `inspect`, on the page, and in every answer about it."""

from __future__ import annotations

from functools import cache

import httpx
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS, SILENT
from commands import sfumato
from serving import running
from sfumato.errors import QueryError
from sfumato.model.coarsening import bins, rounded, top_coded

ROUNDED = "made coarser before publishing: age: rounded to multiples of 10"
BINNED = "made coarser before publishing: hours: 3 bins"
TOP = "made coarser before publishing: pay: values above 3000 became 3000"


@cache
def release(method: str) -> sf.Release:
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "s": rng.permutation(np.repeat(np.arange(4), 200)),
            "age": rng.integers(20, 60, 800),
            "hours": rng.integers(10, 50, 800),
            "pay": rng.integers(1000, 5000, 800),
            "sex": rng.choice(["f", "m"], 800),
        }
    )
    recode = (*rounded({"age": 10}), *bins({"hours": (0, 20, 40)}), *top_coded({"pay": 3000}))
    roles = sf.Roles(sensitive="s", rest="quasi")
    return sf.publish(sf.Source(table, recode=recode), roles=roles, method=METHODS[method], seed=1)


@pytest.mark.parametrize("method", METHODS)
def test_answers_say_it_of_the_columns_that_they_use(method: str) -> None:
    asked = {
        "SELECT COUNT(*) AS n FROM release WHERE s = 1": set(),
        "SELECT Age, COUNT(*) AS n FROM release GROUP BY 1": {ROUNDED},
        "SELECT SUM(pay) AS n FROM release WHERE hours = '[0, 20)'": {BINNED, TOP},
        "SELECT SUM(n) AS m FROM (SELECT age, COUNT(*) AS n FROM release GROUP BY age) t": {ROUNDED},
        "SELECT STDDEV(pay) AS n FROM release": {TOP},
    }
    for sql, expected in asked.items():
        try:
            found = release(method).sql(sql).caveats
        except QueryError:
            continue
        assert {said for said in found if "coarser" in said} == expected, sql


@pytest.mark.parametrize("method", [name for name in METHODS if name not in SILENT])
def test_analyses_say_it(method: str) -> None:
    opened = release(method)
    try:
        test = opened.test("sex", "s", where="age > 30")
    except QueryError:
        return
    assert ROUNDED in test.caveats
    assert TOP in opened.quantile("s", where="pay > 1500").caveats
    assert not any("coarser" in said for said in opened.test("sex", "s").caveats)


def test_inspect_says_it() -> None:
    folder = release("uniform").path
    assert "made coarser before publishing\n  - age: rounded to multiples of 10" in sfumato("inspect", folder).out
    assert '"coarsened": ["age: rounded to multiples of 10", ' in sfumato("inspect", folder, "--json").out.replace(
        "\n", ""
    )


def test_the_page_says_it() -> None:
    pytest.importorskip("starlette", reason="the web extra is not installed")
    with running(release("uniform").path) as server:
        page = httpx.get(
            f"{server.url}/{release('uniform').path.name}", headers={"accept": "text/html"}, timeout=180
        ).text
    assert "Made coarser before publishing" in page
    assert "age: rounded to multiples of 10" in page
