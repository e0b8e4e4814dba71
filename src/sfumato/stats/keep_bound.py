"""Closed forms for planning with `reconstruction_bound`, when the QI cells do not fit a tensor.

The bound depends on the quasi-identifiers through E = sum_i ln(p_i / q_i) only: first the largest E, then its split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.stats.disclosure import SLACK, View, reconstruction
from sfumato.stats.kronecker import Floats


def distinct_targets(v: View) -> View:
    """The view with one observed cell for every distinct row of shares: the bound cannot tell equal ones apart."""
    flat = v.shares.reshape(len(v.shares), -1)
    _, first = np.unique(flat, axis=0, return_index=True)
    return v.keep_rows(np.isin(np.arange(len(flat)), first))


def largest_log_odds(all_views: Sequence[View], thetas: Sequence[float], tau: float) -> float:
    """The largest E with f rho pi e^E / (1 - pi + pi e^E) <= tau in every cell: e^E <= c (1 - pi) / (pi (1 - c))."""
    best = math.inf
    for v in all_views:
        if v.grid is not None and not v.moving:
            continue
        rho, _ = reconstruction(v.shares, v.sensitive, thetas, v.sizes)
        worst = (v.conditional * rho).reshape(len(v.shares), -1).max(axis=1)
        pi, c = v.quasi_shares, tau / (worst * (1.0 + SLACK))
        tight = c < 1.0
        if tight.any():
            limit = np.log(c[tight]) + np.log1p(-pi[tight]) - np.log(pi[tight]) - np.log1p(-c[tight])
            best = min(best, float(limit.min()))
    return best


def split_log_odds(budget: float, sizes: Sequence[int]) -> list[float]:
    """thetas of least total log error with sum_i ln(p_i / q_i) = budget, by bisection on the common slope.

    With e = ln(p / q): theta = (e^e - 1) / (e^e + d - 1); the log error is convex and falling in e.
    """
    d = np.asarray(sizes, dtype=np.float64)

    def theta(e: Floats) -> Floats:
        return -np.expm1(-e) / (1.0 + (d - 1.0) * np.exp(-e))

    def slope(e: Floats) -> Floats:  # -d log(1 + (d - 1) / theta^2) / d e
        t = theta(e)
        d_theta = d * np.exp(-e) / (1.0 + (d - 1.0) * np.exp(-e)) ** 2
        return 2.0 * (d - 1.0) * d_theta / (t * (t * t + d - 1.0))

    def at(price: float) -> Floats:  # per column, the e whose slope equals the price
        low, high = np.full(d.size, 1e-9), np.full(d.size, min(budget, 60.0))
        for _ in range(40):
            middle = 0.5 * (low + high)
            steep = slope(middle) > price
            low, high = np.where(steep, middle, low), np.where(steep, high, middle)
        return 0.5 * (low + high)

    cheap, dear = -40.0, 40.0  # log prices
    for _ in range(50):
        price = 0.5 * (cheap + dear)
        cheap, dear = (price, dear) if at(math.exp(price)).sum() > budget else (cheap, price)
    return [float(t) for t in theta(at(math.exp(dear)))]
