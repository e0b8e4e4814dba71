"""Whatever the text, the parser answers with a question or with an error of ours: no crash, no other exception."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from constants import SEED
from sfumato.errors import QueryError
from sfumato.sql.nesting import Nested
from sfumato.sql.nodes import Query, Schema
from sfumato.sql.parse import read

SCHEMA = Schema(
    types={"age": "SMALLINT", "sex": "VARCHAR", "occupation": "VARCHAR", "born": "DATE", "group_id": "INTEGER"},
    units={"occupation": 0},
    hidden=frozenset({"group_id"}),
)
SEEDS = (
    "SELECT sex, COUNT(*) AS n FROM release WHERE occupation = 'a' GROUP BY sex HAVING n > 3 ORDER BY n DESC LIMIT 3",
    "SELECT AVG(CASE WHEN occupation IN ('a', 'b') THEN 1 ELSE 0 END) AS share FROM release WHERE age // 10 = 3",
    "SELECT occupation, SUM(age) FILTER (WHERE sex LIKE 'f%') AS s FROM release GROUP BY CUBE (occupation, sex)",
    "SELECT sex, 100.0 * COUNT(*) FILTER (WHERE age < 3) / SUM(COUNT(*)) OVER () AS p FROM release r GROUP BY sex",
    "WITH t AS (SELECT sex, COUNT(*) AS n FROM release GROUP BY sex) SELECT SUM(n) AS m FROM t WHERE n > 2",
    "SELECT l.kind, ROUND(AVG(r.age) - 1, 2) AS a FROM release r JOIN jobs l ON r.occupation = l.job GROUP BY l.kind",
    "SELECT n / 2 AS h, n_low FROM (SELECT STDDEV(age) AS s, MEDIAN(age) AS q, COUNT(*) AS n FROM release) t",
    "SELECT INTERVAL_LOW(n) AS l, COUNT(*) AS n FROM release WHERE NOT (age BETWEEN 1 AND 2 OR born IS NULL)",
)
TOKENS = (
    "SELECT", "FROM", "release", "WHERE", "GROUP BY", "CUBE", "ROLLUP", "(", ")", ",", "*", "COUNT", "SUM",
    "AVG", "MIN", "occupation", "age", "sex", "group_id", "'Sales'", "1", "0.5", "AND", "OR", "NOT", "IN",
    "LIKE", "IS NULL", "CASE", "WHEN", "THEN", "ELSE", "END", "HAVING", "ORDER BY", "LIMIT", "DISTINCT", "OVER",
    "JOIN", "UNION", "WITH", "AS", "n", "=", "<", ">=", "//", "%", "||", "::INT", "[1]", "{'a': 1}", "x -> x",
    "?", "$1", ";", "--", "/*", "\"", "'", "\x00", "FILTER (WHERE", "INTERVAL_LOW(", "EXISTS (", "SELECT 1",
    "read_csv('x')", "QUALIFY", "PIVOT", "UNNEST(", "COLUMNS(*)",
)  # fmt: skip


LOOKUPS = {"jobs": {"job": ["a", "b", None], "kind": ["x", "y", "z"]}}


def asked(text: str) -> Query | Nested | None:
    """The question, or None where it was refused; anything else is a failure."""
    try:
        return read(text, SCHEMA, LOOKUPS)
    except QueryError:
        return None


@given(st.text(max_size=200))
@example("")
@example(";")
@example("SELECT")
@example("SELECT COUNT(*) FROM release WHERE age IN ()")
@example("SELECT COUNT(*) FROM release WHERE age IN (age, occupation)")
@example("(" * 500)
def test_any_text(text: str) -> None:
    asked(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=30))
def test_any_tokens(tokens: list[str]) -> None:
    asked(" ".join(tokens))


@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_sql(seed: str) -> None:
    """Tokens of good questions dropped, doubled, swapped and replaced; what is understood names known columns only."""
    rng = random.Random(SEED)
    words = seed.split(" ")
    understood = 0
    for _ in range(400):
        mutated = list(words)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(mutated))
            kind = rng.randrange(4)
            if kind == 0:
                del mutated[at]
            elif kind == 1:
                mutated.insert(at, mutated[at])
            elif kind == 2:
                mutated[at] = rng.choice(TOKENS)
            else:
                other = rng.randrange(len(mutated))
                mutated[at], mutated[other] = mutated[other], mutated[at]
            if not mutated:
                break
        query = asked(" ".join(mutated))
        if query is not None:
            understood += 1
            if isinstance(query, Nested):  # checked when it is answered: test_fuzz_answers.py
                continue
            texts = [leaf.sql for leaf in query.leaves] + [key.sql for key in query.keys] + list(query.pushed)
            assert not any("group_id" in text for text in texts), "a hidden column was asked"
            assert query.aggregates
    assert understood, "the mutations are too wild to test anything"
