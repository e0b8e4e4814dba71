"""List columns of a Parquet file: every reader sees the lists of the numbers."""

from __future__ import annotations

import datetime
import decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines import parquet_lists
from sfumato.engines.contract import FollowingColumn
from sfumato.engines.parquet_footer import parsed, read_footer, written
from sfumato.engines.parquet_rows import write_rows

DAY, MOMENT = datetime.date(1969, 12, 30), datetime.datetime(2020, 2, 29, 23, 59, 59, 123456)  # noqa: DTZ001
LISTS: dict[str, tuple[pa.DataType, list[list[Any]]]] = {
    "texts": (pa.string(), [["a", "", "été"], ["", "x" * 300, "a"], ["été", "a", "b"]]),
    "one text": (pa.string(), [["only"]]),
    "small numbers": (pa.int8(), [[-128, 0], [0, 127]]),
    "numbers": (pa.int64(), [[2**62, -1], [3, 4], [-1, 4]]),
    "fractions": (pa.float64(), [[0.1, float("inf")], [-2.5, 0.1]]),
    "truths": (pa.bool_(), [[True], [False], [True, False], [False, True, None]]),
    "days": (pa.date32(), [[DAY], [DAY + datetime.timedelta(40_000)]]),
    "moments": (pa.timestamp("us"), [[MOMENT, MOMENT + datetime.timedelta(microseconds=1)]]),
    "decimals": (pa.decimal128(20, 3), [[decimal.Decimal("-1.500"), decimal.Decimal("12345678901234567.125")]]),
    "missing": (pa.string(), [["a", None], [None, "b"], ["a", "b"], [None, "c"]]),
    "all widths": (pa.int16(), [list(range(k)) for k in range(1, 40)]),
    "one width, texts": (pa.string(), [[f"v{(k + j) % 13}" for j in range(9)] for k in range(13)]),
    "one width, 300 values": (pa.int32(), [list(range(k, k + 5)) for k in range(0, 300, 5)]),
    "256 values, packed by us": (pa.int32(), [list(range(k, k + 8)) for k in range(0, 256, 8)]),
    "257 values, packed by us": (pa.int32(), [list(range(k, k + 8)) for k in (*range(0, 256, 8), 249)]),
    "65,536 values": (pa.int32(), [list(range(k, k + 8_192)) for k in range(0, 65_536, 8_192)]),
    "65,537 values": (pa.int32(), [list(range(k, k + 8_192)) for k in (*range(0, 65_536, 8_192), 57_345)]),
    "257 values": (pa.int32(), [[k, k + 1] for k in range(256)]),
    "70,000 values": (pa.int32(), [list(range(k, k + 7_000)) for k in range(0, 70_000, 7_000)]),
}


def _numbers(k: int, rows: int) -> pa.Array:
    return pa.array(np.random.default_rng(rows).integers(0, k, size=rows), pa.int16())


def _file(path: Path, columns: dict[str, pa.Array], lists: list[FollowingColumn], group: int) -> None:
    """The columns and lists in row groups of that many rows."""
    table = pa.table(columns)
    write_rows(path, table.schema, [partial(_same, b) for b in table.to_batches(group)], lists, threads=2)


def _same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("page", [1 << 20, 24])
def test_every_reader_sees_the_lists(kind: str, page: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of one list and of many; row groups that are not multiples of eight."""
    monkeypatch.setattr(parquet_lists, "PAGE_VALUES", page)
    of, cells = LISTS[kind]
    lists = pa.array(cells, pa.list_(of))
    rows = 60 if len(max(cells, key=len)) > 1_000 else 2_123
    numbers, ages = _numbers(len(lists), rows), pa.array(range(rows), pa.int32())
    path = tmp_path / "data.parquet"
    plain = {"age": ages, "what_set": numbers, "note": pa.array([f"n{i % 5}" for i in range(rows)])}
    _file(path, plain, [FollowingColumn(name="what", numbers="what_set", cells=lists)], group=1_001)

    expected = lists.take(numbers)
    found = pq.read_table(path)
    assert found.column_names == ["age", "what", "what_set", "note"]
    assert found.drop_columns(["what"]).equals(pa.table(plain))
    assert found["what"].combine_chunks().equals(expected)
    assert pq.read_table(path, read_dictionary=["what.list.element"])["what"].to_pylist() == expected.to_pylist()
    told = duckdb.sql(f"SELECT what FROM '{path}' ORDER BY age").to_arrow_table()["what"].combine_chunks()
    assert told.cast(expected.type).equals(expected)
    picked = duckdb.sql(f"SELECT age, what FROM '{path}' WHERE age % 97 = 5 AND note = 'n2' ORDER BY age").fetchall()
    assert picked == [(i, expected[i].as_py()) for i in range(rows) if i % 97 == 5 and i % 5 == 2]


@pytest.mark.parametrize("kind", LISTS)
def test_polars_sees_the_lists(kind: str, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    of, cells = LISTS[kind]
    lists = pa.array(cells, pa.list_(of))
    numbers = _numbers(len(lists), 333)
    path = tmp_path / "data.parquet"
    own = [FollowingColumn(name="what", numbers="what_set", cells=lists)]
    _file(path, {"what_set": numbers, "age": pa.array(range(333))}, own, group=200)
    assert polars.read_parquet(path)["what"].to_list() == lists.take(numbers).to_pylist()


def test_numbers_that_follow_stand_behind_all_columns(tmp_path: Path) -> None:
    path, numbers = tmp_path / "data.parquet", _numbers(3, 2_123)
    own = [
        FollowingColumn(name="part", numbers="what_set", cells=pa.array([300, 2, 300], pa.int32())),
        FollowingColumn(name="what", numbers="what_set", cells=pa.array([["a"], ["b", "c"], ["d"]])),
    ]
    _file(path, {"what_set": numbers, "age": pa.array(range(2_123))}, own, group=1_001)
    found = pq.read_table(path)
    assert found.column_names == ["what", "what_set", "age", "part"]
    assert found["part"].combine_chunks().equals(own[0].cells.take(numbers))
    assert found["what"].combine_chunks().equals(own[1].cells.take(numbers))
    assert duckdb.sql(f"SELECT part, count(*) FROM '{path}' GROUP BY part ORDER BY part").fetchall() == [
        (part, int(np.isin(numbers.to_numpy(), at).sum())) for part, at in ((2, [1]), (300, [0, 2]))
    ]


def test_several_list_columns_and_sizes(tmp_path: Path) -> None:
    """Each stands in front of its numbers, which two may share; the footer states the sizes of the chunks."""
    texts, days = (pa.array(LISTS[kind][1], pa.list_(LISTS[kind][0])) for kind in ("texts", "days"))
    first, second = _numbers(3, 500), _numbers(2, 501).slice(1)
    path = tmp_path / "data.parquet"
    lists = [
        FollowingColumn(name="ü", numbers="ü_set", cells=days),
        FollowingColumn(name="a b.c", numbers="a b.c_set", cells=texts),
        FollowingColumn(name="d", numbers="a b.c_set", cells=pa.array([[1], [2, 3], [4]])),
    ]
    _file(path, {"a b.c_set": first, "x": first, "ü_set": second}, lists, group=200)
    found = pq.read_table(path)
    assert found.column_names == ["a b.c", "d", "a b.c_set", "x", "ü", "ü_set"]
    assert found["a b.c"].combine_chunks().equals(texts.take(first))
    assert found["d"].combine_chunks().equals(pa.array([[1], [2, 3], [4]]).take(first))
    assert duckdb.sql(f"SELECT d FROM '{path}'").fetchall() == [(row,) for row in found["d"].to_pylist()]
    assert found["ü"].combine_chunks().equals(days.take(second))
    stated = pq.read_metadata(path)
    for g in range(stated.num_row_groups):
        group = stated.row_group(g)
        chunks = [group.column(j) for j in range(group.num_columns)]
        assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
        assert [chunk.num_values for chunk in chunks if chunk.path_in_schema == "x"] == [group.num_rows]
    last = max(
        (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size for chunk in chunks
    )
    assert last == read_footer(path)[1], "chunks end where the footer begins"


@pytest.mark.parametrize("writer", ["pyarrow", "duckdb"])
def test_footers_are_written_as_they_were_read(writer: str, tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    table = pa.table({f"c{j}": pa.array([j, None, 2**40]) for j in range(20)} | {"t": pa.array(["a", None, "b" * 200])})
    if writer == "pyarrow":
        pq.write_table(table, path)
    else:
        duckdb.sql(f"COPY (SELECT * FROM \"table\") TO '{path}' (FORMAT parquet)")
    length = int.from_bytes(path.read_bytes()[-8:-4], "little")
    text = path.read_bytes()[-8 - length : -8]
    assert written(parsed(text)) == text
