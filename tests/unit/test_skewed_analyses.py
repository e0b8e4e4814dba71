"""Fits, comparisons and correlations say where their errors hang on few rows, as sums in SQL do."""

from __future__ import annotations

import json
import warnings
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtri

import sfumato as sf
from analysed_methods import METHODS, SILENT
from sfumato.analysis.cells import few_rows, powers
from sfumato.errors import UnsupportedQuery
from sfumato.laws.functionals import Target

SAYS = "{}: the errors hang on few rows; intervals are approximate"
HALVES = {"s": {"low": [0, 1], "high": [2, 3]}}
ROWS = 6_000


@cache
def people() -> pa.Table:
    """`rich` is log-normal of spread 1.6, `wage` an ordinary column."""
    rng = np.random.default_rng(5)
    s = rng.integers(0, 4, ROWS)
    return pa.table(
        {
            "s": pa.array(s, pa.int32()),
            "g": np.where(rng.random(ROWS) < 0.5, "a", "b"),
            "x": np.round(rng.normal(size=ROWS) + 0.3 * s, 2),
            "wage": np.round(rng.gamma(4.0, 10.0, ROWS) + s, 1),
            "rich": np.round(rng.lognormal(3.0, 1.6, ROWS), 2),
        }
    )


@cache
def published(method: str) -> sf.Release:
    roles = sf.Roles(sensitive="s", quasi=["g"], insensitive=["x", "wage", "rich"])
    return sf.publish(people(), roles=roles, method=METHODS[method], seed=2, accept_unprotected=True)


def asked(release: sf.Release, column: str, target: Target) -> dict[str, Any]:
    """Analyses that hang on a column, each with the sensitive one."""
    return {
        "outcome": lambda: release.fit(f"{column} ~ s", target=target),
        "weights": lambda: release.fit("x ~ s", weights=column, target=target),
        "compare": lambda: release.compare(by="s", mean=column, recode=HALVES, target=target),
        "correlation": lambda: release.correlation("s", column, target=target),
    }


@pytest.mark.parametrize("what", ["outcome", "weights", "compare", "correlation"])
@pytest.mark.parametrize("method", METHODS)
def test_an_analysis_that_hangs_on_few_rows_says_so(method: str, what: str) -> None:
    """By every method that answers it, for both targets; of an ordinary column nothing is said."""
    targets: tuple[Target, ...] = ("population", "table")
    for target in targets:
        ask, skewed_too = (asked(published(method), column, target)[what] for column in ("wage", "rich"))
        if method in SILENT:
            with pytest.raises(UnsupportedQuery, match="publishes no estimates"):
                ask()
            continue
        ordinary, skewed = ask(), skewed_too()
        assert not [caveat for caveat in ordinary.caveats if "few rows" in caveat]
        exact = method == "l-diversity" and target == "table" and what in {"compare", "correlation"}
        assert (SAYS.format("rich") in skewed.caveats) == (not exact)
        if not exact:
            assert f"note: {SAYS.format('rich')}" in str(skewed)
            assert SAYS.format("rich") in json.loads(json.dumps(skewed.to_dict()))["caveats"]


def test_levels_shares_and_what_is_known_exactly_hang_on_nothing() -> None:
    release = published("uniform")
    assert not release.fit("{rich > 20000} ~ x", family="binomial").caveats[1:]
    found = release.compare(by="s", share="rich > 20000", recode=HALVES)
    assert SAYS.format("rich") not in found.caveats
    assert SAYS.format("rich") in release.compare(by="g", mean="rich").caveats
    assert SAYS.format("rich") not in release.compare(by="g", mean="rich", target="table").caveats


def test_the_rule_counts_rows_of_equal_size() -> None:
    """29 rows are few and 31 are not, whatever their unit; numbers too large for fourth powers say nothing."""
    for unit in (1e-60, 1.0, 1e60):
        assert few_rows("x", powers(np.array([32.0, -3.0]), unit * np.array([1.0, 1e3])))
        assert not few_rows("x", powers(np.array([34.0, -3.0]), unit * np.array([1.0, 1e3])))
    many, one = powers(np.full(100, 1.0), np.ones(100)), powers(np.ones(1), np.ones(1))
    assert few_rows("x", many, one)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not few_rows("x", powers(np.ones(2), np.array([1e100, 1.0])))
    assert few_rows("a\x1bb", one) == (SAYS.format("a\\x1bb"),)


@pytest.mark.parametrize("rows", [31, 45, 60, 89, 200])
def test_a_normal_column_amounts_to_all_of_its_rows(rows: int) -> None:
    """Quantiles in place of draws; of an exponential column 89 rows are few and 200 are not."""
    middle = (np.arange(rows) + 0.5) / rows
    normal, exponential = ndtri(middle), -np.log(1 - middle)
    assert not few_rows("x", powers(np.ones(rows), normal))
    assert bool(few_rows("x", powers(np.ones(rows), exponential - exponential.mean()))) == (rows < 120)
    assert few_rows("x", powers(np.ones(29), normal[:29]))


def test_rows_that_take_no_part_are_not_counted() -> None:
    """Of a fit to 29 rows nothing changes by 5,000 others that a condition leaves out."""
    rng = np.random.default_rng(8)
    table = pa.table(
        {
            "s": pa.array(rng.integers(0, 4, 5_029), pa.int32()),
            "x": np.round(rng.normal(size=5_029), 2),
            "few": np.arange(5_029) < 29,
        }
    )
    release = sf.publish(
        table,
        roles=sf.Roles(sensitive="s", quasi=["x", "few"]),
        method=sf.RandomizedResponse(scope="s", keep={"s": 0.9}),
        seed=1,
    )
    for says, where in ((True, "few"), (False, "NOT few")):
        for fit in (release.fit("x ~ 1", where=where), release.fit("x ~ 1", where=f"{where} AND s >= 0")):
            assert (SAYS.format("x") in fit.caveats) == says


def test_a_randomised_outcome_or_weight_is_looked_at_too() -> None:
    """Twelve rows have 500 times the pay of the others: an outcome, and a weight, that is known by estimate only."""
    rng = np.random.default_rng(6)
    pay = np.where(np.arange(ROWS) < 12, 1000, rng.integers(1, 4, ROWS))
    table = pa.table({"pay": pa.array(pay, pa.int32()), "x": np.round(rng.normal(size=ROWS), 1)})
    roles = sf.Roles(sensitive="pay", quasi=["x"])
    release = sf.publish(table, roles=roles, method=sf.RandomizedResponse(scope="s", keep={"pay": 0.999}), seed=1)
    for rows, says in (("pay > 0", True), ("pay < 1000", False)):
        for fit in (release.fit("pay ~ x", where=rows), release.fit("x ~ 1", weights="pay", where=rows)):
            assert (SAYS.format("pay") in fit.caveats) == says, rows
