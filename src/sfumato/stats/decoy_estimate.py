"""Totals and conditioned counts from a decoy release, with their variances (splu.md section 6).

A question is a number c per sensitive value (an indicator for COUNT, the value itself for SUM) and a condition P on
the other columns. With weights w = M^-1 c and w2 = M^-1 c^2 over published values and counts y inside P,

    estimate = w . y,    variance = w^2 . y - w2 . y,

both unbiased. The same for the rows outside P; the two must add up to c . f', which is far more precise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.stats.decoy_channel import DecoyChannel

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


def sums(channel: DecoyChannel, coefficients: Floats, observed: Floats) -> Estimates:
    """Estimates of c . x for columns of coefficients (over `channel.active`) and of published counts, one by one."""
    weights = channel.matrix.weights(coefficients)
    squares = channel.matrix.weights(coefficients**2)
    value = np.einsum("s...,s...->...", weights, observed)
    variance = np.einsum("s...,s...->...", weights**2 - squares, observed)
    return Estimates(value=value, variance=np.maximum(0.0, variance))


def counts(channel: DecoyChannel, observed: Floats) -> Estimates:
    """Estimates of the count of every active value; columns of `observed` are conditions."""
    value = channel.matrix.estimate(observed)
    return Estimates(value=value, variance=np.maximum(0.0, channel.matrix.squares(observed) - value))


def calibrate(inside: Estimates, rest: Estimates, total: Floats, total_variance: Floats) -> Estimates:
    """The estimate inside P, moved so that P and the rest add up to the total, in proportion to their variances."""
    both = inside.variance + rest.variance
    w = np.divide(inside.variance, both, out=np.zeros(np.shape(both)), where=both > 0)
    value = inside.value + w * (total - inside.value - rest.value)
    variance = (1 - w) ** 2 * inside.variance + w**2 * (rest.variance + total_variance)
    return Estimates(value=value, variance=variance)


def calibrated_counts(channel: DecoyChannel, observed: Floats) -> Estimates:
    """Calibrated counts of every active value inside each condition (a column of `observed`); f' for all rows."""
    published = channel.counts if observed.ndim == 1 else channel.counts[:, None]
    rest = counts(channel, published - observed)
    return calibrate(counts(channel, observed), rest, published, published * (1 - 1 / channel.size))


def calibrated_sums(channel: DecoyChannel, coefficients: Floats, observed: Floats) -> Estimates:
    """Calibrated estimates of c . x for one coefficient vector and each condition (a column of `observed`)."""
    published = channel.counts if observed.ndim == 1 else channel.counts[:, None]
    weights, squares = channel.matrix.weights(coefficients), channel.matrix.weights(coefficients**2)
    total, spread = coefficients @ channel.counts, channel.total_variance(coefficients)

    def side(part: Floats) -> Estimates:
        return Estimates(value=weights @ part, variance=np.maximum(0.0, (weights**2 - squares) @ part))

    return calibrate(side(observed), side(published - observed), total, spread)


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
