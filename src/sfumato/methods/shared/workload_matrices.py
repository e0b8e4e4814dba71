"""The questions a channel is made for, as matrices G = W'W over an ordered domain of m values.

Only G matters for the total variance of the questions W. A mix weighs each workload by its share divided by the
variance it has under subset response, so that shares speak of like things.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.errors import SpecError

from ...model.public import Floats
from .set_lists import best_width, hit_rates

FLOOR = 1e-4  # share of the histogram added where a workload leaves questions open


def histogram(size: int) -> Floats:
    """Every single value counted."""
    return np.eye(size)


def prefixes(size: int) -> Floats:
    """Counts of x <= v for every value v: G[x, y] = m - max(x, y)."""
    codes = np.arange(size)
    return (size - np.maximum.outer(codes, codes)).astype(np.float64)


def ranges(size: int) -> Floats:
    """Counts of u <= x <= v for all u <= v: G[x, y] = (min + 1) (m - max)."""
    codes = np.arange(size)
    return ((np.minimum.outer(codes, codes) + 1) * (size - np.maximum.outer(codes, codes))).astype(np.float64)


def weighted_sum(values: Sequence[float] | Floats) -> Floats:
    """The sum of a number per value."""
    v = np.asarray(values, dtype=np.float64)
    return np.outer(v, v)


def questions(rows: Floats) -> Floats:
    """Any linear questions, one row of coefficients each."""
    return np.asarray(rows.T @ rows, dtype=np.float64)


def centred(gram: Floats, prior: Floats) -> Floats:
    """G with every question h replaced by h - h.pi: the same errors, since a constant is answered exactly."""
    shift = gram @ prior
    return gram - shift[:, None] - shift[None, :] + prior @ shift


def subset_variance(gram: Floats, gamma: Fraction, prior: Floats | None = None) -> float:
    """Total variance per record of the questions under subset response, all best subsets, weights for a flat prior."""
    size = len(gram)
    pi = np.full(size, 1 / size) if prior is None else prior
    w = best_width(size, gamma)
    a, b = (float(rate) for rate in hit_rates(size, gamma, w))
    # omega_h = (h(Z) - b sum h) / (a - b); the variance of section 5's closed form with t = h(x), mean over x by pi
    diagonal, rows = np.diag(gram), gram.sum(axis=1)
    every, square = rows.sum(), diagonal.sum()
    pairs = 0.0 if size == 2 else (a * (w - 1) * (size - w) + (1 - a) * w * (size - 1 - w)) / (size - 2)
    # sums over questions of t^2, t (H - t), (H - t)^2 for each true value x
    tt, th, hh = diagonal, rows - diagonal, every - 2 * rows + diagonal
    own = tt - 2 * th / (size - 1) + hh / (size - 1) ** 2
    other = (square - tt) / (size - 1) - hh / (size - 1) ** 2
    return float(pi @ (a * (1 - a) * own + pairs * other)) / (a - b) ** 2


def mixture(grams: Sequence[Floats], shares: Sequence[float], gamma: Fraction, floor: float = FLOOR) -> Floats:
    """G of several workloads, and `floor` of the histogram so that every question stays answerable."""
    if not grams or len(grams) != len(shares) or min(shares) < 0 or sum(shares) <= 0:
        raise SpecError("a mix needs a share of at least 0 for each workload, and one above 0", field="workload")
    mixed = np.zeros_like(grams[0])
    whole = float(sum(shares))
    for gram, share in zip([*grams, histogram(len(mixed))], [*(s / whole for s in shares), floor], strict=True):
        variance = subset_variance(gram, gamma)
        if share > 0 and variance <= 0:
            raise SpecError("a workload asks only what every release answers exactly", field="workload")
        if share > 0:
            mixed += share / variance * gram
    return mixed
