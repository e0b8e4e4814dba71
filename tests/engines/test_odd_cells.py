"""Odd cells and names in every source that can hold them: kept as they are, or refused in one line; never changed."""

from __future__ import annotations

import datetime
import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import DataError, SpecError

pytest.importorskip("adbc_driver_sqlite")
METHOD = sf.UniformPerturbation(rho1="1/3", rho2="3/5")
DISEASES = ["flu", "gout", "cold", "acne"]


def _published(source: Any) -> list[Any]:
    """The cells of the column x as they are published, sorted."""
    roles = sf.Roles(sensitive="s", insensitive=["x"])
    release = sf.publish(source, roles=roles, method=METHOD, seed=1)
    cells = pq.read_table(release.opened.path / "data.parquet")["x"].to_pylist()
    return sorted(cells, key=lambda cell: (cell is not None, cell))


def _csv(folder: Path, cells: list[str]) -> Path:
    lines = [f"{DISEASES[i % 4]},{cell}\n" for i, cell in enumerate(cells)]
    (folder / "t.csv").write_text("s,x\n" + "".join(lines))
    return folder / "t.csv"


def _json(folder: Path, cells: list[str]) -> Path:
    lines = [f'{{"s": "{DISEASES[i % 4]}", "x": {cell}}}\n' for i, cell in enumerate(cells)]
    (folder / "t.jsonl").write_text("".join(lines))
    return folder / "t.jsonl"


def _sqlite(folder: Path, cells: list[Any], declared: str = "") -> str:
    with sqlite3.connect(folder / "t.db") as con:
        con.execute(f"CREATE TABLE t (s TEXT, x {declared})")
        for i, cell in enumerate(cells):
            value = f"CAST(x'{cell.hex()}' AS TEXT)" if isinstance(cell, bytes) else "?"
            con.execute(f"INSERT INTO t VALUES ('{DISEASES[i % 4]}', {value})", () if "CAST" in value else (cell,))
    con.close()
    return f"sqlite:///{folder / 't.db'}?table=t"


def _duckdb(folder: Path, cell: str) -> str:
    with duckdb.connect(str(folder / "t.duckdb")) as con:
        con.execute(f"CREATE TABLE t AS SELECT {DISEASES}[i % 4 + 1] AS s, {cell} AS x FROM range(8) AS r(i)")
    return f"duckdb:///{folder / 't.duckdb'}?table=t"


def _arrow(_: Path, cells: pa.Array) -> pa.Table:
    return pa.table({"s": (DISEASES * 2)[: len(cells)], "x": cells})


def _ipc(folder: Path, cells: pa.Array) -> Path:
    table = _arrow(folder, cells)
    with pa.ipc.new_file(folder / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    return folder / "t.arrow"


def _orc(folder: Path, cells: pa.Array) -> Path:
    orc.write_table(_arrow(folder, cells), folder / "t.orc")
    return folder / "t.orc"


def _parquet(folder: Path, cells: pa.Array) -> Path:
    pq.write_table(_arrow(folder, cells), folder / "t.parquet")
    return folder / "t.parquet"


# --- numbers with many digits ----------------------------------------------------------------------------------

IDS = ["9007199254740993", "9007199254740995", "1.5", "2"]


@pytest.mark.parametrize(
    "make",
    [
        lambda f: _csv(f, IDS),
        lambda f: _json(f, IDS),
        lambda f: _sqlite(f, [2**53 + 1, 2**53 + 3, 1.5, 2]),
    ],
    ids=["csv", "json lines", "sqlite"],
)
def test_whole_numbers_beside_fractions_lose_no_digit(make: Callable[[Path], Any], tmp_path: Path) -> None:
    assert _published(make(tmp_path)) == sorted(IDS)


def test_numbers_that_a_real_number_holds_stay_numbers(tmp_path: Path) -> None:
    assert _published(_csv(tmp_path, ["123456789012345", "0.5", "1e3", "2"])) == [0.5, 2, 1000, 123456789012345]
    assert _published(_json(tmp_path, ["123456789012345", "0.5", "1e3", "2"])) == [0.5, 2, 1000, 123456789012345]
    assert _published(_sqlite(tmp_path, [2**53, 0.5, 1e3, 2])) == [0.5, 2, 1000, 2**53]


# --- moments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "odd"),
    [
        ("DATE", "2021-02-30"),
        ("DATE", "2021-13-01"),
        ("DATETIME", "2021-02-28 10:00:00+02:00"),
        ("DATETIME", "2021-02-28 10:00:00 or so"),
        ("DATETIME", "2021-02-28 10:00:00.123456789"),
        ("DATETIME", "2021-02-28 25:00"),
        ("TIMESTAMP", "2021-02-30 10:00"),
    ],
)
def test_a_text_of_sqlite_that_is_no_date_stays_text(declared: str, odd: str, tmp_path: Path) -> None:
    good = ["2020-01-01", "2020-02-29"] if declared == "DATE" else ["2020-01-01 10:00", "2020-02-29T23:59:59.123456"]
    assert _published(_sqlite(tmp_path, [*good, odd, None], declared)) == [None, *sorted([*good, odd])]
    (tmp_path / "t.db").unlink()
    found = _published(_sqlite(tmp_path, [*good, *good, None], declared))
    assert found[1] == (
        datetime.date(2020, 1, 1) if declared == "DATE" else datetime.datetime.fromisoformat("2020-01-01 10:00")
    )


def test_moments_of_csv_keep_their_digits(tmp_path: Path) -> None:
    moments = ["2020-01-01 10:00:00.123456789", "2020-01-01 10:00:00.123456788", "2020-01-01 10:00:00", ""]
    assert _published(_csv(tmp_path, moments)) == [None, *sorted(moments[:3])]
    assert _published(_csv(tmp_path, ["2020-01-01 10:00:00.123456000"] * 4))[0].microsecond == 123456


def test_moments_with_a_zone_are_read_from_json(tmp_path: Path) -> None:
    found = _published(_json(tmp_path, ['"2020-01-01T10:00:00Z"', '"2020-01-01T10:00:00+02:00"'] * 2))
    assert [moment.astimezone(datetime.UTC).hour for moment in found] == [8, 8, 10, 10]


@pytest.mark.parametrize("cell", ["'infinity'::DATE", "'-infinity'::TIMESTAMP"])
def test_infinite_dates_are_refused(cell: str, tmp_path: Path) -> None:
    copy = f"COPY (SELECT {DISEASES}[i % 4 + 1] AS s, {cell} AS x FROM range(8) AS r(i)) TO '{tmp_path}/t.parquet'"
    duckdb.connect().execute(copy)
    for source in (_duckdb(tmp_path, cell), tmp_path / "t.parquet", pq.read_table(tmp_path / "t.parquet")):
        with pytest.raises(DataError, match='column "x" holds an infinite date'):
            _published(source)
        with pytest.raises(DataError, match='column "x" holds an infinite date'):
            sf.publish(source, roles=sf.Roles(sensitive="x", insensitive=["s"]), method=METHOD, null_as_value=True)


# --- texts -------------------------------------------------------------------------------------------------------


def _broken_text() -> pa.Array:
    offsets = pa.py_buffer(np.arange(9, dtype=np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 8, [None, offsets, pa.py_buffer(b"zq\xffjzqxj")])


@pytest.mark.parametrize(
    "make",
    [
        lambda f: _arrow(f, _broken_text()),
        lambda f: _arrow(f, _broken_text()).to_reader(),
        lambda f: lambda: _arrow(f, _broken_text()).to_batches(),
        lambda f: _ipc(f, _broken_text()),
        lambda f: _orc(f, _broken_text()),
        lambda f: _sqlite(f, [b"zq\xff", b"j", b"x", b"y"]),
    ],
    ids=["table", "reader", "function", "arrow", "orc", "sqlite"],
)
def test_bytes_that_are_no_text_are_refused(make: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match='column "x" holds text that is not UTF-8') as caught:
        _published(make(tmp_path))
    assert "zq" not in str(caught.value)


def test_a_file_of_texts_that_are_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="damaged"):
        _published(_parquet(tmp_path, _broken_text()))


# --- types that Arrow would change -----------------------------------------------------------------------------


def test_odd_types_of_duckdb_are_kept_as_text(tmp_path: Path) -> None:
    for cell, text in (("'0101'::BIT", "0101"), ("TIMETZ '10:00:00+02'", "10:00:00+02")):
        assert set(_published(_duckdb(tmp_path, cell))) == {text}
        (tmp_path / "t.duckdb").unlink()
        relation = duckdb.sql(f"SELECT {DISEASES}[i % 4 + 1] AS s, {cell} AS x FROM range(8) AS r(i)")
        assert set(_published(relation)) == {text}
    with pytest.raises(DataError, match="failed while it was read"):
        _published(_duckdb(tmp_path, "170141183460469231731687303715884105727::HUGEINT"))


# --- names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["x", "x AS X"])
def test_a_query_that_names_a_column_twice_is_refused(again: str, tmp_path: Path) -> None:
    for address in (_sqlite(tmp_path, [1, 2, 3, 4]), _duckdb(tmp_path, "i")):
        with pytest.raises(DataError, match=r'the query names column "[xX]" twice'):
            LocalEngine().open(sf.Source(address.partition("?")[0], query=f"SELECT s, x, {again} FROM t"))


def test_a_table_of_duckdb_with_a_point_in_its_name(tmp_path: Path) -> None:
    _duckdb(tmp_path, "i")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as con:
        con.execute('CREATE TABLE "a.b" AS FROM t; CREATE SCHEMA a; CREATE TABLE a.c AS FROM t')
    for name in ('"a.b"', "a.c", "t"):
        opened = LocalEngine().open(sf.Source(f"duckdb:///{tmp_path / 't.duckdb'}", table=name))
        assert list(opened.columns) == ["s", "x"]


def test_a_table_of_many_columns_is_counted_in_little_room(tmp_path: Path) -> None:
    """400 columns of two rows took all the memory that there was."""
    names = [f"c{i}" for i in range(400)]
    pq.write_table(pa.table({"s": ["a", "b"], **{name: [1, 2] for name in names}}), tmp_path / "wide.parquet")
    assert set(LocalEngine(memory="300MB").open(tmp_path / "wide.parquet").filled(names)) == set(names)


# --- dialects ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_mark_of_byte_order_is_no_part_of_the_first_name(encoding: str, tmp_path: Path) -> None:
    text = '"s",x\n' + "".join(f"{DISEASES[i % 4]},{i}\n" for i in range(8))
    mark = "" if encoding in {"utf-8-sig", "utf-16"} else "\ufeff"
    (tmp_path / "t.csv").write_bytes((mark + text).encode(encoding))
    assert _published(sf.Source(tmp_path / "t.csv", encoding=encoding)) == list(range(8))


def test_json_with_a_mark_or_packed_as_a_list(tmp_path: Path) -> None:
    rows = [{"s": DISEASES[i % 4], "x": i} for i in range(8)]
    (tmp_path / "t.jsonl").write_bytes(b"\xef\xbb\xbf" + "\n".join(map(json.dumps, rows)).encode())
    assert _published(tmp_path / "t.jsonl") == list(range(8))
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    assert _published(tmp_path / "t.json.gz") == list(range(8))


def test_delimiters(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('s,"x;y;z"\n' + "flu,1\ngout,2\n" * 4)
    assert list(LocalEngine().open(path).columns) == ["s", "x;y;z"]
    path.write_text("s\tx,y,z\n" + "flu\t1\ngout\t2\n" * 4)
    assert list(LocalEngine().open(sf.Source(path, delimiter="\\t")).columns) == ["s", "x,y,z"]
    for wrong in ('"', "\n", "\r", "\0", ";;", ""):
        with pytest.raises(SpecError, match="the delimiter must be one character"):
            sf.Source(path, delimiter=wrong)
    path.write_text("sep=;\ns;x\nflu;1\n")
    with pytest.raises(DataError, match="names the delimiter"):
        LocalEngine().open(path)
    path.write_text("s,x\nflu," + "y" * 3_000_000 + "\n")
    with pytest.raises(DataError, match=r"more than 2 MB \(line 2\)"):
        LocalEngine().open(path)


# --- statistics packages -------------------------------------------------------------------------------------------


def test_dates_may_begin_late_and_letters_label_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyreadstat, pandas = pytest.importorskip("pyreadstat"), pytest.importorskip("pandas")
    monkeypatch.setattr("sfumato.engines.duckdb.sources.CHUNK", 3)
    seconds = 86_400.0 * (datetime.date(2020, 1, 1) - datetime.date(1582, 10, 14)).days
    days = {"sav": (seconds, "DATE11"), "dta": (21_915.0, "%td"), "xpt": (21_915.0, "DATE9")}
    writers = {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta, "xpt": pyreadstat.write_xport}
    for ending, (day, form) in days.items():
        frame = pandas.DataFrame({"s": DISEASES * 2, "x": [None] * 7 + [day]}).astype({"x": float})
        writers[ending](frame, str(tmp_path / f"t.{ending}"), variable_format={"x": form})
        assert _published(tmp_path / f"t.{ending}") == [None] * 7 + [datetime.date(2020, 1, 1)]
    frame = pandas.DataFrame({"s": DISEASES, "x": [1, 2, "a", "z"]})
    pyreadstat.write_dta(
        frame,
        str(tmp_path / "t.dta"),
        missing_user_values={"x": ["a", "z"]},
        variable_value_labels={"x": {1: "one", "a": "refused"}},
    )
    assert _published(tmp_path / "t.dta") == [None, None, 1, 2]
    assert LocalEngine().open(tmp_path / "t.dta").labels["x"].values == ((1, "one"),)
