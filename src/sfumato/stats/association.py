"""Uncertainty coefficient U(X; Y) = I(X; Y) / H(Y) of a two-way table, with an error bar.

It lies in [0, 1], not [-1, 1], and is asymmetric: H is the entropy of the *second* column. Estimated
cells of the plain inverse can be negative; they enter as empty (0 log 0 = 0) in the two-way table that is asked for,
never in a larger one. Noise biases U upwards by about the number of cells times the squared relative
error; the error bar does not cover that bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .kronecker import Floats, Maps
from .response import all_cells, linear_estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """U with its standard error given the data set."""

    value: float
    standard_error: float


def uncertainty_coefficient(table: Floats) -> float:
    """I(X; Y) / H(Y) of a table (X, Y) of counts or shares; 0 if Y is constant."""
    shares = np.maximum(table, 0.0) / np.maximum(table, 0.0).sum()
    information, entropy = _information(shares)
    return information / entropy if entropy > 0 else 0.0


def estimated_association(observed: Floats, channels: Maps) -> Association:
    """U of the true table behind a released (X, Y) table, and its standard error by the delta method.

    d U / d pi_xy = (d I - U d H) / H with d I = log(pi_xy / pi_x pi_y) - 1 and d H = -log pi_y - 1; the error is that
    of the linear question with these numbers as its tensor.
    """
    rows = float(observed.sum())
    table = np.maximum(all_cells(observed, channels).estimate, 0.0)
    shares = table / table.sum()
    information, entropy = _information(shares)
    if entropy <= 0:
        return Association(value=0.0, standard_error=0.0)
    value = information / entropy
    first, second = shares.sum(axis=1, keepdims=True), shares.sum(axis=0, keepdims=True)
    slope_information = np.where(shares > 0, _log(shares) - _log(first) - _log(second) - 1.0, 0.0)
    slope_entropy = -_log(second) - 1.0
    slope = (slope_information - value * slope_entropy) / entropy
    variance = float(linear_estimate(observed, channels, slope).variance) / rows**2
    return Association(value=value, standard_error=float(np.sqrt(max(variance, 0.0))))


def _log(x: Floats) -> Floats:
    return np.log(x, out=np.zeros_like(x), where=x > 0)


def _information(shares: Floats) -> tuple[float, float]:
    """I(X; Y) and H(Y) in nats."""
    first, second = shares.sum(axis=1), shares.sum(axis=0)
    joint = -float((shares * _log(shares)).sum())
    of_first, of_second = -float((first * _log(first)).sum()), -float((second * _log(second)).sum())
    return max(0.0, of_first + of_second - joint), of_second
