"""The randomiser: keep a code with probability p, else one of the other d - 1 codes, each equally likely."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Code = TypeVar("Code", bound=np.integer)


def randomise_codes(codes: NDArray[Code], *, keep: float, size: int, rng: np.random.Generator) -> NDArray[Code]:
    """A new array of codes in 0..size-1; a copy of the old one if keep is 1.

    Moving by a uniform non-zero step modulo d reaches each other code once, so q = (1 - p) / (d - 1). The coin has 32
    bits: p is rounded down to a multiple of 2^-32.
    """
    if keep >= 1.0 or size == 1 or not len(codes):
        return codes.copy()
    moved = np.flatnonzero(rng.integers(0, 2**32, len(codes), dtype=np.uint32) >= np.uint32(int(keep * 2**32)))
    there = codes.take(moved).astype(np.int64)
    there += rng.integers(1, size, len(moved), dtype=np.uint32)
    out = codes.copy()
    there -= size * (there >= size)
    out[moved] = there
    return out
