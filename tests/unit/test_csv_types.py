"""Types of CSV columns: the same from rows at hand and from a file that is read again, whatever its first rows hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.duckdb import csv_files, csv_types
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
    bound = csv_files.csv_bound([str(path)], sf.Source(path))
    with csv_files.connect() as con:
        table = bound.bind(con)
        types = dict(zip(table.columns, map(str, table.types), strict=True))
        return types, bound.notes, table.to_arrow_table().combine_chunks()


@pytest.mark.parametrize("sample", [5, 300, 10_000])
def test_types_notes_and_rows_do_not_depend_on_how_the_file_is_read(
    sample: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "t.csv")
    types, notes, rows = found(path)
    assert types == TYPES
    assert {note.split('"')[1] for note in notes} == NOTED
    assert rows.num_rows == ROWS
    monkeypatch.setattr(csv_files, "HELD_BYTES", 0)
    monkeypatch.setattr(csv_types, "SAMPLE", sample)
    monkeypatch.setattr(csv_types, "AT_ONCE", 4)
    again = found(path)
    assert (again[0], again[2]) == (types, rows)
    if sample > ROWS:  # where the note on the writing of another country sees the same rows
        assert again[1] == notes


def test_a_file_that_is_held_is_read_once(tmp_path: Path) -> None:
    """Whoever writes into it while it is published changes nothing."""
    path = written(tmp_path / "t.csv")
    table = LocalEngine().open(path)
    path.write_text("whole\nnothing\n")
    assert table.describe(["whole"])["whole"].rows == ROWS


def test_packed_files_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they hold may be a hundred times as large as the file."""
    import gzip

    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(written(tmp_path / "t.csv").read_bytes()))
    given: list[pa.Table | None] = []
    own = csv_files.column_types
    monkeypatch.setattr(csv_files, "column_types", lambda *a: (given.append(a[-1]), own(*a))[1])
    assert found(path)[0] == found(tmp_path / "t.csv")[0]
    assert [held is None for held in given] == [True, False]
