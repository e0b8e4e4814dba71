"""Weights of joint values under the product of several columns' channels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...model.public import Floats
from .decoy_channel import DecoyChannel
from .decoy_estimate import joint_weights

RESIDUAL = 1e-6  # a question is identified when M w = h up to this


class DecoyWeights:
    """Weights of questions under the product of the columns' channels; joint values are numbered row by row."""

    def __init__(self, channels: tuple[DecoyChannel, ...]) -> None:
        self.channels, self.shape = channels, tuple(len(c.active) for c in channels)
        self.known = all(c.identifiable.all() for c in channels)
        self.published = channels[0].published

    def of(self, values: Floats) -> Floats:
        """M^-1 h for columns h."""
        table = values.reshape(*self.shape, -1)
        return joint_weights(self.channels, table).reshape(values.shape)

    def of_axis(self, values: Floats, axis: int) -> Floats:
        """M_u^-1 h along one column alone, for one vector h."""
        moved = np.moveaxis(values.reshape(self.shape), axis, 0)
        flat = self.channels[axis].matrix.weights(moved.reshape(len(moved), -1))
        return np.moveaxis(flat.reshape(moved.shape), 0, axis).ravel()

    def estimate(self, observed: Floats) -> Floats:
        """(M^T)^-1 y for columns y."""
        table = observed.reshape(*self.shape, -1)
        for axis, channel in enumerate(self.channels):
            moved = np.moveaxis(table, axis, 0)
            flat = channel.matrix.estimate(moved.reshape(len(moved), -1))
            table = np.moveaxis(flat.reshape(moved.shape), 0, axis)
        return table.reshape(observed.shape)

    def margin(self, tables: Floats, axis: int) -> Floats:
        """(K, V_u): rows of joint tables added up over all columns but one."""
        others = tuple(1 + a for a in range(len(self.shape)) if a != axis)
        return np.asarray(tables.reshape(len(tables), *self.shape).sum(axis=others))

    def forward(self, values: Floats) -> Floats:
        """M c for columns c."""
        table = values.reshape(*self.shape, -1)
        for axis, channel in enumerate(self.channels):
            moved = np.moveaxis(table, axis, 0)
            flat = channel.matrix.forward(moved.reshape(len(moved), -1))
            table = np.moveaxis(flat.reshape(moved.shape), 0, axis)
        return table.reshape(values.shape)

    def identified(self, values: Floats, weights: Floats) -> NDArray[np.bool_]:
        """Which columns the channel tells apart: M w = h."""
        if self.known:
            return np.ones(values.shape[1], bool)
        gap = np.abs(self.forward(weights) - values).max(axis=0, initial=0.0)
        bounded = all(np.isfinite(c.condition) or c.identifiable.any() for c in self.channels)
        return (gap <= RESIDUAL * np.maximum(1.0, np.abs(values).max(axis=0, initial=0.0))) & bounded

    def each(self, observed: Floats) -> tuple[Floats, Floats]:
        """((M^T)^-1 y, (B o B) y) over all joint values, for columns y."""
        value = square = observed.reshape(*self.shape, -1)
        for axis, channel in enumerate(self.channels):
            moved = [np.moveaxis(t, axis, 0) for t in (value, square)]
            size = moved[0].shape
            value = np.moveaxis(channel.matrix.estimate(moved[0].reshape(size[0], -1)).reshape(size), 0, axis)
            square = np.moveaxis(channel.matrix.squares(moved[1].reshape(size[0], -1)).reshape(size), 0, axis)
        return value.reshape(observed.shape), square.reshape(observed.shape)
