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


def total_interval(published: Floats, size: int, z: float) -> tuple[Floats, Floats]:
    """Both ends of the score interval for totals: f' + k/2 -+ sqrt(k f' + k^2/4), k = z^2 (1 - 1/size).

    The set of f with (f' - f)^2 <= z^2 f (1 - 1/size). At f' = 0 it is [0, k].
    """
    k = z * z * (1 - 1 / size)
    half = np.sqrt(k * published + k * k / 4)
    return np.maximum(0.0, published + k / 2 - half), published + k / 2 + half


def counts(channel: DecoyChannel, observed: Floats) -> Estimates:
    """Estimates of the count of every active value; columns of `observed` are conditions."""
    value = channel.matrix.estimate(observed)
    return Estimates(value=value, variance=np.maximum(0.0, channel.matrix.squares(observed) - value))


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


def calibrated_counts(channel: DecoyChannel, observed: Floats) -> Estimates:
    """Calibrated counts of every active value inside each condition (a column of `observed`); f' for all rows."""
    published = channel.published if observed.ndim == 1 else channel.published[:, None]
    inside, rest = counts(channel, observed), counts(channel, published - observed)
    whole = Whole(
        value=inside.value + rest.value,
        variance=inside.variance + rest.variance,
        total=published,
        total_variance=published * (1 - 1 / channel.size),
    )
    return calibrate(inside, inside.variance, whole)[0]


def joint_counts(first: DecoyChannel, second: DecoyChannel, observed: Floats) -> Estimates:
    """Estimates for every pair of values of two sensitive columns from the table Y of published pairs.

    x = B_1 Y B_2^T and variance (B_1 o B_1) Y (B_2 o B_2)^T - x, the Kronecker forms without a Kronecker matrix.
    """
    value = second.matrix.estimate(first.matrix.estimate(observed).T).T
    squares = second.matrix.squares(first.matrix.squares(observed).T).T
    return Estimates(value=value, variance=np.maximum(0.0, squares - value))


def joint_weights(channels: tuple[DecoyChannel, ...], coefficients: Floats) -> Floats:
    """Weights of each published combination, for a table of coefficients with one axis per sensitive column."""
    found = coefficients
    for axis, channel in enumerate(channels):
        moved = np.moveaxis(found, axis, 0)
        flat = channel.matrix.weights(moved.reshape(len(moved), -1))
        found = np.moveaxis(flat.reshape(moved.shape), 0, axis)
    return found
