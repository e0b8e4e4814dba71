"""Lists of a file that are the bytes we write: told without decoding them, and never of a file that shows others."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato
from sfumato.engines.codes import Coder
from sfumato.engines.contract import FollowingColumn
from sfumato.engines.parquet_lists import ListChunks
from sfumato.engines.parquet_rows import write_rows
from sfumato.errors import VerificationError
from sfumato.model.public import Listed
from sfumato.publishing import applier
from sfumato.release import published_lists
from tables import people

ROWS = 5_000
LISTS = {
    "of one length": pa.array([["a", "b"], ["b", "c"], ["a", "c"]]),
    "of several": pa.array([[1], [1, 2], [1, 2, 3]], pa.list_(pa.int64())),
    "with missing": pa.array([["a", None], [None, "b"], ["a", "b"]]),
    "of truths": pa.array([[True], [False], [True, False]]),
}


def _shown(data: bytes, column: FollowingColumn, numbers: pa.Array) -> bool:
    with pq.ParquetFile(io.BytesIO(data)) as file:
        return ListChunks(column).shown_in(
            io.BytesIO(data), file.schema.column(0), file.metadata.row_group(0).column(0), numbers
        )


@pytest.mark.parametrize("kind", LISTS)
def test_only_the_lists_of_the_numbers(kind: str, tmp_path: Path) -> None:
    rng, path = np.random.default_rng(3), tmp_path / "data.parquet"
    numbers = pa.array(rng.integers(0, 3, ROWS), pa.int16())
    column = FollowingColumn(name="x", numbers="x_set", cells=LISTS[kind])
    batch = pa.RecordBatch.from_arrays([numbers], names=["x_set"])
    write_rows(path, batch.schema, [lambda: batch], [column], threads=1)
    data = path.read_bytes()
    assert _shown(data, column, numbers)
    others = numbers.to_numpy().copy()
    others[4_321] = (others[4_321] + 1) % 3
    assert not _shown(data, column, pa.array(others)), "one row of another list"
    assert not _shown(data, column, numbers.slice(1)), "a row less"
    assert not _shown(data, column, pa.concat_arrays([numbers, numbers.slice(0, 1)])), "a row more"
    renamed = FollowingColumn(name="x", numbers="x_set", cells=LISTS[kind].take(pa.array([1, 0, 2])))
    assert not _shown(data, renamed, numbers), "other lists under the same numbers"


@pytest.mark.parametrize("kind", LISTS)
def test_bent_bytes_are_never_taken_for_the_lists(kind: str, tmp_path: Path) -> None:
    """Whatever a stranger writes into the chunk: no error, and True only where a reader finds the same lists."""
    rng, path = np.random.default_rng(4), tmp_path / "data.parquet"
    numbers = pa.array(rng.integers(0, 3, ROWS), pa.int16())
    column = FollowingColumn(name="x", numbers="x_set", cells=LISTS[kind])
    batch = pa.RecordBatch.from_arrays([numbers], names=["x_set"])
    write_rows(path, batch.schema, [lambda: batch], [column], threads=1)
    data = path.read_bytes()
    stated = pq.read_metadata(path).row_group(0).column(0)
    first = stated.dictionary_page_offset or stated.data_page_offset
    expected = LISTS[kind].take(numbers)
    for at in {*range(first, first + 60), *rng.integers(first, first + stated.total_compressed_size, 60).tolist()}:
        bent = bytearray(data)
        bent[at] ^= int(rng.integers(1, 256))
        if _shown(bytes(bent), column, numbers):
            found = pq.read_table(io.BytesIO(bytes(bent)), columns=["x"])["x"].combine_chunks()
            assert found.equals(expected)


def test_files_of_others_are_left_to_the_reader() -> None:
    sink = io.BytesIO()
    numbers = pa.array([0, 1, 2, 1], pa.int16())
    column = FollowingColumn(name="x", numbers="x_set", cells=LISTS["of one length"])
    pq.write_table(pa.table({"x": column.cells.take(numbers), "x_set": numbers}), sink)
    assert not _shown(sink.getvalue(), column, numbers)


@pytest.mark.parametrize(
    "method", [sfumato.SubsetResponse(rho1="1/3", rho2="1/2"), sfumato.SmallDomain(rho1="1/3", rho2="1/2")]
)
def test_our_releases_are_verified_so(method: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    roles = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")
    release = sfumato.publish(people(), tmp_path / "release", roles=roles, method=method, seed=3)

    def decoded(*_: object) -> bool:
        raise AssertionError("lists were decoded")

    monkeypatch.setattr(published_lists.ExpectedLists, "shown", decoded)
    assert release.opened.set_lists()
    published_lists.check_sets(release.opened)


@pytest.mark.parametrize(
    "method", [sfumato.SubsetResponse(rho1="1/3", rho2="1/2"), sfumato.SmallDomain(rho1="1/3", rho2="1/2")]
)
def test_publishing_reads_lists_as_others_do(method: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that shows another list than the one of a row's number: nothing is published."""

    def others(sets: Listed, coder: Coder) -> dict[str, pa.ListArray]:
        return {name: lists.take(pa.array(np.roll(range(len(lists)), 1))) for name, lists in real(sets, coder).items()}

    real = applier.list_columns
    monkeypatch.setattr(applier, "list_columns", others)
    roles = sfumato.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")
    with pytest.raises(VerificationError, match="another list of values"):
        sfumato.publish(people(), tmp_path / "release", roles=roles, method=method, seed=3)
    assert not list(tmp_path.iterdir())
