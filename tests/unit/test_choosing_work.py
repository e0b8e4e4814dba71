"""What choosing does once and what it tells meanwhile: counts that candidates share, and a bar that moves."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from same_numbers import assert_same_numbers
from sfumato.answering import observe as domains
from sfumato.answering.subject import KnownQuestions
from sfumato.choosing.compare import compare
from sfumato.choosing.measure import drawn, measure, trial
from sfumato.choosing.recommend import recommend
from sfumato.choosing.setting import make_setting
from sfumato.errors import PlanError
from sfumato.methods import REGISTRY
from sfumato.publishing.randomness import Secret

ROLES = sf.Roles(sensitive="disease", quasi=("age", "sex"))
SPECS = [
    (sf.UniformPerturbation(rho1="1/8", rho2="1/3"), 1),
    (sf.UniformPerturbation(rho1="1/8", rho2="1/3"), 2),
    (sf.LDiversity(l=2), 1),
]


def table() -> pa.Table:
    rng = np.random.default_rng(2)
    return pa.table({name: rng.integers(0, n, 2_000) for name, n in (("age", 6), ("sex", 2), ("disease", 10))})


def test_the_bar_names_the_method_and_moves_with_every_release() -> None:
    told: list[tuple[str, int, int]] = []
    compare(
        table(),
        roles=ROLES,
        bound="1/3",
        releases=3,
        methods=["uniform", "splu"],
        seed=1,
        progress=lambda *step: told.append(step),
    )
    assert told[0] == ("compare, reading the table", 0, 200)
    assert [stage for stage, _, _ in told[1:-1]] == ["compare, uniform"] * 5 + ["compare, splu"] * 5
    assert [done for _, done, _ in told[1:]] == [0, 25, 50, 75, 100, 100, 125, 150, 175, 200, 200]


def test_recommend_names_the_method() -> None:
    told: list[str] = []
    recommend(table(), roles=ROLES, bound="1/3", seed=1, progress=lambda stage, *_: told.append(stage))
    assert told == ["recommend, reading the table", *(f"recommend, {name}" for name in REGISTRY)]


def test_a_column_is_evaluated_on_its_domain_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions that group by the changed column ask the engine for its values once; conditions are their own."""
    release = sf.publish(table(), roles=ROLES, method=REGISTRY["uniform"].spec(rho1="1/5", rho2="1/3"), seed=1)
    asked: list[list[str]] = []
    own = domains._run

    def counted(subject: Any, unit: int, expressions: Any, text: str) -> pa.Table:
        asked.append(list(expressions))
        return own(subject, unit, expressions, text)

    monkeypatch.setattr(domains, "_run", counted)
    first = release.sql("SELECT disease, COUNT(*) AS n FROM release GROUP BY disease")
    again = release.sql("SELECT sex, disease, COUNT(*) AS n FROM release GROUP BY sex, disease")
    assert asked == [['"disease"']]
    assert first.table["disease"].to_pylist() == list(range(10))
    assert set(again.table["disease"].to_pylist()) == set(range(10))
    release.sql("SELECT COUNT(*) AS n FROM release WHERE disease > 3")
    assert len(asked) == 2
    release.sql("SELECT COUNT(*) AS n FROM release WHERE disease + 1 > 3")
    assert len(asked) == 3


@pytest.mark.parametrize("method", ["subset-response", "anatomy", "splu", "l-diversity"])
def test_a_drawn_release_has_the_rows_of_the_written_one(method: str) -> None:
    setting = make_setting(table(), roles=ROLES, bound="1/3", secret=Secret.of(1))
    candidate = REGISTRY[method].at_bound(setting.facts, setting.tau, setting.rho1)[0]
    prepared = setting.prepare(candidate, Secret.of(1))
    rows = setting.held_rows(prepared)
    assert rows is not None
    question = "SELECT age, disease, COUNT(*) AS n FROM release WHERE sex = 1 GROUP BY age, disease"
    with trial(prepared, Secret.of(2)) as written, drawn(prepared, Secret.of(2), rows) as held:
        assert_same_numbers(held.sql(question).rows(), written.sql(question).rows())
        plain = [name for name in written.opened.reader.columns if name in held.opened.reader.columns]
        shown = [sorted(zip(*r.opened.reader.count(plain).to_pydict().values(), strict=True)) for r in (written, held)]
        assert shown[0] == shown[1]


def test_a_table_that_is_too_large_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.choosing.workload.HELD_BYTES", 100)
    setting = make_setting(table(), roles=ROLES, bound="1/3", secret=Secret.of(1))
    assert setting.truth.held is None
    candidate = REGISTRY["uniform"].at_bound(setting.facts, setting.tau, setting.rho1)[0]
    assert measure(setting, candidate, 2, Secret.of(1))["observed_error"]


def test_texts_are_read_once_for_releases_that_are_alike() -> None:
    """A second release of the same columns and domains gives the answers that it gives by itself."""
    asked = "SELECT disease, COUNT(*) AS n FROM release WHERE disease IN (1, 2) AND sex = 1 GROUP BY disease"
    first, second, other = (sf.publish(table(), roles=ROLES, method=m, seed=s) for m, s in SPECS)
    alone = [release.sql(asked).rows() for release in (first, second, other)]
    questions = KnownQuestions()
    for release, rows in zip((first, second, other), alone, strict=True):
        release.subject = questions.told(release.subject)
        assert release.sql(asked).rows() == rows
        assert list(release.subject.known.queries) == list(release.subject.known.views) == [asked]
    assert first.subject.known is second.subject.known
    assert [key[0] for key in first.subject.known.wanted] == [asked]  # both looked at the rows in one way
    assert other.subject.known is not first.subject.known  # other columns are in units


@pytest.mark.parametrize("method", ["anatomy", "splu"])
def test_releases_that_are_drawn_at_once_are_those_drawn_one_by_one(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every release has a secret of its own: it does not matter which of them is ready first."""

    def found(at_once: int) -> dict[str, Any]:
        monkeypatch.setattr("sfumato.choosing.measure.AT_ONCE", at_once)
        setting = make_setting(table(), roles=ROLES, bound="1/3", secret=Secret.of(1))
        candidate = REGISTRY[method].at_bound(setting.facts, setting.tau, setting.rho1)[0]
        return measure(setting, candidate, 3, Secret.of(1), keep_points=5) | {"seconds": None}

    assert found(1) == found(2)


def test_where_a_release_cannot_be_asked_those_after_it_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def failing(prepared: Any, secret: Secret, held: Any) -> Any:
        made.append(len(held))
        time.sleep(0.01)
        raise PlanError("no release")

    monkeypatch.setattr("sfumato.choosing.measure.drawn", failing)
    setting = make_setting(table(), roles=ROLES, bound="1/3", secret=Secret.of(1))
    candidate = REGISTRY["uniform"].at_bound(setting.facts, setting.tau, setting.rho1)[0]
    found = measure(setting, candidate, 200, Secret.of(1))
    assert (found["applicable"], found["reason"]) == (False, "no release")
    assert len(made) < 100
