"""The uncertainty coefficient behind a randomised two-way table, corrected for noise, with an interval.

U(X; Y) = I(X; Y) / H(Y) of a noisy table lies above that of the true one: noise looks like association. How much above
is found by publishing tables of known association through the same channel. Rule and its limits:
docs/explanation/intervals.md section 9.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from .association import uncertainty_coefficient

Floats = NDArray[np.float64]

TARGETS = (0.0, 1 / 3, 2 / 3, 1.0, 1.4)  # associations that are tried, in units of the plug-in value
RELEASES = 30  # of each
EM_STEPS = 200
GRID = 2_001  # associations at which the interval's test is made
STEPS = 60  # of a bisection


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedAssociation:
    """U corrected for noise, both ends of its interval, and the plug-in value it was corrected from."""

    value: float
    low: float
    high: float
    plug_in: float


def corrected_association(
    released: Floats, first: Floats, second: Floats, z: float, rng: np.random.Generator
) -> CorrectedAssociation:
    """U of the true table behind a released (X, Y) table of counts, by parametric bootstrap.

    `first` and `second` are the channels of the two columns, released value by true value; an untouched column has the
    identity. The same generator state gives the same answer.
    """
    for axis, channel in enumerate((first, second)):
        if channel.shape != (released.shape[axis],) * 2:
            raise SpecError(f"channel {axis} has the shape {channel.shape}, the table {released.shape}")
    rows = round(float(released.sum()))
    back = [np.asarray(np.linalg.inv(c), dtype=np.float64) for c in (first, second)]
    plug_in = _plug_in(released, *back)
    if plug_in <= 0 or rows == 0:
        return CorrectedAssociation(value=0.0, low=0.0, high=0.0, plug_in=0.0)
    if all(np.array_equal(c, np.eye(len(c))) for c in (first, second)):
        return CorrectedAssociation(value=plug_in, low=plug_in, high=plug_in, plug_in=plug_in)
    shares = _likeliest(released, first, second)
    tried, mean, spread = [], [], []
    for target in TARGETS:
        table = _whole_table(_table_of(shares, target * plug_in), rows)
        found = [_plug_in(_publish(table, first, second, rng), *back) for _ in range(RELEASES)]
        tried.append(uncertainty_coefficient(table.astype(np.float64)))
        mean.append(float(np.mean(found)))
        spread.append(float(np.std(found, ddof=1)))
    return _corrected(plug_in, np.array(tried), np.array(mean), np.array(spread), z)


def _corrected(plug_in: float, tried: Floats, mean: Floats, spread: Floats, z: float) -> CorrectedAssociation:
    """Value and interval from the mean and spread of the plug-in at the tried associations.

    The bias at independence, subtracted, lies a little low (e0); the association whose mean is the one seen a little
    high (e1): the value is halfway between. The interval is the hull of the associations that the release does not
    reject and of e0 -+ z spread.
    """
    grid = np.linspace(0.0, min(1.0, 3.0 * float(tried[-1])), GRID)
    curve, width = _curve(tried, mean, grid), np.maximum(_curve(tried, spread, grid), 0.0)
    e0 = max(plug_in - float(mean[0] - tried[0]), 0.0)
    reached = np.flatnonzero(curve >= plug_in)
    e1 = float(grid[reached[0]]) if len(reached) else float(grid[-1])
    kept = grid[np.abs(plug_in - curve) <= z * width]
    around = z * float(np.interp(e0, grid, width))
    value = (e0 + e1) / 2
    ends = [value, e0 - around, e0 + around, *kept[:1], *kept[-1:]]
    return CorrectedAssociation(
        value=value, low=max(float(min(ends)), 0.0), high=min(float(max(ends)), 1.0), plug_in=plug_in
    )


def _curve(tried: Floats, seen: Floats, grid: Floats) -> Floats:
    """The quadratic through what was seen; beyond the largest association tried its tangent."""
    polynomial = np.polynomial.Polynomial.fit(tried, seen, deg=2)
    last = float(tried[-1])
    inside = polynomial(np.minimum(grid, last))
    return np.asarray(inside + polynomial.deriv()(last) * np.maximum(grid - last, 0.0))


def _plug_in(released: Floats, first_back: Floats, second_back: Floats) -> float:
    return uncertainty_coefficient(first_back @ released @ second_back.T)


def _likeliest(released: Floats, first: Floats, second: Floats) -> Floats:
    """Shares of nearly greatest likelihood, by expectation maximisation from uniform."""
    seen = released / released.sum()
    shares = np.full(released.shape, 1.0 / released.size)
    for _ in range(EM_STEPS):
        expected = first @ shares @ second.T
        lift = np.divide(seen, expected, out=np.zeros_like(seen), where=expected > 0)
        shares = shares * (first.T @ lift @ second)
    return shares / shares.sum()


def _table_of(shares: Floats, target: float) -> Floats:
    """Shares with the margins' product I as their base and about the association `target`.

    I + l (rank-1 part of (shares - I) / sqrt I) sqrt I, cells below 0 emptied: the strongest direction of the estimated
    dependence, with as much of it as needed. The largest association in this direction if the target is larger.
    """
    independent = np.outer(shares.sum(axis=1), shares.sum(axis=0))
    if target <= 0:
        return independent
    root = np.sqrt(independent)
    residual = np.divide(shares - independent, root, out=np.zeros_like(root), where=root > 0)
    u, s, vt = np.linalg.svd(residual, full_matrices=False)
    direction = s[0] * np.outer(u[:, 0], vt[0]) * root

    def table(strength: float) -> Floats:
        found = np.maximum(independent + strength * direction, 0.0)
        return np.asarray(found / found.sum())

    low, high = 0.0, 1.0
    while uncertainty_coefficient(table(high)) < target and high < 2.0**40:
        low, high = high, 2.0 * high
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if uncertainty_coefficient(table(middle)) < target else (low, middle)
    return table(high)


def _whole_table(shares: Floats, rows: int) -> NDArray[np.int64]:
    """Whole counts that add up to `rows`, as near to the shares as that allows: largest remainders round up."""
    exact = shares * rows
    counts = np.floor(exact).astype(np.int64)
    missing = rows - int(counts.sum())
    order = np.argsort(-(exact - counts), axis=None, kind="stable")[: max(missing, 0)]
    counts.reshape(-1)[order] += 1
    return counts


def _publish(table: NDArray[np.int64], first: Floats, second: Floats, rng: np.random.Generator) -> NDArray[np.float64]:
    """One release of a table: each column randomised by itself, one after the other."""
    for axis, channel in enumerate((first, second)):
        chances = channel.T if axis else channel.T[:, None, :]  # of the published value, by true value on the axis
        drawn = rng.multinomial(table, chances)  # (X, Y, published)
        table = drawn.sum(axis=axis) if axis else drawn.sum(axis=axis).T
    return table.astype(np.float64)
