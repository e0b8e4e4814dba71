"""Answers added up over strata and sub-tables: from moments per (stratum, set) to values, variances, covariances.

A question needs, per stratum and set id, the number of rows, the sum of g and the sum of g g' of its measures g; all
else is linear algebra on the published list. Sub-tables have a list and a channel each; their answers add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .set_answers import SetAnswers
from .set_channel import Floats

Positions = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SetPart:
    """One sub-table as the reader sees it: its answers, its values, its rows."""

    answers: SetAnswers
    values: Positions  # domain codes of the m_i values, ascending
    moments: tuple[csr_array, ...]  # one (T, k_i) per product of measures; the first counts rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StratumSums:
    """Per stratum and functional, (T, F); covariances per asked pair, (T, P)."""

    value: Floats
    variance: Floats  # unbiased, but never below what the rows must at least have
    covariance: Floats  # unbiased
    least: Floats  # rows (weighted by g^2) times the least variance any true value gives


def add_up(
    parts: Sequence[SetPart],
    functionals: Floats,
    measure: Positions,
    products: Positions,
    pairs: Positions,
) -> StratumSums:
    """Answers of functionals (F, m) of the whole domain, summed over sub-tables.

    Functional f weighs rows by measure `measure[f]` (0: the constant 1); `products[a, b]` is the position in
    `SetPart.moments` of the sum of g_a g_b; `pairs` (P, 2) are the functionals whose covariance is wanted.
    """
    strata = parts[0].moments[0].shape[0] if parts else 0
    F, P = len(functionals), len(pairs)
    sums = StratumSums(
        value=np.zeros((strata, F)),
        variance=np.zeros((strata, F)),
        covariance=np.zeros((strata, P)),
        least=np.zeros((strata, F)),
    )
    for part in parts:
        h = functionals[:, part.values]
        _add_moment(sums.value, part, part.answers.weights(h), products[0, measure])
        spread = part.answers.variance(h)
        spread[np.ptp(h, axis=1) == 0] = 0.0  # M pi = 1 gives such an h weight h exactly; the rest is rounding
        squares = products[measure, measure]
        _add_moment(sums.variance, part, part.answers.weights(spread), squares)
        _add_moment(sums.least, part, np.repeat(spread.min(axis=1), _sets(part)).reshape(F, -1), squares)
        if P:
            first, second = pairs[:, 0], pairs[:, 1]
            crossed = part.answers.covariance(h[first], h[second])
            crossed[(np.ptp(h[first], axis=1) == 0) | (np.ptp(h[second], axis=1) == 0)] = 0.0
            cells = products[measure[first], measure[second]]
            _add_moment(sums.covariance, part, part.answers.weights(crossed), cells)
    np.maximum(sums.least, 0.0, out=sums.least)
    np.maximum(sums.variance, sums.least, out=sums.variance)
    return sums


def _add_moment(into: Floats, part: SetPart, weights: Floats, column: Positions) -> None:
    """Adds sum over sets of moment * weight, each functional with the moment it uses."""
    for j in np.unique(column):
        f = np.flatnonzero(column == j)
        into[:, f] += part.moments[j] @ weights[f].T


def _sets(part: SetPart) -> int:
    return len(part.answers.matrix)
