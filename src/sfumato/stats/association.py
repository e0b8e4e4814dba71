"""Uncertainty coefficient U(X; Y) = I(X; Y) / H(Y) of a two-way table.

It lies in [0, 1], not [-1, 1], and is asymmetric: H is the entropy of the *second* column. Estimated
cells of the plain inverse can be negative; they enter as empty (0 log 0 = 0) in the two-way table that is asked for,
never in a larger one. Noise biases U upwards: `association_bootstrap.py` corrects that.
"""

from __future__ import annotations

import numpy as np

from .kronecker import Floats


def uncertainty_coefficient(table: Floats) -> float:
    """I(X; Y) / H(Y) of a table (X, Y) of counts or shares; 0 if Y is constant."""
    shares = np.maximum(table, 0.0) / np.maximum(table, 0.0).sum()
    information, entropy = _information(shares)
    return information / entropy if entropy > 0 else 0.0


def _log(x: Floats) -> Floats:
    return np.log(x, out=np.zeros_like(x), where=x > 0)


def _information(shares: Floats) -> tuple[float, float]:
    """I(X; Y) and H(Y) in nats."""
    first, second = shares.sum(axis=1), shares.sum(axis=0)
    joint = -float((shares * _log(shares)).sum())
    of_first, of_second = -float((first * _log(first)).sum()), -float((second * _log(second)).sum())
    return max(0.0, of_first + of_second - joint), of_second
