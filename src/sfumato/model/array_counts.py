"""How often numbers come, counted in an array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 15  # numbers that are looked at together: wide copies of them stay near


def count_up(counts: NDArray[np.integer], pieces: Iterable[NDArray[np.integer]]) -> None:
    """Nothing; `counts[i]` is higher by how often i is among the numbers of the pieces."""
    one, wide = counts.dtype.type(1), np.empty(BLOCK, dtype=np.intp)  # fresh memory costs more than what is done in it
    for numbers in pieces:
        for first in range(0, len(numbers), BLOCK):
            some = numbers[first : first + BLOCK]
            at = wide[: len(some)]
            at[:] = some
            np.add.at(counts, at, one)


def joint_numbers(
    columns: Sequence[NDArray[np.integer]], sizes: Sequence[int], rows: int, most: int
) -> Iterator[NDArray[np.unsignedinteger]]:
    """One number below `most` for each of some rows, which says what they have in all columns: that of the columns
    before, times the size of the next, and the number in it. Each piece lies where the one before did."""
    kind = np.min_scalar_type(most)
    room, (lead, *others) = np.empty(min(BLOCK, rows), dtype=kind), columns
    for first in range(0, rows, BLOCK):
        here = slice(first, min(first + BLOCK, rows))
        number = room[: here.stop - first]
        number[:] = lead[here]
        for column, size in zip(others, sizes, strict=True):
            number *= kind.type(size)
            np.add(number, column[here], out=number, casting="unsafe")
        yield number
