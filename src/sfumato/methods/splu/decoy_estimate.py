"""Totals and conditioned counts from a decoy release, with their variances (docs/explanation/splu.md, section 5).

A question is a number c per sensitive value (an indicator for COUNT, the value itself for SUM) and a condition P on
the other columns. With weights w = M^-1 c and w2 = M^-1 c^2 over published values and counts y inside P,

    estimate = w . y,    variance = w^2 . y - w2 . y,

both unbiased. The same for the rows outside P; the two must add up to c . f', which is far more precise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .decoy_channel import DecoyChannel

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """Unclipped estimates and their variances, of equal shape."""

    value: Floats
    variance: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A question asked of all rows: its estimate and variance by weights, the total read off, and its variance."""

    value: Floats
    variance: Floats
    total: Floats
    total_variance: Floats


def calibrate(inside: Estimates, cross: Floats, whole: Whole) -> tuple[Estimates, Floats]:
    """The estimate inside P moved so that P and the rest add up to the total; and the share of the gap it takes.

    Moved by l times (total - whole estimate) with l = cov(inside, whole) / var(whole), which leaves the variance
    V - l cross + l^2 Var(total). For a count cross = V_P, so l = V_P / (V_P + V_rest) and the variance is
    (1-l)^2 V_P + l^2 V_rest + l^2 f'(1 - 1/size) [docs/explanation/splu.md, 5.2]; for all rows the total itself.
    """
    share = np.divide(cross, whole.variance, out=np.zeros(np.shape(cross)), where=whole.variance > 0)
    value = inside.value + share * (whole.total - whole.value)
    variance = np.maximum(0.0, inside.variance - share * cross) + share**2 * whole.total_variance
    return Estimates(value=value, variance=variance), share


def joint_weights(channels: tuple[DecoyChannel, ...], coefficients: Floats) -> Floats:
    """Weights of each published combination, for a table of coefficients with one axis per sensitive column."""
    found = coefficients
    for axis, channel in enumerate(channels):
        moved = np.moveaxis(found, axis, 0)
        flat = channel.matrix.weights(moved.reshape(len(moved), -1))
        found = np.moveaxis(flat.reshape(moved.shape), 0, axis)
    return found
