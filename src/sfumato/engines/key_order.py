"""The order that random keys give to rows."""

from __future__ import annotations

from threading import local

import numpy as np
from numpy.typing import NDArray

Order = NDArray[np.uint32 | np.uint64]
KEYS = 1 << 64
COARSE = 12  # highest bits of a key that tell its range


class _Room(local):
    """Memory of a thread that is used again: taking it anew costs as much as sorting."""

    numbers = room = np.arange(0, dtype=np.uint64)


_own = _Room()


def key_order(keys: NDArray[np.uint64]) -> Order:
    """The numbers of the rows in the order of their keys.

    Row numbers replace the lowest bits of the keys, so that plain numbers are sorted; where only those bits tell keys
    apart, which is rare, the keys themselves decide.
    """
    bits = max(len(keys) - 1, 1).bit_length()
    low = np.uint64((1 << bits) - 1)
    packed, numbers = _scratch(len(keys))
    np.bitwise_and(keys, ~low, out=packed)
    packed |= numbers
    packed.sort()
    order: Order = packed.astype(np.uint32 if bits <= 32 else np.uint64)
    order &= order.dtype.type(low)
    packed >>= np.uint64(bits)
    tied = np.flatnonzero(packed[1:] == packed[:-1])
    if len(tied):
        places = np.union1d(tied, tied + 1)
        order[places] = order[places][np.lexsort((keys[order[places]], packed[places]))]
    return order


def coarse_order(keys: NDArray[np.uint64]) -> Order:
    """The numbers of the rows in the order of the highest bits of their keys; rows that agree in them stay in order."""
    bits = max(len(keys) - 1, 1).bit_length()
    if bits + COARSE > 32:
        return key_order(keys)
    packed = (keys >> np.uint64(64 - COARSE)).astype(np.uint32)
    packed <<= np.uint32(bits)
    packed |= np.arange(len(keys), dtype=np.uint32)
    packed.sort()
    packed &= np.uint32((1 << bits) - 1)
    return packed


def keys_between(keys: NDArray[np.uint64], low: int, high: int) -> tuple[int, NDArray[np.uint64]]:
    """(how many keys are below `low`, those from there to below `high` in the `coarse_order` of all).

    Both are ends of ranges.
    """
    after = keys >= np.uint64(low)
    mine = keys[after if high == KEYS else after & (keys < np.uint64(high))]
    order = key_order(mine) if max(len(keys) - 1, 1).bit_length() + COARSE > 32 else coarse_order(mine)
    return len(keys) - int(np.count_nonzero(after)), mine[order]


def range_ends(ranges: int) -> NDArray[np.uint64]:
    """Where ranges of keys end, as many and as equal as their highest bits allow, but for the last."""
    ranges = min(max(ranges, 1), 1 << COARSE)
    return np.array([(number << COARSE) // ranges << (64 - COARSE) for number in range(1, ranges)], dtype=np.uint64)


def _scratch(rows: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """(room for that many numbers, the numbers from 0)."""
    if rows > len(_own.numbers):
        _own.room, _own.numbers = np.empty(rows, dtype=np.uint64), np.arange(rows, dtype=np.uint64)
    return _own.room[:rows], _own.numbers[:rows]
