"""Sensitive columns of every type that a release may have, published as sets: written, verified, counted by a join."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from pays import METHODS
from sfumato.release.verify import verify

SETS = ("table-wide", "sub-tables")
ROWS, NOON = 1_500, dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
ZONED = [NOON + dt.timedelta(hours=7 * i) for i in range(8)]
MOMENTS = [moment.replace(tzinfo=None) for moment in ZONED]
TIMES = [dt.time(i, 30) for i in range(8)]
KINDS: dict[pa.DataType, list[Any]] = {
    pa.timestamp("s"): MOMENTS,
    pa.timestamp("ms"): MOMENTS,
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("s", "UTC"): ZONED,
    pa.timestamp("ms", "Europe/Berlin"): ZONED,
    pa.timestamp("us", "+02:00"): ZONED,
    pa.time32("s"): TIMES,
    pa.time64("us"): TIMES,
    pa.date32(): [NOON.date() + dt.timedelta(days=i) for i in range(8)],
    pa.date64(): [NOON.date() + dt.timedelta(days=i) for i in range(8)],
    pa.decimal128(12, 3): [Decimal(i) / 8 for i in range(8)],
    pa.float32(): [i / 3 for i in range(8)],
    pa.uint8(): list(range(248, 256)),
    pa.uint64(): list(range(2**64 - 8, 2**64)),
    pa.large_string(): [*"abcdefg", ""],
    pa.dictionary(pa.int8(), pa.string()): [f"[{i}, {i + 1})" for i in range(8)],
}


# of every type once with a missing value and once without
CASES = [(method, kind, (i + j) % 2 == 1) for i, kind in enumerate(KINDS) for j, method in enumerate(SETS)]


@pytest.mark.parametrize(("method", "kind", "missing"), CASES)
def test_a_column_of_this_type_is_published_as_sets(
    method: str, kind: pa.DataType, missing: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    values = [None, *KINDS[kind][1:]] if missing else KINDS[kind]
    column = pa.array([values[i] for i in rng.integers(0, len(values), ROWS)], kind)
    source = pa.table({"what": column, "age": rng.integers(0, 3, ROWS)})
    roles = sf.Roles(sensitive="what", quasi=["age"])
    release = sf.publish(source, tmp_path / "out", roles=roles, method=METHODS[method], null_as_value=missing, seed=2)
    assert list(verify(sf.open_release(release.path).opened, test=True))
    rows = release.sql("SELECT what, COUNT(*) AS n FROM release WHERE age = 1 GROUP BY what ORDER BY what").rows()
    assert len(rows) == len(values)
    with duckdb.connect() as con:
        data, weights = (f"'{release.path / name}'" for name in ("data.parquet", "sets.parquet"))
        counted = con.sql(
            f"SELECT SUM(w.weight) FROM {data} d JOIN {weights} w USING (what_set) WHERE age = 1 "
            "GROUP BY w.value ORDER BY w.value"
        ).fetchall()
        pq.write_table(source, tmp_path / "source.parquet")
        [(same,)] = con.sql(
            f"SELECT typeof(any_value(value)) = (SELECT typeof(any_value(what)) FROM '{tmp_path / 'source.parquet'}') "
            f"FROM {weights}"
        ).fetchall()
    np.testing.assert_allclose([n for (n,) in counted], [row["n"] for row in rows], rtol=1e-7, atol=1e-6)
    assert same
