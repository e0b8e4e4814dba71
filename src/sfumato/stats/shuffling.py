"""Many lists at once, each in an order of its own; all orders are equally likely."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..model.public import Integers

AT_ONCE = 1 << 18  # entries, unless one list has more
KEY = np.uint64(32)  # random bits of an entry
WORKERS = 2

Kind = TypeVar("Kind", bound=np.integer)
Packed = NDArray[np.uint64]


def shuffled(
    entries: NDArray[Kind], start: Integers, rng: np.random.Generator, *, in_place: bool = False
) -> NDArray[Kind]:
    """The entries; list i, from `start[i]` to `start[i + 1]`, is shuffled in its place. `in_place`: not in a copy.

    Entries are sorted by random keys, several lists at a time, while the next keys are drawn. Where keys of a list are
    equal a random permutation decides, so that no order is likelier than another.
    """
    if not len(entries):
        return entries if in_place else entries.copy()
    result, least = entries if in_place else np.empty_like(entries), int(entries.min())
    bits = np.uint64(max(int(entries.max()) - least, 1).bit_length())
    waiting: deque[tuple[slice, Future[Packed]]] = deque()

    def finish() -> None:
        part, done = waiting.popleft()
        packed = _untied(done.result(), bits, rng)
        packed &= (np.uint64(1) << bits) - np.uint64(1)
        np.add(packed.view(np.int64), least, out=result[part], casting="unsafe")

    with ThreadPoolExecutor(max_workers=WORKERS) as workers:
        for first, last in _parts(start, most=1 << (32 - int(bits))):
            part = slice(int(start[first]), int(start[last]))
            keys = rng.integers(0, 1 << int(KEY), size=part.stop - part.start, dtype=np.uint32)
            sizes = np.diff(start[first : last + 1])
            waiting.append((part, workers.submit(_sorted, entries[part], least, bits, keys, sizes)))
            if len(waiting) > WORKERS:
                finish()
        while waiting:
            finish()
    return result


def shuffled_order(codes: NDArray[np.integer], rng: np.random.Generator) -> NDArray[np.int64]:
    """The rows by their codes; rows of one code in a random order."""
    rows = max(len(codes) - 1, 1).bit_length()  # bits of a row's number, and of its key beside the code:
    key = min(int(KEY), 64 - rows - int(codes.max(initial=0)).bit_length())
    bits, packed = np.uint64(rows), codes.astype(np.uint64)
    packed <<= np.uint64(key)
    packed |= rng.integers(0, 1 << key, size=len(codes), dtype=np.uint32)
    packed <<= bits
    packed |= np.arange(len(codes), dtype=np.uint64)
    packed.sort()
    packed = _untied(packed, bits, rng)
    packed &= (np.uint64(1) << bits) - np.uint64(1)
    return packed.view(np.int64)


def _parts(start: Integers, most: int) -> Iterator[tuple[int, int]]:
    """Runs of at most so many lists, of about `AT_ONCE` entries together."""
    first, lists = 0, len(start) - 1
    while first < lists:
        last = int(np.searchsorted(start, start[first] + AT_ONCE, side="right")) - 1
        last = min(max(first + 1, last), first + most)
        yield first, last
        first = last


def _sorted(
    entries: NDArray[np.integer], least: int, bits: np.uint64, keys: NDArray[np.uint32], sizes: Integers
) -> Packed:
    """The list, the key and the entry in one number each, sorted."""
    packed = keys.astype(np.uint64)
    if len(sizes) > 1:
        packed |= np.repeat(np.arange(len(sizes), dtype=np.uint64), sizes) << KEY
    packed <<= bits
    packed |= (entries - least).astype(np.uint64)
    packed.sort()
    return packed


def _untied(packed: Packed, bits: np.uint64, rng: np.random.Generator) -> Packed:
    """The same numbers, those that differ in their entries alone in a random order."""
    tied = np.flatnonzero((packed[1:] ^ packed[:-1]) < np.uint64(1) << bits)
    if len(tied):
        places = np.union1d(tied, tied + 1)
        some = packed[places]
        packed[places] = some[np.lexsort((rng.permutation(len(some)), some >> bits))]
    return packed
