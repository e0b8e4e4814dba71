"""Rows are counted by the whole numbers of a column where the truth of conditions would do: answers are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato
from same_numbers import assert_same_numbers
from sfumato.answering import observing
from sfumato.datasets import census
from sfumato.sql.parse import parse

ASKED = (
    "SELECT COUNT(*) AS n FROM release WHERE occupation IN (3, 4) AND age > 30",
    "SELECT COUNT(*) AS n FROM release WHERE occupation > 40 OR occupation IN (1, 2)",
    "SELECT COUNT(*) FILTER (WHERE occupation = 3) AS n, SUM(education) FILTER (WHERE occupation < 9) FROM release",
    "SELECT COUNT(*) AS n FROM release WHERE occupation + 1 = 3 AND gender = 1",
)


# One comparison of one changed column, with other conditions or none; also where all rows meet it, or no row is left.
COMPARED = (
    "SELECT COUNT(*) AS n FROM release WHERE occupation = 3 AND education > 5",
    "SELECT COUNT(*) AS n FROM release WHERE occupation >= 25",
    "SELECT COUNT(*) AS n FROM release WHERE occupation <> 4 AND education > 500",
    "SELECT COUNT(*) AS n FROM release WHERE occupation >= 0 AND education = 9",
    "SELECT AVG(CASE WHEN occupation < 9 THEN 1 ELSE 0 END) AS share FROM release WHERE education < 9",
)


@pytest.fixture(scope="module", params=["uniform", "randomized-response"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One changed column, or three of which a question names up to two."""
    out = tmp_path_factory.mktemp("values") / "out"
    roles = sfumato.Roles(sensitive="occupation", quasi=("age", "gender"), insensitive=("education",), rest="drop")
    method = {
        "uniform": sfumato.UniformPerturbation(rho1="1/13", rho2="1/6"),
        "randomized-response": sfumato.RandomizedResponse(
            scope="both", keep={"occupation": 0.8, "age": 0.9, "gender": 0.7}
        ),
    }[request.param]
    sfumato.publish(census(4_000, 1).read_all(), out, roles=roles, method=method, seed=3)
    return out


@pytest.mark.parametrize("question", ASKED)
def test_the_same_answers(release: Path, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = sfumato.open_release(release)
    by_value = observing.observe(parse(question, opened.schema), opened.subject)
    found = opened.sql(question)
    monkeypatch.setattr(observing, "FEW_VALUES", 0)
    by_truth = observing.observe(parse(question, opened.schema), opened.subject)
    assert by_value.seen.num_rows > by_truth.seen.num_rows
    assert set(by_value.seen.column_names) == set(by_truth.seen.column_names)
    plain = opened.sql(question)
    assert_same_numbers(found.rows(), plain.rows())
    assert found.caveats == plain.caveats


@pytest.mark.parametrize("question", COMPARED)
def test_one_comparison_is_counted_by_itself(release: Path, question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the same answer as by the values of its column, and by its truth in every row."""
    opened = sfumato.open_release(release)
    whole = observing.observe(parse(question, opened.schema), opened.subject)
    found = [sfumato.open_release(release).sql(question)]
    monkeypatch.setattr(observing, "COMPARISONS", ())
    by_value = observing.observe(parse(question, opened.schema), opened.subject)
    found.append(sfumato.open_release(release).sql(question))
    monkeypatch.setattr(observing, "FEW_VALUES", 0)
    by_truth = observing.observe(parse(question, opened.schema), opened.subject)
    found.append(sfumato.open_release(release).sql(question))
    assert whole.seen.num_rows <= 2
    assert by_value.seen.num_rows >= whole.seen.num_rows == by_truth.seen.num_rows
    assert sorted(whole.seen.to_pylist(), key=str) == sorted(
        by_truth.seen.select(whole.seen.column_names).to_pylist(), key=str
    )
    assert len({answer.to_json() for answer in found}) == 1
