"""What a Parquet file says of its own columns, least and largest values of row groups, changes no answer."""

from __future__ import annotations

import struct
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot

import sfumato as sf
from forging import forged
from same_numbers import assert_same_numbers
from sfumato.engines.duckdb.reader import DuckDBReader

ROWS, GROUP = 40_000, 4_000
LEAST, LARGEST = 1_000_000, 1_000_089
OUTLIERS = (7, 3_000_007)  # of the last row group
SMALL = pa.table({"a": pa.array(range(LEAST + 3, LEAST + 10), pa.int32()), "l": list("abcdefg")})
STATEMENTS = (
    f"SELECT count(*) AS n FROM release WHERE age > {LEAST + 40}",
    "SELECT count(*) AS n FROM release WHERE age = 7",
    "SELECT count(*) AS n FROM release WHERE sex = 'f'",
    "SELECT count(*) AS n FROM release WHERE sex IN ('f', 'g', 'h', 'i', 'j', 'k', 'l')",
    f"SELECT count(*) FILTER (WHERE age > {LEAST + 40}) AS n FROM release",
    "SELECT count(*) AS n FROM release WHERE age IS NULL",
    "SELECT count(DISTINCT age) AS n FROM release",
    "SELECT age, k, count(*) AS n FROM release GROUP BY age, k ORDER BY age, k",
    "SELECT sex, count(*) AS n FROM release GROUP BY GROUPING SETS ((sex), ()) ORDER BY sex",
    "SELECT min(age) AS a, max(age) AS b, min(sex) AS c, max(sex) AS d, sum(age) AS e FROM release",
    "SELECT median(age) AS m FROM release WHERE sex = 'f' AND k >= 2",
    "SELECT count(*) AS n FROM release JOIN small ON release.age = small.a",
    "SELECT l, count(*) AS n FROM release LEFT JOIN small ON release.age = small.a GROUP BY l ORDER BY l",
    "SELECT count(*) AS n FROM release WHERE age IN (SELECT a FROM small)",
    "SELECT DISTINCT age FROM release ORDER BY age",
    "SELECT max(n) AS n FROM (SELECT age, count(*) AS n FROM release GROUP BY age)",
)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    rng = np.random.default_rng(1)
    age = rng.integers(LEAST, LARGEST + 1, ROWS)
    age[-GROUP:] = np.where(np.arange(GROUP) % 2, *OUTLIERS)
    return pa.table({"sex": rng.choice(["f", "m"], ROWS), "age": age.astype("int32"), "k": rng.integers(0, 5, ROWS)})


def restate(file: Path, changes: dict[bytes, bytes]) -> None:
    """Other bytes in the footer of the file, of the same length."""
    content = file.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[begin:]
    for old, new in changes.items():
        assert len(old) == len(new)
        assert old in footer
        footer = footer.replace(old, new)
    file.write_bytes(content[:begin] + footer)


def number(value: int) -> bytes:
    return struct.pack("<i", value)


FORGERIES = {
    "all numbers small": {number(LEAST): number(5), number(LARGEST): number(6)},
    "outliers hidden": {number(OUTLIERS[0]): number(LEAST + 50), number(OUTLIERS[1]): number(LEAST + 51)},
    "other texts": {b"\x01f": b"\x01x", b"\x01m": b"\x01x"},
}


@pytest.fixture(scope="module", params=FORGERIES)
def file(request: pytest.FixtureRequest, rows: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("statistics") / "data.parquet"
    pq.write_table(rows, path, row_group_size=GROUP)
    before = pq.read_metadata(path).row_group(ROWS // GROUP - 1)
    restate(path, FORGERIES[request.param])
    after = pq.read_metadata(path).row_group(ROWS // GROUP - 1)
    assert [before.column(i).statistics.min for i in (0, 1)] != [after.column(i).statistics.min for i in (0, 1)] or (
        request.param == "all numbers small"
    )
    return path


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement_counts_the_rows_that_are_there(text: str, file: Path, rows: pa.Table) -> None:
    statement = sqlglot.parse_one(text, dialect="duckdb")
    found, true = (DuckDBReader(data).run(statement, tables={"small": SMALL}) for data in ([file], rows))
    assert found.to_pylist() == true.to_pylist()


def test_plain_duckdb_believes_them(file: Path, rows: pa.Table) -> None:
    """Else the test above would find nothing."""
    wrong = 0
    with duckdb.connect() as con:
        con.register("small", SMALL)
        for text in STATEMENTS:
            true = con.sql(text.replace("FROM release", "FROM rows AS release")).fetchall()
            try:
                wrong += con.sql(text.replace("FROM release", f"FROM '{file}' AS release")).fetchall() != true
            except duckdb.Error:  # an error inside DuckDB, by an array that is too small
                wrong += 1
    assert wrong >= 3


def test_a_release_with_false_statistics_gives_the_same_answers(rows: pa.Table, tmp_path: Path) -> None:
    roles = sf.Roles(sensitive="k", quasi=["sex", "age"])
    sf.publish(rows, tmp_path / "out", roles=roles, method=sf.UniformPerturbation(rho1="1/4", rho2="1/2"), seed=1)

    def regrouped(restated: bool) -> sf.Release:
        copy = forged(tmp_path / "out", tmp_path / f"copy {restated}", data=lambda table: table)
        pq.write_table(pq.read_table(copy / "data.parquet"), copy / "data.parquet", row_group_size=GROUP)
        if restated:
            restate(copy / "data.parquet", {number(OUTLIERS[0]): number(LEAST), b"\x01f": b"\x01x"})
        return sf.open_release(copy, check=False)

    true, found = regrouped(False), regrouped(True)
    for text in (
        "SELECT k, COUNT(*) AS n FROM release WHERE sex = 'f' GROUP BY k ORDER BY k",
        "SELECT COUNT(*) AS n FROM release WHERE age < 1000 AND k = 2",
        "SELECT sex, AVG(age) AS a FROM release WHERE k = 1 GROUP BY sex ORDER BY sex",
    ):
        assert_same_numbers(found.sql(text).rows(), true.sql(text).rows())


def test_a_question_spills_beyond_the_memory_that_it_may_take(tmp_path: Path) -> None:
    """Half a million groups of long texts do not fit 60 MB; they go to the private folder, not to where we are."""
    rows = pa.table({"t": pa.array([f"{i:0100}" for i in range(500_000)])})
    pq.write_table(rows, tmp_path / "data.parquet")
    reader = DuckDBReader([tmp_path / "data.parquet"], memory="60MB")
    with pytest.raises(duckdb.Error, match="locked"):
        reader._con.execute("SET memory_limit='60GB'")
    assert reader._con.execute("SELECT current_setting('memory_limit')").fetchall() == [("57.2 MiB",)]
    text = "SELECT count(*) AS n FROM (SELECT t, count(*) FROM release GROUP BY t)"
    assert reader.run(sqlglot.parse_one(text, dialect="duckdb")).to_pylist() == [{"n": 500_000}]
    assert not list(Path.cwd().glob(".tmp"))
