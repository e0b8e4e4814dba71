"""Second ways to the errors of randomised tables, against which the ones that run are tested. Tiny tables only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.stats.kronecker import Floats, Maps, apply_maps, apply_transposed, inverse, log_error, squared


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighted:
    """Estimates, their variances (unclipped: an unbiased one can be negative) and the largest |weight|."""

    estimate: Floats
    variance: Floats
    weight_max: float
    exact: bool  # no mentioned column is randomised


def all_cells(observed: Floats, channels: Maps) -> Weighted:
    """Every cell of the table over the class axes at once: P^-1 observed and (P^-1 squared) observed - estimate."""
    back = [inverse(m) for m in channels]
    estimate = apply_maps(back, observed)
    exact = all(m is None for m in channels)
    variance = np.zeros_like(estimate) if exact else apply_maps(squared(back), observed) - estimate
    largest = 1.0
    for m in back:
        if m is not None:
            largest *= float(np.maximum(np.abs(m.diagonal + m.column), np.abs(m.column)).max())
    return Weighted(estimate=estimate, variance=variance, weight_max=0.0 if exact else largest, exact=exact)


def weights(channels: Maps, question: Floats) -> Floats:
    """w = P^-T a."""
    return apply_transposed([inverse(m) for m in channels], question)


def linear_estimate(observed: Floats, channels: Maps, question: Floats, *, rows: int | None = None) -> Weighted:
    """Estimates of sum a over true rows, one per leading index of `observed`.

    `rows` (all rows of the release, in or out of the group) switches to the variance for a population.
    """
    axes = tuple(range(observed.ndim - len(channels), observed.ndim))
    w = weights(channels, question)
    estimate = (observed * w).sum(axis=axes)
    second = (observed * w**2).sum(axis=axes)
    if rows is None:
        variance = second - (observed * weights(channels, question**2)).sum(axis=axes)
    else:
        variance = (second - estimate**2 / rows) * (rows / max(rows - 1, 1))
    exact = all(m is None for m in channels)
    if exact and rows is None:
        variance = np.zeros_like(estimate)
    return Weighted(
        estimate=np.asarray(estimate),
        variance=np.asarray(variance),
        weight_max=0.0 if exact else float(np.abs(w).max()),
        exact=exact,
    )


def covariance(observed: Floats, channels: Maps, first: Floats, second: Floats) -> Floats:
    """Cov-hat of two questions given the data set: sum w_a w_b - sum P^-T (a b)."""
    axes = tuple(range(observed.ndim - len(channels), observed.ndim))
    product = weights(channels, first) * weights(channels, second) - weights(channels, first * second)
    return np.asarray((observed * product).sum(axis=axes))


def ratio(
    observed: Floats, channels: Maps, numerator: Floats, denominator: Floats, *, rows: int | None = None
) -> tuple[Floats, Floats, Weighted]:
    """sum a / sum b with its standard error (nan if the denominator is within 3 standard errors of 0), and sum b.

    Linearised: the variance of sum (a - R b), divided by (sum b)^2. For a inside b this is the error of a share.
    """
    top = linear_estimate(observed, channels, numerator, rows=rows)
    bottom = linear_estimate(observed, channels, denominator, rows=rows)
    trusted = bottom.estimate > 3.0 * np.sqrt(np.maximum(bottom.variance, 0.0))
    safe = np.where(trusted, bottom.estimate, np.nan)
    value = top.estimate / safe
    spread = np.empty(np.shape(value))
    for index in np.ndindex(np.shape(value)):  # groups, not rows
        residual = numerator - (value[index] if trusted[index] else 0.0) * denominator
        spread[index] = linear_estimate(observed[index], channels, residual, rows=rows).variance
    return value, np.sqrt(np.maximum(spread, 0.0)) / safe, bottom


def guarded_half_width(weighted: Weighted, z: float) -> Floats:
    """z sqrt(max(V, 0) + z^2 w_max^2 / 4): the guard keeps the coverage of small counts; 0 if exact."""
    guard = z * z * weighted.weight_max**2 / 4.0
    return np.asarray(z * np.sqrt(np.maximum(weighted.variance, 0.0) + guard))


def exact_variance(true_counts: Floats, channels: Maps, question: Floats) -> float:
    """The true variance of the estimate given the data set: sum (P n) w^2 - sum n a^2. For planning and tests."""
    w = weights(channels, question)
    released = apply_maps(channels, true_counts)
    return float((released * w**2).sum() - (true_counts * question**2).sum())


def dense_covariance(true_shares: Floats, channels: Maps, rows: int, *, population: bool = False) -> Floats:
    """(1/N) [P^-1 diag(P pi) P^-T - diag(pi)], with pi pi^T for a population. Tiny tables only."""
    shape = true_shares.shape
    identity = np.eye(true_shares.size).reshape(true_shares.size, *shape)
    back = apply_maps([inverse(m) for m in channels], identity).reshape(true_shares.size, -1).T
    flat = true_shares.reshape(-1)
    known = np.outer(flat, flat) if population else np.diag(flat)
    released = apply_maps(channels, true_shares).reshape(-1)
    return np.asarray((back * released @ back.T - known) / rows)


def pattern_weights(thetas: Sequence[float], betas: Sequence[float]) -> Floats:
    """prod_i (b_i - beta_i) / theta_i over the 2^j patterns of met conjuncts, shape (2, ..., 2)."""
    out = np.ones(())
    for theta, beta in zip(thetas, betas, strict=True):
        out = np.multiply.outer(out, np.array([-beta, 1.0 - beta]) / theta)
    return np.asarray(out)


def expected_squared_distance(thetas: Sequence[float], sizes: Sequence[int], rows: int) -> float:
    """E |estimated - true proportions|^2 = (prod_i |P_i^-1|_F^2 / d_i - 1) / N, given the data set."""
    excess = log_error(thetas, sizes) - float(np.sum(np.log(np.asarray(sizes, dtype=np.float64))))
    return float(np.expm1(excess)) / rows
