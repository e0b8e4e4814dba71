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
        self._deal = deal
        self._start = deal.start
        if deal.counts is None:  # listed labels: shuffle each value's list once, then hand out slices of it
            owner = np.repeat(np.arange(len(deal.start) - 1), np.diff(deal.start))
            order = np.lexsort((rng.integers(0, 2**63, size=len(deal.labels)), owner))
            self._labels, self._next = deal.labels[order], deal.start[:-1].copy()
        else:
            self._remaining = deal.counts.copy()

    def deal(self, codes: Codes, rng: np.random.Generator) -> NDArray[np.int64]:
        """A label for every record of the batch, in the batch's own order."""
        size = len(self._start) - 1
        here = np.bincount(codes, minlength=size)
        order = np.argsort(codes, kind="stable")
        dealt = np.empty(len(codes), dtype=np.int64)
        at = 0
        for u in np.flatnonzero(here):
            k, lo, hi = int(here[u]), int(self._start[u]), int(self._start[u + 1])
            if self._deal.counts is None:
                first = int(self._next[u])
                if first + k > hi:
                    raise _changed()
                labels = self._labels[first : first + k]
                self._next[u] += k
            else:
                urn = self._remaining[lo:hi]
                if k > int(urn.sum()):
                    raise _changed()
                taken = draw_without_replacement(urn, k, rng)
                urn -= taken
                labels = rng.permutation(np.repeat(self._deal.labels[lo:hi], taken))
            dealt[order[at : at + k]] = labels
            at += k
        return dealt

    def close(self) -> None:
        """Refuse when labels are left over: the table changed between the two passes."""
        left = int((self._start[1:] - self._next).sum()) if self._deal.counts is None else int(self._remaining.sum())
        if left:
            raise _changed()


def _changed() -> DataError:
    return DataError("the table changed between the two passes over it; nothing was published")
