"""Variances and intervals of questions about one randomised column: its counts and sums under a condition.

A row that counts is released inside the condition's values with chance theta + b, any other with chance b = q |values|.
So the variance of a sum needs the sum of g^2 over the rows (known) and over those that count (estimated and cut to
what is possible), and counts have cumulants that are linear in the truth: docs/explanation/intervals.md, 2 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...model.public import Asked, Floats, Observed
from ...stats.intervals import Line, count_cumulants, few_changes, tail_interval


@dataclass(frozen=True, slots=True)
class OneColumn:
    """(K, F) arrays; `counts` are the functionals that have an interval here, `alike` those with a variance."""

    variance: Floats
    low: Floats
    high: Floats
    counts: NDArray[np.bool_]  # (F,)
    alike: NDArray[np.bool_]  # (F,) every coefficient is 0 or 1


def one_column(theta: float, observed: Observed, asked: Asked, value: Floats) -> OneColumn:
    """Variance at the cut estimate for conditions on one column, and the inverted test for their counts."""
    K, F = value.shape
    (classes,) = asked.classes
    sizes = np.bincount(classes).astype(np.float64)
    variance, known, rows, v0, k0, vslope, kslope, looks = (np.zeros((K, F)) for _ in range(8))
    pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
    alike = asked.indicator
    for p in np.unique(pattern):
        here = np.flatnonzero(pattern == p)
        H = asked.coefficients[p]
        held = H @ sizes
        b = (1.0 - theta) / len(classes) * held  # chance that a row which does not count looks as if it did
        whole, some = held == len(classes), (held > 0) & (held < len(classes))

        def table(column: int, here: NDArray[np.intp] = here, shape: tuple[int, int] = (K, H.shape[1])) -> csr_array:
            return csr_array((observed.moments[here, column], (key[here], observed.value[here])), shape=shape)

        n = table(0).sum(axis=1).reshape(-1, 1)
        mixed = (rows > 0) & (n * some > 0) & (looks != b)  # conditions that rows look like with different chances
        looks = np.where(mixed, np.nan, np.where(n * some > 0, b, looks))
        known += n * whole
        rows += n * some
        one_v, one_k = count_cumulants(np.ones(F), theta, b)
        v0 += n * some * one_v.constant
        k0 += n * some * one_k.constant
        vslope += n * some * one_v.slope
        kslope += n * some * one_k.slope
        for g in np.unique(asked.measure):
            f = np.flatnonzero((asked.measure == g) & some & alike)
            squares = table(int(asked.products[g, g]))
            everyone = squares.sum(axis=1).reshape(-1, 1)
            counted = ((squares @ H[f].T).toarray() - b[f] * everyone) / theta
            # Var = other G2 + (own - other) E2 with E2 cut to what is possible
            other, more = (np.broadcast_to(x, F)[f] for x in (one_v.constant, one_v.slope))
            variance[:, f] += other * everyone + more * np.clip(counted, 0.0, everyone)
    share = np.divide(1.0, rows, out=np.zeros_like(rows), where=rows > 0)
    v, k = Line(constant=v0, slope=vslope * share), Line(constant=k0, slope=kslope * share)
    unit = 1.0 / theta if asked.full else 0.0
    low, high = tail_interval(value - known, v, k, asked.alpha, 0.0, rows, unit)
    shown = np.rint((value - known) * theta + rows * looks)
    least, most, exact = few_changes(shown, rows, theta, looks, asked.alpha, full=asked.full)
    low, high = np.where(exact, least, low), np.where(exact, most, high)
    return OneColumn(variance, known + low, known + high, alike & (asked.measure == 0), alike)
