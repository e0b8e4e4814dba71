"""Analyses by every method do not depend on units of measurement, on names of columns or on the order of rows.

And what has no finite answer is refused: separated outcomes, infinite numbers, thousands of groups.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS, SILENT
from sfumato.engines.contract import Reader
from sfumato.errors import QueryError, SfumatoError, SpecError, UnsupportedQuery
from sfumato.methods.registry import BUILT_IN
from sfumato.query import ask

FAR_AND_NEAR = (
    ("binomial", "y", "year", "past"),
    ("gaussian", "x", "near", "plain"),
    ("multinomial", "n", "near", "plain"),
)
ROWS = 1_200


def people() -> pa.Table:
    rng = np.random.default_rng(23)
    s, year, x = rng.integers(0, 4, ROWS), rng.integers(2010, 2021, ROWS), rng.normal(size=ROWS)
    p = 1 / (1 + np.exp(-(0.4 * s - 1 + 0.5 * (year - 2015))))
    rare = np.arange(ROWS) < 5
    table = pa.table(
        {
            "s": pa.array(s, pa.int32()),
            "g": np.where(rng.random(ROWS) < 0.4 + 0.05 * s, "a", "b"),
            "year": pa.array(year, pa.int32()),
            "past": pa.array(year - 2015, pa.int32()),
            "y": pa.array((rng.random(ROWS) < p).astype(np.int32)),
            "x": np.round(x + 0.3 * s + rng.normal(size=ROWS), 3),
            "near": 1e6 + np.round(x, 3),
            "plain": np.round(x, 3),
            "w": np.where(np.arange(ROWS) % 2 == 0, 1.0, 2.0),
            "tiny_w": np.where(np.arange(ROWS) % 2 == 0, 1e-9, 2e-9),
            "rare": np.where(rare, "r", "o"),
            "never": pa.array(np.where(rare, 0, (rng.random(ROWS) < 0.5)).astype(np.int32)),
            "const": np.full(ROWS, 7.0),
            "far": np.where(np.arange(ROWS) == 9, np.inf, x),
            "zero": np.zeros(ROWS),
            "n": pa.array(rng.integers(0, 3, ROWS), pa.int32()),
            "who": pa.array(np.arange(ROWS), pa.int32()),
        }
    )
    return table.append_column("small", pa.array(1e-11 * table["x"].to_numpy()))


@cache
def published(method: str) -> sf.Release:
    table = people()
    others = [name for name in table.column_names if name not in {"s", "g"}]
    roles = sf.Roles(sensitive="s", quasi=["g"], insensitive=others)
    return sf.publish(table, roles=roles, method=METHODS[method], seed=8, accept_unprotected=True)


@pytest.fixture(autouse=True)
def without_a_warning() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def of_s(method: str) -> str:
    """A term of the sensitive column where the method can fit one."""
    return "" if method in SILENT else " + s"


def test_every_built_in_method_is_tried() -> None:
    assert set(METHODS) == set(BUILT_IN)


@pytest.mark.parametrize("method", METHODS)
def test_a_covariate_may_be_measured_from_anywhere(method: str) -> None:
    release, more = published(method), of_s(method)
    for family, outcome, far, near in FAR_AND_NEAR:
        one, other = (release.fit(f"{outcome} ~ {c}{more}", family=family) for c in (far, near))
        slopes = [i for i, name in enumerate(one.names) if "Intercept" not in name]
        assert one.estimates[slopes] == pytest.approx(other.estimates[slopes], rel=1e-6, abs=1e-9)
        for mine, others in ((one.bse, other.bse), (one.bse_table, other.bse_table)):
            expected = pytest.approx(others.to_numpy()[slopes], rel=1e-5, abs=1e-9, nan_ok=True)
            assert mine.to_numpy()[slopes] == expected


@pytest.mark.parametrize("method", METHODS)
def test_units_of_the_outcome_and_of_weights_do_not_matter(method: str) -> None:
    release, more = published(method), of_s(method)
    large, small = (release.fit(f"{outcome} ~ past{more}") for outcome in ("x", "small"))
    assert large.estimates * 1e-11 == pytest.approx(small.estimates, rel=1e-8, abs=1e-22)
    assert large.bse.to_numpy() * 1e-11 == pytest.approx(small.bse.to_numpy(), rel=1e-8)
    for family, outcome in (("binomial", "y"), ("gaussian", "x")):
        one, other = (release.fit(f"{outcome} ~ past{more}", family=family, weights=w) for w in ("w", "tiny_w"))
        assert one.estimates == pytest.approx(other.estimates, rel=1e-5)
        assert one.bse.to_numpy() == pytest.approx(other.bse.to_numpy(), rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_weights_that_no_row_can_have_are_refused(method: str) -> None:
    release = published(method)
    for weights, held in (("past", "below 0"), ("far", "below 0"), ("zero", "nothing but 0")):
        with pytest.raises(QueryError, match=held) as refused:
            release.fit(f"x ~ year{of_s(method)}", weights=weights)
        assert len(str(refused.value).splitlines()) <= 2
    with pytest.raises(QueryError, match="not finite"):
        release.fit("x ~ year", weights="far", where="far >= 0")
    some = release.fit("x ~ year", weights="past", where="past >= 0")
    assert some.estimates == pytest.approx(release.fit("x ~ year", weights="past", where="past > 0").estimates)


@pytest.mark.parametrize("method", METHODS)
def test_separation_is_refused(method: str) -> None:
    """A level whose rows all have one outcome: its coefficient is infinite, and the sandwich says it is certain."""
    for formula, family in (
        ("never ~ C(rare)", "poisson"),
        ("y ~ C(y)", "binomial"),
        (f"never ~ C(rare){of_s(method)}", "binomial"),
        (f"never ~ C(rare){of_s(method)}", "multinomial"),
    ):
        with pytest.raises(UnsupportedQuery, match=r"no finite solution|too little information"):
            published(method).fit(formula, family=family)


@pytest.mark.parametrize("method", METHODS)
def test_a_mean_of_equal_numbers_has_no_error(method: str) -> None:
    (row,) = published(method).sql("SELECT AVG(const) AS a FROM release WHERE s = 1").rows()
    found = [row[name] for name in ("a", "a_se", "a_low", "a_high")]
    assert found == pytest.approx([7, 0, 7, 7], abs=1e-6) or (method, found) == ("target-distribution", [None] * 4)


OVER_ANSWERS = (
    "SELECT n, SUM(c) AS t, SUM(w) AS u FROM q GROUP BY n",
    "SELECT n % 2 AS k, SUM(c) / SUM(w) AS t FROM q WHERE n >= 0 GROUP BY 1",
    "SELECT n, SUM(c) AS t FROM q GROUP BY ALL",
)


class Shuffled:
    """A reader whose unordered answers come in another order each time, as those of an engine with threads do."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._rng = reader, np.random.default_rng(5)

    def run(self, statement: Any, **options: Any) -> pa.Table:
        found = self._reader.run(statement, **options)
        if not options.get("tables") or statement.args.get("order"):
            return found
        return found.take(pa.array(self._rng.permutation(found.num_rows)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


@pytest.mark.parametrize("method", sorted(set(METHODS) - SILENT - {"l-diversity"}))
def test_errors_over_answers_do_not_hang_on_the_order_of_rows(method: str) -> None:
    release = published(method)
    shuffled = replace(release.subject, reader=Shuffled(release.subject.reader))
    for outer in OVER_ANSWERS:
        asked = f"WITH q AS (SELECT n, COUNT(*) AS c, SUM(w) AS w FROM release WHERE s = 1 GROUP BY n) {outer}"
        found, expected = ask(shuffled, asked).rows(), release.sql(f"{asked} ORDER BY 1").rows()
        found.sort(key=lambda row: next(iter(row.values())))
        for mine, other in zip(found, expected, strict=True):
            assert list(mine.values()) == pytest.approx(list(other.values()), rel=1e-6)
            assert 0 < mine["t_se"] < 100


@pytest.mark.parametrize("method", METHODS)
def test_a_column_may_be_named_as_a_count(method: str) -> None:
    release = published(method)
    assert release.crosstab("n", "g").table.column_names[:3] == ["n", "g", "n_2"]
    assert release.count(by=["n"]).aggregates == ("n_2",)
    assert release.crosstab("n", "g", weights="w").aggregates == ("total",)
    assert [r["n_2"] for r in release.crosstab("n", "g").rows()] == [r["n"] for r in counted(release)]


def counted(release: sf.Release) -> list[dict[str, Any]]:
    return release.sql("SELECT n AS k, g, COUNT(*) AS n FROM release GROUP BY k, g ORDER BY k, g").rows()


def test_a_smoothed_table_keeps_a_column_named_as_a_count() -> None:
    assert published("randomized-response").table(["n", "s"], nonnegative="em").column_names == ["n", "s", "n_2"]


@pytest.mark.parametrize("method", METHODS)
def test_what_cannot_be_worked_out_is_refused_in_a_line(method: str) -> None:
    release = published(method)
    for question in (
        lambda: release.correlation("x", "far"),
        lambda: release.compare(by="g", mean="far"),
        lambda: release.compare(by="who", mean="x"),
        lambda: release.quantile("x", by=["who"]),
        lambda: release.fit("x ~ C(who)"),
    ):
        with pytest.raises(SfumatoError) as refused:
            question()
        assert len(str(refused.value).splitlines()) <= 2
    with pytest.raises(SpecError, match="shares"):
        release.quantile("x", ["half"])  # type: ignore[list-item]
    assert release.quantile("year", by="n").rows == release.quantile("year", by=["n"]).rows
