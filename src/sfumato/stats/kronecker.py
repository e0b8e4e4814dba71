"""Kronecker products of `diag(a) + b 1^T` matrices, applied axis by axis and never built.

A column of d values is kept with probability p and otherwise replaced by one of the other d - 1 values, each with
probability q = (1 - p) / (d - 1). With theta = p - q, so that theta + d q = 1, its channel is

    P = theta I + q 1 1^T,        P^-1 = (I - q 1 1^T) / theta.

*Lumped* form: if the domain is partitioned into classes of c_1..c_k values, a released class depends on the true value
through its class only, and the channel between classes is, exactly,

    P = theta I + (q c) 1^T,      P^-1 = (I - (q c) 1^T) / theta.

All of these, and their entry-wise squares, are `diag(a) + b 1^T`; one axis costs one sum. Columns are the true cell,
rows the released one: released = P @ true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AxisMap:
    """The matrix diag(diagonal) + column 1^T, acting along one axis."""

    diagonal: Floats
    column: Floats

    def squared(self) -> AxisMap:
        """The entry-wise square of the matrix."""
        off = self.column**2
        return AxisMap(diagonal=(self.diagonal + self.column) ** 2 - off, column=off)

    def dense(self) -> Floats:
        """The matrix itself, for tests and tiny domains."""
        return np.diag(self.diagonal) + self.column[:, None]


Maps = Sequence[AxisMap | None]  # None is the identity: a column that is copied


def theta_of_keep(keep: float, size: int) -> float:
    """theta = (d p - 1) / (d - 1), the share of the contrast between two values that survives; 1 if d = 1."""
    return 1.0 if size == 1 else (size * keep - 1.0) / (size - 1.0)


def keep_of_theta(theta: float, size: int) -> float:
    """p = theta + (1 - theta) / d, the inverse of `theta_of_keep`."""
    return theta + (1.0 - theta) / size


def check_keep(keep: float, size: int, column: str) -> None:
    """Refuse a keep probability that makes the channel singular (p = 1/d), inverted (p < 1/d) or impossible."""
    regular = 1.0 < keep * size <= size  # false for nan
    if not (regular or (size == 1 and keep == 1.0)):
        allowed = "exactly 1" if size == 1 else f"above 1/{size} and at most 1"
        raise SpecError(
            f"keep probability of {column!r} is {keep!r}; a column of {size} values needs one {allowed}", field="keep"
        )


def channel(theta: float, size: int, class_sizes: NDArray[np.int64] | None = None) -> AxisMap | None:
    """The channel of a column of `size` values, between its values or between classes of them; None if it is kept."""
    if theta == 1.0:
        return None
    q = (1.0 - theta) / size
    classes = np.ones(size) if class_sizes is None else np.asarray(class_sizes, dtype=np.float64)
    return AxisMap(diagonal=np.full(classes.size, theta), column=q * classes)


def inverse(channel_map: AxisMap | None) -> AxisMap | None:
    """P^-1 = (I - (q c) 1^T) / theta for a map made by `channel`."""
    if channel_map is None:
        return None
    theta = channel_map.diagonal
    return AxisMap(diagonal=1.0 / theta, column=-channel_map.column / theta)


def squared(maps: Maps) -> list[AxisMap | None]:
    """The entry-wise square of every axis; the square of a Kronecker product is the product of squares."""
    return [None if m is None else m.squared() for m in maps]


def apply_maps(maps: Maps, tensor: Floats) -> Floats:
    """(M_1 x ... x M_m) tensor, the maps acting on the last m axes."""
    return _apply(maps, tensor, transposed=False)


def apply_transposed(maps: Maps, tensor: Floats) -> Floats:
    """(M_1 x ... x M_m)^T tensor, the maps acting on the last m axes."""
    return _apply(maps, tensor, transposed=True)


def _apply(maps: Maps, tensor: Floats, *, transposed: bool) -> Floats:
    out = np.asarray(tensor, dtype=np.float64)
    first = out.ndim - len(maps)
    for offset, m in enumerate(maps):
        if m is None:
            continue
        axis = first + offset
        shape = [1] * out.ndim
        shape[axis] = m.diagonal.size
        a, b = m.diagonal.reshape(shape), m.column.reshape(shape)
        if transposed:  # M^T x = a x + 1 (b . x)
            out = a * out + (b * out).sum(axis=axis, keepdims=True)
        else:  # M x = a x + b (1 . x)
            out = a * out + b * out.sum(axis=axis, keepdims=True)
    return out


def inverse_frobenius(theta: float, size: int) -> float:
    """|P^-1|_F^2 = 1 + (d - 1) / theta^2, the factor by which one column multiplies the squared error."""
    return 1.0 + (size - 1.0) / theta**2


def log_error(thetas: Sequence[float], sizes: Sequence[int]) -> float:
    """sum_i log |P_i^-1|_F^2, what the search for keep probabilities minimises."""
    return float(sum(np.log(inverse_frobenius(t, d)) for t, d in zip(thetas, sizes, strict=True)))


def count_variance(theta: float, beta: float, inside: float, outside: float) -> float:
    """[c alpha (1 - alpha) + (N - c) beta (1 - beta)] / theta^2, alpha = beta + theta: one column, beta = q |A|."""
    alpha = beta + theta
    return (inside * alpha * (1.0 - alpha) + outside * beta * (1.0 - beta)) / theta**2
