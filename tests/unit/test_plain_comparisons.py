"""Comparisons with constants mean on the domain what DuckDB means by them; what is left to it is left to it."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from sfumato.answering.plain_comparisons import plain_comparison
from sfumato.answering.strata import truth
from sfumato.engines.statements import DIALECT, parsed
from sfumato.model.public import Domain
from sfumato.model.types import INTEGER, SMALLINT, TEXT, ColumnType, type_named

NUMBERS = Domain(columns=("c",), values=((-7,), (0,), (3,), (12,), (None,)))
WORDS = Domain(columns=("c",), values=(("",), ("3",), ("It's",), ("a",), ("b",), ("ä",), (None,)))


def by_duckdb(sql: str, domain: Domain, kind: ColumnType) -> np.ndarray:
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE t (i INTEGER, c {kind.format_name})")
        con.executemany("INSERT INTO t VALUES (?, ?)", [[i, v] for i, (v,) in enumerate(domain.values)])
        return truth(con.sql(f"SELECT {sql} FROM t ORDER BY i").to_arrow_table()[0])


@pytest.mark.parametrize("operation", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("number", ["3", "-7", "0", "1000000", "-999999999999999999"])
def test_whole_numbers(operation: str, number: str) -> None:
    sql = f'"c" {operation} {number}'
    found = plain_comparison(sql, NUMBERS, SMALLINT)
    assert found is not None
    np.testing.assert_array_equal(found, by_duckdb(sql, NUMBERS, SMALLINT))


@pytest.mark.parametrize(("domain", "kind"), [(NUMBERS, INTEGER), (WORDS, TEXT)])
@pytest.mark.parametrize("listed", [("3",), ("3", "12"), ("-7", "4", "0")])
def test_lists(domain: Domain, kind: ColumnType, listed: tuple[str, ...]) -> None:
    written = ", ".join(f"'{v}'" if kind is TEXT else v for v in listed)
    sql = f'"c" IN ({written})'
    found = plain_comparison(sql, domain, kind)
    assert found is not None
    np.testing.assert_array_equal(found, by_duckdb(sql, domain, kind))


@pytest.mark.parametrize("operation", ["=", "<>"])
@pytest.mark.parametrize("word", ["a", "", "It''s", "ä", "A", "3"])
def test_texts(operation: str, word: str) -> None:
    sql = f"\"c\" {operation} '{word}'"
    found = plain_comparison(sql, WORDS, TEXT)
    assert found is not None
    np.testing.assert_array_equal(found, by_duckdb(sql, WORDS, TEXT))


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("\"c\" = '3'", INTEGER),  # a text that becomes a number
        ('"c" = 3', TEXT),
        ('"c" = 3.0', INTEGER),
        ('"c" = 1e3', INTEGER),
        ('"c" = 9999999999999999999999', INTEGER),
        ('"c" IN (3, 4.5)', INTEGER),
        ('"c" IN (3, NULL)', INTEGER),
        ('"c" = NULL', INTEGER),
        ("\"c\" < 'b'", TEXT),  # an order of texts
        ('"c" + 1 = 3', INTEGER),
        ('3 = "c"', INTEGER),
        ('"c" IS NULL', INTEGER),
        ("\"c\" LIKE 'a%'", TEXT),
        ('"other" = 3', INTEGER),
        ('"c" = 3', type_named("DOUBLE")),
    ],
)
def test_the_engine_says_what_all_else_means(sql: str, kind: ColumnType) -> None:
    assert plain_comparison(sql, WORDS if kind is TEXT else NUMBERS, kind) is None


def test_values_of_several_columns_are_left_to_the_engine() -> None:
    domain = Domain(columns=("c", "d"), values=((3, 4),))
    assert plain_comparison('"c" = 3', domain, INTEGER) is None


def test_what_is_kept_of_a_text_stays_as_it_is() -> None:
    before = parsed('"c" = 3').sql(dialect=DIALECT)
    plain_comparison('"c" = 3', NUMBERS, INTEGER)
    assert parsed('"c" = 3').sql(dialect=DIALECT) == before
