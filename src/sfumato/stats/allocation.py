"""Exact hand-outs split over partitions: all together they obey the law of one global permutation.

Of the records with value u, `counts` carry each label. A partition that holds k of them receives a multivariate
hypergeometric draw of what remains. Proof: docs/explanation/dealing.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..model.private import Deal
from ..model.public import Codes, Integers
from .shuffling import shuffled, shuffled_order

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
    `in_place`: the deal is not used again, and its list of labels, which may be as long as the table, is shuffled
    where it lies.
    """

    def __init__(self, deal: Deal, rng: np.random.Generator, *, in_place: bool = False) -> None:
        self._deal, self._start = deal, deal.start
        self._labels, self._remaining = deal.labels, deal.counts
        if deal.counts is not None and len(deal.start) > MANY_VALUES:
            # With thousands of values one urn per value and partition costs more than one label per record.
            self._start = np.concatenate([[0], np.cumsum(deal.counts)])[deal.start]
            self._labels, self._remaining = np.repeat(deal.labels, deal.counts), None
        if self._remaining is None:  # listed labels: shuffle each value's list once, then split off slices of it
            self._labels = shuffled(self._labels, self._start, rng, in_place=in_place)
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
    """The rows by their codes, which are below `size`; rows of one code in their own order.

    Where a code and a row's number fit 32 bits together, plain numbers are sorted, which takes half as long; else
    codes of 16 bits by radix.
    """
    bits = max(len(codes) - 1, 1).bit_length()
    if size - 1 >= 1 << (32 - bits):
        return np.argsort(codes.astype(np.uint16) if size <= 1 << 16 else codes, kind="stable")
    packed = codes.astype(np.uint32) << np.uint32(bits)
    packed |= np.arange(len(codes), dtype=np.uint32)
    packed.sort()
    packed &= np.uint32((1 << bits) - 1)
    return packed


def changed_between_passes() -> DataError:
    """The error of a second pass that sees other counts than the plan was made for."""
    return DataError("the table changed between the two passes over it; nothing was published")
