"""Random orders and exact hand-outs: many lists at once, and one global permutation split over partitions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..model.private import Deal
from ..model.public import Codes, Integers

# Many lists at once, each in an order of its own; all orders are equally likely.


AT_ONCE = 1 << 18  # entries, unless one list has more
KEY = np.uint64(32)  # random bits of an entry
WORKERS = 2

Kind = TypeVar("Kind", bound=np.integer)
Packed = NDArray[np.uint64]


def shuffled(entries: NDArray[Kind], start: Integers, rng: np.random.Generator) -> NDArray[Kind]:
    """The entries; list i, from `start[i]` to `start[i + 1]`, is shuffled in its place.

    Entries are sorted by random keys, several lists at a time, while the next keys are drawn. Where keys of a list are
    equal a random permutation decides, so that no order is likelier than another.
    """
    if not len(entries):
        return entries.copy()
    result, least = np.empty_like(entries), int(entries.min())
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


# Exact hand-outs split over partitions: all together they obey the law of one global permutation.
#
# Of the records with value u, `counts` carry each label. A partition that holds k of them receives a multivariate
# hypergeometric draw of what remains. Proof: docs/explanation/dealing.md.


MANY_VALUES = 1000
NUMPY_LIMIT = 10**9  # numpy's hypergeometric draws refuse larger populations


def draw_without_replacement(remaining: Integers, size: int, rng: np.random.Generator) -> Integers:
    """How many of each colour a uniform draw of `size` from an urn with `remaining` balls of each colour holds."""
    total = int(remaining.sum())
    if size > total:
        raise ValueError("more draws than balls")
    if total < NUMPY_LIMIT:
        return rng.multivariate_hypergeometric(remaining, size, method="marginals").astype(np.int64)
    # Larger urns: distinct uniform positions, by redrawing collisions, looked up in the cumulative counts.
    chosen = np.unique(rng.integers(0, total, size=size, dtype=np.int64))
    while len(chosen) < size:
        chosen = np.union1d(chosen, rng.integers(0, total, size=size - len(chosen), dtype=np.int64))
    return np.bincount(np.searchsorted(np.cumsum(remaining), chosen, side="right"), minlength=len(remaining)).astype(
        np.int64
    )


class Splitter:
    """Splits a `Deal` over partitions, in their order, looking at counts only.

    The partition's share is a `Deal` of its own: what `hand_out` gives to the partition's records. Shares depend on
    the deal, the counts of the partitions before and the generators; handing out depends on the share alone.
    """

    def __init__(self, deal: Deal, rng: np.random.Generator) -> None:
        self._deal, self._start = deal, deal.start
        self._labels, self._remaining = deal.labels, deal.counts
        if deal.counts is not None and len(deal.start) > MANY_VALUES:
            # With thousands of values one urn per value and partition costs more than one label per record.
            self._start = np.concatenate([[0], np.cumsum(deal.counts)])[deal.start]
            self._labels, self._remaining = np.repeat(deal.labels, deal.counts), None
        if self._remaining is None:  # listed labels: shuffle each value's list once, then split off slices of it
            self._labels = shuffled(self._labels, self._start, rng)
            self._next = self._start[:-1].copy()
        else:
            self._remaining = self._remaining.copy()

    @property
    def bytes_held(self) -> int:
        """Bytes of its own list of labels."""
        return 0 if self._labels is self._deal.labels else self._labels.nbytes

    def split(self, here: Integers, rng: np.random.Generator) -> Deal:
        """The share of a partition that holds `here[u]` records of value u."""
        if self._remaining is None:
            if (self._next + here > self._start[1:]).any():
                raise changed_between_passes()
            if len(here) <= MANY_VALUES:
                lists = zip(self._next.tolist(), (self._next + here).tolist(), strict=True)
                labels = np.concatenate([self._labels[low:high] for low, high in lists])
            else:
                first = np.cumsum(here) - here
                labels = self._labels[np.arange(int(here.sum())) + np.repeat(self._next - first, here)]
            self._next += here
            start = np.concatenate([[0], np.cumsum(here)])
            return Deal(unit=self._deal.unit, start=start, labels=labels, counts=None)
        taken = np.zeros_like(self._remaining)
        for u in np.flatnonzero(here):
            urn = slice(int(self._start[u]), int(self._start[u + 1]))
            if int(here[u]) > int(self._remaining[urn].sum()):
                raise changed_between_passes()
            taken[urn] = draw_without_replacement(self._remaining[urn], int(here[u]), rng)
        self._remaining -= taken
        return Deal(unit=self._deal.unit, start=self._start, labels=self._labels, counts=taken)

    def close(self) -> None:
        """Refuse when labels are left over: the table changed between the two passes."""
        left = (self._start[1:] - self._next) if self._remaining is None else self._remaining
        if int(left.sum()):
            raise changed_between_passes()


def hand_out(share: Deal, codes: Codes, rng: np.random.Generator) -> NDArray[np.integer]:
    """A label for every record of the partition whose share this is, in the records' own order.

    Listed labels were shuffled before they were split and go out as they stand; counted ones go to the records of their
    value in a random order of these.
    """
    dealt = np.empty(len(codes), dtype=share.labels.dtype)
    if share.counts is None:
        dealt[order_of(codes, len(share.start))] = share.labels
    else:
        dealt[shuffled_order(codes, rng)] = np.repeat(share.labels, share.counts)
    return dealt


def order_of(codes: NDArray[np.integer], size: int) -> NDArray[np.integer]:
    """The rows by their codes, which are below `size`; rows of one code in their own order."""
    return np.argsort(codes.astype(np.uint16) if size <= 1 << 16 else codes, kind="stable")  # 16 bits: by radix


def changed_between_passes() -> DataError:
    """The error of a second pass that sees other counts than the plan was made for."""
    return DataError("the table changed between the two passes over it; nothing was published")
