"""sensitive.parquet is read the same by us and by the library, whoever wrote it and however it is damaged."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.codes import Coder
from sfumato.engines.parquet_chunks import CHUNKS, COMPRESSION, META, PAGES, ROW_GROUPS, SMALL, VALUES
from sfumato.engines.parquet_codes import packed, unpacked_codes
from sfumato.engines.parquet_footer import BINARY, I32, I64, STRUCT, Struct, closing, read_footer
from sfumato.engines.parquet_rows import write_rows
from sfumato.errors import SfumatoError
from sfumato.model.public import Domain
from sfumato.model.side_columns import SideColumns, rising_runs, runs_of
from sfumato.release import side_table
from sfumato.release.bundle import write_side
from sfumato.release.side_table import SideTable

RNG = np.random.default_rng(31)
TEXTS = ("", "asthma", "été", "flu" * 40, "gout")


def _column(numbers: Any, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(numbers, kind or pa.int32())


RISING = {
    **{f"{n} rows": _column(np.arange(n) // 3) for n in (1, 2, 8, 32, 33, 34, 128, 129, 130, 161, 257, 1_000)},
    "one number": _column(np.full(500, 7)),
    "from below 0": _column(np.arange(300) // 2 - 200),
    "wide": _column(np.arange(300) + (1 << 40), pa.int64()),
    "each higher": _column(np.arange(700)),
}
OTHERS = {
    "falling": _column(np.arange(300)[::-1]),
    "a gap": _column([0, 0, 2, 2]),
    "narrow": _column(np.arange(100) // 2, pa.int16()),
    "missing": _column([0, None, 1]),
    "around": _column([(1 << 31) - 2, (1 << 31) - 1, -(1 << 31)]),
}


def _write(path: Path, column: pa.Array) -> None:
    table = pa.table({"group_id": column})
    groups = [partial(lambda b: b, batch) for batch in table.to_batches(max_chunksize=1 << 20)]
    write_rows(path, table.schema, groups, (), 1, ["group_id"])


@pytest.mark.parametrize("name", RISING | OTHERS)
def test_every_reader_sees_numbers_that_rise(name: str, tmp_path: Path) -> None:
    path, expected = tmp_path / "x.parquet", (RISING | OTHERS)[name]
    _write(path, expected)
    assert pq.read_table(path)["group_id"].combine_chunks().equals(expected)
    assert duckdb.sql(f"SELECT group_id FROM '{path}'").to_arrow_table()["group_id"].to_pylist() == expected.to_pylist()
    polars = pytest.importorskip("polars", reason="polars is not installed")
    assert polars.read_parquet(path)["group_id"].to_list() == expected.to_pylist()
    stated = pq.read_metadata(path).row_group(0).column(0).statistics
    there = [number for number in expected.to_pylist() if number is not None]
    assert (stated.min, stated.max, stated.null_count) == (min(there), max(there), expected.null_count)


@pytest.mark.parametrize("width", range(1, 9))
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1_000])
def test_packed_codes_come_back(width: int, size: int) -> None:
    codes = RNG.integers(0, 1 << width, size=size).astype(np.uint8)
    assert unpacked_codes(packed(codes, width), width, size).tolist() == codes.tolist()


@pytest.mark.parametrize("sizes", [[3] * 400, [3] * 50 + [4] + [3] * 50, [1, 300, 2, 5], [1] * 300, [700], [5, 6] * 60])
@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_runs_by_steps_are_those_of_the_column(sizes: list[int], skipped: int) -> None:
    column = np.repeat(np.arange(len(sizes)), sizes)[skipped:] + 9
    found = rising_runs(int(column[0]), np.diff(column).astype(np.uint8), column.dtype)
    expected = runs_of(column)
    assert found.numbers == expected.numbers
    assert found.lengths.tolist() == expected.lengths.tolist()
    assert found.column().tolist() == column.tolist()


# --- the table -----------------------------------------------------------------------------------------------------


def _domain(kind: str) -> tuple[Domain, dict[str, pa.DataType]]:
    values: dict[str, tuple[tuple[Any, ...], pa.DataType]] = {
        "numbers": (tuple(range(3, 60)), pa.int16()),
        "texts": (TEXTS, pa.string()),
        "one": ((5,), pa.int32()),
        "floats": ((-0.5, 0.0, 2.5), pa.float64()),
        "many": (tuple(range(0, 900, 3)), pa.int32()),
        "truth": ((False, True), pa.bool_()),
        "none among them": ((*TEXTS, None), pa.string()),
    }
    found, written = values[kind]
    return Domain(columns=("x",), values=tuple((v,) for v in found)), {"x": written}


def _side(domain: Domain, coder: Coder, *, hidden: int = 0, rows: int = 4_000) -> tuple[pa.Table, list[int]]:
    codes = RNG.integers(hidden, len(domain), rows).astype(np.int32)
    group = pa.array(np.arange(rows) // 3, pa.int32())
    return pa.table({"group_id": group, "x": coder.decode(codes)[0]}), codes.tolist()


def _read(path: Path, domain: Domain, coder: Coder, rows: int = 4_000) -> SideColumns:
    return SideTable(path, [coder], [domain], "group_id", rows).read()


KINDS = ["numbers", "texts", "one", "floats", "many", "truth", "none among them"]
QUICK = ["numbers", "texts", "one", "floats"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hidden", [0, 1])
def test_codes_and_groups_are_read_whatever_the_values(kind: str, hidden: int, tmp_path: Path) -> None:
    """`hidden` values come first in the domain and nowhere in the rows."""
    domain, types = _domain(kind)
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    table, codes = _side(domain, coder, hidden=hidden if len(domain) > 1 else 0)
    write_side(table, path)
    found = _read(path, domain, coder)
    assert found["unit0"].tolist() == codes
    assert found["group_id"].tolist() == table["group_id"].to_pylist()
    assert found["group_id"].dtype == np.int32


@pytest.mark.parametrize("kind", QUICK)
def test_what_we_wrote_is_not_left_to_the_library(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    domain, types = _domain(kind)
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    table, codes = _side(domain, coder)
    write_side(table, path)

    def refuse(*_: object) -> None:
        raise AssertionError("the library was asked")

    monkeypatch.setattr(SideTable, "_by_library", refuse)
    assert _read(path, domain, coder)["unit0"].tolist() == codes


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "zstd", "row_group_size": 700},
        {"compression": "none", "use_dictionary": False},
        {"compression": "zstd", "data_page_version": "2.0"},
        {"compression": "none", "use_dictionary": ["x"], "column_encoding": {"group_id": "DELTA_BINARY_PACKED"}},
    ],
)
@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_what_others_wrote_is_read_the_same(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    domain, types = _domain(kind)
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    table, codes = _side(domain, coder)
    plain = pa.table({"x": table["x"].combine_chunks().dictionary_decode(), "group_id": table["group_id"]})
    pq.write_table(plain, path, **options)
    found = _read(path, domain, coder)
    assert found["unit0"].tolist() == codes
    assert found["group_id"].tolist() == table["group_id"].to_pylist()


def _outcome(path: Path, domain: Domain, coder: Coder) -> Any:
    try:
        found = _read(path, domain, coder)
    except (SfumatoError, OSError) as error:
        return type(error)
    return {name: found[name].tolist() for name in found}  # names may be damaged, too


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_damaged_files_are_read_as_the_library_reads_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever a byte is another one: the same codes and groups, or both fail."""
    domain, types = _domain(kind)
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    write_side(_side(domain, coder, rows=700)[0], path)
    whole = path.read_bytes()
    own, library = list[Any](), list[Any]()
    for outcomes in (own, library):
        for at in range(4, len(whole) - 8, 3):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
            outcomes.append(_outcome(path, domain, coder))
        monkeypatch.setattr(SideTable, "_chunk", lambda *_: None)
    differ = [i for i, (a, b) in enumerate(zip(own, library, strict=True)) if a != b]
    assert differ == []
    assert any(isinstance(outcome, type) for outcome in own)


FORGED: dict[str, Struct] = {
    "a chunk far longer than the file": {META: (STRUCT, {SMALL: (I64, 1 << 60)})},
    "a chunk before the file": {META: (STRUCT, {PAGES: (I64, -5)})},
    "a chunk of more values": {META: (STRUCT, {VALUES: (I64, 5_000)})},
    "a chunk of another file": {1: (BINARY, b"other.parquet")},
    "a chunk of another codec": {META: (STRUCT, {COMPRESSION: (I32, 1)})},
}


@pytest.mark.parametrize("name", FORGED)
@pytest.mark.parametrize("column", [0, 1])
def test_forged_footers_are_read_as_the_library_reads_them(
    name: str, column: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain, types = _domain("numbers")
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    write_side(_side(domain, coder)[0], path)
    footer, begins = read_footer(path)
    chunk = footer[ROW_GROUPS][1][1][0][CHUNKS][1][1][column]
    forged = FORGED[name]
    if META in forged:
        chunk[META][1].update(forged[META][1])
    else:
        chunk.update(forged)
    path.write_bytes(path.read_bytes()[:begins] + closing(footer))
    own = _outcome(path, domain, coder)
    monkeypatch.setattr(SideTable, "_chunk", lambda *_: None)
    assert own == _outcome(path, domain, coder)


@pytest.mark.parametrize("first", [-1, 2_000])
@pytest.mark.parametrize("ours", [True, False])
def test_numbers_that_no_group_has_are_refused(
    first: int, ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain, types = _domain("numbers")
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    table, _ = _side(domain, coder)
    group = pa.array(np.arange(4_000) // 2 + first, pa.int32())
    write_side(table.set_column(0, "group_id", group), path)
    if not ours:
        monkeypatch.setattr(side_table, "read_steps", lambda *_: None)
    with pytest.raises(SfumatoError, match="belongs to a group that cannot be"):
        _read(path, domain, coder, rows=2_500)


def test_a_value_outside_the_domain_is_refused(tmp_path: Path) -> None:
    wide, types = _domain("numbers")
    coder, path = Coder(wide, types), tmp_path / "sensitive.parquet"
    write_side(_side(wide, coder)[0], path)
    narrow = Domain(columns=("x",), values=wide.values[:-1])
    with pytest.raises(SfumatoError, match="outside the domain"):
        _read(path, narrow, Coder(narrow, types))


def test_a_file_without_rows_has_empty_columns(tmp_path: Path) -> None:
    domain, types = _domain("texts")
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    write_side(_side(domain, coder, rows=10)[0].slice(0, 0), path)
    found = _read(path, domain, coder)
    assert (len(found["unit0"]), len(found["group_id"])) == (0, 0)


@pytest.mark.parametrize("order", ["by chance", "falling", "one comes back"])
def test_groups_that_do_not_lie_together_are_refused(order: str, tmp_path: Path) -> None:
    """Answers look at runs of one group: rows of a group in two places would be two groups."""
    domain, types = _domain("texts")
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    table, _ = _side(domain, coder)
    rows = {"by chance": RNG.permutation(4_000), "falling": np.arange(4_000)[::-1], "one comes back": np.arange(4_000)}
    taken = table.take(pa.array(rows[order]))
    if order == "one comes back":
        taken = pa.concat_tables([taken.slice(3), taken.slice(0, 3)])
    pq.write_table(taken, path)
    with pytest.raises(SfumatoError, match="one after the other"):
        _read(path, domain, coder)


def test_a_first_number_beyond_all_numbers_is_left_to_the_library(tmp_path: Path) -> None:
    domain, types = _domain("texts")
    coder, path = Coder(domain, types), tmp_path / "sensitive.parquet"
    write_side(_side(domain, coder)[0], path)
    for first in (1 << 70, (1 << 31) - 100, -5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(side_table, "read_steps", lambda _, rows, first=first: (first, np.zeros(rows - 1, np.uint8)))
            assert _read(path, domain, coder)["group_id"].tolist() == (np.arange(4_000) // 3).tolist()
