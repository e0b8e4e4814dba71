"""Which ratios are possible at all: an average lies between the least and the largest number that is averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..model.public import Asked, Floats, Observed
from ..model.sparse_table import SparseTable

# measure -> its least and largest number in every output row, as the engine knows them, each (K,)
Extremes = Callable[[int], tuple[Floats, Floats]]


def ratio_range(
    observed: Observed, asked: Asked, top: Sequence[int], bottom: Sequence[int], extremes: Extremes
) -> tuple[Floats, Floats]:
    """(least, most), each (output rows, groups of unit keys), of a ratio whose denominator counts rows.

    A row that is counted adds sum over the functionals above of g h: h among the coefficients that its value may have,
    g between the extremes of the measure. Without limits where the denominator is not a count.
    """
    shape = (observed.keys, asked.groups)
    if len(bottom) != 1 or asked.measure[bottom[0]]:
        return np.full(shape, -np.inf), np.full(shape, np.inf)
    least, most = np.zeros(shape), np.zeros(shape)
    rows = np.bincount(observed.stratum, weights=observed.moments[:, 0], minlength=observed.strata)
    there = np.flatnonzero(rows > 0)
    key, pattern = observed.key[there], observed.pattern[there]
    for j in top:
        h_low, h_high = np.full(shape, np.inf), np.full(shape, -np.inf)
        ends = [_counted(H, j, bottom[0], asked.groups) for H in asked.coefficients]
        if ends:
            np.minimum.at(h_low, key, np.array([low for low, _ in ends])[pattern])
            np.maximum.at(h_high, key, np.array([high for _, high in ends])[pattern])
        if measure := int(asked.measure[j]):
            g_low, g_high = (x[:, None] for x in extremes(measure))
            with np.errstate(invalid="ignore"):
                corners = [h_low * g_low, h_low * g_high, h_high * g_low, h_high * g_high]
            h_low, h_high = np.min(corners, axis=0), np.max(corners, axis=0)
        least, most = least + h_low, most + h_high
    nothing = ~(least <= most)  # no row is counted
    return np.where(nothing, np.nan, least), np.where(nothing, np.nan, most)


def _counted(H: SparseTable, top: int, bottom: int, groups: int) -> tuple[Floats, Floats]:
    """Least and largest coefficient of a functional among the values that another one counts, for every group."""
    J = H.shape[0] // groups
    above, below = H[top::J], H[bottom::J]
    counted = below.with_data((below.data != 0).astype(np.float64))
    inside = above.multiply(counted)
    inside = inside.with_data(inside.data)
    return _ends(inside.data, np.diff(inside.indptr), np.diff(counted.indptr))


def quotient_range(observed: Observed, asked: Asked, top: int, bottom: int) -> tuple[Floats, Floats]:
    """(least, most), each (output rows, groups of unit keys), of two sums of one measure that is nowhere below 0.

    sum g t / sum g b lies between the least and the largest t / b, where b is above 0 wherever t is not 0: a part is at
    most the whole. Without limits elsewhere.
    """
    shape = (observed.keys, asked.groups)
    least, most = np.full(shape, np.inf), np.full(shape, -np.inf)
    rows = np.bincount(observed.stratum, weights=observed.moments[:, 0], minlength=observed.strata)
    there = np.flatnonzero(rows > 0)
    ends = [_quotients(H, top, bottom, asked.groups) for H in asked.coefficients]
    if ends and asked.measure[top] == asked.measure[bottom]:
        key, pattern = observed.key[there], observed.pattern[there]
        np.minimum.at(least, key, np.array([low for low, _ in ends])[pattern])
        np.maximum.at(most, key, np.array([high for _, high in ends])[pattern])
    nothing = ~(least <= most)
    return np.where(nothing, -np.inf, least), np.where(nothing, np.inf, most)


def _quotients(H: SparseTable, top: int, bottom: int, groups: int) -> tuple[Floats, Floats]:
    """Least and largest quotient of two functionals' coefficients, for every group."""
    J = H.shape[0] // groups
    above, below = H[top::J], H[bottom::J]
    inside = above.multiply(below.with_data(1 / below.data))
    low, high = _ends(inside.data, np.diff(inside.indptr), np.diff(below.indptr))
    loose = (np.diff(inside.indptr) < np.diff(above.indptr)) | (below.extreme(np.minimum) < 0)
    return np.where(loose, -np.inf, low), np.where(loose, np.inf, high)


def _ends(numbers: Floats, filled: NDArray[np.intp], held: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Least and largest of the numbers of every group, 0 among them where fewer are filled than there are."""
    low, high = np.where(filled < held, 0.0, np.inf), np.where(filled < held, 0.0, -np.inf)
    row = np.repeat(np.arange(len(filled)), filled)
    np.minimum.at(low, row, numbers)
    np.maximum.at(high, row, numbers)
    return low, high
