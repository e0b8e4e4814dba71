"""Long texts: fewer rows at a time, by what the rows hold and not by how they came; others as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines import batches
from sfumato.engines.batches import exactly, open_parquet, text_bytes
from sfumato.methods import REGISTRY
from sfumato.release import verify

ROWS, MOST = 4_000, 100_000


def notes(lengths: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(len(lengths))), "t": pa.array(["x" * length for length in lengths])})


def pieces(batch: pa.RecordBatch, size: int) -> list[pa.RecordBatch]:
    return [batch.slice(first, size) for first in range(0, batch.num_rows, size)]


@pytest.mark.parametrize("came", [1, 3, 7, 100])
def test_batches_are_cut_by_their_text_however_they_came(came: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "TEXT_BYTES", 100)
    lengths = [*[10] * 20, 95, 5, 1, *[60] * 5, 500, *[0] * 30]
    found = list(exactly(pieces(notes(lengths), came), 16))
    assert [n for batch in found for n in batch["n"].to_pylist()] == list(range(len(lengths)))
    assert [batch.num_rows for batch in found] == [10, 10, 2, 2, 1, 1, 1, 1, 1, 16, 14]
    assert [text_bytes(batch).sum() for batch in found] == [100, 100, 100, 61, 60, 60, 60, 60, 500, 0, 0]


def test_bytes_of_text_are_counted_row_by_row() -> None:
    kinds = {"a": pa.string(), "b": pa.large_string(), "c": pa.binary(), "d": pa.int32()}
    cells = {name: pa.array([None, "12", "345", "6789"], pa.string()).cast(kind) for name, kind in kinds.items()}
    whole = pa.record_batch(cells)
    assert text_bytes(whole).tolist() == [0, 6, 9, 12]
    assert text_bytes(whole.slice(1, 2)).tolist() == [6, 9]
    assert text_bytes(whole.slice(4)).tolist() == []


@pytest.fixture
def long_texts(tmp_path: Path) -> dict[str, object]:
    """One table as every kind of source."""
    rng = np.random.default_rng(1)
    made = pa.table(
        {
            "disease": rng.choice(list("abcdef"), ROWS),
            "age": rng.integers(0, 50, ROWS),
            "note": [chr(97 + int(n) % 26) * int(n) for n in rng.integers(1, 400, ROWS)],
        }
    )
    pq.write_table(made, tmp_path / "t.parquet")
    pc.write_csv(made, tmp_path / "t.csv")
    return {"table": made, "parquet": tmp_path / "t.parquet", "csv": tmp_path / "t.csv"}


def test_rows_of_a_seed_do_not_depend_on_how_they_came(
    long_texts: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of three kinds, and rows in memory: the same bytes."""
    monkeypatch.setattr(batches, "TEXT_BYTES", MOST)
    roles, spec = sf.Roles(sensitive="disease", quasi=["age"], insensitive=["note"]), REGISTRY["uniform"].spec
    found = set()
    for name, source in long_texts.items():
        out = tmp_path / name
        sf.publish(source, out, roles=roles, method=spec(rho1="1/3", rho2="1/2"), seed=1)
        found.add((out / "data.parquet").read_bytes())
    assert len(found) == 1
    groups = pq.read_metadata(out / "data.parquet")
    assert round(ROWS * 200 / MOST) <= groups.num_row_groups <= round(ROWS * 200 / MOST) + 1


@pytest.mark.parametrize("sorted_", [False, True])
def test_the_order_of_long_texts_is_looked_at_by_their_beginnings(sorted_: bool, tmp_path: Path) -> None:
    texts = [f"{n:04d}" + "x" * 300 for n in range(ROWS)]
    order = np.arange(ROWS) if sorted_ else np.random.default_rng(2).permutation(ROWS)
    pq.write_table(pa.table({"t": pa.array(texts).take(pa.array(order))}), tmp_path / "t.parquet", row_group_size=500)
    first, last = verify._ends(open_parquet(tmp_path / "t.parquet"), ["t"], 1_500)["t"]
    assert len(first) == len(last) == 1_500
    assert max(len(text) for text in first.to_pylist()) == verify.LONG_TEXT
    assert verify.in_some_order(pa.concat_arrays([first, last]), verify.BLOCKS, 1e-6) == sorted_
