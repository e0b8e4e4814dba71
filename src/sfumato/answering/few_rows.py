"""Sums that hang on few rows: one large number or a handful of rows carry most of them.

An interval of a sum is normal. Where (sum g)^2 / sum g^2 over the rows that show a counted value, or that may have
one, is small, the sum is that of few terms and its interval is approximate; docs/explanation/intervals.md, section 7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..model.public import Asked, Estimated, Floats, Observed
from ..model.sparse_table import SparseTable

FEW = 30.0  # rows of equal size that a sum must at least amount to


def hang_on_few_rows(observed: Observed, asked: Asked, found: Estimated, *, shown: bool) -> NDArray[np.bool_]:
    """(K, F): whether a functional sums a measure that few rows carry; False for counts and where no row is seen.

    `shown`: the published value stands in the rows; else every row counts that may have a counted value.
    A row that carries most of a sum may have a counted value and show another: the estimate is then too low, and so is
    the error that is estimated from what is shown. So the rows that may count are looked at too, as many of them as the
    estimate takes of their sum, where the interval does not reach as far as one row of all their squares.
    """
    if not asked.measure.any():
        return np.zeros((observed.keys, asked.functionals), dtype=bool)
    first, squares = _sums(observed, asked, shown=False)
    amount = amount_of(first, squares)
    few = amount < FEW
    if shown and int(observed.value.max(initial=0)) < int(np.prod(asked.shape)):  # else sets are published
        few = amount_of(*_sums(observed, asked, shown=True)) < FEW
    share = np.clip(np.divide(found.value, first, out=np.ones_like(first), where=first != 0), 0.0, 1.0)
    narrow = asked.z**2 * found.variance < squares
    return np.asarray(few | (narrow & (share * amount < FEW)))


def amount_of(first: Floats, squares: Floats) -> Floats:
    """How many rows of equal size a sum amounts to; infinite where nothing is summed."""
    return np.asarray(np.divide(first**2, squares, out=np.full(first.shape, np.inf), where=squares > 0))


def _sums(observed: Observed, asked: Asked, *, shown: bool) -> tuple[Floats, Floats]:
    """(K, F) twice: sums of g and of g^2 over the rows that show a counted value, or may have one."""
    K, F = observed.keys, asked.functionals
    first, squares = np.zeros((K, F)), np.zeros((K, F))
    key, pattern = observed.key[observed.stratum], observed.pattern[observed.stratum]
    for g in np.unique(asked.measure[asked.measure > 0]):
        mine = np.flatnonzero(asked.measure == g)
        for b, H in enumerate(asked.coefficients):
            at = np.flatnonzero(pattern == b)
            counted = H[mine]
            counted = counted.with_data((counted.data != 0).astype(np.float64))
            value = observed.value[at]
            if not shown:
                counted = SparseTable.dense(counted.sum(axis=1)[:, None] > 0)
                value = np.zeros(len(at), dtype=np.intp)
            for total, column in ((first, asked.products[0, g]), (squares, asked.products[g, g])):
                seen = SparseTable.of(observed.moments[at, column], key[at], value, (K, counted.shape[1]))
                total[:, mine] += seen.product(counted.T).toarray()
    return first, squares
