"""An open release counts the cells of the columns that are asked about; answers are those over its rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from comparing import people
from sfumato.engines.duckdb import reader
from sfumato.engines.duckdb.parquet_ranges import most_combinations

ASKED = (
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'd01' AND area > 'area 2'",
    "SELECT COUNT(*) AS n FROM release WHERE disease = 'd03' AND area > 'area 1'",
    "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'd02' GROUP BY sex ORDER BY sex",
    "SELECT AVG(grade) AS n FROM release WHERE disease = 'd02' AND area = 'area 3'",
    "SELECT area, sex, COUNT(*) AS n FROM release WHERE disease <> 'd00' GROUP BY CUBE (area, sex) ORDER BY n",
    "SELECT COUNT(*) AS n FROM release",
    "SELECT disease, COUNT(*) AS n FROM release WHERE grade > 4 GROUP BY disease ORDER BY disease",
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = people(12_000)
    out = tmp_path_factory.mktemp("cells") / "out"
    roles = sfumato.Roles(sensitive="disease", quasi=("area", "sex", "grade"), rest="drop")
    sfumato.publish(table, out, roles=roles, method=sfumato.UniformPerturbation(rho1="1/3", rho2="1/2"), seed=2)
    return out


def answers(path: Path) -> list[dict[str, list[object]]]:
    opened = sfumato.open_release(path)
    return [opened.sql(text).table.to_pydict() for text in ASKED]


@pytest.mark.parametrize(
    ("setting", "value"), [("CELLS_AFTER", 1), ("OWN_SHARE", 0.0), ("MORE_SHARE", 1.0), ("MISSES", 1)]
)
def test_the_same_answers_over_cells_and_rows(
    release: Path, setting: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "CELLS_AFTER", 10**9)
    plain = answers(release)
    monkeypatch.setattr(reader, "CELLS_AFTER", 2)
    monkeypatch.setattr(reader, setting, value)
    for mine, theirs in zip(answers(release), plain, strict=True):
        assert mine.keys() == theirs.keys()
        for name, cells in mine.items():
            assert cells == [pytest.approx(x, rel=1e-9) if isinstance(x, float) else x for x in theirs[name]]


def test_cells_of_asked_columns_are_kept_and_serve_narrower_questions(release: Path) -> None:
    opened = sfumato.open_release(release)
    for text in ASKED[:3]:
        opened.sql(text)
    kept = opened.opened.reader._cells
    assert set(kept) == {frozenset({"disease", "area"}), frozenset({"disease", "area", "sex"})}
    assert all(kept.values())
    opened.sql(ASKED[0])
    assert len(kept) == 2


@pytest.mark.parametrize("method", ["splu", "small-domain"])
@pytest.mark.parametrize("report", ["set", "value"])
def test_a_method_that_counts_the_whole_release_reads_the_rows_once(
    method: str, report: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for its first question; the answers are those of a pass for the question and one for the whole."""
    spec = sfumato.Splu(gamma=4)
    if method == "small-domain":
        spec = sfumato.SmallDomain(rho1="1/3", rho2="1/2", min_size=2000, report=report)
    roles = sfumato.Roles(sensitive="disease", quasi=("area", "sex", "grade"), rest="drop")
    out = sfumato.publish(people(12_000), tmp_path / "out", roles=roles, method=spec, seed=2).path
    monkeypatch.setattr(reader, "FEW_ROWS", 10**9)
    apart = [sfumato.open_release(out).sql(text).table.to_pydict() for text in ASKED[:3]]
    model = "grade ~ C(sex) + C(disease)"
    fitted = [(row["estimate"], row["se"]) for row in sfumato.open_release(out).fit(model).rows()]
    monkeypatch.setattr(reader, "FEW_ROWS", 10_000)
    ran: list[str] = []
    run = reader.DuckDBReader._run
    monkeypatch.setattr(reader.DuckDBReader, "_run", lambda *a: ran.append(a[1]) or run(*a))
    for text, expected in zip(ASKED[:3], apart, strict=True):
        opened = sfumato.open_release(out)
        for name, cells in opened.sql(text).table.to_pydict().items():
            assert cells == [pytest.approx(x, rel=1e-9) if isinstance(x, float) else x for x in expected[name]]
        whole = opened.opened.evidence.totals((0,))[2]
        assert int(whole.sum()) == 12_000
    opened = sfumato.open_release(out)
    for row, (estimate, se) in zip(opened.fit(model).rows(), fitted, strict=True):
        assert (row["estimate"], row["se"]) == (pytest.approx(estimate, rel=1e-9), pytest.approx(se, rel=1e-9))
    assert opened.opened.evidence.totals((0,))[2].sum() == 12_000
    assert ran, "nothing was asked"
    assert not [sql for sql in ran if "FROM release" in sql], "the rows were read again"


def test_sub_tables_of_sets_are_looked_at_by_whoever_verifies(tmp_path: Path) -> None:
    """A question does not read the column, because the number of a set says the sub-table; verify compares both."""
    roles = sfumato.Roles(sensitive="disease", quasi=("area", "sex"), rest="drop")
    spec = sfumato.SmallDomain(rho1="1/3", rho2="1/2", min_size=2000, report="set")
    opened = sfumato.publish(people(12_000), tmp_path / "out", roles=roles, method=spec, seed=2).opened
    assert opened.part is None
    part, codes, count = opened.published.evidence.totals((0,))
    assert (part == opened.plan.set_tables.part_of(codes[:, 0])).all()
    assert int(count.sum()) == 12_000
    assert not opened.evidence.totals((0,))[0].any()


def test_footers_tell_how_many_cells_there_can_be(tmp_path: Path) -> None:
    table = pa.table({"a": [3, 5, 4], "b": [-1, None, 1], "t": ["x", "y", "z"], "f": [0.5, 1.5, 2.0]})
    table = table.append_column("d", pa.array([Decimal(1), Decimal(2), Decimal(3)], pa.decimal128(5, 0)))
    table = table.append_column("day", pa.array([1, 2, 3], pa.int32()).cast(pa.date32()))
    files = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for file, some in zip(files, (table[:2], table[2:]), strict=True):
        pq.write_table(some, file)
    con = duckdb.connect()
    kinds = {name: kind for name, kind, *_ in con.execute(f"DESCRIBE FROM '{files[0]}'").fetchall()}
    assert most_combinations(con, files, kinds, ["a"]) == 4  # 3, 4, 5, and none
    assert most_combinations(con, files, kinds, ["a", "b"]) == 4 * 4
    assert most_combinations(con, files, kinds, []) == 1
    for name in ("t", "f", "d", "day", "unknown"):
        assert most_combinations(con, files, kinds, ["a", name]) is None
    assert most_combinations(con, [], kinds, ["a"]) is None
    pq.write_table(table[:1], tmp_path / "silent.parquet", write_statistics=False)
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    pq.write_table(table.select(["b"]), tmp_path / "other.parquet")
    for name in ("silent", "damaged", "other"):
        assert most_combinations(con, [*files, tmp_path / f"{name}.parquet"], kinds, ["a"]) is None
