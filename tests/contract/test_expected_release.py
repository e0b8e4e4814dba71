"""The estimate of the expected release is the truth: `estimate(plan, true @ channel) == true`, nothing sampled."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from constants import SEED
from contract.examples import DISEASES, SEXES, diseases, spec
from sfumato.choosing.foresee import ExpectedRelease
from sfumato.choosing.workload import Original
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import SpecError
from sfumato.methods import REGISTRY
from sfumato.model.public import Roles, Trust
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

TOTALS = (
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu'",
    "SELECT COUNT(*) AS n FROM release WHERE disease IN ('angina', 'gout') OR disease > 'gout'",
    "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease ORDER BY disease",
)
CONDITIONED = (
    "SELECT COUNT(*) AS n FROM release WHERE disease < 'diabetes' AND sex = 'f' AND grade > 1",
    "SELECT SUM(grade) AS n FROM release WHERE disease = 'cold'",
    "SELECT sex, SUM(grade) FILTER (WHERE disease <> 'flu') AS n FROM release GROUP BY sex ORDER BY sex",
    "SELECT COUNT(*) FILTER (WHERE disease = 'flu' OR (sex = 'm' AND grade = 1)) AS n FROM release",
    "SELECT sex, disease, COUNT(*) AS n FROM release GROUP BY sex, disease ORDER BY sex, disease",
    "SELECT sex, AVG(grade) AS n FROM release WHERE disease <= 'cold' GROUP BY sex ORDER BY sex",
)
TWO = (
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND town = 'd'",
    "SELECT sex, SUM(grade) AS n FROM release WHERE disease > 'cold' OR town < 'c' GROUP BY sex ORDER BY sex",
    "SELECT town, COUNT(*) AS n FROM release WHERE disease IN ('angina', 'cold', 'flu') GROUP BY town ORDER BY town",
)
FORESEEN = [name for name in REGISTRY if name not in {"l-diversity", "target-distribution"}]


def table() -> pa.Table:
    """The people of the contract suite with a grade that goes with disease and sex, and a second sensitive column."""
    columns = diseases()
    disease, sex = columns["disease"], columns["sex"]
    rng = np.random.default_rng(SEED)
    return pa.table(
        {
            "disease": np.array(DISEASES)[disease].tolist(),
            "sex": np.array(SEXES)[sex].tolist(),
            "grade": rng.integers(0, 3, size=len(disease)) + disease // 3 + sex,
            "town": np.array(list("abcdef"))[(disease // 2 + rng.integers(0, 4, size=len(disease))) % 6].tolist(),
        }
    )


PEOPLE = table()
ENGINE = LocalEngine()
TRUTH = Original(ENGINE.open(PEOPLE), PEOPLE.column_names, ENGINE)


# Examples that name their columns name both.
BOTH = {"randomized-response": {"keep": {"disease": "0.6", "town": "0.7"}}}


def expected(name: str, sensitive: tuple[str, ...]) -> ExpectedRelease:
    """The release that the method's example leads to, without any release."""
    roles = Roles(sensitive=sensitive, quasi=["sex"], insensitive=["grade"], rest="drop")
    asked = REGISTRY[name].spec(**BOTH[name]) if len(sensitive) > 1 and name in BOTH else spec(name)
    prepared = prepare(PEOPLE, roles=roles, method=asked, secret=Secret.from_seed(SEED))
    return ExpectedRelease(prepared, TRUTH)


def compare(release: ExpectedRelease, questions: tuple[str, ...]) -> None:
    with duckdb.connect() as connection:
        connection.register("release", PEOPLE)
        for sql in questions:
            true = [row[-1] for row in connection.execute(sql).fetchall()]
            answers = release.sql(sql).rows()
            error = np.array([row["n"] for row in answers], dtype=float) - np.array(true, dtype=float)
            np.testing.assert_allclose(error, 0, atol=1e-8 * max(1, *np.abs(true)), err_msg=sql)


@pytest.mark.parametrize("name", FORESEEN)
def test_one_column(name: str) -> None:
    """Counts, sums, FILTER, averages, groups; a baseline promises totals alone."""
    questions = TOTALS if REGISTRY[name].trust is Trust.BASELINE else TOTALS + CONDITIONED
    compare(expected(name, ("disease",)), questions)


@pytest.mark.parametrize("name", FORESEEN)
def test_two_columns(name: str) -> None:
    """Where a method takes two sensitive columns, together or each by itself."""
    try:
        release = expected(name, ("disease", "town"))
    except SpecError:
        with pytest.raises(SpecError, match="one sensitive column"):
            expected(name, ("disease", "town"))
        return
    compare(release, TWO)


def test_a_wrong_channel_is_noticed() -> None:
    """The suite can fail: a plan with another gamma than the one that ran gives another answer."""
    from dataclasses import replace

    from sfumato.laws.keep_or_redraw import KeepOrRedraw

    roles = Roles(sensitive="disease", quasi=["sex"], insensitive=["grade"], rest="drop")
    prepared = prepare(PEOPLE, roles=roles, method=spec("uniform"), secret=Secret.from_seed(SEED))

    class Wrong(KeepOrRedraw):
        def estimate(self, evidence, observed, asked):  # type: ignore[no-untyped-def]
            wrong = KeepOrRedraw(values=self.values, gammas=(self.gammas[0] * 99 / 100,))
            return wrong.estimate(evidence, observed, asked)

    plan = prepared.planned.public
    wrong = Wrong(values=plan.law.values, gammas=plan.law.gammas)
    broken = replace(prepared, planned=replace(prepared.planned, public=replace(plan, law=wrong)))
    release = ExpectedRelease(broken, TRUTH)
    with pytest.raises(AssertionError):
        compare(release, CONDITIONED)
