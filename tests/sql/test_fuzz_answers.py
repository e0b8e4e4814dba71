"""Questions over answers and with look-up tables, mutated and asked of a real release: answered or refused.

The outer SELECT runs in the engine, so what it may hold is a list; a watch sees every statement that runs.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

import sfumato as sf
from constants import SEED
from sfumato.errors import SfumatoError

SEEDS = (
    "WITH t AS (SELECT sex, job, COUNT(*) AS n FROM release GROUP BY sex, job) SELECT SUM(n) AS m FROM t GROUP BY sex",
    "SELECT SUM(n) AS m , COUNT(n) AS c FROM ( SELECT job, COUNT(*) AS n FROM release GROUP BY job ) t WHERE n > 2",
    "SELECT l.kind, COUNT(*) - SUM(age) AS n FROM release r LEFT JOIN jobs l ON r.job = l.job GROUP BY l.kind",
)
TOKENS = (
    "release", "read_csv('/etc/passwd')", "getenv('HOME')", "(SELECT COUNT(*) FROM release)", "current_setting('x')",
    "pragma_version()", "information_schema.tables", "duckdb_settings()", "MAX(n)", "ARRAY_AGG(n)", "n", "t", "job",
    "*", ",", "(", ")", "LN(n)", "CASE WHEN n > 1 THEN 1 END", "JOIN", "UNION ALL", "FROM", "SELECT", "OVER ()", "1",
    "ROW_NUMBER() OVER ()", "__inner__", "__answer__", "cells", "query('SELECT 1')", "EXCLUDE (n)", "job || 'x'",
)  # fmt: skip
TABLES = {"release", "cells", "__inner__", "__answer__", "__domain__"}


@cache
def release() -> sf.Release:
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "age": rng.integers(20, 60, 900),
            "sex": rng.choice(["f", "m"], 900),
            "job": rng.permutation(np.repeat(list("abcdef"), 150)),
        }
    )
    method = sf.UniformPerturbation(rho1="1/4", rho2="3/4")
    return sf.publish(table, roles=sf.Roles(sensitive="job", rest="quasi"), method=method, seed=1)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Everything that the engine is asked to run."""
    seen: list[Any] = []
    reader, run = release().subject.reader, type(release().subject.reader).run

    def watched(self: Any, statement: Any, **options: Any) -> pa.Table:
        seen.append(statement.copy())
        return run(self, statement, **options)

    monkeypatch.setattr(type(reader), "run", watched)
    return seen


def allowed(statement: Any) -> bool:
    """Known tables only, and no function that the engine looks up by name."""
    tables = {t.name for t in statement.find_all(exp.Table)}
    return tables <= TABLES and not any(statement.find_all(exp.Anonymous, exp.Command))


def test_the_watch_sees_what_is_not_allowed(statements: list[Any]) -> None:
    release().subject.reader.run(sqlglot.parse_one("SELECT * FROM duckdb_settings()", dialect="duckdb"))
    assert not allowed(statements[-1])


@pytest.mark.parametrize("column", ["sex", "job"])
def test_values_are_read_once_for_a_look_up_table_of_any_length(column: str, statements: list[Any]) -> None:
    """Before, once for every key."""
    sql = f"SELECT l.kind, COUNT(*) AS n FROM release r JOIN l ON r.{column} = l.code GROUP BY l.kind"
    asked = []
    for more in (1, 300):
        codes = [*"abcdefm", *(f"z{i}" for i in range(more))]
        lookup = pa.table({"code": codes, "kind": ["low"] * 3 + ["high"] * (len(codes) - 3)})
        statements.clear()
        assert len(release().sql(sql, tables={"l": lookup}).rows()) == (1 if column == "sex" else 2)
        asked.append(len(statements))
    assert asked[1] <= asked[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_mutations_are_answered_or_refused(seed: str, statements: list[Any]) -> None:
    rng, answered = random.Random(SEED), 0
    lookup = pa.table({"job": ["a", "b"], "kind": ["x", "y"]})
    words = seed.split(" ")
    for _ in range(60):
        mutated = list(words)
        for _ in range(rng.randint(0, 2)):
            at = rng.randrange(len(mutated))
            if rng.random() < 0.6:
                mutated[at] = rng.choice(TOKENS)
            else:
                mutated.insert(at, rng.choice(TOKENS))
        statements.clear()
        try:
            found = release().sql(" ".join(mutated), tables={"jobs": lookup})
            answered += 1
        except SfumatoError:
            pass
        else:
            for name in found.aggregates:
                assert {name, f"{name}_se", f"{name}_low", f"{name}_high"} <= set(found.table.column_names)
        assert all(allowed(statement) for statement in statements), mutated
    assert answered
