"""eta of single QI cells by sampling, for tables whose QI cells do not fit a tensor.

eta(alpha) = E over b ~ P(. | alpha) of pi_alpha P(b | alpha) / lambda_b, lambda_b = sum over the K observed cells of
pi_gamma P(b | gamma). Each sample lies in [0, 1], so Hoeffding's inequality gives a half-width that holds for one cell
with probability 1 - delta. O(samples x K x columns) per cell: for the few worst cells, not for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...stats.kronecker import Floats, keep_of_theta
from .disclosure import Ints, View

CHUNK = 4_000_000  # products held at once


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledEta:
    """An estimate of eta for one cell, within `half_width` with probability 1 - delta."""

    estimate: float
    half_width: float


def sampled_eta(
    v: View, row: int, thetas: Sequence[float], *, samples: int, delta: float, rng: np.random.Generator
) -> SampledEta:
    """eta of the observed QI cell number `row` of the view."""
    sizes = [len(np.unique(v.place[:, 0])), *(v.sizes[c] for c in v.moving)]
    keep = [1.0, *(keep_of_theta(thetas[c], v.sizes[c]) for c in v.moving)]
    target = v.place[row]
    drawn = np.empty((samples, len(sizes)), dtype=np.int64)
    for j, (d, p) in enumerate(zip(sizes, keep, strict=True)):
        shift = rng.integers(1, d, samples) if d > 1 else np.zeros(samples, dtype=np.int64)
        drawn[:, j] = np.where(rng.random(samples) < p, target[j], (target[j] + shift) % d)
    released = _released_share(drawn, v.place, v.quasi_shares, sizes, keep)
    own = np.ones(samples)
    for j, (d, p) in enumerate(zip(sizes, keep, strict=True)):
        own *= np.where(drawn[:, j] == target[j], p, (1.0 - p) / max(d - 1, 1))
    value = float(np.mean(v.quasi_shares[row] * own / released))
    return SampledEta(estimate=value, half_width=math.sqrt(math.log(2.0 / delta) / (2.0 * samples)))


def _released_share(drawn: Ints, observed: Ints, shares: Floats, sizes: Sequence[int], keep: Sequence[float]) -> Floats:
    """lambda at each drawn cell: sum over observed cells of share x prod_j (p_j if equal else q_j)."""
    step = max(1, CHUNK // len(observed))
    out = np.empty(len(drawn))
    for start in range(0, len(drawn), step):
        part = drawn[start : start + step]
        product = np.broadcast_to(shares, (len(part), len(shares))).copy()
        for j, (d, p) in enumerate(zip(sizes, keep, strict=True)):
            q = (1.0 - p) / max(d - 1, 1)
            product *= np.where(part[:, j, None] == observed[None, :, j], p, q)
        out[start : start + step] = product.sum(axis=1)
    return out
