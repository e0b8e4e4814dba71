"""Sensitive columns of thousands of values: a question of the pool names those it is judged by, and is the same."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.answering.answer import Answer
from sfumato.choosing import workload
from sfumato.choosing.setting import make_setting
from sfumato.laws.block_bounds import exact_numbers
from sfumato.methods import REGISTRY
from sfumato.publishing.randomness import Secret

ROLES = sf.Roles(sensitive="salary", quasi=("age", "sex"))
ROWS = 3_000


def table() -> pa.Table:
    rng = np.random.default_rng(3)
    salary = np.where(rng.random(ROWS) < 0.4, rng.integers(0, 5, ROWS), rng.integers(5, 400, ROWS))
    return pa.table({"age": rng.integers(0, 5, ROWS), "sex": rng.integers(0, 2, ROWS), "salary": salary})


class Counting:
    """A release that notes how many rows its answers have."""

    def __init__(self, release: sf.Release) -> None:
        self._release, self.schema, self.rows = release, release.schema, 0

    def sql(self, text: str, *, estimator: str | None = None) -> Answer:
        found = self._release.sql(text, estimator=estimator)
        self.rows += found.table.num_rows
        return found

    def fit(self, formula: str, **options: Any) -> Any:
        return self._release.fit(formula, **options)


@pytest.mark.parametrize(
    ("method", "parameters"),
    [("uniform", {"rho1": "1/9", "rho2": "1/3"}), ("anatomy", {"l": 3}), ("target-distribution", {})],
)
def test_answers_are_those_to_the_whole_question(
    method: str, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = make_setting(table(), roles=ROLES, bound="1/3", conditions=40, secret=Secret.from_seed(1))
    release = Counting(sf.publish(table(), roles=ROLES, method=REGISTRY[method].spec(**parameters), seed=1))
    few, rows = setting.workload.ask(release), release.rows
    monkeypatch.setattr(workload, "MANY_VALUES", 10**9)
    whole = setting.workload.ask(release)
    assert rows < 0.5 * (release.rows - rows)
    for name in ("value", "se", "low", "high", "minimum", "maximum"):
        np.testing.assert_allclose(getattr(few, name), getattr(whole, name), rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("values", [[0.0, 1.0, 1.0], [3.0, -7.0], [0.5, 2.0], [2.0**60, 1.0], []])
def test_numbers_are_the_same_whole_or_by_fractions(values: list[float]) -> None:
    found, slow = exact_numbers(np.array(values), 10), exact_numbers([Fraction(v) for v in values], 10)
    assert (found.whole.tolist(), found.denominator, found.whole.dtype) == (
        slow.whole.tolist(),
        slow.denominator,
        slow.whole.dtype,
    )
