"""Parquet files whose columns of few values are encoded by us: every reader sees the rows, and statistics hold."""

from __future__ import annotations

import datetime
import decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sfumato.engines.parquet_chunks import CHUNKS, DICTIONARY, META, ROW_GROUPS
from sfumato.engines.parquet_codes import packed
from sfumato.engines.parquet_footer import read_footer
from sfumato.engines.parquet_rows import write_rows

ROWS, GROUP = 3_003, 1_001  # not multiples of eight
RNG = np.random.default_rng(20)


def _drawn(values: Any, kind: pa.DataType, *, missing: bool = False) -> pa.Array:
    """Values in random order, the first and the last of them for certain in every group."""
    cells = pa.array(values, kind)
    at = RNG.integers(0, len(cells), size=ROWS)
    at[::GROUP], at[1::GROUP] = 0, len(cells) - 1
    return cells.take(pa.array(at, mask=RNG.random(ROWS) < 0.3 if missing else None))


def _integers(kind: pa.DataType) -> dict[str, pa.Array]:
    info = np.iinfo(kind.to_pandas_dtype())
    low, high = int(info.min), int(info.max)
    return {
        f"{kind} lowest": _drawn([low, low + 1, low + 100], kind),
        f"{kind} highest": _drawn([high - 100, high], kind, missing=True),
        f"{kind} all": _drawn([low, high], kind),
    }


def _coded(values: pa.Array, distinct: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(values, distinct)


DAY, MOMENT = datetime.date(1969, 12, 30), datetime.datetime(2020, 2, 29, 23, 59, 59, 123456)  # noqa: DTZ001
WORDS = pa.array(["b", "", "été", "x" * 300, "a"])
COLUMNS: dict[str, pa.Array] = {
    **{k: v for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()) for k, v in _integers(kind).items()},
    **{k: v for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()) for k, v in _integers(kind).items()},
    **{f"{m} numbers": _drawn(np.arange(m) - 7, pa.int32(), missing=m % 2 == 0) for m in (1, 2, 128, 255, 256)},
    **{f"{m} numbers": _drawn(np.arange(m) - 7, pa.int64(), missing=m % 2 == 0) for m in (257, 65_536, 65_537)},
    "numbers far apart": _drawn([0, 40_000, 300, 60_000], pa.int32()),
    "none": pa.nulls(ROWS, pa.int32()),
    "no text": pa.nulls(ROWS, pa.string()),
    "days": _drawn([DAY, DAY + datetime.timedelta(700)], pa.date32(), missing=True),
    "far days": _drawn([DAY, DAY + datetime.timedelta(700_000)], pa.date32()),
    "moments": _drawn([MOMENT, MOMENT + datetime.timedelta(microseconds=1)], pa.timestamp("us")),
    "zones": _drawn([MOMENT], pa.timestamp("us", tz="UTC")),
    "times": _drawn([datetime.time(1, 2, 3, 4)], pa.time64("us")),
    "truths": _drawn([True, False], pa.bool_(), missing=True),
    "fractions": _drawn([0.1, float("inf"), -2.5], pa.float64(), missing=True),
    "floats": _drawn([0.5, -1.25], pa.float32()),
    "decimals": _drawn([decimal.Decimal("-1.500"), decimal.Decimal("12345678901234567.125")], pa.decimal128(20, 3)),
    "bytes": _drawn([b"\0", b"", b"\xff" * 9], pa.binary()),
    "texts": _drawn(WORDS, pa.string(), missing=True),
    "coded texts": _coded(_drawn([0, 1, 3, 4], pa.int8()), WORDS),
    "coded with missing": _coded(_drawn([0, 1, 2], pa.int16(), missing=True), WORDS),
    "coded twice the same": _coded(_drawn([0, 1, 2], pa.int8()), pa.array(["a", "b", "a"])),
    "coded missing value": _coded(_drawn([0, 1, 2], pa.int32()), pa.array(["a", None, "b"])),
    "coded truths": _coded(_drawn([0, 1], pa.int8()), pa.array([True, False])),
    "coded numbers": _coded(_drawn(np.arange(300), pa.int16()), pa.array(np.arange(400) * 1_000_003)),
    "coded fractions": _coded(_drawn([0, 2], pa.int8()), pa.array([0.5, 7.0, -3.25])),
    "coded days": _coded(_drawn([0, 1], pa.int8(), missing=True), pa.array([DAY, DAY + datetime.timedelta(9)])),
    "many coded": _coded(_drawn(np.arange(70_000), pa.int32()), pa.array([f"v{j}" for j in range(70_000)])),
    "long coded": _coded(_drawn(np.arange(900), pa.int16()), pa.array([f"{j:04d}" * 400 for j in range(900)])),
}


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def _written(path: Path, column: pa.Array) -> None:
    table = pa.table({"x": column, "row": pa.array(range(len(column)), pa.int32())})
    groups = [partial(lambda b: b, batch) for batch in table.to_batches(GROUP)]
    write_rows(path, table.schema, groups, (), threads=2)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_reader_sees_the_rows(name: str, tmp_path: Path) -> None:
    path, expected = tmp_path / "data.parquet", _plain(COLUMNS[name])
    _written(path, COLUMNS[name])
    found = pq.read_table(path)
    assert found.column_names == ["x", "row"]
    assert found["x"].combine_chunks().equals(expected)
    assert found["row"].to_pylist() == list(range(ROWS))
    told = duckdb.sql(f"SELECT x FROM '{path}' ORDER BY row").to_arrow_table()["x"].combine_chunks()
    assert told.cast(expected.type).equals(expected)
    missing = duckdb.sql(f"SELECT count(*) - count(x) FROM '{path}'").fetchall()
    assert missing == [(expected.null_count,)]


@pytest.mark.parametrize("name", COLUMNS)
def test_polars_sees_the_rows(name: str, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    path, expected = tmp_path / "data.parquet", _plain(COLUMNS[name])
    _written(path, COLUMNS[name])
    assert polars.read_parquet(path)["x"].to_arrow().cast(expected.type).equals(expected)


@pytest.mark.parametrize("name", COLUMNS)
def test_statistics_are_those_of_the_rows(name: str, tmp_path: Path) -> None:
    """Readers leave out row groups by them: the least and the greatest value that a group shows, and what it misses."""
    path, expected = tmp_path / "data.parquet", _plain(COLUMNS[name])
    _written(path, COLUMNS[name])
    stated = pq.read_metadata(path)
    assert (stated.num_rows, stated.num_row_groups) == (ROWS, 3)
    for g in range(3):
        part, meta = expected.slice(g * GROUP, GROUP), stated.row_group(g).column(0)
        assert meta.statistics.null_count == part.null_count
        assert meta.num_values == GROUP
        if meta.statistics.has_min_max and not pa.types.is_decimal(part.type):
            extremes = pc.min_max(part).as_py()
            assert pa.array([meta.statistics.min], part.type)[0].as_py() == extremes["min"]
            assert pa.array([meta.statistics.max], part.type)[0].as_py() == extremes["max"]


@pytest.mark.parametrize("name", ["2 numbers", "256 numbers", "numbers far apart", "days", "coded texts"])
def test_columns_of_few_values_have_a_dictionary(name: str, tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    _written(path, COLUMNS[name])
    groups = read_footer(path)[0][ROW_GROUPS][1][1]
    assert all(DICTIONARY in group[CHUNKS][1][1][0][META][1] for group in groups)


@pytest.mark.parametrize("width", range(1, 17))
@pytest.mark.parametrize("size", [1, 7, 8, 9, 1_000])
def test_codes_are_packed_bit_by_bit(width: int, size: int) -> None:
    codes = RNG.integers(0, 1 << width, size=size).astype(np.uint8 if width <= 8 else np.uint16)
    bits = (codes[:, None] >> np.arange(width, dtype=codes.dtype) & 1).astype(np.uint8).ravel()
    whole = np.zeros(-(-size // 8) * 8 * width, dtype=np.uint8)
    whole[: len(bits)] = bits
    assert packed(codes, width) == np.packbits(whole, bitorder="little").tobytes()


def test_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    schema = pa.schema({"x": pa.int32(), "y": pa.dictionary(pa.int8(), pa.string())})
    write_rows(path, schema, [], (), threads=1)
    assert pq.read_table(path).num_rows == 0
    assert duckdb.sql(f"SELECT count(*), min(y) FROM '{path}'").fetchall() == [(0, None)]
