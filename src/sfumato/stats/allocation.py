"""Exact hand-outs split over batches: every batch together obeys the law of one global permutation.

Of the records with value u, `counts` carry each label. A batch that holds k of them receives a
multivariate hypergeometric draw of what remains; pp.md section 4, splu.md section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError
from ..model.private import Deal
from ..model.public import Codes, Integers

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


class Dealer:
    """Hands out a `Deal` batch by batch; `deal` must be called in batch order, `close` checks that all are out."""

    def __init__(self, deal: Deal, rng: np.random.Generator) -> None:
        self._start = deal.start
        self._labels, self._remaining = deal.labels, deal.counts
        if deal.counts is not None and len(deal.start) > MANY_VALUES:
            # With thousands of values one urn per value and batch costs more than one label per record.
            self._start = np.concatenate([[0], np.cumsum(deal.counts)])[deal.start]
            self._labels, self._remaining = np.repeat(deal.labels, deal.counts), None
        if self._remaining is None:  # listed labels: shuffle each value's list once, then hand out slices of it
            self._labels, self._next = self._labels.copy(), self._start[:-1].copy()
            for low, high in zip(self._start[:-1], self._start[1:], strict=True):
                rng.shuffle(self._labels[low:high])
        else:
            self._remaining = self._remaining.copy()

    def deal(self, codes: Codes, rng: np.random.Generator) -> NDArray[np.int64]:
        """A label for every record of the batch, in the batch's own order."""
        here = np.bincount(codes, minlength=len(self._start) - 1)
        order = np.argsort(narrow(codes, len(self._start)), kind="stable")
        dealt = np.empty(len(codes), dtype=np.int64)
        if self._remaining is None:
            if (self._next + here > self._start[1:]).any():
                raise changed_between_passes()
            first = np.cumsum(here) - here
            dealt[order] = self._labels[np.arange(len(codes)) + np.repeat(self._next - first, here)]
            self._next += here
            return dealt
        at = 0
        for u in np.flatnonzero(here):
            k, lo, hi = int(here[u]), int(self._start[u]), int(self._start[u + 1])
            urn = self._remaining[lo:hi]
            if k > int(urn.sum()):
                raise changed_between_passes()
            taken = draw_without_replacement(urn, k, rng)
            urn -= taken
            dealt[order[at : at + k]] = rng.permutation(np.repeat(self._labels[lo:hi], taken))
            at += k
        return dealt

    def close(self) -> None:
        """Refuse when labels are left over: the table changed between the two passes."""
        left = (self._start[1:] - self._next) if self._remaining is None else self._remaining
        if int(left.sum()):
            raise changed_between_passes()


def narrow(codes: Codes, size: int) -> NDArray[np.integer]:
    """The codes in 16 bits where they fit: numpy sorts those by radix."""
    return codes.astype(np.uint16) if size < 2**16 else codes


def changed_between_passes() -> DataError:
    """The error of a second pass that sees other counts than the plan was made for."""
    return DataError("the table changed between the two passes over it; nothing was published")
