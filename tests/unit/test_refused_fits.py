"""Models that cannot be: refused by every method and family in a line that names the term, with advice that helps."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.analysis import design
from sfumato.errors import QueryError, SfumatoError, UnsupportedQuery
from sfumato.methods import REGISTRY
from sfumato.methods.registry import BUILT_IN

ROWS = 400
SILENT = {"target-distribution", "distribution-draw", "l-diversity"}  # no errors of sums over true rows
ANSWERING = tuple(name for name in BUILT_IN if name not in SILENT)
FAMILIES = ("gaussian", "binomial", "poisson", "multinomial")
NO_NUMBERS = ["I(1 / 0)", "I(age / 0)", "np.log(age - 20)", "np.sqrt(age - 30)", "np.exp(age * 100)", "I(1e200 * age)"]


@cache
def published(method: str) -> sf.Release:
    rng = np.random.default_rng(5)
    s = rng.integers(0, 6, ROWS)
    school = np.array(["low", "mid", "high"])[(rng.random(ROWS) * 2 + s / 6).astype(int)]
    table = pa.table(
        {
            "s": s,
            "g": np.where(rng.random(ROWS) < 0.5, "a", "b"),
            "age": 20 + rng.integers(0, 40, ROWS),
            "school": pa.array([None if i % 9 == 0 else v for i, v in enumerate(school)]),
            "loss": -rng.integers(0, 3, ROWS),
            "kind": np.array([f"k{i % 60}" for i in range(ROWS)]),
            "town": np.array([f"t{i % 67}" for i in range(ROWS)]),
            "empty": pa.array([None if i % 4 == 0 else 1.0 for i in range(ROWS)]),
        }
    )
    spec = REGISTRY[method].spec(**REGISTRY[method].example.spec)
    if method == "randomized-response":
        spec = sf.RandomizedResponse(scope="s", keep={"s": 0.8})
    roles = sf.Roles(sensitive="s", quasi=["g"], insensitive=["age", "school", "loss", "kind", "town", "empty"])
    return sf.publish(table, roles=roles, method=spec, seed=5, accept_unprotected=True)


def refusal(release: sf.Release, formula: str, **options: Any) -> str:
    """What is said, in at most a few hundred characters and without a warning of numpy's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(QueryError) as refused:
            release.fit(formula, **options)
    said = str(refused.value)
    assert len(said) < 400, said
    return said


@pytest.mark.parametrize("method", ANSWERING)
def test_the_advice_to_leave_missing_outcomes_out_can_be_followed(method: str) -> None:
    release = published(method)
    for family, formula in (("multinomial", "school ~ age"), ("multinomial", "C(school) ~ g")):
        said = refusal(release, formula, family=family)
        assert 'the outcome "school" is missing' in said
        assert 'where="school IS NOT NULL"' in said
        fit = release.fit(formula, family=family, where="school IS NOT NULL")
        assert fit.levels == ("high", "low", "mid")
        assert np.isfinite(fit.bse).all()
    two = release.fit("school ~ age", family="binomial", where="school <> 'mid' AND (age > 21 OR s <> 1)")
    assert two.levels == ("high", "low")
    assert "the outcome empty is missing" in refusal(release, "empty ~ age")
    assert 'the weight "empty" is missing' in refusal(release, "age ~ g", weights="empty")


@pytest.mark.parametrize("method", ANSWERING)
@pytest.mark.parametrize("family", FAMILIES)
def test_terms_without_a_finite_number_are_refused_by_name(method: str, family: str) -> None:
    release = published(method)
    for term in NO_NUMBERS if method == "uniform" else NO_NUMBERS[1:3]:
        if family != "multinomial":
            said = refusal(release, f"{term} ~ g", family=family)
            assert f"the outcome {term.replace('1e200', '1e+200')} is not finite or too large" in said
        outcome = {"gaussian": "age", "binomial": "g", "poisson": "age", "multinomial": "g"}[family]
        for formula in (f"{outcome} ~ {term}", f"{outcome} ~ C(s) + C(s):{term}"):
            said = refusal(release, formula, family=family)
            assert f"{term.replace('1e200', '1e+200')} is not finite or too large for up to" in said


def test_numbers_of_rows_that_do_not_take_part_do_not_matter() -> None:
    release = published("uniform")
    whole = release.fit("np.log(age - 20) ~ g", where="age > 20")
    mixed = release.fit("np.log(age - 20) ~ g", where="NOT (age = 20 OR (s = 1 AND s = 2))")
    assert mixed.estimates == pytest.approx(whole.estimates)
    assert mixed.bse.to_numpy() == pytest.approx(whole.bse.to_numpy())


@pytest.mark.parametrize("method", ANSWERING)
def test_a_family_says_which_outcomes_it_takes(method: str) -> None:
    release = published(method)
    assert "poisson needs counts, numbers from 0 on; loss holds numbers below 0" in refusal(
        release, "loss ~ C(s)", family="poisson"
    )
    for term, held in (("I(loss / 2)", "below 0"), ("I(age / 40)", "above 1")):
        said = refusal(release, f"{term} ~ C(s)", family="binomial")
        assert f"binomial needs an outcome of 0 and 1, or shares between them; {term} holds numbers {held}" in said
    for family in ("gaussian", "binomial", "poisson"):
        assert "the outcome I(0 * age) has one value" in refusal(release, "I(0 * age) ~ C(s)", family=family)
    assert "has one value" in refusal(release, "school ~ age", family="multinomial", where="school = 'low'")
    said = refusal(release, "age ~ g", family="binomial")
    assert "{age == 59} ~ ..." in said
    assert release.fit("{age == 59} ~ g", family="binomial").levels == ()


@pytest.mark.parametrize("formula", ["age ~ C(kind) * C(town)", "age ~ C(kind):C(town):C(s)", "age ~ C(age):C(kind)"])
def test_too_many_coefficients_are_refused_before_there_is_room_for_them(
    formula: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("the design was laid out")

    monkeypatch.setattr(design, "_column", refused)
    said = refusal(published("uniform"), formula)
    assert "more than 1,000 coefficients" in said


def test_the_limit_counts_coefficients_as_they_are_laid_out() -> None:
    """60 + 67 - 1 columns are fitted or refused for what they hold; of two equations each may have 500."""
    with pytest.raises(
        UnsupportedQuery, match=r"more than 500 coefficients for each outcome, most of them of C\(kind\)"
    ):
        published("uniform").fit("school ~ C(kind):C(g):C(s)", family="multinomial", where="school IS NOT NULL")
    assert len(published("uniform").fit("age ~ C(kind) + C(town)").names) == 126


def test_long_lists_of_terms_are_cut() -> None:
    said = refusal(published("splu"), "age ~ C(kind):C(s)")
    assert " more" in said


@pytest.mark.parametrize("method", ANSWERING)
def test_a_p_value_is_0_only_where_there_is_no_error(method: str) -> None:
    release = published(method)
    fit = release.fit("I(1e6 * age + loss) ~ age")
    assert fit.pvalues["age"] == 1e-300
    assert fit.rows()[1]["p"] == 1e-300
    assert "below 1e-300" in fit.summary()
    assert "below 1e-300" in str(fit.wald_test("age"))


@pytest.mark.parametrize(("level", "shown"), [(0.95, "95%"), (0.999999, "99.9999%"), (1e-9, "1e-07%"), (0.29, "29%")])
def test_a_level_is_shown_with_its_digits(level: float, shown: str) -> None:
    release = published("uniform")
    assert f"{shown} interval" in release.fit("age ~ g", level=level).summary()
    assert f"{shown} interval" in str(release.sql("SELECT s, COUNT(*) FROM release GROUP BY s", level=level))
    tested = str(release.test("g", "s", level=level))
    assert f"{shown} interval" in tested or f"({shown})" in tested


def test_what_is_refused_stays_refused_on_the_command_line_in_one_line() -> None:
    for formula in ("I(1 / 0) ~ age", "age ~ I(1 / 0)"):
        with pytest.raises(SfumatoError) as refused:
            published("uniform").fit(formula)
        assert "\n" not in refused.value.message  # type: ignore[attr-defined]


def test_results_are_printed_as_tables_and_sentences() -> None:
    release = published("uniform")
    quantiles = str(release.quantile("age", [0.25, 0.5], by=["g"], level=0.9)).splitlines()
    assert quantiles[0].split("  ") == ["g", "share", "age", "90% interval"]
    assert len(quantiles) == 5
    assert str(release.correlation("age", "loss")).startswith("correlation of age and loss: ")
    compared = str(release.compare(mean="age", by="g")).splitlines()
    assert compared[0] == "mean of age by g; differences from a"
    assert [line.split()[0] for line in compared[1:]] == ["g", "a", "b"]
