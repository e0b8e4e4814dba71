"""The randomiser: keep a code with probability p, else one of the other d - 1 codes, each equally likely."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Code = TypeVar("Code", bound=np.integer)


def randomise_codes(codes: NDArray[Code], *, keep: float, size: int, rng: np.random.Generator) -> NDArray[Code]:
    """A new array of codes in 0..size-1; a copy of the old one if keep is 1.

    Moving by a uniform non-zero step modulo d reaches each other code once, so q = (1 - p) / (d - 1).
    """
    if keep >= 1.0 or size == 1 or not len(codes):
        return codes.copy()
    moved = np.flatnonzero(~_coins(keep, len(codes), rng))
    there = codes.take(moved).astype(np.int64) + rng.integers(1, size, len(moved), dtype=_narrow(size))
    out = codes.copy()
    out[moved] = np.where(there < size, there, there - size)
    return out


def _coins(p: float, rows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """True with probability p, rounded down to a multiple of 2^-32, in every row by itself.

    Eight random bits tell most rows from p; where they are the first eight of p, 24 more decide.
    """
    first, rest = divmod(int(p * 2**32), 1 << 24)
    shown = rng.integers(0, 1 << 8, rows, dtype=np.uint8)
    heads = shown < np.uint8(first)
    tied = np.flatnonzero(shown == np.uint8(first))
    heads[tied] = rng.integers(0, 1 << 24, len(tied), dtype=np.uint32) < np.uint32(rest)
    return heads


def _narrow(size: int) -> type[np.uint16 | np.uint32]:
    """The numbers below `size`: shorter ones take less of the stream."""
    return np.uint16 if size <= 1 << 16 else np.uint32
