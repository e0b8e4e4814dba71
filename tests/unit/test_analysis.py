"""Models, tests, quantiles, correlations and comparisons of a release, as an analyst asks for them."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2_contingency

import sfumato
from sfumato import datasets
from sfumato.analysis.association import PUBLISHED, WALD, pearson
from sfumato.analysis.cells import read
from sfumato.errors import QueryError, SpecError, UnsupportedQuery
from sfumato.laws.functionals import Functions

GROUPS = {
    "occupation": {
        "Professional": ["Exec-managerial", "Prof-specialty"],
        "Office": ["Adm-clerical", "Sales", "Tech-support"],
        "Manual": ["Craft-repair", "Transport-moving", "Machine-op-inspct", "Handlers-cleaners", "Farming-fishing"],
        "Service": ["Other-service", "Protective-serv", "Priv-house-serv", "Armed-Forces"],
        "none": [None],
    }
}
COLUMNS = ("age", "sex", "race", "workclass", "education_num", "hours_per_week", "income", "occupation")


@cache
def adult() -> pa.Table:
    return datasets.adult().select(COLUMNS)


@cache
def released(**keep: str) -> Any:
    """Adult with some columns randomised."""
    roles = sfumato.Roles(sensitive=tuple(keep), rest="quasi")
    method = sfumato.RandomizedResponse(scope="s", keep=keep)
    return sfumato.publish(adult(), roles=roles, method=method, seed=3, null_as_value=True)


@cache
def original() -> Any:
    """Adult with race randomised: what does not read it is the truth."""
    return released(race="0.9")


@cache
def mild() -> Any:
    return released(occupation="0.8")


def truth(sql: str) -> list[tuple[Any, ...]]:
    adult_table = adult()  # noqa: F841 - named in the SQL
    return duckdb.sql(sql.replace("FROM release", "FROM adult_table")).fetchall()


@cache
def income() -> Any:
    return mild().fit("income ~ age + C(sex) + C(occupation)", family="binomial", recode=GROUPS)  # type: ignore[arg-type]


def test_a_summary_says_what_is_modelled_and_whose_errors_are_shown() -> None:
    lines = income().summary().split("\n")
    assert lines[1] == "models Pr(income = '>50K'); 48,842 rows, 146 cells; release by randomized-response"
    assert lines[2] == "errors: of a population of which the table is a random sample"
    own = mild().fit("hours_per_week ~ sex + C(occupation)", recode=GROUPS, target="table")
    assert own.summary().split("\n")[2] == (
        "errors: of the randomisation only; target: the fit on the publisher's own rows"
    )
    np.testing.assert_array_equal(own.bse, own.bse_table)


def test_names_are_those_of_statsmodels() -> None:
    found = income()
    assert list(found.params.index[:3]) == ["Intercept", "age", "C(sex)[T.Male]"]
    np.testing.assert_allclose(found.tvalues, found.params / found.bse)
    np.testing.assert_allclose(found.bse, np.sqrt(np.diag(found.cov_params())))
    np.testing.assert_allclose(found.noise, (found.bse_table / found.bse) ** 2)
    assert ((found.noise > 0) & (found.noise < 1)).all()
    low, high = found.conf_int()[0], found.conf_int()[1]
    np.testing.assert_allclose((low + high) / 2, found.params)
    assert (found.conf_int(alpha=0.01)[0] < low).all()
    np.testing.assert_allclose(found.odds_ratios()["ratio"], np.exp(found.params))
    assert found.converged
    assert found.nobs == pytest.approx(48_842)
    for absent in ("llf", "aic", "rsquared", "resid", "fittedvalues"):
        assert not hasattr(found, absent)


def test_a_wald_test_of_one_coefficient_is_its_z_squared() -> None:
    found = income()
    assert found.wald_test("age").statistic == pytest.approx(float(found.tvalues["age"]) ** 2)
    assert found.wald_test("age").pvalue == pytest.approx(float(found.pvalues["age"]), abs=1e-12)
    assert found.wald_test("C(occupation)").df == 4
    with pytest.raises(QueryError, match='no term "occupation"'):
        found.wald_test("occupation")


def test_documents_of_a_fit() -> None:
    document = json.loads(income().to_json())
    assert set(document) >= {"family", "target", "nobs", "rows", "caveats"}
    assert set(document["rows"][0]) >= {"term", "estimate", "se", "se_table", "low", "high", "p"}
    assert income().to_arrow().num_rows == 7
    assert list(income().to_pandas().index) == list(income().names)


def test_a_prediction_is_of_a_description() -> None:
    points = {"age": [30, 50], "sex": ["Male", "Female"], "occupation": ["Office", "none"]}
    found = income().predict(points)
    b = income().params
    eta = b["Intercept"] + 30 * b["age"] + b["C(sex)[T.Male]"] + b["C(occupation)[T.Office]"]
    assert found["mean"][0] == pytest.approx(1 / (1 + np.exp(-eta)))
    assert ((found["low"] < found["mean"]) & (found["mean"] < found["high"])).all()
    with pytest.raises(QueryError, match='needs a value for "occupation"'):
        income().predict({"age": [30], "sex": ["Male"]})
    with pytest.raises(QueryError, match="another one was given"):
        income().predict({"age": [30], "sex": ["Male"], "occupation": ["Sales"]})


def test_an_estimate_is_near_the_truth() -> None:
    """One seeded release; the true coefficient of Manual is -1.7389."""
    found = income()
    name = "C(occupation)[T.Manual]"
    assert abs(found.params[name] + 1.7389) < 4 * found.bse[name]
    exact = original().fit("income ~ age + C(sex) + C(occupation)", family="binomial", recode=GROUPS)
    assert exact.params[name] == pytest.approx(-1.7389, abs=1e-4)


def test_rare_levels_are_refused_by_name_and_where_leaves_them_out() -> None:
    formula = "income ~ age + C(sex) + C(occupation)"
    noisy = released(occupation="0.4")
    with pytest.raises(UnsupportedQuery, match=r"(too little information|least is known) about .*Armed-Forces"):
        noisy.fit(formula, family="binomial")
    found = mild().fit(
        formula, family="binomial", where="occupation NOT IN ('Armed-Forces', 'Priv-house-serv') AND age < 80"
    )
    assert not any("Armed" in name or "Priv-house" in name or "NULL" in name for name in found.names)
    assert len(found.names) == 3 + 11
    (rows,) = truth(
        "SELECT COUNT(*) FROM release WHERE occupation NOT IN ('Armed-Forces', 'Priv-house-serv') AND age < 80"
    )
    assert found.nobs == pytest.approx(rows[0], rel=0.01)


def test_a_model_without_randomised_columns_is_exact() -> None:
    found = mild().fit("hours_per_week ~ age + sex")
    (expected,) = truth("SELECT regr_slope(hours_per_week, age) FROM release WHERE sex = 'Male'")
    male = mild().fit("hours_per_week ~ age", where="sex = 'Male'")
    assert male.params["age"] == pytest.approx(expected[0])
    assert (found.bse_table == 0).all()
    assert found.caveats == ("no randomised column: an ordinary fit of the published rows",)


def test_a_weight_counts_a_row_more_than_once() -> None:
    plain = mild().fit("hours_per_week ~ sex", weights="education_num")
    expected = truth(
        "SELECT sum(education_num * hours_per_week) / sum(education_num) FROM release GROUP BY sex ORDER BY sex"
    )
    assert plain.params["Intercept"] == pytest.approx(expected[0][0])
    assert plain.params.sum() == pytest.approx(expected[1][0])
    noisy = released(education_num="0.9").fit("hours_per_week ~ sex", weights="education_num")
    assert np.abs((noisy.params - plain.params) / noisy.bse_table).max() < 4
    assert (noisy.bse_table > 0).all()


def test_outcomes_of_several_levels_and_of_one_condition() -> None:
    several = mild().fit("occupation ~ age + sex", family="multinomial", recode=GROUPS)
    exact = original().fit("occupation ~ age + sex", family="multinomial", recode=GROUPS)
    assert several.names[0] == "Office: Intercept"
    assert len(several.names) == 12
    assert np.abs((several.params - exact.params) / several.bse_table).max() < 4.5
    shares = several.predict({"age": [40], "sex": ["Male"]})
    assert shares[["Professional", "Office", "Manual", "Service", "none"]].sum(axis=1)[0] == pytest.approx(1)
    one = mild().fit("{occupation == 'Sales'} ~ age", family="binomial", where="occupation IS NOT NULL")
    assert one.outcome == "Pr(occupation == 'Sales')"
    untouched = mild().fit("income ~ C(occupation)", family="multinomial", recode=GROUPS)
    logit = mild().fit("income ~ C(occupation)", family="binomial", recode=GROUPS)
    np.testing.assert_allclose(untouched.params, logit.params, rtol=1e-8)
    np.testing.assert_allclose(untouched.bse, logit.bse, rtol=1e-8)


def test_two_randomised_columns_at_once() -> None:
    both = released(income="0.9", occupation="0.8")
    found = both.fit("income ~ age + C(occupation)", family="binomial", recode=GROUPS)
    exact = original().fit("income ~ age + C(occupation)", family="binomial", recode=GROUPS)
    assert np.abs((found.params - exact.params) / found.bse_table).max() < 4.5
    assert both.test("income", "occupation", recode=GROUPS).test == PUBLISHED


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("occupation ~ age", {}, "holds no numbers"),
        ("occupation ~ age", {"family": "binomial"}, "two values"),
        ("hours_per_week ~ agee", {}, 'no column "agee"'),
        ("hours_per_week ~ age", {"family": "probit"}, "family must be one of"),
        ("hours_per_week ~ age", {"target": "both"}, "target must be"),
        ("hours_per_week ~ age", {"level": 95}, "level must lie"),
        ("hours_per_week ~ age", {"weights": "sex"}, "column of numbers"),
        ("hours_per_week ~ age", {"where": "age < 0"}, "no row"),
        ("hours_per_week ~ age", {"where": "age > 30 GROUP BY sex"}, "condition"),
        ("hours_per_week ~ age", {"where": "age > 30; DROP TABLE x"}, "one statement"),
        ("hours_per_week ~ age + I(2 * age)", {}, "determine each other"),
        ("hours_per_week ~ np.log(age - 17)", {}, "not finite or too large for up to"),
        ("hours_per_week ~ sex", {"where": "sex = 'Male'"}, "a factor needs two"),
        ("hours_per_week ~ C(occupation)", {"recode": {"occupation": {"a": ["Salesman"]}}}, "did you mean 'Sales'"),
        ("hours_per_week ~ C(occupation)", {"recode": {"occupation": {"a": ["Sales"], "b": ["Sales"]}}}, "twice"),
        ("hours_per_week ~ C(sex, contr.treatment(base='m'))", {}, 'no level "m"'),
        ("workclass ~ age", {"family": "multinomial"}, "missing for some rows"),
    ],
)
def test_what_cannot_be_fitted_is_refused(formula: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises((QueryError, SpecError), match=message):
        mild().fit(formula, **options)


@pytest.mark.parametrize(
    "method", [sfumato.DistributionDraw(), sfumato.LDiversity(l="6/5")], ids=lambda m: type(m).__name__
)
def test_methods_without_known_errors_are_refused_by_name(method: Any) -> None:
    table = adult().select(["sex", "race", "income"])
    release = sfumato.publish(table, roles=sfumato.Roles(sensitive="income", rest="quasi"), method=method, seed=1)
    with pytest.raises(UnsupportedQuery, match=f'"{release.manifest.method}" publishes no estimates'):
        release.fit("income ~ sex", family="binomial")


def test_a_missing_extra_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(SpecError, match=r"pip install 'sfumato\[fit\]'"):
        mild().fit("hours_per_week ~ age")


# --- tests and tables -----------------------------------------------------------------------------------------------


def test_untouched_columns_are_tested_by_pearsons_chi_square() -> None:
    found = mild().test("sex", "income")
    counts = np.array([n for *_, n in truth("SELECT sex, income, COUNT(*) FROM release GROUP BY 1, 2 ORDER BY 1, 2")])
    expected = chi2_contingency(counts.reshape(2, 2), correction=False)
    assert found.statistic == pytest.approx(expected.statistic)
    assert (found.df, found.test) == (1, PUBLISHED)
    n = counts.astype(float)
    assert found.odds_ratio.value == pytest.approx(n[0] * n[3] / n[1] / n[2])
    assert found.odds_ratio.log_se == pytest.approx(np.sqrt((1 / n).sum()))
    plain = np.sqrt(expected.statistic / n.sum())
    assert found.cramers_v == pytest.approx(plain, rel=0.01)


def test_columns_that_do_not_go_together_have_an_upper_limit() -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"x": rng.choice(list("ab"), 3000), "y": rng.choice(list("uvw"), 3000)})
    method = sfumato.RandomizedResponse(scope="s", keep={"y": "0.6"})
    release = sfumato.publish(table, roles=sfumato.Roles(sensitive="y", rest="quasi"), method=method, seed=2)
    found = release.test("x", "y")
    assert found.pvalue > 0.001
    assert found.cramers_v is None
    assert found.low == 0
    assert 0 < found.high < 0.2
    assert "upper limit" in found.caveats[0]
    with pytest.raises(QueryError, match="two different"):
        release.test("x", "x")


def test_a_condition_on_a_randomised_column_needs_the_wald_test() -> None:
    found = mild().test("sex", "occupation", where="occupation IN ('Sales', 'Craft-repair')")
    assert (found.test, found.df) == (WALD, 1)
    counts = truth(
        "SELECT sex, occupation, COUNT(*) FROM release WHERE occupation IN ('Sales', 'Craft-repair') "
        "GROUP BY 1, 2 ORDER BY 1, 2"
    )
    n = np.array([c[2] for c in counts], dtype=float)
    log = np.log(n[0] * n[3] / n[1] / n[2])
    assert abs(np.log(found.odds_ratio.value) - log) < 4 * found.odds_ratio.log_se


def test_columns_that_are_redrawn_together_need_the_wald_test() -> None:
    """Independent, with uneven margins: redrawn as one value they are published with an association."""
    rng = np.random.default_rng(8)
    table = pa.table(
        {"x": rng.choice(list("abc"), 40_000, p=[0.7, 0.2, 0.1]), "y": rng.choice(list("uv"), 40_000, p=[0.8, 0.2])}
    )
    roles = sfumato.Roles(sensitive=("x", "y"))
    release = sfumato.publish(table, roles=roles, method=sfumato.UniformPerturbation(rho1="3/5", rho2="14/15"), seed=2)
    found = release.test("x", "y")
    assert found.test == WALD
    assert found.pvalue > 1e-4
    grid = read(release.subject, ("x", "y"))
    published, _ = pearson(grid.functionals.published().reshape(3, 2))
    assert published > 100


def test_quantiles_of_untouched_columns_are_exact() -> None:
    found = mild().quantile("age", [0.1, 0.5, 0.9], by=["sex"])
    expected = truth("SELECT sex, unnest(quantile_disc(age, [0.1, 0.5, 0.9])) FROM release GROUP BY sex ORDER BY sex")
    assert [(*r.group, r.value) for r in found.rows] == expected
    assert all(r.low == r.value == r.high for r in found.rows)


def test_quantiles_of_randomised_columns_have_an_interval_that_holds_the_truth() -> None:
    release = released(education_num="0.5")
    found = release.quantile("education_num", [0.1, 0.25, 0.5, 0.75, 0.9], level=0.999)
    expected = [v for (v,) in truth(
        "SELECT unnest(quantile_disc(education_num, [0.1, 0.25, 0.5, 0.75, 0.9])) FROM release"
    )]  # fmt: skip
    assert all(r.low <= v <= r.high for r, v in zip(found.rows, expected, strict=True))
    assert found.to_arrow().column_names == ["share", "education_num", "low", "high"]
    with pytest.raises(SpecError, match="between 0 and 1"):
        release.quantile("age", 50)
    with pytest.raises(QueryError, match="need numbers"):
        release.quantile("sex", 0.5)


def test_correlations() -> None:
    (expected,) = truth("SELECT corr(hours_per_week, age) FROM release")[0]
    exact = mild().correlation("hours_per_week", "age", target="table")
    assert (exact.value, exact.se) == (pytest.approx(expected), 0)
    (true,) = truth("SELECT corr(hours_per_week, education_num) FROM release")[0]
    found = released(education_num="0.6").correlation("hours_per_week", "education_num")
    assert abs(found.value - true) < 4 * found.se
    assert found.low < found.value < found.high


def test_shares_and_means_are_compared_between_groups() -> None:
    exact = mild().compare(by="sex", mean="age", target="table")
    expected = [v for (v,) in truth("SELECT avg(age) FROM release GROUP BY sex ORDER BY sex")]
    assert [g.value for g in exact.groups] == pytest.approx(expected)
    assert exact.groups[1].difference == pytest.approx(expected[1] - expected[0])
    found = mild().compare(by="sex", share="occupation = 'Sales' AND age > 30")
    shares = truth(
        "SELECT avg(CASE WHEN occupation = 'Sales' AND age > 30 THEN 1 ELSE 0 END) FROM release "
        "GROUP BY sex ORDER BY sex"
    )
    for group, (share,) in zip(found.groups, shares, strict=True):
        assert abs(group.value - share) < 4 * group.se
    second = found.groups[1]
    assert second.difference_se == pytest.approx(np.hypot(found.groups[0].se, second.se), rel=0.05)
    with pytest.raises(SpecError, match="give one of"):
        mild().compare(by="sex")
    with pytest.raises(UnsupportedQuery, match=r"too little information about occupation\[Armed-Forces\]"):
        released(occupation="0.4").compare(by="occupation", mean="age")


def test_the_ends_of_a_quantile_are_where_sql_counts_stop_contradicting_it() -> None:
    """Every value t is tested by COUNT(*) WHERE education_num <= t, whose error SQL states."""
    release, z = released(education_num="0.12"), 1.959963984540054
    found = release.quantile("education_num", [0.1, 0.3, 0.5, 0.7, 0.9]).rows
    values = range(1, 17)
    counts = ", ".join(f"COUNT(*) FILTER (WHERE education_num <= {t}) AS n{t}" for t in values)
    (row,) = release.sql(f"SELECT {counts} FROM release").rows()
    for one in found:
        gap = {t: row[f"n{t}"] - one.share * 48_842 for t in values}
        se = {t: row[f"n{t}_se"] for t in values}
        assert one.low == next(t for t in values if gap[t] + z * se[t] >= 0)
        assert one.high == 1 + max(t for t in values if gap[t] - z * se[t] < 0)
        assert one.low <= one.value <= one.high
    assert any(one.value < one.high for one in found)


def test_errors_of_untouched_means_and_correlations_are_the_textbooks() -> None:
    rows = {name: np.array(adult()[name].to_pylist()) for name in ("age", "hours_per_week", "sex")}
    age, hours = rows["age"].astype(float), rows["hours_per_week"].astype(float)
    found = mild().compare(by="sex", mean="age")
    for group in found.groups:
        here = age[rows["sex"] == group.level]
        assert group.se == pytest.approx(here.std() / np.sqrt(len(here)))
    u, v = (age - age.mean()) / age.std(), (hours - hours.mean()) / hours.std()
    r = (u * v).mean()
    moved = mild().correlation("age", "hours_per_week")
    assert moved.se == pytest.approx(np.sqrt(((u * v - r / 2 * (u**2 + v**2)) ** 2).sum()) / len(u))


def test_groups_that_are_estimated_share_their_errors() -> None:
    """A randomised group: the difference of two means is one sum, with one error."""
    where = "occupation IN ('Sales', 'Craft-repair')"
    found = mild().compare(by="occupation", mean="age", where=where, target="table")
    grid = read(mild().subject, ("occupation", "age"), where=where)
    number = grid.variables["age"].numbers()
    labels = grid.variables["occupation"].labels
    inside = [grid.weight * (grid.variables["occupation"].codes == labels.index(g.level)) for g in found.groups]
    sizes = [(grid.functionals.counts() * i).sum() for i in inside]
    moves = [i * (number - g.value) / n for i, g, n in zip(inside, found.groups, sizes, strict=True)]
    S = grid.functionals.covariance(Functions.of((moves[1] - moves[0])[:, None, :]), "table")
    assert found.groups[1].difference_se == pytest.approx(np.sqrt(S[0, 0]))
    assert found.groups[1].difference_se != pytest.approx(np.hypot(*(g.se for g in found.groups)), rel=1e-3)


def test_a_test_that_finds_columns_dependent_does_not_say_that_v_may_be_0() -> None:
    """Many levels, of which two go together with a value: the noise of all cells hides V from itself, not from Wald."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 60, 6000)
    s = np.where((x < 2) & (rng.random(6000) < 0.95), 0, rng.integers(0, 12, 6000))
    table = pa.table({"x": [f"x{v:02d}" for v in x], "s": s})
    for method, together in (
        (sfumato.Splu(gamma=4), True),
        (sfumato.UniformPerturbation(rho1="1/5", rho2="1/2"), False),
    ):
        release = sfumato.publish(table, roles=sfumato.Roles(sensitive="s", rest="quasi"), method=method, seed=3)
        found = release.test("x", "s")
        assert found.cramers_v is None
        assert (found.pvalue < 0.05) == together
        assert any("not told apart from 0" in caveat for caveat in found.caveats) != together
        assert any("go together, by the test" in caveat for caveat in found.caveats) == together
