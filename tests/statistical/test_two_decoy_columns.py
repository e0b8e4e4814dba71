"""Questions and models over two decoy columns, over repeated releases: no bias, and the error that is stated.

RELEASES releases of ROWS rows, each asked QUESTIONS. Errors by their stated standard errors are nearly normal: the sum
of their squares is chi-square with RELEASES degrees of freedom, their mean times sqrt(RELEASES) standard normal. False
alarms: ALPHA for each of 2 tests of 6 questions and of the model's 3 coefficients, 1.8e-8 in all. Smallest fault
that is caught with certainty: errors stated 3 times too large or half as large; both are fed in.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.redrawn import Redrawn
from scipy.stats import chi2, norm

import sfumato as sf
from constants import ALPHA, SEED

RELEASES, ROWS, FIRST, SECOND = 36, 3_300, 8, 6
QUESTIONS = {
    "SELECT COUNT(*) FILTER (WHERE s = 1) - COUNT(*) FILTER (WHERE t = 1) AS n FROM release": "difference",
    "SELECT COUNT(*) FILTER (WHERE s = 1) - COUNT(*) FILTER (WHERE t = 1) AS n FROM release WHERE g = 1": "in a group",
    "SELECT AVG(s) - AVG(t) AS n FROM release WHERE g = 1": "averages",
    "SELECT COUNT(*) FILTER (WHERE s = 1) / COUNT(*) FILTER (WHERE t = 1) AS n FROM release": "quotient",
    "SELECT COUNT(*) AS n FROM release WHERE s = 1 OR t = 1": "either",
    "SELECT COUNT(*) AS n FROM release WHERE s IN (1, 2) AND t < 3 AND g = 1": "both",
}

pytestmark = pytest.mark.slow


def table() -> pa.Table:
    rng = np.random.default_rng(SEED)
    s = rng.choice(FIRST, ROWS, p=np.array([3, 3, 2, 2, 2, 2, 1, 1]) / 16)
    t = np.where(rng.random(ROWS) < 0.4, s % SECOND, rng.integers(0, SECOND, ROWS))
    g = rng.random(ROWS) < 0.3 + 0.05 * s
    return pa.table({"s": s, "t": t, "g": g.astype(int)})


def numbers(release: sf.Release) -> tuple[np.ndarray, np.ndarray]:
    """(values, errors) of the questions and of the coefficients of a model that reads both columns."""
    rows = [release.sql(sql).rows()[0] for sql in QUESTIONS]
    fit = release.fit("s ~ t + g", target="table")
    found = [(row["n"], row["n_se"]) for row in rows] + list(zip(fit.estimates, fit.bse, strict=True))
    return tuple(np.array(found, dtype=float).T)  # type: ignore[return-value]


@cache
def drawn() -> np.ndarray:
    """(releases, numbers) errors by their stated standard errors."""
    roles: dict[str, Any] = {"roles": sf.Roles(sensitive=["s", "t"], quasi=["g"])}
    exact = sf.RandomizedResponse(scope="qi", keep={"s": "1", "t": "1"})
    truth, _ = numbers(sf.publish(table(), method=exact, seed=0, **roles))
    many = Redrawn(table(), method=sf.Splu(gamma=3), **roles)
    asked = [numbers(many.release(seed)) for seed in range(RELEASES)]
    return np.array([(value - truth) / se for value, se in asked])


def spread_is_right(errors: np.ndarray) -> bool:
    total = (errors**2).sum(axis=0)
    return bool(((chi2.ppf(ALPHA / 2, RELEASES) < total) & (total < chi2.isf(ALPHA / 2, RELEASES))).all())


def mean_is_right(errors: np.ndarray) -> bool:
    return bool((np.abs(errors.mean(axis=0)) * np.sqrt(RELEASES) < norm.isf(ALPHA / 2)).all())


def test_errors_of_questions_about_two_columns_are_those_that_are_stated() -> None:
    errors = drawn()
    assert mean_is_right(errors)
    assert spread_is_right(errors)
    assert not spread_is_right(errors / 3)
    assert not spread_is_right(errors * 2)
    assert not mean_is_right(errors + 1)
