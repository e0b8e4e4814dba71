"""Non-negative tables from a randomised one, only when asked for.

The unbiased inverse has negative cells (about half of them on sparse tables). Clipping them to 0 biases every
marginal; these two do not clip. Use them for a table of shares, never before aggregating a count.
"""

from __future__ import annotations

import numpy as np

from .kronecker import Floats, Maps, apply_maps, apply_transposed

STEPS = 300
TOLERANCE = 1e-9


def expectation_maximisation(
    observed: Floats, channels: Maps, *, steps: int = STEPS, tolerance: float = TOLERANCE
) -> Floats:
    """Shares pi >= 0 of (nearly) greatest likelihood: pi <- pi * P^T (lambda / P pi) from uniform.

    Stops after `steps` or when the L1 change falls below `tolerance`; stopping early acts as a mild smoother.
    """
    released = observed / observed.sum()
    shares = np.full(observed.shape, 1.0 / observed.size)
    for _ in range(steps):
        expected = apply_maps(channels, shares)
        lift = np.divide(released, expected, out=np.zeros_like(released), where=expected > 0)
        updated = shares * apply_transposed(channels, lift)
        change = float(np.abs(updated - shares).sum())
        shares = updated
        if change < tolerance:
            break
    return shares


def project_to_simplex(shares: Floats) -> Floats:
    """The nearest table (Euclid) with cells >= 0 and sum 1: max(x - t, 0), t by one sort."""
    flat = np.sort(shares, axis=None)[::-1]
    excess = (np.cumsum(flat) - 1.0) / np.arange(1, flat.size + 1)
    last = int(np.nonzero(flat > excess)[0][-1])
    return np.asarray(np.maximum(shares - excess[last], 0.0))
