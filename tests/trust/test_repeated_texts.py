"""A release of some kilobytes whose rows repeat one long text: nobody who reads it holds all of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from forging import describe
from sfumato.engines.batches import open_parquet, written_out
from sfumato.errors import SfumatoError, VerificationError
from sfumato.exporting import export
from sfumato.methods import REGISTRY
from sfumato.query import open_release
from sfumato.release.verify import check_order, check_sets, check_texts, verify
from sfumato.web.catalogue import catalogue, rows_as_csv

ROWS, LONG = 3_000, 100_000
MOST_BYTES = 100 << 20  # the texts written out are three times that
COUNTING = list[pa.MemoryPool]()  # what is held of a pool is given back to it: none may go


def texts(count: int) -> pa.DictionaryArray:
    """Two long texts, in turns that chance decides."""
    which = pa.array(np.random.default_rng(1).integers(0, 2, count), pa.int32())
    return pa.DictionaryArray.from_arrays(which, ["x" * LONG + "y", "x" * LONG + "z"])


@pytest.fixture(scope="module", params=["subset-response", "anatomy"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made of short texts, which somebody made long afterwards; digests are not looked at."""
    place, rng, method = tmp_path_factory.mktemp("r") / "r", np.random.default_rng(1), REGISTRY[request.param]
    disease, note = rng.integers(0, 8, ROWS).astype(str), rng.choice(["y", "z"], ROWS)
    table = pa.table({"disease": disease, "sex": rng.choice(["f", "m"], ROWS), "note": note})
    sf.publish(
        table,
        place,
        roles=sf.Roles(sensitive="disease", quasi=["sex"], insensitive=["note"]),
        method=method.spec(**method.example.spec),
        accept_unprotected=True,
        seed=1,
    )
    data = place / "data.parquet"
    rows = pq.read_table(data)
    rows = rows.set_column(rows.schema.get_field_index("note"), "note", texts(rows.num_rows))
    pq.write_table(rows, data, store_schema=False, compression="zstd", dictionary_pagesize_limit=1 << 30)
    assert data.stat().st_size < 1 << 20
    describe(place)
    return place


@contextmanager
def little_memory() -> Iterator[None]:
    """What the block has Arrow hold at a time is little."""
    usual = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(usual)
    COUNTING.append(counting)
    pa.set_memory_pool(counting)
    try:
        yield
    finally:
        pa.set_memory_pool(usual)
    assert counting.max_memory() < MOST_BYTES


def _served(folder: Path, _: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sfumato.web.catalogue.open_release", lambda place: open_release(place, check=False))
        (served,) = catalogue([folder]).values()
    assert all(len(piece) < MOST_BYTES for piece in islice(rows_as_csv(served), 3))


WAYS: dict[str, Callable[[Path, Path], Any]] = {
    "verify": lambda folder, _: list(verify(open_release(folder, check=False).opened, test=True)),
    "order": lambda folder, _: check_order(open_release(folder, check=False).opened),
    "texts": lambda folder, _: check_texts(open_release(folder, check=False).opened),
    "export": lambda folder, out: export(open_release(folder, check=False).opened, str(out / "out.csv")),
    "serve": _served,
}


@pytest.mark.parametrize("way", list(WAYS))
def test_nobody_holds_all_texts_at_a_time(way: str, release: Path, tmp_path: Path) -> None:
    with little_memory(), suppress(SfumatoError):
        WAYS[way](release, tmp_path)


def test_long_texts_of_sets_are_not_written_out(tmp_path: Path) -> None:
    """A sets.parquet of some kilobytes whose values are one long text is refused without holding them all."""
    place, rng = tmp_path / "r", np.random.default_rng(1)
    table = pa.table({"disease": rng.integers(0, 8, ROWS).astype(str)})
    method = sf.SubsetResponse(rho1="1/5", rho2="1/3")
    sf.publish(table, place, roles=sf.Roles(sensitive="disease"), method=method, accept_unprotected=True, seed=1)
    sets = pq.read_table(place / "sets.parquet")
    long = pa.DictionaryArray.from_arrays(pa.array([0] * sets.num_rows, pa.int32()), ["x" * (1 << 23)])
    sets = sets.set_column(sets.schema.get_field_index("value"), "value", long)
    assert sets.num_rows * (1 << 23) > MOST_BYTES
    pq.write_table(sets, place / "sets.parquet", store_schema=False, dictionary_pagesize_limit=1 << 30)
    describe(place)
    with little_memory(), pytest.raises(VerificationError, match="does not hold the sets"):
        check_sets(open_release(place, check=False).opened)


@pytest.mark.parametrize("room", [1, 700, 10**9])
def test_texts_come_as_they_are(room: int, tmp_path: Path) -> None:
    """Missing ones, and a column in another file whose texts have no dictionary there; the checker of the checker."""
    rng = np.random.default_rng(2)
    words = pa.array([None if k == 3 else "ab" * k for k in rng.integers(0, 9, 500)])
    table = pa.table({"n": range(500), "a": words, "b": words.cast(pa.binary()), "l": [["x"]] * 500})
    pq.write_table(table, tmp_path / "0", use_dictionary=["a", "b"], row_group_size=90, store_schema=False)
    pq.write_table(table, tmp_path / "1", use_dictionary=False, store_schema=False)
    files = [open_parquet(tmp_path / "0"), open_parquet(tmp_path / "1")]
    assert files[0].schema_arrow == files[1].schema_arrow
    for file in files:
        pieces = [piece for batch in file.iter_batches(64) for piece in written_out(batch, room)]
        assert pa.Table.from_batches(pieces).to_pylist() == table.to_pylist()
        assert room > 1 or all(piece.num_rows == 1 or not any(piece["a"].to_pylist()) for piece in pieces)
