"""Pieces packed without a library are what a library unpacks."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.parquet_footer import varint
from sfumato.engines.snappy_pieces import FARTHEST, SnappyPieces, literal, repeated

from ..constants import SEED


def unpacked(data: bytes, size: int) -> bytes:
    found: bytes = pa.Codec("snappy").decompress(data, size, asbytes=True)
    return found


@pytest.mark.parametrize(("kinds", "length"), [(1, 8), (3, 64), (200, 15), (50, 16)])
@pytest.mark.parametrize("rows", [0, 1, 2, 700, 70_000])
def test_a_library_unpacks_the_pieces(kinds: int, length: int, rows: int) -> None:
    rng = np.random.default_rng(SEED)
    table = rng.integers(0, 256, (kinds, length)).astype(np.uint8)
    numbers = rng.integers(0, kinds, rows)
    numbers[1_000:60_000][numbers[1_000:60_000] == kinds - 1] = 0  # the last comes again when it is too far away
    head, tail = bytes(range(256)) * 300, b"end"
    data, size = SnappyPieces(table).packed((literal(head), len(head)), numbers, tail)
    assert unpacked(data, size) == head + table[numbers].tobytes() + tail
    if rows == 70_000:
        assert len(data) < len(head) + 3.2 * rows


@pytest.mark.parametrize("unit", [b"a", b"abc", b"0123456789" * 10])
@pytest.mark.parametrize("size", [1, 3, 64, 65, 66, 1_000, 300_000])
def test_a_library_unpacks_what_is_repeated(unit: bytes, size: int) -> None:
    assert unpacked(varint(size) + repeated(unit, size), size) == (unit * size)[:size]


@pytest.mark.parametrize("size", [0, 1, 59, 60, 61, 256, 257, 65_536, 65_537, 1 << 24])
def test_a_library_unpacks_literals_of_every_length(size: int) -> None:
    data = bytes(size)
    assert unpacked(varint(size) + literal(data), size) == data


def test_long_or_many_pieces_are_left_to_a_library() -> None:
    assert SnappyPieces.suit(np.zeros((200, 15), dtype=np.uint8))
    for shape in ((200, 7), (10, 65), (FARTHEST // (6 * 64) + 1, 64)):
        assert not SnappyPieces.suit(np.zeros(shape, dtype=np.uint8))
