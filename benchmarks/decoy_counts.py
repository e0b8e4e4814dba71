"""Counts of every value at once from a decoy release: whole tables of estimates, for experiments and tests."""

from __future__ import annotations

import numpy as np

from sfumato.laws.decoy_channel import DecoyChannel
from sfumato.laws.decoy_estimate import Estimates, Floats, Whole, calibrate


def counts(channel: DecoyChannel, observed: Floats) -> Estimates:
    """Estimates of the count of every active value; columns of `observed` are conditions."""
    value = channel.matrix.estimate(observed)
    return Estimates(value=value, variance=np.maximum(0.0, channel.matrix.squares(observed) - value))


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
    return calibrate(inside, inside.variance, whole)


def joint_counts(first: DecoyChannel, second: DecoyChannel, observed: Floats) -> Estimates:
    """Estimates for every pair of values of two sensitive columns from the table Y of published pairs.

    x = B_1 Y B_2^T and variance (B_1 o B_1) Y (B_2 o B_2)^T - x, the Kronecker forms without a Kronecker matrix.
    """
    value = second.matrix.estimate(first.matrix.estimate(observed).T).T
    squares = second.matrix.squares(first.matrix.squares(observed).T).T
    return Estimates(value=value, variance=np.maximum(0.0, squares - value))
