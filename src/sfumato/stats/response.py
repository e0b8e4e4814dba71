"""Counts, sums and shares from a table whose columns are randomised independently, with their error.

A question is a tensor `a` over the classes of the randomised columns it mentions (0/1 for a predicate, numbers for a
sum). Its unbiased weights are w = P^-T a, and over the released rows

    estimate = sum w,      variance (given the data set) = sum w^2 - sum w2,   w2 = P^-T (a^2),

which is `sum w^2 - estimate` for a predicate. For a population of which the rows are a sample it is N times the
sample variance of w instead. Columns that are not mentioned have weight 1: marginalising commutes with
inversion, so only the mentioned columns are ever inverted.

Class axes come last; leading axes of `observed` are separate groups (untouched columns).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kronecker import Floats, Maps, apply_maps, apply_transposed, inverse, squared


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighted:
    """Estimates, their variances (unclipped: an unbiased one can be negative) and the largest |weight|."""

    estimate: Floats
    variance: Floats
    weight_max: float
    exact: bool  # no mentioned column is randomised


def weights(channels: Maps, question: Floats) -> Floats:
    """w = P^-T a."""
    return apply_transposed([inverse(m) for m in channels], question)


def all_cells(observed: Floats, channels: Maps) -> Weighted:
    """Every cell of the table over the class axes at once: P^-1 observed and (P^-1 squared) observed - estimate."""
    back = [inverse(m) for m in channels]
    estimate = apply_maps(back, observed)
    exact = all(m is None for m in channels)
    variance = np.zeros_like(estimate) if exact else apply_maps(squared(back), observed) - estimate
    largest = 1.0
    for m in back:
        if m is not None:
            largest *= float(np.maximum(np.abs(m.diagonal + m.column), np.abs(m.column)).max())
    return Weighted(estimate=estimate, variance=variance, weight_max=0.0 if exact else largest, exact=exact)


def count_variance(theta: float, beta: float, inside: float, outside: float) -> float:
    """[c alpha (1 - alpha) + (N - c) beta (1 - beta)] / theta^2, alpha = beta + theta: one column, beta = q |A|."""
    alpha = beta + theta
    return (inside * alpha * (1.0 - alpha) + outside * beta * (1.0 - beta)) / theta**2
