"""Where groups are of a few rows, cells of columns and how they lie in the groups answer what the rows answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

import sfumato
from comparing import people
from same_numbers import assert_same_numbers
from sfumato.analysis import cell_sums, cells
from sfumato.answering import observation
from sfumato.engines.duckdb import part_rows, reader
from sfumato.engines.duckdb.reader import DuckDBReader
from sfumato.errors import ReleaseError
from sfumato.methods.anatomy import functionals
from sfumato.model.part_cells import ROW_BYTES, PartCells, part_cells

ASKED = (
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'd01' AND area > 'area 2'",
    "SELECT area, sex, COUNT(*) AS n FROM release WHERE disease = 'd02' GROUP BY CUBE (area, sex) ORDER BY n, area",
    "SELECT sex, SUM(grade) AS s, AVG(grade) AS a FROM release WHERE disease IN ('d01', 'd03') GROUP BY sex ORDER BY s",
    "SELECT disease, COUNT(*) AS n FROM release WHERE grade > 4 OR area IS NULL GROUP BY disease ORDER BY disease",
    (
        "SELECT COUNT(*) FILTER (WHERE sex = 'f' AND disease = 'd01') AS n, COUNT(*) FILTER (WHERE sex = 'm') AS m"
        " FROM release WHERE area = 'area 3' AND disease < 'd04'"
    ),
    "SELECT AVG(CASE WHEN disease = 'd02' THEN 1 ELSE 0 END) AS share FROM release WHERE sex = 'f'",
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = people(12_000)
    area = pa.array([None if i % 97 == 0 else a for i, a in enumerate(table["area"].to_pylist())])
    table = table.set_column(table.column_names.index("area"), "area", area)
    out = tmp_path_factory.mktemp("parts") / "out"
    roles = sfumato.Roles(sensitive="disease", quasi=("area", "sex", "grade"), rest="drop")
    sfumato.publish(table, out, roles=roles, method=sfumato.Anatomy(l=3), seed=2)
    return out


def test_cells_in_groups_answer_what_rows_answer(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second question on counts cells; so do estimates, intervals, certain bounds and covariances."""
    opened = sfumato.open_release(release)
    opened.sql("SELECT COUNT(*) AS n FROM release")
    found = [opened.sql(text) for text in ASKED]
    kept = opened.opened.reader._part_rows._known
    assert len(kept) <= part_rows.TABLES
    assert all(kept.values())
    monkeypatch.setattr(reader, "CELLS_AFTER", 10**9)
    plain = sfumato.open_release(release)
    for text, mine in zip(ASKED, found, strict=True):
        theirs = plain.sql(text)
        assert_same_numbers(mine.rows(), theirs.rows())
        assert (mine.kind, mine.caveats) == (theirs.kind, theirs.caveats)
    np.testing.assert_allclose(found[2].covariance(), plain.sql(ASKED[2]).covariance(), rtol=1e-9)


def test_cells_are_kept_where_their_bytes_fit_however_many_rows_there_are(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are too many to be looked at one by one; above a number of bytes the engine counts them by group."""

    def found() -> tuple[list[Any], bool]:
        opened = sfumato.open_release(release)
        opened.sql("SELECT COUNT(*) AS n FROM release")
        answers = [opened.sql(text) for text in ASKED]
        return answers, any(opened.opened.reader._part_rows._known.values())

    few, by_cell = found()
    assert by_cell
    for module in (observation, cell_sums):
        monkeypatch.setattr(module, "ROWS_AS_THEY_ARE", 1_000)
    many, by_cell = found()
    assert by_cell
    assert [answer.rows() for answer in many] == [answer.rows() for answer in few]
    monkeypatch.setattr(observation, "MOST_BYTES", 12_000 * ROW_BYTES - 1)
    more, by_cell = found()
    assert not by_cell
    for mine, theirs in zip(few, more, strict=True):
        assert_same_numbers(mine.rows(), theirs.rows())


def test_numbers_of_few_cells_are_bytes() -> None:
    part, cell = np.arange(600) // 2, np.arange(600) % 300
    assert part_cells(part, cell % 255, 255).cell.dtype == np.uint8  # 255 says that there is no row
    assert part_cells(part, cell % 256, 256).cell.dtype == np.uint16
    whole = part_cells(part, cell % 255, 255)
    assert whole.rows_of(np.arange(300)).T.tolist() == np.sort((cell % 255).reshape(-1, 2)).tolist()


def test_columns_with_too_many_cells_are_read_by_row(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_rows, "MOST_CELLS", 3)
    opened = sfumato.open_release(release)
    first = [opened.sql(text).rows() for text in ASKED]
    assert_same_numbers(opened.sql(ASKED[0]).rows(), first[0])
    assert {bool(found) for columns, found in opened.opened.reader._part_rows._known.items() if "area" in columns} == {
        False
    }


@pytest.mark.parametrize("where", [None, "area <> 'area 1'", "disease <> 'd02'"])
def test_models_from_cells_in_groups_are_those_from_rows(
    where: str | None, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coefficients and their errors, contrasts, a test of independence, quantiles, whose cells are merged."""

    def found() -> list[dict[str, Any]]:
        opened = sfumato.open_release(release)
        answers = (
            opened.fit("grade ~ C(sex) + C(disease)", where=where),
            opened.compare(by="grade", share="disease = 'd01'", where=where),
            opened.test("grade", "disease", where=where),
            opened.quantile("grade", [0.25, 0.5], by="sex", where="disease = 'd01'"),
        )
        kept.append([bool(known) for known in opened.opened.reader._part_rows._known.values()])
        return [answer.to_dict() for answer in answers]

    kept: list[list[bool]] = []
    by_cell = found()
    monkeypatch.setattr(part_rows, "MOST_CELLS", 1)
    for mine, theirs in zip(by_cell, found(), strict=True):
        assert mine == approximately(theirs)
    assert {all(kept[0]), any(kept[1])} == {True, False}


def test_a_model_looks_at_groups_while_it_counts_and_once_for_its_columns(
    release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left beside counting works on cells and values, however many rows and groups there are."""
    seen: list[str] = []

    def noted(name: str) -> None:
        inner = getattr(functionals, name)
        monkeypatch.setattr(functionals, name, lambda *given: (seen.append(name), inner(*given))[1])

    def counting(*given: Any) -> Any:
        found = observe(*given)
        seen.append("counted")
        return found

    observe = cells.observe
    monkeypatch.setattr(cells, "observe", counting)
    for name in ("released_groups", "triples_of", "shares_by_cell"):
        noted(name)
    opened = sfumato.open_release(release)
    opened.fit("grade ~ C(sex) + C(disease)")
    assert seen == ["released_groups", "triples_of", "shares_by_cell", "counted"]
    opened.fit("grade ~ C(disease)", where="sex = 'f'")
    assert seen[4:] == ["counted"]


def approximately(said: Any) -> Any:
    """The document with numbers that may differ by rounding."""
    if isinstance(said, dict):
        return {key: approximately(value) for key, value in said.items()}
    if isinstance(said, list | tuple):
        return type(said)(approximately(value) for value in said)
    return pytest.approx(said, rel=1e-7, nan_ok=True) if isinstance(said, float) else said


def reader_of(tmp_path: Path, part: list[int | None], area: Sequence[str | int | None]) -> DuckDBReader:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"group_id": pa.array(part, pa.int32()), "area": area}), path)
    return DuckDBReader([path], len(part))


def test_every_row_is_in_the_cell_of_its_values(tmp_path: Path) -> None:
    part, area = [2, 0, 2, 1, 0, 2], ["x", None, "y", "x", "x", None]
    there = reader_of(tmp_path, part, area)
    found = there.in_parts(["area"], "group_id", 10)
    assert found is not None
    table, rows = found
    cells = there._con.execute(f"SELECT area, __n__, __cell__ FROM {table}").fetchall()
    name = {cell: value for value, _, cell in cells}
    assert {value: n for value, n, _ in cells} == {"x": 3, "y": 1, None: 2}
    held = [
        sorted(map(str, (name[c] for c in rows.cell[a:b]))) for a, b in zip(rows.start, rows.start[1:], strict=False)
    ]
    assert held == [["None", "x"], ["x"], ["None", "x", "y"]]
    assert there.in_parts(["area"], "group_id", 10) == found
    assert there.in_parts(["area"], "group_id", 2) is None


def test_parts_of_many_rows_are_left_to_the_engine(tmp_path: Path) -> None:
    there = reader_of(tmp_path, [0] * (part_rows.MOST_ROWS + 1), ["x"] * (part_rows.MOST_ROWS + 1))
    assert there.in_parts(["area"], "group_id", 10) is None
    assert there._con.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


@pytest.mark.parametrize("area", [["x", "y", "y"], [7, 9, 9]], ids=["text", "numbers"])
@pytest.mark.parametrize("part", [[0, 5, 1], [0, -1, 1]])
def test_a_row_in_a_group_that_cannot_be(tmp_path: Path, part: list[int | None], area: list[str | int | None]) -> None:
    with pytest.raises(ReleaseError, match="a group that cannot be"):
        reader_of(tmp_path, part, area).in_parts(["area"], "group_id", 10)


@pytest.mark.parametrize("area", [["x", "y", "y"], [7, 9, 9]], ids=["text", "numbers"])
def test_a_row_in_no_group(tmp_path: Path, area: list[str | int | None]) -> None:
    with pytest.raises(ReleaseError, match="belongs to no group"):
        reader_of(tmp_path, [0, None, 1], area).in_parts(["area"], "group_id", 10)


def test_numbers_lie_in_their_groups_whichever_thread_read_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    part, area = rng.permutation(np.repeat(np.arange(1000), 5)), rng.integers(-3, 9, size=5000)
    there = reader_of(tmp_path, part.tolist(), area.tolist())
    found = there.in_parts(["area"], "group_id", 20)
    assert found is not None
    table, rows = found
    known = there._con.execute(f"SELECT area FROM {table} ORDER BY __cell__").fetchall()
    name = np.array([value for (value,) in known])
    for g in range(1000):
        assert sorted(name[rows.cell[rows.start[g] : rows.start[g + 1]]]) == sorted(area[part == g])


def test_rows_of_some_parts() -> None:
    rng = np.random.default_rng(1)
    part, cell = rng.integers(0, 40, size=150), rng.integers(0, 7, size=150)
    rows: PartCells = part_cells(part, cell, 7)
    chosen = np.array([3, 17, 39, 3])
    found = rows.rows_of(chosen)
    for column, g in zip(found.T, chosen, strict=True):
        assert sorted(c for c in column if c != rows.cells) == sorted(cell[part == g])
    assert rows.rows_of(np.zeros(0, dtype=np.int64)).shape == (0, 0)


NUMBERS = {
    "small": pa.array([3, None, -2, 3, 3, -2, 0, None], pa.int16()),
    "yes": pa.array([True, False, None, True, True, None, False, False]),
    "large": pa.array([10**12, 10**12 + 3, 10**12, 10**12, 10**12, 10**12, 10**12 + 3, 10**12 + 3], pa.int64()),
    "none": pa.array([None] * 8, pa.int32()),
}
PARTS = [2, 0, 2, 1, 0, 2, 1, 3]


@pytest.mark.parametrize("columns", [[], ["small"], ["small", "yes"], ["large", "none", "small", "yes"]])
@pytest.mark.parametrize("way", ["by code", "by join", "by join, as the files say other ranges"])
def test_whole_numbers_tell_the_cell_of_a_row(
    columns: list[str], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every part has the rows that it has, whatever the numbers, missing ones included, and types stay."""
    pq.write_table(pa.table({"group_id": pa.array(PARTS, pa.int32()), **NUMBERS}), tmp_path / "data.parquet")
    there = DuckDBReader([tmp_path / "data.parquet"], len(PARTS))
    rows_of = there._part_rows
    if way == "by join":
        monkeypatch.setattr(part_rows, "WHOLE", frozenset())
    elif columns:
        stated = rows_of._codes(columns)
        assert stated is not None
        if "other ranges" in way:
            monkeypatch.setattr(rows_of, "_codes", lambda _: replace(stated, size=1))
        else:
            monkeypatch.setattr(rows_of, "_by_join", None)
    found = there.in_parts(columns, "group_id", 10)
    assert found is not None
    table, inside = found
    cells = there.run(sqlglot.parse_one(f"SELECT * FROM {table} ORDER BY __cell__"))
    assert {name: cells.schema.field(name).type for name in columns} == {name: NUMBERS[name].type for name in columns}
    value_of = cells.select(columns).to_pylist() if columns else [{}]
    held = [[value_of[c] for c in inside.cell[a:b]] for a, b in pairwise(inside.start)]
    rows = pa.table(NUMBERS).select(columns).to_pylist() if columns else [{}] * len(PARTS)
    assert [sorted(map(str, part)) for part in held] == [
        sorted(str(row) for row, part in zip(rows, PARTS, strict=True) if part == g) for g in range(4)
    ]
    assert cells["__n__"].to_pylist() == np.bincount(inside.cell).tolist()
