"""Types of CSV columns: the same from rows at hand and from a file that is read again, whatever its first rows hold."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.directory import read_ahead
from sfumato.engines.duckdb import csv_files, csv_pieces, csv_rows, csv_types
from sfumato.engines.duckdb.connection import connect
from sfumato.engines.duckdb.engine import LocalEngine

ROWS = 400
TYPES = {
    "whole": "BIGINT",
    "late_fraction": "DOUBLE",
    "late_text": "VARCHAR",
    "late_words": "VARCHAR",
    "many_fractions": "DOUBLE",
    "words": "VARCHAR",
    "days": "DATE",
    "moments": "TIMESTAMP",
    "truth": "BOOLEAN",
    "late": "BIGINT",
    "never": "VARCHAR",
    "codes": "VARCHAR",
    "comma": "VARCHAR",
}
NOTED = {"late_fraction", "late_text", "comma"}  # by a few cells, or as another country writes numbers


def written(path: Path) -> Path:
    """Columns whose last rows are not what their first ones promise."""
    rng = np.random.default_rng(3)
    lines = [",".join(TYPES)]
    for i, n in enumerate(rng.integers(10, 99, ROWS).tolist()):
        cells = {
            "whole": str(n),
            "late_fraction": f"{n}.5" if i == ROWS - 3 else str(n),
            "late_text": "unknown" if i == ROWS - 2 else str(n),
            "late_words": "unknown" if i > ROWS // 2 else str(n),
            "many_fractions": f"{n}.25" if n % 2 else str(n),
            "words": f"word {n}",
            "days": f"19{n}-01-{1 + i % 28:02}",
            "moments": f"19{n}-01-01 10:00",
            "truth": "true" if n % 2 else "false",
            "late": str(n) if i > ROWS - 5 else "",
            "never": "",
            "codes": f"0{n}",
            "comma": f'"{n},5"',
        }
        lines.append(",".join(cells.values()))
    path.write_text("\n".join(lines) + "\n")
    return path


def found(path: Path) -> tuple[dict[str, str], tuple[str, ...], pa.Table]:
    """(types, notes, the rows as they are copied)."""
    bound = csv_files.csv_bound([str(path)], sf.Source(path), LocalEngine())
    with connect() as con:
        table = bound.bind(con)
        types = dict(zip(table.columns, map(str, table.types), strict=True))
        return types, bound.notes, table.to_arrow_table().combine_chunks()


@pytest.mark.parametrize("at_once", [5, 300, 131_072])
@pytest.mark.parametrize("plain", [True, False], ids=["by Arrow", "by the engine"])
@pytest.mark.parametrize("new", [0.0, csv_rows.NEW], ids=["as they come", "numbered"])
@pytest.mark.parametrize("share", [0.0, csv_files.SHARE], ids=["read again", "held"])
def test_types_notes_and_rows_do_not_depend_on_how_the_file_is_read(
    at_once: int, plain: bool, new: float, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches however small, cells numbered or not, rows held or not: a late odd cell decides."""
    path = written(tmp_path / "t.csv")
    types, notes, rows = found(path)
    assert types == TYPES
    assert {note.split('"')[1] for note in notes} == NOTED
    assert rows.num_rows == ROWS
    monkeypatch.setattr(csv_files, "SHARE", share)
    monkeypatch.setattr(csv_rows, "NEW", new)
    monkeypatch.setattr(csv_rows, "LEAST_ROWS", 1)
    monkeypatch.setattr(csv_rows, "BATCH_ROWS", at_once)
    monkeypatch.setattr(csv_pieces, "PIECE", at_once * 100)
    monkeypatch.setattr(csv_pieces, "DELIMITERS", csv_pieces.DELIMITERS if plain else frozenset())
    monkeypatch.setattr(csv_types, "AT_ONCE", 4)
    again = found(path)
    assert (again[0], again[2]) == (types, rows)
    if at_once > ROWS:  # where the note on the writing of another country sees the same rows
        assert again[1] == notes


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_is_held_is_read_once(packed: bool, tmp_path: Path) -> None:
    """Whoever writes into it while it is published changes nothing."""
    path = written(tmp_path / "t.csv")
    if packed:
        path = tmp_path / "t.csv.gz"
        path.write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    table = LocalEngine().open(path)
    path.write_text("whole\nnothing\n")
    assert table.describe(["whole"])["whole"].rows == ROWS


@pytest.mark.parametrize("packed", [False, True])
def test_no_more_is_held_than_an_eighth_of_the_memory(packed: bool, tmp_path: Path) -> None:
    """However small the file is: what it holds may be a hundred times as large."""
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    text = ("words\n" + "\n".join(f"{i:0>30}" for i in range(300_000)) + "\n").encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    small, large = (csv_files.csv_bound([str(path)], sf.Source(path), LocalEngine(memory=m)) for m in ("64MB", "1GB"))
    assert small.held is None
    assert small.large
    assert large.held is not None
    assert large.held.rows.nbytes < 1e9 / 8


def test_a_column_of_few_cells_is_held_in_a_byte_a_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "1\n22\n333\n" * 50_000)
    held = csv_files.csv_bound([str(path)], sf.Source(path), LocalEngine()).held
    assert held is not None
    assert held.rows.nbytes < 160_000
    assert pa.Table.from_batches(csv_rows.plain_batches(held.rows))["n"].to_pylist() == [1, 22, 333] * 50_000


@pytest.mark.parametrize("share", [0.0, csv_files.SHARE], ids=["read again", "held"])
def test_the_release_does_not_depend_on_whether_rows_are_held(
    share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-0.0, bins, and values that are written in two ways included."""
    path = tmp_path / "t.csv"
    cells = ["-0.0", "0.0", "+1.5", "1.5", "2", ""]
    lines = [f"{cells[i % 6]},{i % 90},{'abc'[i % 3]},{'true' if i % 2 else 'FALSE'}" for i in range(900)]
    path.write_text("x,age,disease,well\n" + "\n".join(lines) + "\n")
    roles = sf.Roles(sensitive="disease", quasi=("x", "age", "well"))
    method = sf.UniformPerturbation(rho1="1/3", rho2="1/2")
    engine = LocalEngine(batch_rows=100)
    expected = sf.publish(path, tmp_path / "first", roles=roles, method=method, seed=3, engine=engine)
    monkeypatch.setattr(csv_files, "SHARE", share)
    with read_ahead(engine, path, roles.published):
        again = sf.publish(path, tmp_path / "again", roles=roles, method=method, seed=3, engine=engine)
    rows = pq.read_table(again.path / "data.parquet")
    assert rows.equals(pq.read_table(expected.path / "data.parquet"))
    assert not any(str(value).startswith("-") for value in rows["x"].to_pylist())


@pytest.mark.parametrize("kind", [None, "FLOAT", "double", "DECIMAL(4,1)"])
@pytest.mark.parametrize("decimal", [None, ","])
def test_zeros_are_one_value_held_or_read_again(
    kind: str | None, decimal: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a sensitive value that is shown in sets, and as an untouched one: the same bytes, and no zero with a sign."""
    path = tmp_path / "t.csv"
    cells = ["-0.0", "0", "+0.0", "1.5", "2.5", "-1.0", "3.5", "4", "5.0"]
    lines = [f"{cell};{cell};{i}" for cell in cells for i in range(40)]
    path.write_text("x;s;age\n" + "\n".join(lines).replace(".", decimal or ".") + "\n")
    source = sf.Source(path, decimal=decimal, types={} if kind is None else {"x": kind, "s": kind})
    written = []
    for share in (csv_files.SHARE, 0.0):
        monkeypatch.setattr(csv_files, "SHARE", share)
        roles = sf.Roles(sensitive="s", quasi=("age",), insensitive=("x",))
        method = sf.SubsetResponse(rho1="1/3", rho2="1/2")
        sf.publish(source, tmp_path / str(share), roles=roles, method=method, seed=3)
        written.append((tmp_path / str(share) / "data.parquet").read_bytes())
    assert written[0] == written[1]
    for row in pq.read_table(tmp_path / "0.0" / "data.parquet").to_pylist():
        assert not any(str(value).startswith("-0") for value in (row["x"], *row["s"]))


@pytest.mark.parametrize("cell", ["1e999", "-1E+400", "1e-999", "1e290"])
def test_numbers_that_no_real_number_is_near_stay_text(cell: str, tmp_path: Path) -> None:
    """Not infinity, and not 0."""
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + f"1.5,1e-289\n{cell},1E+0289\n")
    types, _, rows = found(path)
    assert types == {"x": "VARCHAR", "y": "DOUBLE"}
    assert rows["x"].to_pylist() == ["1.5", cell]
    assert rows["y"].to_pylist() == [1e-289, 1e289]


@pytest.mark.parametrize("share", [0.0, csv_files.SHARE], ids=["read again", "held"])
def test_a_second_header_is_told(share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a row, as the file says; a row that holds one name, or a table of one column, is none."""
    monkeypatch.setattr(csv_files, "SHARE", share)
    monkeypatch.setattr(csv_rows, "LEAST_ROWS", 1)
    monkeypatch.setattr(csv_rows, "BATCH_ROWS", 2)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "a,x\n" * 4100 + ",\na,b\n" + "x,b\na,b\n")
    _, notes, rows = found(path)
    assert [note for note in notes if "again" in note] == [csv_files.HEADER_AGAIN.format(4102)]
    assert rows.num_rows == 4104
    path.write_text("a\nb\na\n")
    assert not found(path)[1]


@pytest.mark.parametrize("new", [0.0, csv_rows.NEW], ids=["as they come", "numbered"])
def test_cells_are_counted_alike_whether_rows_are_held(
    new: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch by batch, "+1" being 1: what tells people apart does not depend on the memory that there is."""
    path = tmp_path / "t.csv"
    lines = [f"{i},{'+' if i % 2 else ''}{i // 2},{i % 3 or ''},{'abc'[i % 3]}" for i in range(5000)]
    path.write_text("key,twice,few,word\n" + "\n".join(lines) + "\n")
    monkeypatch.setattr(csv_rows, "NEW", new)
    monkeypatch.setattr(csv_rows, "BATCH_ROWS", 2048)
    held = LocalEngine().open(path)
    assert held._rows is not None
    monkeypatch.setattr(csv_files, "SHARE", 0.0)
    again = LocalEngine().open(path)
    assert again._rows is None
    found = held.filled(list(held.columns))
    assert {name: (one.rows, one.distinct) for name, one in found.items()} == {
        "key": (5000, 5000),
        "twice": (5000, 2500),
        "few": (3333, 2),
        "word": (5000, 3),
    }
    exact = {n: found[n] for n in ("key", "few", "word")}  # the other is told by a sketch
    assert {n: one for n, one in again.filled(list(again.columns)).items() if n in exact} == exact
