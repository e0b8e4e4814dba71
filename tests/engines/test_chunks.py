"""Rows packed for the shuffle and unpacked behind it: every row, in the order of the keys, whoever was faster."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.spark import tasks
from sfumato.engines.spark.tasks import NUMBER, ORDER, PART, RANGE, bucket, by_part, packed, ranges_a_part

SCHEMA = pa.schema([("text", pa.string()), ("amount", pa.decimal128(12, 2)), (ORDER, pa.uint64())])


def rows(n: int, seed: int, *, keys: int = 2**64) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    text = [None if k % 7 == 0 else f"{seed} {k}" for k in range(n)]
    amount = pa.array(list(range(n)), pa.int32()).cast(pa.decimal128(12, 2))
    return pa.RecordBatch.from_arrays(
        [pa.array(text, pa.string()), amount, pa.array(rng.integers(0, keys, n, dtype=np.uint64))], schema=SCHEMA
    )


def shuffled(partitions: list[list[pa.RecordBatch]], parts: int, seed: int) -> dict[int, pa.Table]:
    """What Spark does between the two tasks; `seed` is the order in which chunks arrive."""
    table = pa.Table.from_batches(
        [chunk for number, batches in enumerate(partitions) for chunk in packed(batches, number, parts)]
    )
    came = list(range(table.num_rows))
    random.Random(seed).shuffle(came)
    table = table.take(came).sort_by([(PART, "ascending"), (RANGE, "ascending"), (NUMBER, "ascending")])
    found = by_part(iter(table.to_batches(max_chunksize=3)), SCHEMA)
    return {part: pa.Table.from_batches(mine) for part, mine in found}


@pytest.mark.parametrize("parts", [1, 3, 1000])
def test_every_row_comes_through_in_the_order_of_its_key(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "WINDOW_ROWS", 300)
    partitions = [[rows(200, 1), rows(0, 2), rows(170, 3)], [rows(0, 4)], [rows(1, 5)]]
    sent = pa.Table.from_batches([batch for batches in partitions for batch in batches]).sort_by(ORDER)
    found = shuffled(partitions, parts, seed=1)
    assert pa.concat_tables(found[part] for part in sorted(found)) == sent.combine_chunks()
    for part, mine in found.items():
        assert set(bucket(mine[ORDER].to_numpy(), parts)) == {part}


def test_rows_with_one_key_do_not_depend_on_who_was_faster() -> None:
    partitions = [[rows(50, seed, keys=3)] for seed in range(4)]
    first, *others = (shuffled(partitions, 2, seed) for seed in range(3))
    assert all(other == first for other in others)
    assert (
        first[0]["text"].to_pylist()[:2]
        == [
            text
            for text, key in zip(*(partitions[0][0].column(c).to_pylist() for c in ("text", ORDER)), strict=True)
            if not key
        ][:2]
    )


def test_wide_rows_leave_in_smaller_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "WINDOW_BYTES", 1000)
    assert len(list(packed([rows(20, seed) for seed in range(9)], 0, 2))) > 2


def test_ranges_are_narrow_where_parts_are_few() -> None:
    assert [ranges_a_part(parts) for parts in (1, 64, 512, 1024, 100_000)] == [16, 16, 2, 1, 1]
    keys = np.random.default_rng(1).integers(0, 2**64, 1000, dtype=np.uint64)
    assert np.array_equal(bucket(keys, 26 * 16) // 16, bucket(keys, 26))
