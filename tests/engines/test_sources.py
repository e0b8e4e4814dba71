"""Whatever people have is the same table: CSV in its dialects, Parquet, Arrow IPC, data frames, relations."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.datasets import adult
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import DataError

COLUMNS = ["age", "workclass", "sex", "occupation", "hours_per_week"]
N = 2_000


def _table() -> pa.Table:
    return adult().select(COLUMNS).slice(0, N)


def _csv(folder: Path, *, bom: bool = False, delimiter: str = ",", ending: str = "\n") -> Path:
    file = folder / "t.csv"
    options = pacsv.WriteOptions(delimiter=delimiter, quoting_style="needed")
    pacsv.write_csv(_table(), file, options)
    text = file.read_bytes().decode().replace("\n", ending)
    file.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())
    return file


def _parts(folder: Path) -> Path:
    for i in range(4):
        pq.write_table(_table().slice(500 * i, 500), folder / f"part-{i}.parquet")
    return folder


def _ipc(folder: Path) -> Path:
    feather.write_feather(_table(), folder / "t.arrow", compression="zstd")
    return folder / "t.arrow"


def _parquet(folder: Path) -> Path:
    pq.write_table(_table(), folder / "t.parquet")
    return folder / "t.parquet"


def _polars(_: Path) -> Any:
    import polars as pl

    return pl.from_arrow(_table())


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": _csv,
    "csv with BOM": lambda f: _csv(f, bom=True),
    "csv of Windows": lambda f: _csv(f, ending="\r\n"),
    "csv with semicolons": lambda f: _csv(f, delimiter=";"),
    "csv with tabs": lambda f: _csv(f, delimiter="\t"),
    "parquet": _parquet,
    "parquet, as text": lambda f: str(_parquet(f)),
    "folder of parquet": _parts,
    "glob of parquet": lambda f: str(_parts(f) / "part-*.parquet"),
    "arrow ipc": _ipc,
    "pyarrow": lambda _: _table(),
    "pandas": lambda _: _table().to_pandas(),
    "polars": _polars,
    "polars, lazy": lambda f: _polars(f).lazy(),
    "duckdb relation": lambda f: duckdb.read_parquet(str(_parquet(f))),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_is_the_same_table(kind: str, tmp_path: Path) -> None:
    roles = sf.Roles(sensitive="occupation", rest="quasi")
    method = sf.Anatomy(l=3)
    release = sf.publish(SOURCES[kind](tmp_path), roles=roles, method=method, null_as_value=True)
    con = duckdb.connect()
    con.register("truth", _table())
    for keys in ("sex", "workclass", "age", "hours_per_week, sex"):
        text = f"SELECT {keys}, COUNT(*) AS n FROM {{}} GROUP BY {keys}"
        truth = sorted(map(str, con.execute(text.format("truth")).fetchall()))
        ours = release.sql(text.format("release")).to_arrow().select([*keys.split(", "), "n"])
        assert sorted(str((*row[:-1], int(row[-1]))) for row in zip(*ours.to_pydict().values(), strict=True)) == truth
    counts = {
        row["occupation"]: row["n"]
        for row in release.sql("SELECT occupation, COUNT(*) AS n FROM release GROUP BY occupation").rows()
    }
    assert counts == pytest.approx(dict(con.execute("SELECT occupation, COUNT(*) FROM truth GROUP BY 1").fetchall()))


CELLS = {
    "1": ("BIGINT", "1,2,-3,+4"),
    "zip": ("VARCHAR", "01234,10115,99999"),
    "price": ("DOUBLE", "1.5,2,1e3"),
    "day": ("DATE", "2020-01-31,2021-12-01"),
    "no day": ("VARCHAR", "2020-01-31,2020-02-30"),
    "moment": ("TIMESTAMP", "2020-01-31 10:00:00,2020-01-31T11:00:00"),
    "yes": ("BOOLEAN", "true,False,TRUE"),
    "text": ("VARCHAR", "a,1,true"),
    "big": ("VARCHAR", "12345678901234567890123,1"),
    "with gaps": ("BIGINT", "1,,3"),
}


@pytest.mark.parametrize("case", CELLS)
def test_types_of_csv_columns_are_those_people_expect(case: str, tmp_path: Path) -> None:
    kind, cells = CELLS[case]
    (tmp_path / "t.csv").write_text("s,x\n" + "".join(f"a,{cell}\n" for cell in cells.split(",")))
    assert {n: str(t) for n, t in LocalEngine().open(tmp_path / "t.csv").columns.items()} == {"s": "VARCHAR", "x": kind}


def test_quoted_fields_hold_delimiters_quotes_and_line_ends(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('s,note\na,"one, two"\nb,"say ""hi"""\nc,"two\nlines"\nd,\n')
    roles = sf.Roles(sensitive="s", insensitive=["note"])
    release = sf.publish(tmp_path / "t.csv", roles=roles, method=sf.UniformPerturbation(rho1="1/2", rho2="3/4"))
    notes = pq.read_table(release.path / "data.parquet")["note"].to_pylist()
    assert sorted(map(str, notes)) == ["None", "one, two", 'say "hi"', "two\nlines"]


def test_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("s,x\na,1\n")
    (tmp_path / "b.csv").write_text("s,y\na,1\n")
    with pytest.raises(DataError, match="other columns"):
        LocalEngine().open(str(tmp_path / "*.csv"))


def test_wide_csv_is_read_in_reasonable_time(tmp_path: Path) -> None:
    """300 columns: quadratic work took over half a minute."""
    names, start = [f"c{i}" for i in range(300)], datetime.datetime.now(datetime.UTC)
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + (",".join("1" for _ in names) + "\n") * 50)
    assert {str(t) for t in LocalEngine().open(tmp_path / "wide.csv").columns.values()} == {"BIGINT"}
    assert (datetime.datetime.now(datetime.UTC) - start).total_seconds() < 30
