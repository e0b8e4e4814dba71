"""Files that hold their columns and nothing else, and state of them what they are."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forged_folders import with_footer
from sfumato.engines.contract import FollowingColumn
from sfumato.engines.parquet_chunks import CHUNKS, META, PATH, ROW_GROUPS, SMALL, STATISTICS
from sfumato.engines.parquet_footer import BINARY, I32, I64, LIST, STRUCT, Struct, written
from sfumato.engines.parquet_rows import write_rows
from sfumato.errors import VerificationError
from sfumato.release.file_layout import check_layout

DECIMALS = [decimal.Decimal("1.25"), decimal.Decimal("-3.50"), None]
COLUMNS = {
    "small": pa.array([1, -3, None], pa.int8()),
    "large": pa.array([1, 2**64 - 1, None], pa.uint64()),
    "zeros": pa.array([0.0, -0.0, float("nan")]),
    "no numbers": pa.array([float("nan")] * 3),
    "truths": pa.array([True, False, None]),
    "texts": pa.array(["é", "", "z" * 5_000]),
    "none": pa.nulls(3, pa.string()),
    "bytes": pa.array([b"\xff", b"", None]),
    "days": pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
    "moments": pa.array([0, 2**52, None], pa.timestamp("us")),
    "zoned": pa.array([0, 2**52, None], pa.timestamp("us", "UTC")),
    "times": pa.array([1, 2**36, None], pa.time64("us")),
    "decimals": pa.array(DECIMALS, pa.decimal128(38, 2)),
    "short decimals": pa.array(DECIMALS, pa.decimal128(5, 2)),
    "halves": pa.array(np.array([1, 2, 3], dtype=np.float16)),
    "lists": pa.array([[1, None], [3], [2]]),
    "lists of nothing": pa.array([[5, None, 6], None, []]),
    "lists.list.element": pa.array([7, 8, 9]),
}


def chunk_of(footer: Struct, name: bytes) -> Struct:
    """What the first row group's chunk of a column is said to be."""
    chunks = footer[ROW_GROUPS][1][1][0][CHUNKS][1][1]
    found: Struct = next(c[META][1] for c in chunks if c[META][1][PATH][1][1][0] == name)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(COLUMNS), path, store_schema=False, row_group_size=2)
    return path


def test_files_of_the_library_and_ours_are_what_they_say(file: Path, tmp_path: Path) -> None:
    check_layout(file, "x.parquet")
    column = FollowingColumn(name="l", numbers="n", cells=pa.array([["a", "b"], ["b", "c"]]))
    batch = pa.RecordBatch.from_pydict({"n": pa.array([0, 1, 1], pa.int16()), "t": ["x", None, "y"]})
    write_rows(tmp_path / "own.parquet", batch.schema, [lambda: batch] * 3, [column], threads=1)
    check_layout(tmp_path / "own.parquet", "own.parquet")


@pytest.mark.parametrize("name", [name for name in COLUMNS if name not in {"no numbers", "none", "lists.list.element"}])
@pytest.mark.parametrize("field", [3, 5, 6])
def test_every_false_statement_about_values_is_seen(name: str, field: int, file: Path) -> None:
    """The number of missing ones, the largest, the least."""

    def change(footer: Struct) -> None:
        stated = chunk_of(footer, name.encode())[STATISTICS][1]
        kind, value = stated[field]
        false = value + 1 if field == 3 else bytes([value[0] ^ 1]) + value[1:] if value else b"a"
        stated[field] = (kind, false)
        if field - 4 in stated and field != 3:
            stated[field - 4] = (kind, false)

    with_footer(file, change)
    with pytest.raises(VerificationError, match=r"^x\.parquet states of a column's values what they are not$"):
        check_layout(file, "x.parquet")


NOTE = b"true values: ..."
NOTES: dict[str, Callable[[Struct], None]] = {
    "the writer's name": lambda footer: footer.update({6: (BINARY, NOTE)}),
    "a field that no format has": lambda footer: footer.update({99: (BINARY, NOTE)}),
    "pairs of names and values": lambda footer: footer.update({5: (LIST, (STRUCT, [{1: (BINARY, NOTE)}]))}),
    "pairs beside a column": lambda footer: chunk_of(footer, b"small").update(
        {8: (LIST, (STRUCT, [{1: (BINARY, NOTE), 2: (BINARY, NOTE)}]))}
    ),
    "statistics for older readers": lambda footer: chunk_of(footer, b"small")[STATISTICS][1].update(
        {1: (BINARY, NOTE)}
    ),
    "a filter elsewhere": lambda footer: chunk_of(footer, b"small").update({14: (I64, 4)}),
    "another file": lambda footer: footer[ROW_GROUPS][1][1][0][CHUNKS][1][1][0].update({1: (BINARY, NOTE)}),
    "pages elsewhere": lambda footer: footer[ROW_GROUPS][1][1][0][CHUNKS][1][1][0].update({4: (I64, 4), 5: (I32, 9)}),
}


@pytest.mark.parametrize("where", NOTES)
def test_fields_that_no_release_has_are_refused(where: str, file: Path) -> None:
    with_footer(file, NOTES[where])
    with pytest.raises(VerificationError, match=r"^x\.parquet carries metadata that no release has$"):
        check_layout(file, "x.parquet")


def test_the_path_of_a_column_is_no_place_for_notes(file: Path) -> None:
    with_footer(file, lambda footer: chunk_of(footer, b"small").update({PATH: (LIST, (BINARY, [NOTE]))}))
    with pytest.raises(VerificationError, match="bytes that belong to none"):
        check_layout(file, "x.parquet")


@pytest.mark.parametrize("place", ["front", "end", "inside the footer"])
def test_bytes_of_no_column_are_refused(place: str, file: Path) -> None:
    data = file.read_bytes()
    size = int.from_bytes(data[-8:-4], "little")
    if place == "inside the footer":
        file.write_bytes(data[:-8] + NOTE + (size + len(NOTE)).to_bytes(4, "little") + data[-4:])
    elif place == "end":
        with_footer(file, lambda footer: None, hidden=NOTE)
    else:  # rows of which nobody speaks
        with_footer(file, lambda footer: footer[ROW_GROUPS][1][1].pop(0))
    with pytest.raises(VerificationError, match=r"bytes that belong to none|metadata that no release has"):
        check_layout(file, "x.parquet")


@pytest.mark.parametrize("what", ["a tail", "a page without values", "a second dictionary"])
def test_a_column_is_its_pages(what: str, tmp_path: Path) -> None:
    """A text behind the pages of the last column, bare or as a page of its own: pyarrow reads the same rows."""
    path = tmp_path / "x.parquet"
    table = pa.table({"x": pa.array(["a", "b", "a"])})
    pq.write_table(table, path, store_schema=False)
    check_layout(path, "x.parquet")
    about = {1: (I32, 0), 2: (I32, 0), 3: (I32, 3), 4: (I32, 3)}
    kinds = {"a page without values": {1: (I32, 0), 5: (STRUCT, about)}, "a second dictionary": {1: (I32, 2)}}
    sizes = {2: (I32, len(NOTE)), 3: (I32, len(NOTE))}
    hidden = (written(kinds[what] | sizes) if what in kinds else b"") + NOTE

    def longer(footer: Struct) -> None:
        chunk = chunk_of(footer, b"x")
        chunk[SMALL] = (I64, chunk[SMALL][1] + len(hidden))

    with_footer(path, longer, hidden)
    assert pq.read_table(path).equals(table)
    with pytest.raises(VerificationError, match="bytes that belong to none"):
        check_layout(path, "x.parquet")


def test_false_statistics_change_what_a_reader_counts(file: Path) -> None:
    """Why they are looked at: rows are skipped by them."""

    def change(footer: Struct) -> None:
        stated = chunk_of(footer, b"days")[STATISTICS][1]
        for least, largest in ((6, 5), (2, 1)):
            stated[largest] = stated[least]

    asked = f"SELECT count(*) FROM '{file}' WHERE days > DATE '2000-01-01'"
    assert duckdb.sql(asked).fetchall() == [(1,)]
    with_footer(file, change)
    assert duckdb.sql(asked).fetchall() == [(0,)]
