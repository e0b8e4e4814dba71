"""The query pool and SQL workloads: what is asked, and that answers land at their places."""

from __future__ import annotations

import numpy as np
import pytest

from comparing import QUASI, people, roles
from sfumato.choosing.workload import Original, Workload, literal, query_pool, sql_workload
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import QueryError, SpecError
from sfumato.methods.uniform import UniformPerturbation
from sfumato.publish import publish

TABLE = people()


@pytest.fixture(scope="module")
def truth() -> Original:
    engine = LocalEngine()
    return Original(engine.open(TABLE), TABLE.column_names, engine)


def pool(truth: Original, seed: int = 0) -> Workload:
    return query_pool(truth, sensitive=["disease"], quasi=QUASI, seed=seed, conditions=40)


def test_the_pool_is_the_same_for_the_same_seed(truth: Original) -> None:
    first, again, other = pool(truth), pool(truth), pool(truth, seed=1)
    assert [s.places for s in first.sets] == [s.places for s in again.sets]
    assert [s.places for s in first.sets] != [s.places for s in other.sets]


def test_true_counts_are_those_of_the_table(truth: Original) -> None:
    workload, frame = pool(truth), TABLE.to_pandas()
    for chosen in workload.sets[:6]:
        for key, place in list(chosen.places.items())[:5]:
            hit = np.ones(len(frame), dtype=bool)
            for column, value in zip((*chosen.columns, "disease"), key, strict=True):
                hit &= (frame[column] == value).to_numpy()
            assert workload.truth[place] == hit.sum()


def test_a_band_holds_the_questions_at_or_above_its_share(truth: Original) -> None:
    workload = pool(truth)
    assert workload.truth.min() >= 0.001 * TABLE.num_rows
    for name, mask in workload.bands.items():
        assert (workload.truth[mask] >= float(name) * TABLE.num_rows).all()
        assert (workload.truth[~mask] < float(name) * TABLE.num_rows).all()


def test_every_question_gets_an_answer_close_to_the_truth_where_noise_is_small(truth: Original) -> None:
    """rho2 close to 1 keeps nearly every value; a misplaced answer would be far off."""
    release = publish(TABLE, roles=roles(), method=UniformPerturbation(rho1="1/4", rho2="99999/100000"), seed=1)
    workload = pool(truth)
    answers = workload.ask(release)
    assert np.isfinite(answers.value).all()
    assert np.abs(answers.value - workload.truth).max() < 12
    assert (answers.low <= answers.high).all()


def test_a_part_of_the_pool_keeps_places_and_truth(truth: Original) -> None:
    whole = pool(truth)
    part = whole.part(3)
    assert len(part.sets) == 3
    places = [(key, s.columns, part.truth[p]) for s in part.sets for key, p in s.places.items()]
    expected = [(key, s.columns, whole.truth[p]) for s in whole.sets[:3] for key, p in s.places.items()]
    assert places == expected
    assert sorted(p for s in part.sets for p in s.places.values()) == list(range(len(part)))


def test_sql_statements_are_questions(truth: Original) -> None:
    text = """SELECT COUNT(*) AS n FROM release WHERE disease = 'd01';
    SELECT sex, COUNT(*) AS n, AVG(grade) AS g FROM release WHERE disease IN ('d02', 'd03') GROUP BY sex;"""
    workload = sql_workload(truth, text, sensitive=["disease"])
    assert len(workload.statements) == 2
    assert len(workload) == 1 + 2 * 2
    release = publish(TABLE, roles=roles(), method=UniformPerturbation(rho1="1/4", rho2="99999/100000"), seed=1)
    answers = workload.ask(release)
    assert np.abs(answers.value - workload.truth).max() < 12


@pytest.mark.parametrize("text", ["", "SELECT", "DELETE FROM release", "SELECT 0 * COUNT(*) AS n FROM release"])
def test_a_workload_that_asks_nothing_is_refused(truth: Original, text: str) -> None:
    with pytest.raises((SpecError, QueryError)):
        sql_workload(truth, text, sensitive=["disease"])


def test_literals_are_quoted() -> None:
    assert literal("O'Brien") == "'O''Brien'"
    assert literal(True) == "TRUE"
    assert literal(4) == "4"


def test_a_fit_is_a_question_whose_coefficients_count(truth: Original) -> None:
    text = "SELECT COUNT(*) AS n FROM release WHERE disease = 'd01';\nFIT grade ~ C(disease);\n"
    text += "fit gaussian grade ~ C(sex) WHERE grade > 3;"
    workload = sql_workload(truth, text, sensitive=["disease"])
    assert [f.formula for f in workload.fits] == ["grade ~ C(disease)", "grade ~ C(sex)"]
    assert workload.fits[1].where == "grade > 3"
    assert not workload.counting
    frame = TABLE.to_pandas()
    means = frame.groupby("disease")["grade"].mean()
    first = sorted(means.index)[0]
    place = workload.coefficients[0, "Intercept"]
    assert workload.truth[place] == pytest.approx(means[first])
    release = publish(TABLE, roles=roles(), method=UniformPerturbation(rho1="1/4", rho2="99999/100000"), seed=1)
    answers = workload.ask(release)
    assert np.isfinite(answers.value).all()
    assert np.abs((answers.value - workload.truth) / answers.se).max() < 5
    with pytest.raises(SpecError, match="outcome ~ terms"):
        sql_workload(truth, "FIT grade", sensitive=["disease"])
    with pytest.raises(QueryError, match="not allowed"):
        sql_workload(truth, "FIT grade ~ __import__('os').getcwd()", sensitive=["disease"])
