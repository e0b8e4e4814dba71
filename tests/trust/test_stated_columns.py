"""The columns of every file are the stated ones, each once and of its type: else nobody opens the release."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import METHODS, sfumato
from forging import forged, verified
from sfumato.engines.codes import arrow_type
from sfumato.errors import VerificationError
from sfumato.model.types import Kind, type_named
from sfumato.release.files import written_family
from sfumato.release.opened import open_folder
from tables import MARK, people

ROLES = ("--sa", "disease", "--qi", "age,sex", "--keep", "number", "--drop", f"{MARK}_name")
FILES = {"data": "data.parquet", "side": "sensitive.parquet", "sets": "sets.parquet"}
TYPES = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
    *("FLOAT", "DOUBLE", "DECIMAL(9,2)", "VARCHAR", "BLOB", "DATE", "TIME"),
    *("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"),
)
RELEASES = ["subset-response", "anatomy", "target-distribution of numbers"]  # one of each kind of files
Change = Callable[[pa.Table, str], pa.Table]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One release of each kind of files."""
    here = tmp_path_factory.mktemp("stated")
    table = people()
    pq.write_table(table, here / "t.parquet")
    numbers = table["disease"].combine_chunks().dictionary_encode().indices.cast(pa.int16())
    pq.write_table(table.set_column(table.column_names.index("disease"), "disease", numbers), here / "n.parquet")
    made = {}
    for name in RELEASES:
        method, source = name.split()[0], "n.parquet" if name.endswith("numbers") else "t.parquet"
        done = sfumato("publish", here / source, here / name, *ROLES, "--method", method, *METHODS[method], "--seed", 3)
        assert done.code == 0, done.text
        made[name] = here / name
    return made


def twice(found: pa.Table, name: str) -> pa.Table:
    return found.append_column(name, found[name])


def twice_in_capitals(found: pa.Table, name: str) -> pa.Table:
    return found.append_column(name.upper(), found[name])


def in_capitals(found: pa.Table, name: str) -> pa.Table:
    return found.rename_columns([n.upper() if n == name else n for n in found.column_names])


def as_struct(found: pa.Table, name: str) -> pa.Table:
    cells = pa.StructArray.from_arrays([found[name].combine_chunks()], ["x"])
    return found.set_column(found.column_names.index(name), name, cells)


def as_list(found: pa.Table, name: str) -> pa.Table:
    start = pa.array(range(len(found) + 1), pa.int32())
    cells = pa.ListArray.from_arrays(start, found[name].combine_chunks())
    return found.set_column(found.column_names.index(name), name, cells)


def of_another_type(found: pa.Table, name: str) -> pa.Table:
    other = pa.binary() if pa.types.is_string(found.schema.field(name).type) else pa.string()
    cells = found[name].cast(pa.string()).cast(other)
    return found.set_column(found.column_names.index(name), name, cells)


CHANGES = (twice, twice_in_capitals, in_capitals, as_struct, as_list, of_another_type)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("release", RELEASES)
def test_every_column_of_every_file(release: str, change: Change, releases: dict[str, Path], tmp_path: Path) -> None:
    """All are refused without a look at a row."""
    for file, path in FILES.items():
        if not (releases[release] / path).exists():
            continue
        for at, name in enumerate(pq.read_schema(releases[release] / path).names):
            copy = forged(releases[release], tmp_path / f"{file}{at}", **{file: lambda t, n=name: change(t, n)})
            with pytest.raises(VerificationError):
                verified(copy)


def test_ends_of_blocks_of_another_type(releases: dict[str, Path], tmp_path: Path) -> None:
    for kind in (pa.float64(), pa.decimal128(20, 0), pa.string()):
        for name in ("low", "high"):
            copy = forged(
                releases["target-distribution of numbers"],
                tmp_path / f"{name} {kind}",
                side=lambda t, n=name, k=kind: t.set_column(t.column_names.index(n), n, t[n].cast(k)),
            )
            assert sfumato("verify", copy, "--test").code == 4


@pytest.mark.parametrize("release", ["subset-response", "anatomy"])
def test_a_file_that_the_method_does_not_write(release: str, releases: dict[str, Path], tmp_path: Path) -> None:
    """Groups or sets beside rows that have none."""
    for file in ("sensitive.parquet", "sets.parquet"):
        if (releases[release] / file).exists():
            continue
        copy = tmp_path / file
        forged(releases[release], copy)
        pq.write_table(pa.table({"disease": ["flu"]}), copy / file, store_schema=False)
        stated = {"sha256": "0" * 64, "rows": 1}
        again = forged(
            copy, tmp_path / f"{file} stated", manifest=lambda s, f=file, x=stated: s["files"].update({f: x})
        )
        with pytest.raises(VerificationError, match="no file of a release of this method"):
            open_folder(again, check=False)


def test_types_are_called_as_they_come_back_from_a_file(tmp_path: Path) -> None:
    """Else a release with such a column could not be opened."""
    kinds = {name: type_named(name) for name in TYPES}
    assert {kind.kind for kind in kinds.values()} == set(Kind)
    columns = ", ".join(f'CAST(NULL AS {name}) AS "{name}"' for name in kinds)
    rows = duckdb.sql(f"SELECT {columns} LIMIT 0").to_arrow_table()
    pq.write_table(rows, tmp_path / "x.parquet", store_schema=False)
    back = pq.read_schema(tmp_path / "x.parquet")
    stated = {name: written_family(arrow_type(kind)) for name, kind in kinds.items()}
    assert {f.name: written_family(f.type) for f in back} == stated
    assert len(set(stated.values())) == len(kinds) - 3  # units of timestamps are one family
