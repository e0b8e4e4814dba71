"""Whatever a table lies in, with a seed its release is the same, byte for byte, as that of Parquet."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from patients import METHOD, digests, patients

pyreadstat = pytest.importorskip("pyreadstat")


def _text(*, ending: str = "\n") -> str:
    sink = pa.BufferOutputStream()
    pacsv.write_csv(patients(), sink, pacsv.WriteOptions(quoting_style="needed"))
    return sink.getvalue().to_pybytes().decode().replace("\n", ending)


def _named(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def _zip(folder: Path) -> Path:
    with zipfile.ZipFile(folder / "t.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner/t.csv", _text())
        archive.writestr("__MACOSX/t.csv", b"rubbish")
    return folder / "t.csv.zip"


def _zstd(folder: Path) -> Path:
    with pa.output_stream(folder / "t.tsv.zst", compression="zstd") as stream:
        stream.write(_text().encode())
    return folder / "t.tsv.zst"


def _json(folder: Path, *, name: str = "t.jsonl") -> Path:
    rows = [json.dumps(row, default=str, ensure_ascii=False) for row in patients().to_pylist()]
    text = "[" + ",\n".join(rows) + "]" if name == "t.json" else "\n".join(rows)
    return _named(folder, name, gzip.compress(text.encode()) if name.endswith("gz") else text.encode())


def _orc(folder: Path) -> Path:
    orc.write_table(patients(), folder / "t.orc")
    return folder / "t.orc"


def _parts(folder: Path) -> list[Path]:
    table = patients()
    for i in range(4):
        pacsv.write_csv(table.slice(250 * i, 250), folder / f"part-{i}.csv", pacsv.WriteOptions(quoting_style="needed"))
    return [folder / f"part-{i}.csv" for i in range(4)]


def _folder(folder: Path) -> Path:
    _parts(folder)
    return folder


def _excel(folder: Path) -> sf.Source:
    import xlsxwriter

    book = xlsxwriter.Workbook(str(folder / "t.xlsx"))
    book.add_worksheet("notes").write(0, 0, "nothing of the table")
    sheet, day = book.add_worksheet("people"), book.add_format({"num_format": "yyyy-mm-dd"})
    table = patients()
    sheet.write_row(0, 0, table.column_names)
    for i, row in enumerate(table.to_pylist(), start=1):
        for j, cell in enumerate(row.values()):
            if isinstance(cell, datetime.date):
                sheet.write_datetime(i, j, datetime.datetime.combine(cell, datetime.time()), day)
            elif cell is not None:
                sheet.write(i, j, cell)
    book.close()
    return sf.Source(folder / "t.xlsx", table="people")


def _statistics(folder: Path, ending: str) -> Path:
    """The names of columns in these packages have rules of their own, so these are renamed on the way in."""
    frame = patients().rename_columns(["name", "age", "sex", "size", "born", "disease"]).to_pandas()
    write = {"sav": pyreadstat.write_sav, "dta": pyreadstat.write_dta, "xpt": pyreadstat.write_xport}[ending]
    write(frame, str(folder / f"t.{ending}"))
    return folder / f"t.{ending}"


def _sqlite(folder: Path) -> Path:
    with sqlite3.connect(folder / "t.db") as con:
        con.execute(
            'CREATE TABLE people (name TEXT, age INTEGER, sex TEXT, "größe, cm" REAL, born DATE, Krankheit TEXT)'
        )
        rows = [
            tuple(str(c) if isinstance(c, datetime.date) else c for c in r.values()) for r in patients().to_pylist()
        ]
        con.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
    con.close()
    return folder / "t.db"


def _duckdb(folder: Path) -> Path:
    with duckdb.connect(str(folder / "t.duckdb")) as con:
        con.register("given", patients())
        con.execute("CREATE TABLE people AS SELECT * FROM given")
    return folder / "t.duckdb"


def _batches() -> Iterator[pa.RecordBatch]:
    yield from patients().to_batches(max_chunksize=77)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": lambda f: _named(f, "t.csv", _text().encode()),
    "csv.gz": lambda f: _named(f, "t.csv.gz", gzip.compress(_text().encode())),
    "tsv.zst": _zstd,
    "csv.zip": _zip,
    "csv in Latin-1": lambda f: sf.Source(_named(f, "t.csv", _text().encode("latin-1")), encoding="latin-1"),
    "csv in UTF-16, of Windows": lambda f: sf.Source(
        _named(f, "t.csv", _text(ending="\r\n").encode("utf-16")), encoding="utf-16"
    ),
    "csv in Latin-1, gz": lambda f: sf.Source(
        _named(f, "t.csv.gz", gzip.compress(_text().encode("latin-1"))), encoding="latin-1"
    ),
    "csv with marks for missing": lambda f: sf.Source(
        _named(f, "t.csv", _text().replace(",,", ",NA,").encode()), null=("?", "NA")
    ),
    "list of csv": _parts,
    "folder of csv": _folder,
    "glob of csv": lambda f: str(_folder(f) / "part-*.csv"),
    "json lines": _json,
    "json lines, gz": lambda f: _json(f, name="t.ndjson.gz"),
    "json list": lambda f: _json(f, name="t.json"),
    "orc": _orc,
    "excel": _excel,
    "sqlite, table in the address": lambda f: f"sqlite:///{_sqlite(f)}?table=people",
    "sqlite, query": lambda f: sf.Source(
        f"sqlite:///{_sqlite(f)}", query="SELECT * FROM people -- all;", types={"born": "DATE"}
    ),  # a query of SQLite declares no types
    "duckdb": lambda f: sf.Source(f"duckdb:///{_duckdb(f)}", table="people"),
    "function": lambda _: lambda: pa.RecordBatchReader.from_batches(patients().schema, _batches()),
    "function of batches": lambda _: _batches,
    "reader": lambda _: patients().to_reader(),
    "generator": lambda _: _batches(),
}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    path = tmp_path_factory.mktemp("parquet") / "t.parquet"
    pq.write_table(patients(), path)
    return digests(path)


@pytest.mark.parametrize("kind", SOURCES)
def test_the_release_is_that_of_parquet(kind: str, tmp_path: Path, expected: tuple[str, Any]) -> None:
    assert digests(SOURCES[kind](tmp_path)) == expected


@pytest.mark.parametrize("ending", ["sav", "dta", "xpt"])
def test_the_release_of_a_statistics_package_is_that_of_parquet(ending: str, tmp_path: Path) -> None:
    short = ["name", "age", "sex", "size", "born", "disease"]
    roles = sf.Roles(sensitive="disease", quasi=["age", "sex", "size"], insensitive=["born"], identifying=["name"])
    assert digests(_statistics(tmp_path, ending), roles) == digests(patients().rename_columns(short), roles)


def test_one_other_cell_is_another_release(expected: tuple[str, Any]) -> None:
    """The comparison itself: a table with one other age gives other bytes."""
    table = patients()
    ages = table["age"].to_pylist()
    ages[500] += 1
    assert digests(table.set_column(1, "age", pa.array(ages)))[0] != expected[0]


# --- standard input ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "json lines", "parquet", "arrow"])
def test_standard_input_is_read_whatever_it_is(
    kind: str, tmp_path: Path, expected: tuple[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "parquet":
        pq.write_table(patients(), tmp_path / "in")
    elif kind == "arrow":
        with pa.ipc.new_file(tmp_path / "in", patients().schema) as writer:
            writer.write_table(patients())
    else:
        SOURCES[kind](tmp_path).rename(tmp_path / "in")
    roles = ["--sa", "Krankheit", "--qi", 'age,sex,"größe, cm"', "--keep", "born", "--drop", "name"]
    method = ["--method", "uniform", "--rho1", "1/4", "--rho2", "1/2", "--seed", "3"]
    with (tmp_path / "in").open() as given:
        monkeypatch.setattr("sys.stdin", given)
        done = sfumato("publish", "-", tmp_path / "out", *roles, *method)
    assert done.code == 0, done.text
    assert hashlib.sha256((tmp_path / "out" / "data.parquet").read_bytes()).hexdigest() == expected[0]


# --- notes ---------------------------------------------------------------------------------------------------


def _notes(source: Any) -> list[str]:
    found: list[str] = []
    sf.publish(source, roles=sf.Roles(sensitive="s", quasi=["x"]), method=METHOD, notify=found.append)
    return [note for note in found if "one row per person" not in note]


def _csv(folder: Path, cells: list[str]) -> Path:
    lines = [f"{cell},{'abcdef'[i % 6]}" for i, cell in enumerate(cells)]
    return _named(folder, "t.csv", ("x,s\n" + "\n".join(lines) + "\n").encode())


def test_a_type_that_few_cells_decide_is_told_without_their_content(tmp_path: Path) -> None:
    cells = [str(i) for i in range(100)]
    assert _notes(_csv(tmp_path, cells)) == []
    cells[16], cells[40] = "zqxj?", "zqxj!"
    (note,) = _notes(_csv(tmp_path, cells))
    assert '"x" is read as text because of 2 cells (rows 17, 41 after the header)' in note
    assert "whole numbers" in note
    assert "zqxj" not in note
    assert _notes(sf.Source(_csv(tmp_path, cells), null=("zqxj?", "zqxj!"))) == []
    assert _notes(sf.Source(_csv(tmp_path, cells), types={"x": "VARCHAR"})) == []
    cells[16], cells[40] = "1.5", "3"
    (note,) = _notes(_csv(tmp_path, cells))
    assert '"x" is read as numbers with fractions because of 1 cell (row 17 after the header)' in note
    half = [str(i) if i % 2 else "a" for i in range(100)]
    assert _notes(_csv(tmp_path, half)) == []


def test_types_that_are_asked_for(tmp_path: Path) -> None:
    from sfumato.engines.duckdb.table import LocalEngine

    cells = [f"{i:03d}" for i in range(30)]
    engine = LocalEngine()
    assert str(engine.open(_csv(tmp_path, cells)).columns["x"]) == "VARCHAR"
    for asked, found in (("integer", "INTEGER"), ("text", "VARCHAR"), ("DECIMAL(10,2)", "DECIMAL(10,2)")):
        assert str(engine.open(sf.Source(_csv(tmp_path, cells), types={"x": asked})).columns["x"]) == found
    cells[4], cells[20] = "1.5", "zqxj"
    with pytest.raises(sf.errors.DataError, match=r'2 cells of "x" cannot be read as INTEGER \(rows 5, 21\)'):
        engine.open(sf.Source(_csv(tmp_path, cells), types={"x": "INTEGER"}))
    for wrong in ({"y": "INTEGER"}, {"x": "NUMBER OF PEOPLE"}, {"x": "INTEGER); DROP"}):
        with pytest.raises(sf.errors.SpecError, match="--types"):
            engine.open(sf.Source(_csv(tmp_path, cells), types=wrong))


def test_what_can_be_read_once_is_said_to_have_been_copied() -> None:
    table = pa.table({"x": [1, 2] * 50, "s": list("abcde") * 20})
    assert "read once" in _notes(table.to_reader())[0]
    assert _notes(table) == []
    assert _notes(table.to_reader) == []
