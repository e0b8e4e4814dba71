"""Whole numbers that never fall and rise by one at most, as pages of a Parquet file and back: a bit says each step.

Numbers of groups stand in this order. The page holds the first number and blocks of 128 differences, four runs of 32
with their own number of bits each (DELTA_BINARY_PACKED in the format's public definition). Here it is one bit in all
of them, so that every block has the same 21 bytes but for the bits, and what matters of the numbers, where they rise,
is read without computing a number.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .parquet_chunks import (
    COMPRESSION,
    DELTA_BINARY_PACKED,
    DIFFERENCES,
    KIND,
    PATH,
    STATISTICS,
    Chunk,
    all_there,
    by_library,
    chunk,
    packed_page,
    page_at,
)
from .parquet_footer import signed, varint

BLOCK, RUN = 128, 32  # differences of a block and of one of its runs
RUNS = BLOCK // RUN
HEAD = bytes([0] + [1] * RUNS)  # of a block: what is added to all differences, bits of those of each run
SIZE = len(HEAD) + BLOCK // 8


class Rising:
    """A column's chunks of whole numbers, written as differences; any others are left to the library."""

    def __init__(self, name: str) -> None:
        self._name = name

    def chunk(self, values: pa.Array) -> Chunk:
        """The row group's values."""
        steps = _steps(values)
        if steps is None:
            return by_library(self._name, values, encoding=DIFFERENCES)[0]
        rows = len(values)
        ends = by_library(self._name, values.take(pa.array([0, rows - 1])), encoding=DIFFERENCES)[0]
        shared = {field: ends.meta[field] for field in (KIND, PATH, COMPRESSION, STATISTICS)}
        body = all_there(rows) + _opening(rows) + signed(values[0].as_py()) + _blocks(steps)
        pages = [packed_page(body, len(body), rows, encoding=DELTA_BINARY_PACKED)]
        return chunk(shared, b"", DELTA_BINARY_PACKED, pages)


def _steps(values: pa.Array) -> NDArray[np.integer] | None:
    """By how much each number is above the one before; None where that is not 0 or 1."""
    if values.null_count or not len(values) or values.type not in (pa.int32(), pa.int64()):
        return None
    numbers = values.to_numpy()
    steps = numbers[1:] - numbers[:-1]
    if not 0 <= int(steps.min(initial=0)) <= int(steps.max(initial=0)) <= 1:
        return None
    return steps if int(numbers[-1]) - int(numbers[0]) == int(steps.sum()) else None  # from the largest to the least


def _opening(rows: int) -> bytes:
    """What stands before the first of so many numbers."""
    return varint(BLOCK) + varint(RUNS) + varint(rows)


def _blocks(steps: NDArray[np.integer]) -> bytes:
    whole = len(steps) // BLOCK
    blocks = np.empty((whole, SIZE), dtype=np.uint8)
    blocks[:, : len(HEAD)] = np.frombuffer(HEAD, dtype=np.uint8)
    bits = np.packbits(steps.astype(np.uint8), bitorder="little")
    full = whole * (BLOCK // 8)
    blocks[:, len(HEAD) :] = bits[:full].reshape(whole, BLOCK // 8)
    left = bits[full:].tobytes()
    return blocks.tobytes() + _last(left) if left else blocks.tobytes()


def _last(bits: bytes) -> bytes:
    """The block of less than 128 differences: runs that it needs are whole, others have no bits."""
    runs = -(-8 * len(bits) // RUN)
    return bytes([0] + [1] * runs + [0] * (RUNS - runs)) + bits.ljust(runs * (RUN // 8), b"\0")


def read_steps(data: bytes, rows: int) -> tuple[int, NDArray[np.uint8]] | None:
    """(first number, by how much each is above the one before) of a chunk; None where it is not one of so many
    numbers, written as above."""
    found = page_at(data, 0, rows, encoding=DELTA_BINARY_PACKED) if rows else None
    if found is None or found[2] != len(data) or found[0] != len(found[1]):
        return None
    body, opening = found[1], all_there(rows) + _opening(rows)
    if body[: len(opening)] != opening:
        return None
    return _read_numbers(body[len(opening) :], rows)


def _read_numbers(body: memoryview, rows: int) -> tuple[int, NDArray[np.uint8]] | None:
    at = 0
    while at < min(len(body), 10) and body[at] & 0x80:
        at += 1
    number = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(body[: at + 1]))
    first, given = number >> 1 ^ -(number & 1), body[at + 1 :]
    whole, left = divmod(rows - 1, BLOCK)
    blocks, last = given[: whole * SIZE], bytes(given[whole * SIZE :])
    bits = last[len(HEAD) :]
    if len(blocks) != whole * SIZE or last != (_last(bits[: -(-left // 8)]) if left else b""):
        return None
    table = np.frombuffer(blocks, dtype=np.uint8).reshape(whole, SIZE)
    if (table[:, : len(HEAD)] != np.frombuffer(HEAD, dtype=np.uint8)).any():
        return None
    packed = np.append(table[:, len(HEAD) :].ravel(), np.frombuffer(bits, dtype=np.uint8))
    return first, np.unpackbits(packed, count=rows - 1, bitorder="little")
