"""Several threads ask one open release: each gets the answer that it would get alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import METHODS, sfumato
from same_numbers import assert_same_numbers
from sfumato import open_release
from sfumato.errors import QueryError
from tables import ROLES, people

QUESTIONS = (
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu'",
    "SELECT COUNT(*) AS n FROM release WHERE disease IN ('flu', 'gout') AND sex = 'f' AND age > 40",
    "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'cold' GROUP BY sex ORDER BY n",
    "SELECT disease, COUNT(*) AS n FROM release GROUP BY disease ORDER BY disease",
    "SELECT AVG(age) AS a FROM release WHERE disease = 'angina' HAVING COUNT(*) > 1",
    "SELECT COUNT(*) AS n FROM release WHERE number % 7 = 3",
    "SELECT nowhere FROM release",
)
THREADS = 4


@pytest.fixture(scope="module", params=METHODS)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("threads")
    pq.write_table(people(), folder / "t.parquet")
    options = (*ROLES, "--method", request.param, *METHODS[request.param], "--seed", "1")
    done = sfumato("publish", folder / "t.parquet", folder / "out", *options)
    assert done.code == 0, done.text
    return folder / "out"


def _asked(release: object, question: str) -> list[dict[str, object]]:
    try:
        rows: list[dict[str, object]] = release.sql(question).to_dict()["rows"]  # type: ignore[attr-defined]
    except QueryError as refused:
        return [{"refused": str(refused)}]
    return rows


def test_threads_get_the_answers_of_one(release: Path) -> None:
    alone = {question: _asked(open_release(release), question) for question in QUESTIONS}
    shared = open_release(release)
    order = [QUESTIONS[(3 * i + i // len(QUESTIONS)) % len(QUESTIONS)] for i in range(4 * len(QUESTIONS))]
    with ThreadPoolExecutor(THREADS) as workers:
        found = list(workers.map(lambda question: _asked(shared, question), order))
    for question, rows in zip(order, found, strict=True):
        assert_same_numbers(rows, alone[question])
