"""The expected release: its answers are the truth, its errors the formulas, without sampling."""

from __future__ import annotations

import numpy as np
import pytest

from comparing import people, roles
from sfumato.choosing.compare import make_setting
from sfumato.choosing.foresee import ExpectedRelease, mean_absolute_error
from sfumato.choosing.setting import Setting
from sfumato.methods import REGISTRY
from sfumato.model.public import Roles
from sfumato.publish import Prepared, prepare
from sfumato.publishing.randomness import Secret

TABLE = people()
UNBIASED = ("uniform", "small-domain", "randomized-response", "anatomy")


@pytest.fixture(scope="module")
def setting() -> Setting:
    return make_setting(TABLE, roles=roles(), bound="1/3", conditions=40)


def foreseen(setting: Setting, method: str) -> tuple[Prepared, ExpectedRelease]:
    own = REGISTRY[method].at_bound(setting.facts, setting.tau, setting.rho1)[0]
    prepared = setting.prepare(own, Secret.from_seed(3))
    return prepared, ExpectedRelease(prepared, setting.truth)


def release_of(setting: Setting, method: str) -> ExpectedRelease:
    return foreseen(setting, method)[1]


@pytest.mark.parametrize("method", UNBIASED)
def test_the_mean_of_an_unbiased_estimate_is_the_truth(setting: Setting, method: str) -> None:
    answers = setting.workload.ask(release_of(setting, method))
    np.testing.assert_allclose(answers.value, setting.workload.truth, rtol=1e-8, atol=1e-6)
    assert (answers.se > 0).all()


def test_uniform_errors_are_those_of_the_formula(setting: Setting) -> None:
    """docs/explanation/uniform.md, section 5: Var = [ f (p+q)(1-p-q) + (n-f) q (1-q) ] / p^2."""
    prepared, release = foreseen(setting, "uniform")
    ((p, q),) = ((float(p), float(q)) for p, q in prepared.planned.law.channels)
    row = release.sql("SELECT COUNT(*) AS n FROM release WHERE disease = 'd01' AND sex = 'f'").rows()[0]
    frame = TABLE.to_pandas()
    n, f = (frame.sex == "f").sum(), ((frame.sex == "f") & (frame.disease == "d01")).sum()
    expected = np.sqrt(f * (p + q) * (1 - p - q) + (n - f) * q * (1 - q)) / p
    assert row["n"] == pytest.approx(f)
    assert row["n_se"] == pytest.approx(expected, rel=1e-9)


def test_small_domain_errors_add_over_sub_tables(setting: Setting) -> None:
    prepared, release = foreseen(setting, "small-domain")
    work, law = prepared.planned.work, prepared.planned.law
    tables, sets = law.tables, law.tables if law.name == "set-lists" else None
    row = release.sql("SELECT COUNT(*) AS n FROM release WHERE disease = 'd02'").rows()[0]
    code = [v for (v,) in prepared.profile.domains[0].values].index("d02")
    deal, variance = work.deals[0], 0.0
    for k in range(deal.start[code], deal.start[code + 1]):
        i, f = int(deal.labels[k]), float(deal.counts[k])
        if sets is not None:
            found, _, _ = work.secret
            held = sets.values[i] == code
            variance += float(sets.answers(i).variance(held[None].astype(float))[0] @ found.sub_tables[i].true_counts)
            continue
        n, p, q = law.sizes[i], tables.p[i], tables.q[i]
        variance += (f * (p + q) * (1 - p - q) + (n - f) * q * (1 - q)) / p**2
    assert row["n_se"] == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_distribution_draw_expects_independence(setting: Setting) -> None:
    row = release_of(setting, "distribution-draw").sql(
        "SELECT COUNT(*) AS n FROM release WHERE disease = 'd01' AND sex = 'f'"
    )
    frame = TABLE.to_pandas()
    share = (frame.disease == "d01").mean()
    n = (frame.sex == "f").sum()
    assert row.rows()[0]["n"] == pytest.approx(n * share)
    assert row.rows()[0]["n_se"] == pytest.approx(np.sqrt(n * share * (1 - share)))


def test_any_sql_is_foreseen_not_only_counts(setting: Setting) -> None:
    """SUM and AVG of an untouched column, and several values at once."""
    sql = "SELECT sex, SUM(grade) AS s, AVG(grade) AS a FROM release WHERE disease IN ('d01', 'd02') GROUP BY sex"
    frame = TABLE.to_pandas()
    for method in ("uniform", "small-domain", "anatomy"):
        for row in release_of(setting, method).sql(sql).rows():
            true = frame[(frame.sex == row["sex"]) & frame.disease.isin(["d01", "d02"])].grade
            assert row["s"] == pytest.approx(true.sum(), rel=1e-8)
            assert row["a"] == pytest.approx(true.mean(), rel=1e-8)
            assert row["s_se"] > 0


def test_splu_takes_several_columns() -> None:
    table = people().append_column("symptom", people(seed=9)["disease"])
    both = Roles(sensitive=("disease", "symptom"), quasi=("area", "sex", "grade"))
    from sfumato.choosing.workload import Original
    from sfumato.engines.duckdb.table import LocalEngine
    from sfumato.methods.splu import Splu

    prepared = prepare(table, roles=both, method=Splu(gamma=3), secret=Secret.from_seed(1))
    engine = LocalEngine()
    truth = Original(engine.open(table), table.column_names, engine)
    sql = "SELECT COUNT(*) AS n FROM release WHERE disease = 'd01' AND symptom = 'd03'"
    (row,) = ExpectedRelease(prepared, truth).sql(sql).rows()
    frame = table.to_pandas()
    true = ((frame.disease == "d01") & (frame.symptom == "d03")).sum()
    assert abs(row["n"] - true) < row["n_se"]


def test_mean_absolute_error_of_a_normal() -> None:
    np.testing.assert_allclose(mean_absolute_error(np.zeros(1), np.ones(1)), np.sqrt(2 / np.pi))
    np.testing.assert_allclose(mean_absolute_error(np.array([-3.0]), np.array([np.nan])), 3.0)
    rng = np.random.default_rng(1)
    sample = np.abs(rng.normal(-0.7, 1.3, size=400_000))
    found = mean_absolute_error(np.array([-0.7]), np.array([1.3]))[0]
    assert abs(found - sample.mean()) < 6 * sample.std() / np.sqrt(sample.size)


def test_every_registered_method_is_foreseeable_or_draws_nothing(setting: Setting) -> None:
    for name in REGISTRY:
        own = REGISTRY[name].at_bound(setting.facts, setting.tau, setting.rho1)[0]
        assert name not in {"l-diversity", "target-distribution"} or own.releases == 1
