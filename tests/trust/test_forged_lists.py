"""Lists that sfumato packs itself, written again by others, bent, or packed wrongly: the same content or one line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from forging import describe, forged, verified
from sfumato.errors import ReleaseError, VerificationError

from ..constants import SEED

ROWS = 900
RHOS = {"rho1": "1/13", "rho2": "1/6"}
METHODS = {"table-wide": sf.SubsetResponse(**RHOS), "sub-tables": sf.SmallDomain(**RHOS, report="set")}
OTHERWISE: dict[str, dict[str, Any]] = {
    "not packed": {"compression": "none"},
    "gzip": {"compression": "gzip"},
    "lz4": {"compression": "lz4"},
    "snappy": {"compression": "snappy"},
    "brotli, no dictionary": {"compression": "brotli", "use_dictionary": False},
    "other pages": {"data_page_version": "2.0", "data_page_size": 500},
    "row groups of seven rows": {"row_group_size": 7},
}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """40 values, so that the lists are those that sfumato packs."""
    folder, rng = tmp_path_factory.mktemp("lists"), np.random.default_rng(SEED)
    kind = rng.permutation(np.arange(ROWS) % 40)
    table = pa.table({"kind": [f"k{i:02}" for i in kind], "age": rng.integers(20, 60, ROWS)})
    for name, method in METHODS.items():
        roles = sf.Roles(sensitive="kind", quasi=("age",))
        sf.publish(table, folder / name, roles=roles, method=method, seed=SEED)
        assert _lists(folder / name / "data.parquet").compression == "SNAPPY"
    return {name: folder / name for name in METHODS}


def _lists(path: Path) -> Any:
    """What the file says of its only chunk of lists."""
    group = pq.read_metadata(path).row_group(0)
    return next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "kind.list.element")


def _again(release: Path, target: Path, change: Callable[[pa.Table], pa.Table], how: dict[str, Any]) -> Path:
    """A copy whose rows a library has written, digests made anew."""
    forged(release, target)
    table = change(pq.read_table(release / "data.parquet"))
    pq.write_table(table, target / "data.parquet", store_schema=False, **how)
    return forged(target, target.with_name(target.name + " again"))


def _exchanged(table: pa.Table) -> pa.Table:
    """The lists of two rows that differ, exchanged; their numbers stay."""
    cells = table["kind"].to_pylist()
    at = next(i for i, cell in enumerate(cells) if cell != cells[0])
    cells[0], cells[at] = cells[at], cells[0]
    return table.set_column(table.column_names.index("kind"), "kind", pa.array(cells, table["kind"].type))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("how", OTHERWISE)
def test_other_writers_show_the_same_lists_or_are_refused(
    method: str, how: str, releases: dict[str, Path], tmp_path: Path
) -> None:
    assert verified(_again(releases[method], tmp_path / "same", lambda table: table, OTHERWISE[how]))
    with pytest.raises(VerificationError, match="another list of values than the one of its number"):
        verified(_again(releases[method], tmp_path / "other", _exchanged, OTHERWISE[how]))


def _bent(release: Path, target: Path, bend: Callable[[bytearray], None]) -> Path:
    """A copy whose data.parquet is bent, byte by byte; digests are made anew."""
    forged(release, target)
    data = bytearray((release / "data.parquet").read_bytes())
    bend(data)
    (target / "data.parquet").write_bytes(data)
    stated = json.loads((target / "release.json").read_text(encoding="utf-8"))
    stated["files"]["data.parquet"]["sha256"] = hashlib.sha256(data).hexdigest()
    (target / "release.json").write_text(json.dumps(stated), encoding="utf-8")
    describe(target)
    return target


def _copies(distance: bytes) -> Callable[[bytearray, int, int], None]:
    """Every copy of a piece from so far back: before the beginning, or from itself."""

    def bend(data: bytearray, first: int, last: int) -> None:
        end = last - 3 - (last - first) % 3
        for at in range(end - 600, end, 3):
            data[at + 1 : at + 3] = distance

    return bend


def _exchanged_words(data: bytearray, first: int, last: int) -> None:
    """Two values of the dictionary change places."""
    one, two = data.index(b"k03", 0, first), data.index(b"k04", 0, first)
    data[one : one + 3], data[two : two + 3] = data[two : two + 3], data[one : one + 3]


BENDS: dict[str, Callable[[bytearray, int, int], None]] = {
    "copies from before the page": _copies(b"\xff\xff"),
    "copies of what is not there yet": _copies(b"\x00\x00"),
    "copies of another row": _copies(b"\x0c\x00"),
    "nothing but zeros": lambda data, first, last: data.__setitem__(slice(first + 60, last), bytes(last - first - 60)),
    "a head of ones": lambda data, first, last: data.__setitem__(slice(first, first + 12), b"\xff" * 12),
    "a size of two gigabytes": lambda data, first, last: data.__setitem__(
        slice(first + 4, first + 9), b"\xfe\xff\xff\xff\x0f"
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bend", BENDS)
def test_pages_that_are_packed_wrongly_are_refused(
    method: str, bend: str, releases: dict[str, Path], tmp_path: Path
) -> None:
    stated = _lists(releases[method] / "data.parquet")
    first, last = stated.data_page_offset, stated.dictionary_page_offset + stated.total_compressed_size
    forgery = _bent(releases[method], tmp_path / "bent", lambda data: BENDS[bend](data, first, last))
    with pytest.raises((VerificationError, ReleaseError)) as refused:
        verified(forgery)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("method", METHODS)
def test_values_that_change_places_in_the_dictionary_are_refused(
    method: str, releases: dict[str, Path], tmp_path: Path
) -> None:
    """Every list reads well, and shows one value in place of another."""
    plain = _again(releases[method], tmp_path / "plain", lambda table: table, {"compression": "none"})
    first = _lists(plain / "data.parquet").data_page_offset
    with pytest.raises(VerificationError, match="another list"):
        verified(_bent(plain, tmp_path / "bent", lambda data: _exchanged_words(data, first, first)))
