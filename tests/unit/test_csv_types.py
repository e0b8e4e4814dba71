"""Types of CSV columns are those of all cells, whatever the first rows hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import csv
from sfumato.engines.duckdb.connection import connect
from sfumato.engines.duckdb.table import LocalEngine

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
    view = csv.csv_view([str(path)], sf.Source(path), LocalEngine())
    with connect() as con:
        table = view.bind(con)
        types = dict(zip(table.columns, map(str, table.types), strict=True))
        return types, view.notes, table.to_arrow_table().combine_chunks()


@pytest.mark.parametrize("sample", [5, 300, csv.SAMPLE])
def test_a_late_odd_cell_decides(sample: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many first rows are looked at before all are."""
    path = written(tmp_path / "t.csv")
    monkeypatch.setattr(csv, "SAMPLE", sample)
    types, notes, rows = found(path)
    assert types == TYPES
    assert {note.split('"')[1] for note in notes} == NOTED
    assert f"row {ROWS - 1} after the header" in next(note for note in notes if "late_text" in note)
    assert rows.num_rows == ROWS


def test_columns_may_have_the_names_that_counting_uses(tmp_path: Path) -> None:
    """What a cell is gets counted by name and cell: columns that are called so are columns like others."""
    path = tmp_path / "t.csv"
    path.write_text('name,cell,n,"a ""b"",\'c\'"\n1,x,1.5,2020-01-01\n2,y,2,2020-01-02\n')
    assert list(found(path)[0].values()) == ["BIGINT", "VARCHAR", "DOUBLE", "DATE"]


def test_equal_numbers_are_equal_values(tmp_path: Path) -> None:
    """-0.0 is 0.0, and 1.5 is written in two ways; bins included."""
    path = tmp_path / "t.csv"
    cells = ["-0.0", "0.0", "+1.5", "1.5", "2", ""]
    lines = [f"{cells[i % 6]},{i % 90},{'abc'[i % 3]},{'true' if i % 2 else 'FALSE'}" for i in range(900)]
    path.write_text("x,age,disease,well\n" + "\n".join(lines) + "\n")
    roles = sf.Roles(sensitive="disease", quasi=("x", "age", "well"))
    method = sf.UniformPerturbation(rho1="1/3", rho2="1/2")
    release = sf.publish(path, tmp_path / "out", roles=roles, method=method, seed=3, engine=LocalEngine(batch_rows=100))
    rows = pq.read_table(release.path / "data.parquet")
    assert not any(str(value).startswith("-") for value in rows["x"].to_pylist())
    assert set(rows["x"].to_pylist()) == {0.0, 1.5, 2.0, None}


@pytest.mark.parametrize("kind", [None, "FLOAT", "double", "DECIMAL(4,1)"])
@pytest.mark.parametrize("decimal", [None, ","])
def test_zeros_are_one_value(kind: str | None, decimal: str | None, tmp_path: Path) -> None:
    """As a sensitive value that is shown in sets, and as an untouched one: no zero with a sign."""
    path = tmp_path / "t.csv"
    cells = ["-0.0", "0", "+0.0", "1.5", "2.5", "-1.0", "3.5", "4", "5.0"]
    lines = [f"{cell};{cell};{i}" for cell in cells for i in range(40)]
    path.write_text("x;s;age\n" + "\n".join(lines).replace(".", decimal or ".") + "\n")
    source = sf.Source(path, decimal=decimal, types={} if kind is None else {"x": kind, "s": kind})
    roles = sf.Roles(sensitive="s", quasi=("age",), insensitive=("x",))
    release = sf.publish(
        source, tmp_path / "out", roles=roles, method=sf.SubsetResponse(rho1="1/3", rho2="1/2"), seed=3
    )
    assert [str(value)[0] for (value,) in release.opened.domains[0].values if value == 0] == ["0"]
    for row in pq.read_table(tmp_path / "out" / "data.parquet").to_pylist():
        assert not str(row["x"]).startswith("-0")


@pytest.mark.parametrize("cell", ["1e999", "-1E+400", "1e-999", "1e290"])
def test_numbers_that_no_real_number_is_near_stay_text(cell: str, tmp_path: Path) -> None:
    """Not infinity, and not 0."""
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + f"1.5,1e-289\n{cell},1E+0289\n")
    types, _, rows = found(path)
    assert types == {"x": "VARCHAR", "y": "DOUBLE"}
    assert rows["x"].to_pylist() == ["1.5", cell]
    assert rows["y"].to_pylist() == [1e-289, 1e289]


def test_a_second_header_is_told(tmp_path: Path) -> None:
    """It is a row, as the file says; a row that holds one name, or a table of one column, is none."""
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "a,x\n" * 4100 + ",\na,b\n" + "x,b\na,b\n")
    _, notes, rows = found(path)
    assert [note[:27] for note in notes if "again" in note] == ["row 4102 after the header h"]
    assert rows.num_rows == 4104
    path.write_text("a\nb\na\n")
    assert not found(path)[1]


def test_cells_are_counted_by_value(tmp_path: Path) -> None:
    """ "+1" is 1."""
    path = tmp_path / "t.csv"
    lines = [f"{i},{'+' if i % 2 else ''}{i // 2},{i % 3 or ''},{'abc'[i % 3]}" for i in range(5000)]
    path.write_text("key,twice,few,word\n" + "\n".join(lines) + "\n")
    table = LocalEngine().open(path)
    counts = {name: (one.rows, one.distinct) for name, one in table.filled(list(table.columns)).items()}
    assert 2250 < counts.pop("twice")[1] < 2750  # by a sketch
    assert counts == {"key": (5000, 5000), "few": (3333, 2), "word": (5000, 3)}
