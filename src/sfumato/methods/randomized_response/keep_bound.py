"""Closed forms for planning with `reconstruction_bound`, when the QI cells do not fit a tensor.

The bound depends on the quasi-identifiers through E = sum_i ln(p_i / q_i) only: first the largest E, then its split.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from ...stats.kronecker import Floats
from .disclosure import SLACK, View, reconstruction


def worst_targets(v: View, tau: float, s_columns: Sequence[int], keep: int = 400) -> View:
    """The cells that bind first at a few keep probabilities of the sensitive columns: enough to search with.

    What is found with them must be checked against all cells.
    """
    flat = v.true_counts.reshape(len(v.true_counts), -1)
    alone = flat.max(axis=1) == flat.sum(axis=1)  # one value only: rho = 1 whatever is kept, so the largest binds
    if alone.any():
        largest = np.flatnonzero(alone)[np.argmax(flat[alone].max(axis=1))]
        alone[largest] = False
        v = v.keep_rows(~alone)
    chosen = np.zeros(len(v.shares), dtype=bool)
    for s_theta in (1.0, 0.75, 0.5, 0.25, 0.05) if s_columns else (1.0,):
        thetas = [s_theta if c in s_columns else 1.0 for c in range(len(v.sizes))]
        chosen[np.argsort(_limits(v, thetas, tau))[:keep]] = True
    return v.keep_rows(chosen)


def largest_log_odds(all_views: Sequence[View], thetas: Sequence[float], tau: float) -> float:
    """The largest E with f rho pi e^E / (1 - pi + pi e^E) <= tau in every cell: e^E <= c (1 - pi) / (pi (1 - c))."""
    return min(
        (float(_limits(v, thetas, tau).min()) for v in all_views if v.grid is None or v.moving), default=math.inf
    )


def _limits(v: View, thetas: Sequence[float], tau: float) -> Floats:
    """Per observed cell, the largest E it allows; infinite where f rho <= tau already."""
    rho, _ = reconstruction(v.shares, v.sensitive, thetas, v.sizes)
    worst = (v.conditional * rho).reshape(len(v.shares), -1).max(axis=1)
    pi, c = v.quasi_shares, tau / (worst * (1.0 + SLACK))
    out = np.full(len(pi), math.inf)
    t = c < 1.0
    out[t] = np.log(c[t]) + np.log1p(-pi[t]) - np.log(pi[t]) - np.log1p(-c[t])
    return out


@functools.cache
def _slopes(size: int) -> tuple[Floats, Floats]:
    """A grid of e = ln(p / q) and minus the log slope of the log error there, which rises with e.

    theta = (e^e - 1) / (e^e + d - 1); the log error log(1 + (d - 1) / theta^2) is convex and falling in e.
    """
    e = np.geomspace(1e-6, 60.0, 20_000)
    low = np.exp(-e)
    t = -np.expm1(-e) / (1.0 + (size - 1.0) * low)
    d_theta = size * low / (1.0 + (size - 1.0) * low) ** 2
    slope = 2.0 * (size - 1.0) * d_theta / (t * (t * t + size - 1.0))
    return e, -np.log(slope)


def split_log_odds(budget: float, sizes: Sequence[int]) -> list[float]:
    """thetas of least total log error with sum_i ln(p_i / q_i) = budget: the same slope for every column."""
    tables = [_slopes(d) for d in sizes]

    def at(price: float) -> Floats:
        return np.array([np.interp(price, slope, e) for e, slope in tables])

    low, high = -40.0, 80.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if at(middle).sum() > budget else (middle, high)
    e = at(low)
    e *= min(1.0, budget / e.sum()) if e.sum() > budget else 1.0
    return [float(-np.expm1(-x) / (1.0 + (d - 1.0) * np.exp(-x))) for x, d in zip(e, sizes, strict=True)]
