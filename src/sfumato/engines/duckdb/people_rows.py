"""People with several rows: how many there are, and which of their rows stay."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...model.private import PeopleCount
from ..contract import Keys

Mask = NDArray[np.bool_]
FETCHED = 1_000_000  # row numbers at a time


def count_people(con: duckdb.DuckDBPyConnection, person: str) -> PeopleCount:
    """How the rows of `source` are spread over the values of an SQL expression."""
    grouped = f"SELECT {person} AS person, count(*) AS n FROM source GROUP BY 1"
    row = con.execute(
        "SELECT coalesce(sum(n), 0), coalesce(sum(n) FILTER (person IS NULL), 0), count(person), "
        "count(*) FILTER (person IS NOT NULL AND n > 1), coalesce(max(n) FILTER (person IS NOT NULL), 0) "
        f"FROM ({grouped})"
    ).fetchone()
    assert row is not None
    rows, missing, people, several, most = (int(cell) for cell in row)
    return PeopleCount(rows=rows, missing=missing, people=people, several=several, most=most)


def rows_that_stay(con: duckdb.DuckDBPyConnection, people: Iterator[pa.RecordBatch], most: int, keys: Keys) -> Mask:
    """Which rows stay, one flag a row: of every person those with the `most` least keys.

    Keys are random and drawn for each row alone, so every `most` rows of a person are equally likely. The engine sorts
    (person, key, row number) and spills; here one byte a row is held.
    """
    rows = 0

    def keyed() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for number, batch in enumerate(people):
            key, place = keys(number, batch.num_rows), np.arange(rows, rows + batch.num_rows)
            rows += batch.num_rows
            yield pa.RecordBatch.from_arrays([batch.column(0), pa.array(key), pa.array(place)], schema=schema)

    first = next(people, None)
    if first is None:
        return np.zeros(0, dtype=bool)
    schema = pa.schema(
        [pa.field("person", first.column(0).type), pa.field("key", pa.uint64()), pa.field("place", pa.int64())]
    )
    people = _again(first, people)
    con.register("keyed", pa.RecordBatchReader.from_batches(schema, keyed()))
    ranked = "SELECT place, row_number() OVER (PARTITION BY person ORDER BY key, place) AS rank FROM keyed"
    leave = con.sql(f"SELECT place FROM ({ranked}) WHERE rank > {int(most)}").to_arrow_reader(FETCHED)
    left = [batch.column(0).to_numpy() for batch in leave]
    stay = np.ones(rows, dtype=bool)
    for places in left:
        stay[places] = False
    return stay


def _again(first: pa.RecordBatch, others: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from others
