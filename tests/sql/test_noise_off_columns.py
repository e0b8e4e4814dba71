"""randomized-response with keep probability 1 on several columns, and l-diversity with l = 1: answers are DuckDB's."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest
from benchmarks.questions import question

import sfumato as sf
from constants import SEED
from sfumato.errors import UnsupportedQuery
from sql.test_noise_off import check

QUESTIONS = 60
COLUMNS = ("sex", "race", "education_num", "income", "occupation")


@pytest.fixture(scope="module")
def original() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.register("release", sf.datasets.adult())
    return con


METHODS = {
    "randomized-response": sf.RandomizedResponse(scope="qi", keep=dict.fromkeys(COLUMNS, 1)),
    "l-diversity": sf.LDiversity(l=1),
}


@pytest.mark.parametrize("name", METHODS)
def test_random_questions(name: str, original: duckdb.DuckDBPyConnection) -> None:
    """Predicates, keys and sums that mix changed and untouched columns, several at a time."""
    roles = sf.Roles(sensitive="occupation", quasi=list(COLUMNS[:-1]), rest="keep")
    release = sf.publish(sf.datasets.adult(), roles=roles, method=METHODS[name], null_as_value=True, seed=SEED)
    rng = np.random.default_rng(SEED)
    answered = 0
    for _ in range(QUESTIONS):
        asked = question(rng)
        try:
            check(asked, release, original)
        except UnsupportedQuery:
            continue  # an expression over two changed columns at once
        answered += 1
    assert answered > QUESTIONS / 2
