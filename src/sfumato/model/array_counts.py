"""How often numbers come, counted in an array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

NEAR = 1 << 14  # numbers of a table that stays near while it is added to
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


def count_places(counts: NDArray[np.integer], places: NDArray[np.integer]) -> None:
    """Nothing; `counts[i]` is higher by how often i is among all numbers of some places (places, groups).

    As many places are counted at once as the table of all their combinations stays near: fewer additions.
    """
    width, together = len(counts), 1
    while together < len(places) and width ** (together + 1) <= NEAR:
        together += 1
    for first in range(0, len(places), together):
        some = places[first : first + together]
        size = width ** len(some)
        table = np.zeros(size, dtype=counts.dtype)
        count_up(table, joint_numbers(list(some), [width] * (len(some) - 1), some.shape[1], size))
        shaped = table.reshape((width,) * len(some))
        for axis in range(len(some)):
            counts += shaped.sum(axis=tuple(other for other in range(len(some)) if other != axis))
