"""The table that is published is the one that was named, whole, and under the names it has.

Reading libraries expand patterns, take columns from the names of folders, rename repeated columns and fill in missing
ones. Each of these once published something else than the custodian gave roles to.
"""

from __future__ import annotations

import glob
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import METHODS, sfumato
from sfumato.engines.duckdb.table import LocalEngine
from sfumato.errors import DataError
from tables import people

WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "parquet": pq.write_table,
    "arrow": feather.write_feather,
    "csv": lambda table, path: table.to_pandas().to_csv(path, index=False),
}


def _open(source: Any) -> Any:
    return LocalEngine().open(source)


def _rows(source: Any) -> list[Any]:
    """The cells of column x, as the engine sees them."""
    return sorted(_open(source)._tables(["SELECT x FROM source"])[0]["x"].to_pylist())


ODD = [
    "data[1]",
    "a*b",
    "a?b",
    "**",
    "[!a]",
    "a\\[1]",
    "a\\b",
    "\\*",
    "{a,b}",
    "o'k",
    'say "x"',
    "~",
    "a b",
    "a;b",
    "#",
]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_path_that_exists_is_that_path(kind: str, tmp_path: Path) -> None:
    """Beside it lie all the files that its name would match as a pattern."""
    for other in ("data1", "ab", "aab", "aXb", "b", "!", "a1", "a"):
        WRITERS[kind](pa.table({"x": [77]}), tmp_path / f"{other}.{kind}")
    for name in ODD:
        WRITERS[kind](pa.table({"x": [1, 2]}), tmp_path / f"{name}.{kind}")
        assert _rows(tmp_path / f"{name}.{kind}") == [1, 2], name


@pytest.mark.parametrize("folder", ["d[1]", "k=2", "a*", "s3:", "file:"])
@pytest.mark.parametrize("kind", WRITERS)
def test_the_names_of_folders_mean_nothing(
    folder: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (folder, "d1", "ab"):
        (tmp_path / name).mkdir()
        WRITERS[kind](pa.table({"x": [1] if name == folder else [77]}), tmp_path / name / f"t.{kind}")
    monkeypatch.chdir(tmp_path)
    for path in (f"{folder}/t.{kind}", tmp_path / folder / f"t.{kind}", f"{glob.escape(folder)}/*.{kind}"):
        assert list(_open(path).columns) == ["x"]
        assert _rows(path) == [1]


@pytest.mark.parametrize("method", ["subset-response", "anatomy"])  # one with sets.parquet, one with sensitive.parquet
def test_the_named_file_is_published_and_read_back(method: str, tmp_path: Path) -> None:
    """Source and release both lie in folders whose names are patterns, with a decoy where the pattern leads."""
    for name in ("d[1]", "d1", "k=2"):
        (tmp_path / name).mkdir()
    pq.write_table(people(), tmp_path / "d[1]" / "t[1].parquet")
    pq.write_table(people().slice(0, 3), tmp_path / "d1" / "t1.parquet")
    roles = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop", "--method", method, *METHODS[method])
    for out in (tmp_path / "d[1]" / "out[2]", tmp_path / "k=2" / "out"):
        done = sfumato("publish", tmp_path / "d[1]" / "t[1].parquet", out, *roles)
        assert done.code == 0, done.text
        assert sfumato("verify", out).code == 0
        release = sf.open_release(out)
        assert release.manifest.rows == people().num_rows
        assert "k" not in release.opened.reader.columns


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    for i in range(2):
        (folder / f"y{i}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [i], "s": ["a"]}), folder / f"y{i}" / "part.parquet")
    return folder


@pytest.mark.parametrize(
    "stray", [".hidden.parquet", "_temporary/0/part.parquet", "._part.parquet", ".snapshot/old.parquet", "_x.parquet"]
)
def test_hidden_and_unfinished_files_are_refused_by_name(stray: str, tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / stray).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": [77], "s": ["b"]}), folder / stray)
    with pytest.raises(DataError, match="hidden or unfinished"):
        _open(folder)


def test_other_files_of_a_folder_are_not_skipped_in_silence(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / "README.md").write_text("nothing of the table")
    pq.write_table(pa.table({"x": [2], "s": ["a"]}), folder / "UPPER.PARQUET")
    pq.write_table(pa.table({"x": [3], "s": ["a"]}), folder / "short.pq")
    assert _rows(folder) == [0, 1, 2, 3]
    (folder / "more.csv").write_text("x,s\n5,a\n")
    with pytest.raises(DataError, match=r"more\.csv"):
        _open(folder)


def test_columns_in_names_of_folders_are_refused(tmp_path: Path) -> None:
    """Neither taken in (nobody gave them a role knowingly) nor lost."""
    for country in ("de", "fr"):
        (tmp_path / "t" / f"country={country}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [1]}), tmp_path / "t" / f"country={country}" / "part.parquet")
    with pytest.raises(DataError, match="country"):
        _open(tmp_path / "t")


OTHERS = {
    "a column more": pa.table({"x": [2], "s": ["a"], "name": ["zqxjmark"]}),
    "a column less": pa.table({"x": [2]}),
    "another order": pa.table({"s": ["a"], "x": [2]}),
    "another type": pa.table({"x": ["02"], "s": ["a"]}),
    "another case": pa.table({"X": [2], "s": ["a"]}),
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_with_other_columns_are_refused(case: str, kind: str, tmp_path: Path) -> None:
    WRITERS[kind](pa.table({"x": [1], "s": ["a"]}), tmp_path / f"0.{kind}")
    WRITERS[kind](OTHERS[case], tmp_path / f"1.{kind}")
    with pytest.raises(DataError, match="other columns"):
        _open(str(tmp_path / f"*.{kind}"))


# --- names ------------------------------------------------------------------------------------------------------


def _twice(second: str) -> pa.Table:
    table = people().select(["age", "disease"])
    return pa.Table.from_arrays([*table.columns, table["disease"]], names=["age", "disease", second])


def _saved(write: Callable[[pa.Table, Path], object], ending: str) -> Callable[[pa.Table, Path], Any]:
    def source(table: pa.Table, folder: Path) -> Path:
        write(table, folder / f"t.{ending}")
        return folder / f"t.{ending}"

    return source


def _csv(table: pa.Table, path: Path) -> None:
    rows = zip(*[column.to_pylist() for column in table.columns], strict=True)
    path.write_text("\n".join([",".join(table.column_names), *(",".join(map(str, row)) for row in rows)]))


def _ipc(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as sink:
        sink.write_table(table)


SOURCES: dict[str, Callable[[pa.Table, Path], Any]] = {
    "parquet": _saved(pq.write_table, "parquet"),
    "arrow": _saved(_ipc, "arrow"),
    "csv": _saved(_csv, "csv"),
    "pyarrow": lambda table, _: table,
    "pandas": lambda table, _: pd.concat(
        [pd.Series(c.to_pylist(), name=n) for n, c in zip(table.column_names, table.columns, strict=True)], axis=1
    ),
}


@pytest.mark.parametrize("second", ["disease", "Disease"])
@pytest.mark.parametrize("kind", SOURCES)
def test_names_that_repeat_or_differ_in_case_are_refused_before_the_engine_renames(
    kind: str, second: str, tmp_path: Path
) -> None:
    """`--rest quasi` would publish the engine's `disease_1` in clear."""
    source = SOURCES[kind](_twice(second), tmp_path)
    roles = sf.Roles(sensitive="disease", rest="quasi")
    with pytest.raises(DataError, match=r"(?i)disease.*(twice|case)"):
        sf.publish(source, roles=roles, method=sf.Anatomy(l=3))


@pytest.mark.parametrize("lazy", [False, True])
def test_polars_columns_that_differ_in_case_are_refused(lazy: bool) -> None:
    frame = pl.DataFrame({"disease": ["a", "b"], "Disease": ["a", "b"]})
    with pytest.raises(DataError, match="case"):
        _open(frame.lazy() if lazy else frame)


def test_relation_columns_that_differ_in_case_are_refused() -> None:
    with pytest.raises(DataError, match="case"):
        _open(duckdb.sql("SELECT 'a' AS disease, 'a' AS Disease"))


def test_columns_of_pandas_that_are_not_text() -> None:
    assert list(_open(pd.DataFrame({1: [1], "x": [2]})).columns) == ["1", "x"]
    with pytest.raises(DataError, match="twice"):
        _open(pd.DataFrame([[1, 2]], columns=[1, "1"]))
