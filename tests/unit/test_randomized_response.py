"""randomized-response through the real pipeline: answers against brute-force weights, plans, bins, refusals."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import norm

import sfumato as sf
from adult_table import EMGRW, adult
from sfumato.errors import DataError, PlanError, QueryError, ReleaseError, SpecError, UnsupportedQuery
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from sfumato.stats.association import uncertainty_coefficient
from sfumato.stats.intervals import count_cumulants, tail_interval

ROLES = sf.Roles(sensitive="disease", quasi=["town", "sex"], insensitive=["visits"])
KEEP = {"town": "0.7", "sex": "0.8", "disease": "0.6"}


def people(rows: int = 4000, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    town = rng.choice(["ash", "elm", "fir", "oak"], rows, p=[0.4, 0.3, 0.2, 0.1])
    sex = rng.choice(["f", "m"], rows)
    disease = np.where(rng.random(rows) < 0.3, "flu", rng.choice(["cold", "gout", "flu"], rows))
    return pa.table({"town": town, "sex": sex, "disease": disease, "visits": rng.poisson(3, rows)})


@pytest.fixture(scope="module")
def release() -> sf.Release:
    return sf.publish(people(), roles=ROLES, method=sf.RandomizedResponse(keep=KEEP), seed=5)


def brute(release, question, measure=None):
    """(estimate, variance, largest weight) from dense inverse channels, row by row."""
    table = pq.read_table(release.path / "data.parquet").to_pydict()
    names, keep = release.plan.law.columns, dict(zip(release.plan.law.columns, release.plan.law.keep, strict=True))
    domains = {d.columns[0]: [v[0] for v in d.values] for d in release.domains}
    inverse = {}
    for n in names:
        d = len(domains[n])
        q = (1 - keep[n]) / (d - 1)
        inverse[n] = np.linalg.inv((keep[n] - q) * np.eye(d) + q)
    cells = list(itertools.product(*[domains[n] for n in names]))
    w, w2 = {}, {}
    for seen in cells:
        factors = [inverse[n][:, domains[n].index(v)] for n, v in zip(names, seen, strict=True)]
        weights = [
            np.prod([f[domains[n].index(v)] for f, n, v in zip(factors, names, true, strict=True)]) for true in cells
        ]
        a = np.array([question(dict(zip(names, true, strict=True))) for true in cells], dtype=float)
        w[seen], w2[seen] = float(np.dot(weights, a)), float(np.dot(weights, a**2))
    rows = list(zip(*[table[n] for n in names], strict=True))
    g = np.ones(len(rows)) if measure is None else np.array(table[measure], dtype=float)
    ws, w2s = np.array([w[r] for r in rows]), np.array([w2[r] for r in rows])
    return (g * ws).sum(), (g**2 * (ws**2 - w2s)).sum(), max(abs(x) for x in w.values())


QUESTIONS = {
    "disease = 'flu'": lambda r: r["disease"] == "flu",
    "disease = 'flu' AND town IN ('elm', 'oak')": lambda r: r["disease"] == "flu" and r["town"] in {"elm", "oak"},
    "disease = 'flu' OR sex = 'f'": lambda r: r["disease"] == "flu" or r["sex"] == "f",
    "NOT (town = 'ash' AND (sex = 'm' OR disease <> 'cold'))": lambda r: (
        not (r["town"] == "ash" and (r["sex"] == "m" or r["disease"] != "cold"))
    ),
}


@pytest.mark.parametrize("where", QUESTIONS)
def test_counts_equal_brute_force_weights(release, where) -> None:
    """Estimate, standard error and interval of any Boolean predicate, to rounding.

    A condition on one column has the inverted test, with kept values of chance .6 and two others of .2; several columns
    have the guarded interval.
    """
    row = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {where}").rows()[0]
    value, variance, largest = brute(release, QUESTIONS[where])
    z = norm.ppf(0.975)
    half = z * np.sqrt(max(variance, 0) + z**2 * largest**2 / 4)
    low, high = value - half, value + half
    if where == "disease = 'flu'":
        v, k = count_cumulants(4000.0, 0.4, 0.2)
        low, high = (float(end) for end in tail_interval(np.array(value), v, k, 0.05, 0.0, 4000.0))
    assert row["n"] == pytest.approx(value, rel=1e-9)
    assert row["n_se"] == pytest.approx(np.sqrt(variance), rel=1e-9)
    assert row["n_low"] == pytest.approx(max(low, 0), rel=1e-6)
    assert row["n_high"] == pytest.approx(min(high, 4000), rel=1e-6)


def test_sum_of_an_untouched_measure(release) -> None:
    row = release.sql("SELECT SUM(visits) AS s FROM release WHERE disease = 'gout' AND sex = 'm'").rows()[0]
    value, variance, _ = brute(release, lambda r: r["disease"] == "gout" and r["sex"] == "m", "visits")
    assert row["s"] == pytest.approx(value, rel=1e-9)
    assert row["s_se"] == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_group_by_many_randomised_cells_equals_single_questions(release) -> None:
    """GROUP BY three columns takes the all-cells path; each cell must equal its own question."""
    release_many = sf.publish(
        pa.table({"a": np.repeat([f"v{i:02}" for i in range(40)], 50), "b": np.tile(["x", "y"], 1000)}),
        roles=sf.Roles(sensitive="b", quasi=["a"]),
        method=sf.RandomizedResponse(keep={"a": 0.8, "b": 0.9}),
        seed=1,
    )
    for one, columns in ((release, ["town", "sex", "disease"]), (release_many, ["a", "b"])):
        names = ", ".join(columns)
        cells = one.sql(f"SELECT {names}, COUNT(*) AS n FROM release GROUP BY {names}").rows()
        for cell in cells[:: max(1, len(cells) // 12)]:
            where = " AND ".join(f"{c} = '{cell[c]}'" for c in columns)
            single = one.sql(f"SELECT COUNT(*) AS n FROM release WHERE {where}").rows()[0]
            for name in ("n", "n_se", "n_low", "n_high"):
                assert cell[name] == pytest.approx(single[name], rel=1e-9, abs=1e-6)


def test_share_has_the_error_of_the_spec(release) -> None:
    """se = sqrt(sum e^2 - (1-R)^2 A - R^2 (B - A)) / B, through the linear question a - R b."""
    row = release.sql("SELECT AVG(CASE WHEN disease = 'flu' THEN 1 ELSE 0 END) AS s FROM release WHERE sex = 'f'")
    row = row.rows()[0]
    A, _, _ = brute(release, lambda r: r["disease"] == "flu" and r["sex"] == "f")
    B, _, _ = brute(release, lambda r: r["sex"] == "f")
    _, variance, _ = brute(release, lambda r: (r["sex"] == "f") * ((r["disease"] == "flu") - A / B))
    assert row["s"] == pytest.approx(A / B, rel=1e-9)
    assert row["s_se"] == pytest.approx(np.sqrt(variance) / B, rel=1e-9)


def test_untouched_questions_are_exact(release) -> None:
    answer = release.sql("SELECT COUNT(*) AS n, SUM(visits) AS s FROM release WHERE visits > 3")
    assert answer.kind == "exact"
    assert answer.rows()[0]["n_se"] == 0


def test_keep_one_answers_exactly() -> None:
    """p = 1 everywhere: every error bar is 0 and every count is the true one."""
    table = people(500)
    quiet = sf.publish(
        table, roles=ROLES, method=sf.RandomizedResponse(scope="qi", keep=dict.fromkeys(KEEP, 1)), seed=1
    )
    truth = table.group_by(["town", "disease"]).aggregate([([], "count_all")]).to_pylist()
    cells = quiet.sql("SELECT town, disease, COUNT(*) AS n FROM release GROUP BY town, disease").rows()
    found = {(r["town"], r["disease"]): r for r in cells}
    for row in truth:
        cell = found[row["town"], row["disease"]]
        assert (cell["n"], cell["n_se"], cell["n_low"], cell["n_high"]) == pytest.approx(
            (row["count_all"], 0, row["count_all"], row["count_all"])
        )


def test_release_states_what_it_must_and_nothing_private(release) -> None:
    stated = json.loads((release.path / "release.json").read_text())
    assert stated["law"]["keep"] == [0.7, 0.8, 0.6]
    assert stated["guarantee"]["trust"] == "conditional"
    losses = stated["guarantee"]["parameters"]["epsilon"]
    for column, d, p in (("town", 4, 0.7), ("sex", 2, 0.8), ("disease", 3, 0.6)):
        exact = np.log(p * (d - 1) / (1 - p))
        assert exact <= losses[column] < exact + 1.1e-4
    assert stated["guarantee"]["parameters"]["baseline"]["disease"] == round(
        stated["guarantee"]["parameters"]["baseline"]["disease"], 2
    )
    text = " ".join(stated["guarantee"]["not_covered"])
    assert "not of a successful guess" in text
    assert "shares of sensitive values" in text


def adult_emgrw() -> pa.Table:
    return adult().select(list(EMGRW))


EMGRW_ROLES = sf.Roles(sensitive="workclass", quasi=list(EMGRW[:4]))


def test_plan_report_names_every_reader() -> None:
    prepared = prepare(
        adult_emgrw(),
        roles=EMGRW_ROLES,
        method=sf.RandomizedResponse(scope="qi", risk="1/5"),
        secret=Secret.from_seed(1),
    )
    report = prepared.report()
    assert report["keep"] == pytest.approx(
        {"education": 0.314, "marital_status": 0.614, "sex": 0.872, "race": 0.938}, abs=1e-9
    )
    assert report["risk"] <= 0.2
    assert report["infimum"] == pytest.approx(0.0872, abs=5e-5)
    (target,) = report["targets"]
    assert target["baseline"] == pytest.approx(0.739, abs=5e-4)
    assert target["linking_posterior"]["largest"] == pytest.approx(0.83, abs=5e-3)
    assert set(report["explained"]) == {"risk", "baseline", "linking_posterior", "record_posterior", "epsilon"}
    assert len(report["expected_error"]["values"]) == len(report["expected_error"]["total"]) == 7


def test_scope_s_is_refused_with_the_scopes_that_work() -> None:
    with pytest.raises(PlanError, match="scope qi or both could reach it") as refusal:
        sf.publish(adult_emgrw(), roles=EMGRW_ROLES, method=sf.RandomizedResponse(scope="s", risk="1/2"))
    assert refusal.value.exit_code == 3


def test_several_sensitive_columns() -> None:
    roles = sf.Roles(sensitive=["workclass", "marital_status"], quasi=["sex", "race"])
    table = adult().select(["sex", "race", "workclass", "marital_status"])
    prepared = prepare(
        table, roles=roles, method=sf.RandomizedResponse(scope="both", risk="1/2"), secret=Secret.from_seed(1)
    )
    targets = prepared.report()["targets"]
    assert [t["sensitive"] for t in targets] == [["workclass"], ["marital_status"], ["workclass", "marital_status"]]
    assert max(t["risk"] for t in targets) <= 0.5


def test_bins_make_numbers_categories() -> None:
    table = people().append_column("age", pa.array(np.random.default_rng(1).integers(17, 80, 4000)))
    roles = sf.Roles(sensitive="disease", quasi=["age"], insensitive=["visits", "town", "sex"])
    method = sf.RandomizedResponse(scope="qi", keep={"age": 0.8}, bins="age=17,30,50")
    binned = sf.publish(table, roles=roles, method=method, seed=1)
    assert [v[0] for v in binned.domains[0].values] == ["[17, 30)", "[30, 50)", "[50, inf)"]
    assert binned.domains[0].declared
    total = sum(r["n"] for r in binned.sql("SELECT age, COUNT(*) AS n FROM release GROUP BY age").rows())
    assert total == pytest.approx(4000)
    with pytest.raises(QueryError):
        binned.sql("SELECT COUNT(*) FROM release WHERE age > 40")
    low = sf.RandomizedResponse(scope="qi", keep={"age": 0.8}, bins={"age": [20, 30]})
    with pytest.raises(DataError, match=r"\d+ rows of .age. hold a value outside the domain"):
        sf.publish(table, roles=roles, method=low)
    with pytest.raises(SpecError, match="not a column of numbers"):
        sf.publish(
            table,
            roles=sf.Roles(sensitive="disease", quasi=["town"], rest="drop"),
            method=sf.RandomizedResponse(scope="qi", keep={"town": 0.8}, bins={"town": [1, 2]}),
        )


def test_a_quantity_without_bins_is_refused() -> None:
    table = people().append_column("income", pa.array(np.random.default_rng(1).normal(size=4000)))
    roles = sf.Roles(sensitive="disease", quasi=["income"], rest="drop")
    with pytest.raises(DataError, match="--bins income="):
        sf.publish(table, roles=roles, method=sf.RandomizedResponse(risk="1/2"))


def test_missing_values_are_refused_or_a_category() -> None:
    table = people()
    table = table.set_column(0, "town", pa.array([None, *table["town"].to_pylist()[1:]]))
    method = sf.RandomizedResponse(keep=KEEP)
    with pytest.raises(DataError, match="1 rows have no value"):
        sf.publish(table, roles=ROLES, method=method)
    kept = sf.publish(table, roles=ROLES, method=method, null_as_value=True, seed=1)
    assert [v[0] for v in kept.domains[0].values] == ["ash", "elm", "fir", "oak", None]
    # a missing sensitive value is refused where the column itself is not randomised, too
    table = people()
    table = table.set_column(2, "disease", pa.array([None, *table["disease"].to_pylist()[1:]]))
    with pytest.raises(DataError, match="no value"):
        sf.publish(table, roles=ROLES, method=sf.RandomizedResponse(scope="qi", keep={"town": 0.7}))


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"scope": "qi", "keep": {"town": "1/4"}}, "needs one above 1/4"),
        ({"keep": {"name": 0.5}}, "neither a quasi-identifier nor sensitive"),
        ({"risk": "1/3", "bins": {"name": [1, 2]}}, "neither a quasi-identifier nor sensitive"),
        ({"risk": "1/3", "bins": "age"}, "bins are written"),
        ({"risk": "1/3", "bins": {"town": [3, 2]}}, "edges that rise"),
    ],
)
def test_bad_requests(arguments, what) -> None:
    with pytest.raises(SpecError, match=what):
        sf.publish(people(), roles=ROLES, method=sf.RandomizedResponse(**arguments))


def test_unknown_value_and_column(release) -> None:
    with pytest.raises(QueryError, match="no value"):
        release.sql("SELECT COUNT(*) FROM release WHERE disease = 'mumps'")
    with pytest.raises(QueryError, match="no column"):
        release.sql("SELECT COUNT(*) FROM release WHERE height = 3")


def test_nonnegative_tables_and_association(release) -> None:
    truth = people()
    plain = release.table(["sex", "disease"]).to_pylist()
    assert sum(r["n"] for r in plain) == pytest.approx(4000)
    for way in ("em", "simplex"):
        table = release.table(["sex", "disease"], nonnegative=way).to_pylist()
        assert min(r["n"] for r in table) >= 0
        assert sum(r["n"] for r in table) == pytest.approx(4000)
        assert [(r["sex"], r["disease"]) for r in table] == [(r["sex"], r["disease"]) for r in plain]
    found = release.association("town", "disease")
    assert 0 <= found.low <= found.value <= found.high
    assert found == release.association("town", "disease")
    wider = release.association("town", "disease", level=0.999)
    # both may end where the search does, at three times the largest association that was tried
    assert (wider.value, wider.low <= found.low, wider.high >= found.high) == (found.value, True, True)
    quiet = sf.publish(
        truth, roles=ROLES, method=sf.RandomizedResponse(scope="qi", keep=dict.fromkeys(KEEP, 1)), seed=1
    )
    exact = quiet.association("town", "visits")
    towns, visits = truth["town"].to_pylist(), truth["visits"].to_pylist()
    counts = np.zeros((4, max(visits) + 1))
    np.add.at(counts, ([["ash", "elm", "fir", "oak"].index(t) for t in towns], visits), 1)
    assert exact.value == pytest.approx(uncertainty_coefficient(counts), rel=1e-9)
    assert exact.low == exact.high == exact.value
    with pytest.raises(QueryError, match="em, simplex"):
        release.table(["sex"], nonnegative="clip")
    with pytest.raises(QueryError, match="no column"):
        release.table(["height"], nonnegative="em")
    other = sf.publish(
        truth, roles=ROLES, method=sf.UniformPerturbation(rho1="2/5", rho2="1/2"), seed=1, accept_unprotected=True
    )
    with pytest.raises(UnsupportedQuery):
        other.table(["sex"], nonnegative="em")


@pytest.mark.slow
def test_twelve_quasi_identifiers_published_and_queried() -> None:
    """Over 10^12 cells: planned with the bound, published and asked."""
    quasi = ["age", "workclass", "education", "marital_status", "relationship", "race", "sex", "hours_per_week",
             "native_country", "income", "capital_loss", "education_num"]  # fmt: skip
    table = adult().select([*quasi, "occupation"])
    roles = sf.Roles(sensitive="occupation", quasi=quasi)
    method = sf.RandomizedResponse(scope="qi", risk="1/2", bins="age=17,25,35,45,55,65,hours_per_week=0,20,40,60")
    prepared = prepare(table, roles=roles, method=method, secret=Secret.from_seed(1))
    report = prepared.report()
    sizes = [len(d) for d in prepared.profile.domains[:-1]]
    assert np.prod([float(s) for s in sizes]) > 1e10
    assert report["risk_is"] == "upper bound"
    assert report["risk"] <= 0.5
    wide = sf.publish(table, roles=roles, method=sf.RandomizedResponse(scope="qi", risk="1/2"), seed=1)
    assert np.prod([float(len(d)) for d in wide.domains]) > 1e12
    row = wide.sql("SELECT COUNT(*) AS n FROM release WHERE sex = 'Female' AND income = '>50K'").rows()[0]
    pairs = zip(table["sex"].to_pylist(), table["income"].to_pylist(), strict=True)
    truth = sum(pair == ("Female", ">50K") for pair in pairs)
    assert row["n_low"] <= truth <= row["n_high"]  # a fixed seed; 1112 people
    assert row["n_se"] > 0


@pytest.mark.parametrize(
    "change",
    [
        {"keep": [0.25, 0.8, 0.6]},
        {"keep": [0.7, 0.8]},
        {"keep": [0.7, 0.8, 1.5]},
        {"sizes": [4, 2, 4]},
        {"columns": ["town", "disease", "sex"]},
    ],
)
def test_a_forged_release_is_refused(release, tmp_path, change) -> None:
    """A singular channel, a wrong length, sizes or columns that are not those of the domains."""
    release.save(tmp_path / "forged")
    path = tmp_path / "forged" / "release.json"
    stated = json.loads(path.read_text())
    stated["law"] |= change
    path.write_text(json.dumps(stated))
    with pytest.raises(ReleaseError):
        sf.open_release(tmp_path / "forged")


def test_too_many_cells_for_the_risk_is_said_and_given_keeps_still_publish(monkeypatch) -> None:
    monkeypatch.setattr("sfumato.methods.randomized_response.risk.TABLE_LIMIT", 10)
    with pytest.raises(PlanError, match="too many to compute the risk"):
        sf.publish(people(), roles=ROLES, method=sf.RandomizedResponse(risk="1/2"))
    prepared = prepare(people(), roles=ROLES, method=sf.RandomizedResponse(keep=KEEP), secret=Secret.from_seed(1))
    report = prepared.report()
    assert report["risk"] is None
    assert set(report["epsilon"]) == set(KEEP)


def test_sums_and_averages_of_a_randomised_number() -> None:
    """SUM of codes: w = P^-T g, its variance sum w^2 - sum P^-T g^2, and AVG by the linear question g - R."""
    rng = np.random.default_rng(9)
    table = pa.table({"grade": rng.integers(1, 6, 3000), "disease": rng.choice(["cold", "flu"], 3000)})
    roles = sf.Roles(sensitive="disease", quasi=["grade"])
    release = sf.publish(table, roles=roles, method=sf.RandomizedResponse(keep={"grade": 0.6, "disease": 0.8}), seed=2)
    value, variance, _ = brute(release, lambda r: r["grade"] * (r["disease"] == "flu"))
    row = release.sql("SELECT SUM(grade) AS s, AVG(grade) AS a FROM release WHERE disease = 'flu'").rows()[0]
    assert row["s"] == pytest.approx(value, rel=1e-9)
    assert row["s_se"] == pytest.approx(np.sqrt(variance), rel=1e-9)
    people_, _, _ = brute(release, lambda r: r["disease"] == "flu")
    _, spread, _ = brute(release, lambda r: (r["disease"] == "flu") * (r["grade"] - value / people_))
    assert row["a"] == pytest.approx(value / people_, rel=1e-9)
    assert row["a_se"] == pytest.approx(np.sqrt(spread) / people_, rel=1e-9)
