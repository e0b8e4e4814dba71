"""Inputs that nobody means to give: refused in one line, before anything is waited for, rounded or spoilt."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import METHODS, sfumato
from sfumato.audit.score import audit, check_truth
from sfumato.errors import DataError, ReleaseError, SfumatoError
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build
from sfumato.query import open_release
from sfumato.release.verify import verify
from tables import ROLES, people

UNIFORM = ("--method", "uniform", *METHODS["uniform"])
NUMBERED = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], rest="drop")


def _with(name: str, values: pa.Array) -> pa.Table:
    table = people()
    return table.set_column(table.column_names.index(name), name, values)


def _spec(method: str) -> object:
    return build(method, REGISTRY[method].example.options)


# --- columns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["age", "disease"])
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (pa.decimal256(60, 0), "parquet"),
        (pa.decimal256(60, 0), "arrow"),
        (pa.decimal256(60, 0), "memory"),
        (pa.decimal128(5, -2), "arrow"),  # Parquet has no such numbers
        (pa.decimal128(5, -2), "memory"),
    ],
)
def test_decimals_are_not_rounded_in_silence(column: str, kind: pa.DataType, way: str, tmp_path: Path) -> None:
    """Fifty digits would become one floating-point number, and eight people's values one."""
    step = 1 if kind.scale == 0 else 100
    values = [Decimal(step * (10**50 * (step == 1) + i % 8)) for i in range(people().num_rows)]
    table = _with(column, pa.array(values, kind))
    source: object = table
    if way == "parquet":
        source = tmp_path / "t.parquet"
        pq.write_table(table, source)
    elif way == "arrow":
        source = tmp_path / "t.arrow"
        pyarrow.feather.write_feather(table, source, compression="uncompressed")
    with pytest.raises(DataError, match="digits"):
        sf.publish(source, tmp_path / "out", roles=NUMBERED, method=_spec("uniform"))


ODD = {
    "NaN": pa.array([float(i % 40) if i % 3 else float("nan") for i in range(people().num_rows)]),
    "bytes": pa.array([bytes([i % 40]) for i in range(people().num_rows)]),
    "far dates": pa.array([3_000_000 + i % 40 for i in range(people().num_rows)], pa.int32()).view(pa.date32()),
}


@pytest.mark.parametrize(("method", "kind"), [(method, [*ODD][i % len(ODD)]) for i, method in enumerate(REGISTRY)])
def test_what_can_be_published_can_be_checked_and_audited(method: str, kind: str, tmp_path: Path) -> None:
    """Columns that have no exact form in JSON leave as they are, or are refused; an audit says that it skips them."""
    pq.write_table(_with("age", ODD[kind]), tmp_path / "t.parquet")
    try:
        sf.publish(tmp_path / "t.parquet", tmp_path / "out", roles=NUMBERED, method=_spec(method), seed=1)
    except DataError:
        assert method in {"randomized-response", "l-diversity"}  # they change it, or put it into classes
        return
    release = open_release(tmp_path / "out").opened
    assert list(verify(release, test=True))
    if method == "anatomy":  # the audit takes a second; the others go the same way
        assert audit(release, tmp_path / "t.parquet", targets=50)["not_looked_at"] == ["age"]
    assert any("not looked at" in line for line in check_truth(release, tmp_path / "t.parquet"))


@pytest.mark.parametrize("method", REGISTRY)
def test_tiny_tables_and_few_values(method: str, tmp_path: Path) -> None:
    """A release that verifies, or an error of ours; never anything else."""
    for rows in (0, 1, 2):
        out, values = tmp_path / str(rows), pa.array([f"v{i}" for i in range(rows)], pa.string())
        table = people().slice(0, rows).set_column(4, "disease", values)
        try:
            sf.publish(table, out, roles=NUMBERED, method=_spec(method), accept_unprotected=True, seed=1)
        except SfumatoError:
            assert not out.exists()
            continue
        assert rows
        assert list(verify(open_release(out).opened, test=True))


def test_columns_of_two_roles_and_names_of_two_forms() -> None:
    """Accents that look alike are two columns, and each has its own role; a column has one."""
    composed, split = "caf\u00e9", "cafe\u0301"
    rng = np.random.default_rng(0)
    table = pa.table({composed: rng.integers(0, 8, 400), split: rng.integers(0, 8, 400), "x": np.arange(400) % 3})
    with pytest.raises(SfumatoError):
        sf.publish(table, roles=sf.Roles(sensitive=composed, quasi=["x", composed]), method=_spec("uniform"))
    with pytest.raises(SfumatoError):  # the other one has no role
        sf.publish(table, roles=sf.Roles(sensitive=composed, quasi=["x"]), method=_spec("uniform"))
    release = sf.publish(table, roles=sf.Roles(sensitive=composed, quasi=["x"], rest="drop"), method=_spec("uniform"))
    assert [column.name for column in release.manifest.columns] == [composed, "x"]


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.arrow"])
def test_a_pipe_is_not_waited_for(name: str, tmp_path: Path) -> None:
    """It has no writer: whoever opened it would wait for ever."""
    os.mkfifo(tmp_path / name)
    done = sfumato("publish", tmp_path / name, tmp_path / "out", *ROLES, *UNIFORM)
    assert (done.code, done.err) == (2, f'error: "{name}" is no plain file; copy what it gives into one\n')


def test_a_pipe_among_the_files_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    pq.write_table(people(), tmp_path / "parts" / "a.parquet")
    os.mkfifo(tmp_path / "parts" / "b.parquet")
    for source in (tmp_path / "parts", tmp_path / "parts" / "*.parquet"):
        done = sfumato("publish", source, tmp_path / "out", *ROLES, *UNIFORM)
        assert (done.code, "no plain file" in done.err) == (2, True)


@pytest.mark.parametrize("name", [os.fsdecode(b"t\xff.parquet"), "loop.parquet", "gone.parquet", "zero\0.parquet"])
def test_sources_that_cannot_be_named_or_found(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop.parquet").symlink_to("loop.parquet")
    (tmp_path / "gone.parquet").symlink_to("nowhere.parquet")
    if "\xff" in name or "\udcff" in name:
        pq.write_table(people(), tmp_path / "t.parquet")
        (tmp_path / "t.parquet").rename(tmp_path / name)
    done = sfumato("publish", tmp_path / name, tmp_path / "out", *ROLES, *UNIFORM)
    assert done.code == 2, done.text
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", [os.fsdecode(b"out\xff"), "x" * 300, "zero\0byte", "t.parquet/out"])
def test_places_that_cannot_be_named(name: str, tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "t.parquet")
    done = sfumato("publish", tmp_path / "t.parquet", tmp_path / name, *ROLES, *UNIFORM)
    assert done.code == 2, done.text
    assert len(done.err.splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]


def test_a_release_inside_a_release_would_spoil_it(tmp_path: Path) -> None:
    release = sf.publish(people(), tmp_path / "out", roles=NUMBERED, method=_spec("uniform"))
    (tmp_path / "link").symlink_to(tmp_path / "out")
    for place in (tmp_path / "out" / "inner", tmp_path / "link" / "inner"):
        with pytest.raises(ReleaseError, match="inside the release"):
            sf.publish(people(), place, roles=NUMBERED, method=_spec("uniform"))
        with pytest.raises(ReleaseError, match="inside the release"):
            release.save(place)
    assert list(verify(open_release(tmp_path / "out").opened))


def test_downloads_write_dates_beyond_calendars() -> None:
    """The rows of such a release leave `sfumato serve` as CSV too."""
    from sfumato.web.catalogue import _cells

    far = ODD["far dates"].slice(0, 2)
    assert _cells(far) == far.cast(pa.string()).to_pylist() != [None, None]
