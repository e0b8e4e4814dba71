"""Rows counted by array give what the engine gives when it counts the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.choosing import held_cells
from sfumato.choosing.held_cells import HeldReader, TrialRows
from sfumato.engines.contract import Reader
from sfumato.engines.directory import reader_of
from sfumato.engines.statements import COUNT, WEIGHT, column, counted, double, expression, grouped, rows_of

ROWS = 3_000
RNG = np.random.default_rng(5)
ORIGINAL = pa.table(
    {
        "age": RNG.integers(20, 30, ROWS),
        "town": pa.array(RNG.choice(["a", "b'c", "d", None], ROWS).tolist(), pa.string()),
        "pay": pa.array(np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.integers(0, 5, ROWS) / 4), from_pandas=True),
        "own": np.arange(ROWS),
    }
)
# What a release shows beside them: a changed column as codes, in which a value may stand twice, and numbers of sets.
SHOWN = pa.DictionaryArray.from_arrays(pa.array(RNG.integers(0, 4, ROWS), pa.int8()), pa.array(["x", "y", "x", None]))
RELEASE = ORIGINAL.append_column("ill", SHOWN).append_column("set", pa.array(RNG.integers(0, 40, ROWS), pa.int16()))
UNTOUCHED = frozenset(ORIGINAL.column_names)


def left_to_the_engine() -> Reader:
    raise AssertionError("the rows were needed")


def held(other: Any = left_to_the_engine) -> HeldReader:
    batches = ORIGINAL.to_batches(max_chunksize=700)  # of which the last is shorter
    rows = pa.Table.from_batches(RELEASE.to_batches(max_chunksize=700))
    return HeldReader(rows, UNTOUCHED, TrialRows(batches, ORIGINAL.schema), other)


def rows_in(table: pa.Table) -> list[str]:
    return sorted(map(repr, zip(*table.to_pydict().values(), strict=True)))


def statement(table: str, weight: str | None) -> Any:
    """Keys that are computed, conditions on both kinds of columns, and sums of a number and its square."""
    number = expression('COALESCE(CAST("pay" AS DOUBLE), 0)')
    factor = [] if weight is None else [column(weight)]
    total = expression(" * ".join([*(f.sql() for f in factor), number.sql(dialect="duckdb")]))
    square = expression(f"{total.sql(dialect='duckdb')} * {number.sql(dialect='duckdb')}")
    keys = [(expression('"age" // 2'), "k0"), (column("ill"), "u0_0"), (expression("\"town\" = 'd'"), "l0")]
    sums = [(double(e), f"m{j}") for j, e in enumerate([rows_of(weight), _sum(total), _sum(square)])]
    return grouped(keys, sums, table=table, where=['"age" <> 24', '"town" IS NULL OR "town" <> \'a\''])


def _sum(inner: Any) -> Any:
    return expression(f"SUM({inner.sql(dialect='duckdb')})")


def test_a_statement_about_cells_says_what_it_says_about_rows() -> None:
    """The first time by the engine over the cells, then from what it made of each cell."""
    reader, asked = held(), statement(*held().source())
    expected = rows_in(reader_of(RELEASE).run(statement("release", None)))
    for _ in range(3):
        found = reader.run(asked)
        assert rows_in(found) == expected
        assert found.schema.field("m0").type == pa.float64()
    assert len(expected) > 20


def test_what_was_made_of_cells_serves_other_releases_with_the_same_values_only() -> None:
    rows = TrialRows(ORIGINAL.to_batches(), ORIGINAL.schema)
    asked = counted(["age", "ill"], table=held_cells.CELLS, weight=WEIGHT, where=["\"ill\" = 'y'"])
    for k in range(4):
        values = pa.array(["y", "x", "z"] if k == 2 else ["x", "y", "z"])  # the same codes stand for other values once
        shown = pa.DictionaryArray.from_arrays(
            pa.array(np.random.default_rng(k).integers(0, 3, ROWS), pa.int8()), values
        )
        release = ORIGINAL.append_column("ill", shown)
        found = HeldReader(release, UNTOUCHED, rows, left_to_the_engine).run(asked)
        plain = counted(["age", "ill"], table="release", where=["\"ill\" = 'y'"])
        assert rows_in(found) == rows_in(reader_of(release).run(plain))


@pytest.mark.parametrize("columns", [["age"], ["town", "set"], ["pay", "age", "town"], ["ill"], ["ill", "age"]])
def test_counts(columns: list[str]) -> None:
    """Of values that stand twice in a dictionary the engine counts the rows."""
    found = held(lambda: reader_of(RELEASE)).count(columns)
    assert found.column_names == [*columns, COUNT]
    assert rows_in(found) == rows_in(reader_of(RELEASE).count(columns))


def test_rows_are_read_where_cells_are_too_many() -> None:
    asked = counted(["own", "ill"], table=held_cells.CELLS, weight=WEIGHT, where=['"own" < 50'])
    with pytest.raises(AssertionError, match="the rows were needed"):
        held().run(asked)
    found = held(lambda: reader_of(RELEASE)).run(asked)
    assert rows_in(found) == rows_in(
        reader_of(RELEASE).run(counted(["own", "ill"], table="release", where=['"own" < 50']))
    )


def test_a_statement_about_the_rows_reads_them() -> None:
    asked = counted(["age"], table="release")
    assert rows_in(held(lambda: reader_of(RELEASE)).run(asked)) == rows_in(reader_of(RELEASE).run(asked))
