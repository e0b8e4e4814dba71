"""Whole numbers of waiting rows: narrow, never changed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sfumato.engines.narrow_columns import alike, narrowed

KINDS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
ENDS = [0, 1, -1, 127, 128, -128, -129, 255, 256, 32_767, 32_768, -32_768, -32_769, 2**31 - 1, 2**31, -(2**31), 2**63]


def _numbers(kind: pa.DataType, cells: list[int | None]) -> pa.RecordBatch | None:
    try:
        return pa.RecordBatch.from_arrays([pa.array(cells, kind)], names=["x"])
    except (OverflowError, pa.ArrowInvalid):
        return None


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_numbers_stay_what_they_are(kind: pa.DataType) -> None:
    batches = [_numbers(kind, [end, None, 0]) for end in ENDS] + [_numbers(kind, cells) for cells in ([], [None])]
    kept = [batch for batch in batches if batch is not None]
    found = [narrowed(batch) for batch in kept]
    assert [b["x"].to_pylist() for b in found] == [b["x"].to_pylist() for b in kept]
    assert all(b["x"].type.bit_width <= kind.bit_width for b in found)
    together = alike(found)
    assert len({b["x"].type for b in together}) == 1
    assert pa.concat_batches(together)["x"].cast(kind).to_pylist() == [v for b in kept for v in b["x"].to_pylist()]


def test_bytes_with_and_without_a_sign_need_two() -> None:
    batches = [narrowed(pa.RecordBatch.from_arrays([pa.array(x, pa.int64())], names=["x"])) for x in ([200], [-7], [5])]
    assert [str(batch["x"].type) for batch in batches] == ["uint8", "int8", "uint8"]
    assert [str(batch["x"].type) for batch in alike(batches)] == ["int16"] * 3
    assert [batch["x"].to_pylist() for batch in alike(batches)] == [[200], [-7], [5]]


def test_small_numbers_take_a_byte_and_others_stay() -> None:
    texts, truths = pa.array(["a", "b"]), pa.array([True, None])
    batch = pa.RecordBatch.from_arrays([pa.array([5, -7], pa.int64()), texts, truths], names=["n", "t", "b"])
    assert [str(field.type) for field in narrowed(batch).schema] == ["int8", "string", "bool"]
