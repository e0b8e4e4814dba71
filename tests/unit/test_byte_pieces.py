"""Pieces of bytes, copied one behind the other by their numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.byte_pieces import RARE, Pieces

ROWS = 4000


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.dtype("<u4")])
@pytest.mark.parametrize("usual", [0, 1, 2, 3, 4, 5, 8, 15])
@pytest.mark.parametrize("odd", [0, 1, ROWS // RARE, ROWS // RARE + 1, ROWS - 1, ROWS])
def test_pieces_are_copied_as_they_are(kind: np.dtype[np.unsignedinteger], usual: int, odd: int) -> None:
    """So many rows of a piece with another length than most: inserted where they are few, else by the library."""
    rng = np.random.default_rng([usual, odd])
    length = np.array([usual, usual, usual, usual + 1, usual + 7, 0])
    whole = rng.integers(0, 256, size=int(length.sum())).astype(kind)
    each = np.split(whole, np.cumsum(length)[:-1])
    z = rng.integers(0, 3, size=ROWS)
    z[rng.permutation(ROWS)[:odd]] = rng.integers(3, 6, size=odd)
    for order in (z, np.sort(z), np.sort(z)[::-1].copy()):
        found = Pieces(whole, length).copied(pa.array(order, pa.int32()))
        assert found.tobytes() == b"".join(each[i].tobytes() for i in order)


def test_pieces_of_one_length_are_a_table() -> None:
    pieces = Pieces(np.arange(12, dtype=np.uint8), np.array([3, 3, 3, 3]))
    assert pieces.table is not None
    assert pieces.copied(pa.array([3, 0], pa.int16())).tolist() == [9, 10, 11, 0, 1, 2]
    assert Pieces(np.arange(3, dtype=np.uint8), np.array([1, 2])).table is None


def test_no_piece_is_no_byte() -> None:
    for length in ([2, 2], [1, 3]):
        assert len(Pieces(np.arange(4, dtype=np.uint8), np.array(length)).copied(pa.array([], pa.int32()))) == 0
