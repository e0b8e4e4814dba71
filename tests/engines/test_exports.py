"""A release in other tools: plain SQL there gives our estimates and standard errors; files come back as they went."""

from __future__ import annotations

import math
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from benchmarks import local_postgres as postgres

import sfumato as sf
from commands import METHODS, sfumato
from sfumato.errors import ReleaseError, SpecError
from sfumato.exporting import export
from sfumato.methods import REGISTRY
from tables import people

pytest.importorskip("adbc_driver_sqlite")
pyreadstat = pytest.importorskip("pyreadstat")
Ask = Callable[[str], list[tuple[Any, ...]]]
ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], rest="drop")


def _published(folder: Path, method: str) -> Path:
    pq.write_table(people(), folder / "t.parquet")
    roles = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop")
    done = sfumato(
        "publish",
        folder / "t.parquet",
        folder / "out",
        *roles,
        "--method",
        method,
        *METHODS[method],
        "--seed",
        2,
    )
    assert done.code == 0, done.text
    return folder / "out"


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: _published(tmp_path_factory.mktemp(name), name) for name in REGISTRY}


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    why = postgres.missing()
    if why:
        pytest.skip(why)
    pytest.importorskip("adbc_driver_postgresql")
    with postgres.server() as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", postgres.PASSWORD)
        yield started


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[], Ask]]:
    """(where to export to, a function that gives one to ask it SQL)."""
    if request.param == "postgresql":
        server: postgres.Server = request.getfixturevalue("server")
        schema = f"s{os.urandom(4).hex()}"

        def ask(sql: str) -> list[tuple[Any, ...]]:
            text = server.run(f"SET search_path TO {schema}; {sql}")
            return [tuple(_number(cell) for cell in line.split("|")) for line in text.splitlines()]

        return server.address(table=schema), lambda: ask
    path = tmp_path / f"t.{request.param}"
    if request.param == "duckdb":
        return str(path), lambda: lambda sql: duckdb.connect(str(path), read_only=True).execute(sql).fetchall()

    def of_sqlite(sql: str) -> list[tuple[Any, ...]]:
        con = sqlite3.connect(path)
        con.create_function("SQRT", 1, math.sqrt)
        found = con.execute(sql.replace("GREATEST", "MAX")).fetchall()
        con.close()
        return found

    return str(path), lambda: of_sqlite


def _number(cell: str) -> Any:
    try:
        return float(cell)
    except ValueError:
        return cell


COUNTS = (
    "SELECT disease, SUM(weight) AS n, SQRT(GREATEST(SUM(variance), 0)) AS n_se FROM estimates {where} "
    "GROUP BY disease ORDER BY disease"
)
OURS = "SELECT disease, COUNT(*) AS n FROM release {where} GROUP BY disease ORDER BY disease"
SUMS = COUNTS.replace("SUM(weight)", "SUM(age * weight)").replace("SUM(variance)", "SUM(age * age * variance)")
OUR_SUMS = OURS.replace("COUNT(*)", "SUM(age)")


@pytest.mark.parametrize("method", ["uniform", "small-domain", "subset-response"])
def test_plain_sql_gives_our_estimates_and_errors(
    method: str, releases: dict[str, Path], database: tuple[str, Callable[[], Ask]]
) -> None:
    target, asking = database
    release = sf.open_release(releases[method])
    export(release.opened, target)
    for theirs, ours, where in ((COUNTS, OURS, ""), (SUMS, OUR_SUMS, "WHERE age > 30 AND sex = 'f'")):
        found = asking()(theirs.format(where=where))
        expected = release.sql(ours.format(where=where)).rows()
        assert [row[0] for row in found] == [row["disease"] for row in expected]
        for (_, n, se), row in zip(found, expected, strict=True):
            assert n == pytest.approx(row["n"], rel=1e-6, abs=1e-6)
            if row["n"] > 0:  # ours is cut at what is possible before its error is computed, in every sub-table ...
                exact = method != "small-domain" and theirs == COUNTS  # ... and for every sum of squares
                assert se == pytest.approx(row["n_se"], rel=1e-6 if exact else 0.1)


def test_several_values_are_added_row_by_row(
    releases: dict[str, Path], database: tuple[str, Callable[[], Ask]]
) -> None:
    """Weights of one row are added before they are squared."""
    target, asking = database
    release = sf.open_release(releases["uniform"])
    export(release.opened, target)
    two = "disease IN ('angina', 'cold') AND age > 30"
    one = f"SELECT row_id, SUM(weight) AS w FROM estimates WHERE {two} GROUP BY row_id"
    ((n, se),) = asking()(f"SELECT SUM(w), SQRT(SUM(w * (w - 1))) FROM ({one}) AS rows_")
    (row,) = release.sql(f"SELECT COUNT(*) AS n FROM release WHERE {two}").rows()
    assert (n, se) == pytest.approx((row["n"], row["n_se"]), rel=1e-6)


def test_two_randomised_columns_multiply_their_weights(tmp_path: Path, database: tuple[str, Callable[[], Ask]]) -> None:
    target, asking = database
    roles = sf.Roles(sensitive="disease", quasi=["sex"], insensitive=["age"], rest="drop")
    method = sf.RandomizedResponse(scope="both", keep={"disease": "0.8", "sex": "0.9"})
    release = sf.publish(people(), tmp_path / "out", roles=roles, method=method, seed=4)
    export(release.opened, target)
    joined = (
        "SELECT a.weight * b.weight AS w FROM estimates_disease AS a JOIN estimates_sex AS b ON a.row_id = b.row_id "
        "WHERE a.disease = 'flu' AND b.sex = 'f' AND a.age > 40"
    )
    ((n, se),) = asking()(f"SELECT SUM(w), SQRT(SUM(w * (w - 1))) FROM ({joined}) AS rows_")
    (row,) = release.sql("SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'f' AND age > 40").rows()
    assert n == pytest.approx(row["n"], rel=1e-6)
    assert se == pytest.approx(row["n_se"], rel=0.05)


@pytest.mark.parametrize(
    ("method", "ending"),
    [*((method, "duckdb") for method in REGISTRY), ("subset-response", "csv"), ("anatomy", "xlsx")],
)
def test_every_method_is_exported_with_what_it_has(
    method: str, ending: str, releases: dict[str, Path], tmp_path: Path
) -> None:
    done = sfumato("export", releases[method], tmp_path / f"t.{ending}")
    assert done.code == 0, done.text
    assert "wrong numbers" in done.err
    rows = pq.read_metadata(releases[method] / "data.parquet").num_rows
    if ending == "duckdb":
        con = duckdb.connect(str(tmp_path / "t.duckdb"), read_only=True)
        tables = {name for (name,) in con.execute("SELECT table_name FROM information_schema.tables").fetchall()}
        assert con.execute("SELECT COUNT(*) FROM release").fetchall() == [(rows,)]
        con.close()
        weighted = method in {"uniform", "small-domain", "randomized-response", "splu", "subset-response"}
        assert any(name.startswith("estimates") for name in tables) == weighted
        assert ("no weights" in done.err) != weighted
    elif ending == "csv":
        assert pacsv.read_csv(tmp_path / "t.csv").num_rows == rows
    assert all(not p.name.startswith(".") for p in tmp_path.iterdir())


def test_weights_of_splu_are_unbiased_and_claim_no_error(releases: dict[str, Path], tmp_path: Path) -> None:
    release = sf.open_release(releases["splu"])
    export(release.opened, tmp_path / "t.duckdb")
    with duckdb.connect(str(tmp_path / "t.duckdb"), read_only=True) as con:
        assert con.execute("SELECT COUNT(variance) FROM estimates").fetchall() == [(0,)]
        found = dict(con.execute("SELECT disease, SUM(weight) FROM estimates GROUP BY 1").fetchall())
    for row in release.sql(OURS.format(where="")).rows():
        assert found[row["disease"]] == pytest.approx(row["n"], rel=1e-6)


def test_missing_values_have_weights_too(tmp_path: Path, database: tuple[str, Callable[[], Ask]]) -> None:
    target, asking = database
    table = pa.table({"s": ["a", "b", "c", None] * 100, "x": np.arange(400) % 7})
    roles = sf.Roles(sensitive="s", quasi=["x"])
    release = sf.publish(
        table, roles=roles, method=sf.UniformPerturbation(rho1="1/3", rho2="3/5"), seed=1, null_as_value=True
    )
    export(release.opened, target)
    ((n,),) = asking()("SELECT SUM(weight) FROM estimates WHERE s IS NULL AND x < 4")
    (row,) = release.sql("SELECT COUNT(*) AS n FROM release WHERE s IS NULL AND x < 4").rows()
    assert n == pytest.approx(row["n"], rel=1e-6)


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_statistics_packages_get_titles_and_labels(ending: str, tmp_path: Path) -> None:
    frame = people().select(["age", "sex", "disease"]).to_pandas()
    frame["sex"] = (frame["sex"] == "f") * 1.0
    given = tmp_path / "given.sav"
    pyreadstat.write_sav(
        frame, str(given), variable_value_labels={"sex": {0: "one", 1: "other"}}, column_labels={"age": "Age in years"}
    )
    method = sf.UniformPerturbation(rho1="1/4", rho2="1/2")
    release = sf.publish(given, roles=sf.Roles(sensitive="disease", quasi=["age", "sex"]), method=method, seed=1)
    export(release.opened, tmp_path / f"t.{ending}")
    read = pyreadstat.read_sav if ending == "sav" else pyreadstat.read_dta
    found, meta = read(str(tmp_path / f"t.{ending}"))
    assert meta.variable_value_labels["sex"] == {0: "one", 1: "other"}
    assert meta.column_names_to_labels["age"] == "Age in years"
    assert "randomised" in meta.file_label
    rows = pq.read_table(release.opened.path / "data.parquet")
    for name in ("age", "sex", "disease"):
        assert found[name].tolist() == rows[name].to_pylist()


def test_names_that_a_package_does_not_allow_become_titles(tmp_path: Path) -> None:
    table = pa.table({"größe, cm": [1, 2] * 50, "1st": [1, 2] * 50, "s": ["a", "b", "c", "d"] * 25})
    method = sf.UniformPerturbation(rho1="1/3", rho2="3/5")
    release = sf.publish(table, roles=sf.Roles(sensitive="s", rest="keep"), method=method, seed=1)
    export(release.opened, tmp_path / "t.dta")
    _, meta = pyreadstat.read_dta(str(tmp_path / "t.dta"))
    assert meta.column_names_to_labels["gr_e_cm"] == "größe, cm"
    assert meta.column_names_to_labels["v1st"] == "1st"


def test_a_workbook_shows_texts_as_texts(tmp_path: Path) -> None:
    import fastexcel

    table = pa.table({"x": ["=1+1", "http://x.org"] * 50, "s": ["a", "b", "c", "d"] * 25})
    method = sf.UniformPerturbation(rho1="1/3", rho2="3/5")
    release = sf.publish(table, roles=sf.Roles(sensitive="s", rest="keep"), method=method, seed=1)
    export(release.opened, tmp_path / "t.xlsx")
    book = fastexcel.read_excel(tmp_path / "t.xlsx")
    assert book.sheet_names == ["release", "weights", "about"]
    cells = pa.record_batch(book.load_sheet("release")).column(1).to_pylist()
    assert sorted(set(cells)) == ["=1+1", "http://x.org"]


def test_nothing_is_replaced_without_being_told(
    releases: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    release = sf.open_release(releases["uniform"]).opened
    for ending in ("csv", "duckdb", "sqlite", "xlsx", "sav"):
        place = tmp_path / f"t.{ending}"
        place.write_text("mine")
        with pytest.raises(ReleaseError, match="exists"):
            export(release, place)
        assert place.read_text() == "mine"
        export(release, place, force=True)
        assert place.stat().st_size > 100
    for wrong in ("t.parquet", "t", "mysql://x/y"):
        with pytest.raises(SpecError):
            export(release, wrong)
    server: postgres.Server = request.getfixturevalue("server")
    export(release, server.address(table="mine"))
    with pytest.raises(ReleaseError, match='schema "mine"'):
        export(release, server.address(table="mine"))
    assert sfumato("export", releases["uniform"], server.address(password="x", table="a")).code == 2


def _released(folder: Path, **columns: Any) -> Any:
    rows = max(len(cells) for cells in columns.values())
    table = pa.table({"s": (["a", "b", "c", "d"] * rows)[:rows], **columns})
    method = sf.UniformPerturbation(rho1="1/3", rho2="3/5")
    return sf.publish(table, folder, roles=sf.Roles(sensitive="s", rest="keep"), method=method, seed=1).opened


def test_columns_with_the_names_that_we_add_keep_them(tmp_path: Path, database: tuple[str, Callable[[], Ask]]) -> None:
    names = ["row_id", "weight", "variance"]
    release = _released(tmp_path / "out", **{name: [7 * i, 8 * i] * 4 for i, name in enumerate(names, 1)})
    target, asking = database
    export(release, target)
    ask = asking()
    (row,) = ask("SELECT sum(row_id), sum(weight), sum(variance), max(row_id_2) FROM release")
    assert [int(cell) for cell in row] == [60, 120, 180, 8]
    assert round(float(ask("SELECT sum(weight_2) FROM estimates")[0][0])) == 8
    assert len(ask("SELECT variance_2 FROM estimates WHERE weight = 14 AND row_id_2 < 9")) == 16
    for ending in ("csv", "xlsx", "sav", "dta"):
        export(release, tmp_path / f"t.{ending}")
    found, _ = pyreadstat.read_sav(str(tmp_path / "t.sav"))
    assert sorted(found.columns) == sorted([*names, "s"])


def test_digits_and_bytes_are_kept_where_numbers_are_real(tmp_path: Path) -> None:
    import decimal

    import fastexcel

    money = [decimal.Decimal("12345678901234567890.12"), decimal.Decimal("0.50")] * 2
    release = _released(
        tmp_path / "out",
        id=[2**60 + 1, 2**60 + 2, 3, None],
        unsigned=pa.array([2**64 - 1, 1, 2, 3], pa.uint64()),
        money=pa.array(money, pa.decimal128(30, 2)),
        bytes=[b"\x00\xff", None, b"", b"a"],
        odd=[float("nan"), float("inf"), 1.5, None],
        small=pa.array([decimal.Decimal("1.25")] * 4, pa.decimal128(5, 2)),
    )
    rows = pq.read_table(release.path / "data.parquet")
    for ending in ("csv", "xlsx", "sav", "sqlite", "duckdb"):
        export(release, tmp_path / f"t.{ending}")
    wanted = sorted(str(cell) for cell in rows["id"].to_pylist() if cell is not None)
    sheet = pa.record_batch(fastexcel.read_excel(tmp_path / "t.xlsx").load_sheet("release"))
    assert sorted(str(c) for c in sheet.column("id").to_pylist() if c is not None) == wanted
    assert sorted(sheet.column("money").to_pylist()) == sorted(str(float(c)) if c < 1 else str(c) for c in money)
    assert set(sheet.column("small").to_pylist()) == {1.25}
    assert {"nan", "inf"} <= set(sheet.column("odd").to_pylist())
    found, _ = pyreadstat.read_sav(str(tmp_path / "t.sav"))
    assert sorted(cell for cell in found["id"] if cell) == wanted
    assert str(2**64 - 1) in set(found["unsigned"])
    assert set(found["small"]) == {1.25}
    texts = pacsv.read_csv(tmp_path / "t.csv", convert_options=pacsv.ConvertOptions(strings_can_be_null=True))
    assert {"00ff", "61"} <= set(texts["bytes"].to_pylist())
    with duckdb.connect(str(tmp_path / "t.duckdb"), read_only=True) as con:
        for name in ("id", "unsigned", "money", "bytes"):
            (cells,) = zip(*con.execute(f"SELECT {name} FROM release ORDER BY row_id").fetchall(), strict=True)
            assert list(cells) == rows[name].to_pylist()


def test_what_a_target_would_cut_off_is_refused(tmp_path: Path) -> None:
    release = _released(tmp_path / "long", x=["y" * 32_768, "z"] * 2)
    with pytest.raises(ReleaseError, match="32,767 characters"):
        export(release, tmp_path / "t.xlsx")
    release = _released(tmp_path / "nul", x=["a\0b", "z"] * 2)
    for ending in ("sav", "dta"):
        with pytest.raises(ReleaseError, match="NUL"):
            export(release, tmp_path / f"t.{ending}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long", "nul"]


def test_words_that_a_package_keeps_for_itself_are_no_names(tmp_path: Path) -> None:
    words = ["if", "byte", "str5", "ALL", "with"]
    release = _released(tmp_path / "out", **{word: [1, 2] * 4 for word in words})
    for ending, read in (("sav", pyreadstat.read_sav), ("dta", pyreadstat.read_dta)):
        export(release, tmp_path / f"t.{ending}")
        _, meta = read(str(tmp_path / f"t.{ending}"))
        assert {word: meta.column_names_to_labels[f"v{word}"] for word in words} == {word: word for word in words}
