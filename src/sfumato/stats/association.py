"""Two-way tables behind noise: the uncertainty coefficient, non-negative tables, and distances from the true one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from .kronecker import Floats, Maps, apply_maps, apply_transposed

# Uncertainty coefficient U(X; Y) = I(X; Y) / H(Y) of a two-way table.
#
# It lies in [0, 1], not [-1, 1], and is asymmetric: H is the entropy of the *second* column. Estimated
# cells of the plain inverse can be negative; they enter as empty (0 log 0 = 0) in the two-way table that is asked for,
# never in a larger one. Noise biases U upwards: `corrected_association` corrects that.


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


# The uncertainty coefficient behind a randomised two-way table, corrected for noise, with an interval.
#
# U(X; Y) = I(X; Y) / H(Y) of a noisy table lies above that of the true one: noise looks like association. How much
# above is found by publishing tables of known association through the same channel. Rule and its limits:
# docs/explanation/intervals.md section 9.


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


# Non-negative tables from a randomised one, only when asked for.
#
# The unbiased inverse has negative cells (about half of them on sparse tables). Clipping them to 0 biases every
# marginal; these two do not clip. Use them for a table of shares, never before aggregating a count.


MOST_STEPS = 300
TOLERANCE = 1e-9


def expectation_maximisation(
    observed: Floats, channels: Maps, *, steps: int = MOST_STEPS, tolerance: float = TOLERANCE
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


# How far an estimated contingency table lies from the true one, as the paper measures it.
#
# Divisions by a true share or count run over the cells where it is positive only.


def kl_distance(true: Floats, estimated: Floats, *, mix: float = 0.0) -> float:
    """sum pi log(pi / est) over pi > 0, counts of one N or shares; infinite if an estimate there is not positive.

    `mix` > 0 first replaces the estimate by its positive part, rescaled and mixed with that share of a uniform table:
    a stated way to compare estimates that have empty cells.
    """
    pi, est = _shares(true, estimated)
    if mix > 0:
        est = np.maximum(est, 0.0)
        est = (1.0 - mix) * est / est.sum() + mix / est.size
    inside = pi > 0
    if np.any(est[inside] <= 0):
        return float("inf")
    return float((pi[inside] * (np.log(pi[inside]) - np.log(est[inside]))).sum())


def chi_square_distance(true: Floats, estimated: Floats) -> float:
    """sum (pi - est)^2 / pi over pi > 0."""
    pi, est = _shares(true, estimated)
    inside = pi > 0
    return float(((pi - est)[inside] ** 2 / pi[inside]).sum())


def euclidean_distance(true: Floats, estimated: Floats) -> float:
    """|pi - est| over all cells."""
    pi, est = _shares(true, estimated)
    return float(np.sqrt(((pi - est) ** 2).sum()))


def _shares(true: Floats, estimated: Floats) -> tuple[Floats, Floats]:
    rows = true.sum()
    return true / rows, estimated / rows
