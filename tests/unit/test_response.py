"""Weights, variances and shares of a randomised table: exact expectations on tiny tables, no sampling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dense_response import (
    all_cells,
    covariance,
    dense_covariance,
    exact_variance,
    guarded_half_width,
    linear_estimate,
    pattern_weights,
    ratio,
    weights,
)
from sfumato.stats.intervals import normal_quantile
from sfumato.stats.kronecker import apply_maps, channel, count_variance

SIZES, THETAS = (3, 4), (0.45, 0.7)
CHANNELS = [channel(t, d) for t, d in zip(THETAS, SIZES, strict=True)]
TRUE = np.array([[5.0, 0, 2, 1], [3, 9, 0, 4], [0, 1, 6, 2]])


def outcome_moments(question):
    """Mean and variance of sum w over releases, row by row: every row is independent given the data."""
    w = weights(CHANNELS, question)
    mean = variance = 0.0
    P, Q = (m.dense() for m in CHANNELS)
    for i, j in itertools.product(*map(range, SIZES)):
        law = np.outer(P[:, i], Q[:, j])
        first, second = (law * w).sum(), (law * w**2).sum()
        mean += TRUE[i, j] * first
        variance += TRUE[i, j] * (second - first**2)
    return mean, variance


def questions():
    rng = np.random.default_rng(2)
    yield np.outer([0, 1, 0], [1, 0, 1, 1]).astype(float)  # a conjunction
    yield np.maximum.outer([0.0, 1, 0], [1.0, 0, 0, 0])  # OR
    yield np.outer(np.ones(3), [10.0, 20, 30, 40])  # SUM of codes
    yield rng.normal(size=SIZES)


def test_expected_release_returns_the_truth_and_the_variance_formulas_agree() -> None:
    released = apply_maps(CHANNELS, TRUE)
    for a in questions():
        answer = linear_estimate(released, CHANNELS, a)
        mean, variance = outcome_moments(a)
        assert answer.estimate == pytest.approx((TRUE * a).sum(), rel=1e-12)
        assert mean == pytest.approx((TRUE * a).sum(), rel=1e-12)
        # the estimated variance is linear in the release, so its value at the expected release is its expectation
        assert answer.variance == pytest.approx(variance, rel=1e-10)
        assert exact_variance(TRUE, CHANNELS, a) == pytest.approx(variance, rel=1e-10)


def test_one_column_and_pattern_variances() -> None:
    """The two closed forms of docs/explanation/randomized-response.md, section 5, for conjunctions."""
    inside = np.array([0, 1, 1, 0.0])
    n = TRUE.sum(0)
    theta, d = THETAS[1], SIZES[1]
    beta = (1 - theta) / d * inside.sum()
    closed = count_variance(theta, beta, n @ inside, n @ (1 - inside))
    assert exact_variance(n, CHANNELS[1:], inside) == pytest.approx(closed, rel=1e-12)
    # two conjuncts: sum_b n_b prod e_i(b_i) - n_11
    first = np.array([1, 0, 0.0])
    betas = [(1 - THETAS[0]) / 3 * 1, beta]
    e = []
    for t, b in zip(THETAS, betas, strict=True):
        alpha = b + t
        e.append((b * (1 - b) / t**2, (alpha * (1 - b) ** 2 + (1 - alpha) * b**2) / t**2))
    total = 0.0
    for x, y in itertools.product((0, 1), (0, 1)):
        n_b = TRUE[first == x][:, inside == y].sum()
        total += n_b * e[0][x] * e[1][y]
    total -= TRUE[first == 1][:, inside == 1].sum()
    assert exact_variance(TRUE, CHANNELS, np.outer(first, inside)) == pytest.approx(total, rel=1e-12)


@given(st.lists(st.tuples(st.floats(0.1, 0.95), st.integers(2, 6), st.integers(1, 5)), min_size=1, max_size=4))
def test_two_to_the_j_patterns_are_the_lumped_weights(spec) -> None:
    """prod (b_i - beta_i) / theta_i equals P^-T of the conjunction between the classes {not A, A}."""
    spec = [(t, d, min(k, d - 1)) for t, d, k in spec]
    lumped = [channel(t, d, np.array([d - k, k])) for t, d, k in spec]
    corner = np.zeros([2] * len(spec))
    corner[(1,) * len(spec)] = 1
    betas = [(1 - t) / d * k for t, d, k in spec]
    expected = pattern_weights([t for t, _, _ in spec], betas)
    np.testing.assert_allclose(weights(lumped, corner), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_lumping_does_not_change_estimate_or_variance() -> None:
    """A question constant on classes has the same answer from classes as from values."""
    released = apply_maps(CHANNELS, TRUE)
    member = np.array([0, 1, 1, 0])
    a = np.outer([1, 0, 0], [0, 1]).astype(float)
    full = linear_estimate(released, CHANNELS, a[:, member])
    grouped = np.stack([released[:, member == k].sum(1) for k in (0, 1)], axis=1)
    lumped = linear_estimate(grouped, [CHANNELS[0], channel(THETAS[1], 4, np.array([2, 2]))], a)
    assert lumped.estimate == pytest.approx(full.estimate, rel=1e-12)
    assert lumped.variance == pytest.approx(full.variance, rel=1e-12)
    assert lumped.weight_max == pytest.approx(full.weight_max, rel=1e-12)


def test_all_cells_equals_one_question_per_cell() -> None:
    released = np.random.default_rng(4).integers(0, 9, SIZES).astype(float)
    every = all_cells(released, CHANNELS)
    largest = 0.0
    for i, j in itertools.product(*map(range, SIZES)):
        a = np.zeros(SIZES)
        a[i, j] = 1
        one = linear_estimate(released, CHANNELS, a)
        assert every.estimate[i, j] == pytest.approx(float(one.estimate), rel=1e-12)
        assert every.variance[i, j] == pytest.approx(float(one.variance), rel=1e-12)
        largest = max(largest, one.weight_max)
    assert every.weight_max == pytest.approx(largest, rel=1e-12)
    assert every.estimate.sum() == pytest.approx(released.sum())


def test_dense_covariance_matches_the_questions() -> None:
    n = TRUE.sum()
    cov = dense_covariance(TRUE / n, CHANNELS, int(n)) * n**2
    a, b = np.zeros(SIZES), np.zeros(SIZES)
    a[0, 1] = b[2, 2] = 1
    assert cov[1, 1] == pytest.approx(exact_variance(TRUE, CHANNELS, a), rel=1e-12)
    assert cov[1, 10] == pytest.approx(float(covariance(apply_maps(CHANNELS, TRUE), CHANNELS, a, b)), rel=1e-10)
    population = dense_covariance(TRUE / n, CHANNELS, int(n), population=True)
    difference = (np.diag(TRUE.ravel() / n) - np.outer(TRUE.ravel(), TRUE.ravel()) / n**2) / n
    np.testing.assert_allclose(population - dense_covariance(TRUE / n, CHANNELS, int(n)), difference, atol=1e-15)


def test_untouched_columns_are_exact_and_have_no_width() -> None:
    answer = linear_estimate(TRUE, [None, None], np.ones(SIZES))
    assert (float(answer.estimate), float(answer.variance), answer.exact) == (TRUE.sum(), 0.0, True)
    assert float(guarded_half_width(answer, 1.96)) == 0.0
    assert not all_cells(TRUE, [None, None]).variance.any()


def test_population_variance_is_that_of_a_sample() -> None:
    """V = N x sample variance of w; positive even for an untouched column."""
    released = np.random.default_rng(4).integers(0, 9, SIZES).astype(float)
    rows = int(released.sum())
    a = np.outer([0, 1, 0], [1, 0, 1, 1]).astype(float)
    w = np.repeat(weights(CHANNELS, a).ravel(), released.ravel().astype(int))
    answer = linear_estimate(released, CHANNELS, a, rows=rows)
    assert answer.variance == pytest.approx(rows * np.var(w, ddof=1), rel=1e-12)
    assert linear_estimate(released, [None, None], a, rows=rows).variance > 0


def test_share_is_the_formula_of_the_spec() -> None:
    released = np.round(apply_maps(CHANNELS, 1000 * TRUE))
    b = np.outer([1, 1, 0], np.ones(4))
    a = np.outer([1, 0, 0], np.ones(4))
    value, error, _ = ratio(released, CHANNELS, a, b)
    w_a, w_b = weights(CHANNELS, a), weights(CHANNELS, b)
    top, bottom = (released * w_a).sum(), (released * w_b).sum()
    R = top / bottom
    e = w_a - R * w_b
    variance = (released * e**2).sum() - (1 - R) ** 2 * top - R**2 * (bottom - top)
    assert value == pytest.approx(R, rel=1e-12)
    assert error == pytest.approx(np.sqrt(variance) / bottom, rel=1e-10)


def test_share_of_almost_nothing_is_refused() -> None:
    released = np.ones(SIZES)
    a = np.outer([1, 0, 0], [1, 0, 0, 0]).astype(float)
    value, error, _ = ratio(released, CHANNELS, a, a)
    assert np.isnan(value)
    assert np.isnan(error)


def test_leading_axes_are_groups() -> None:
    released = np.random.default_rng(4).integers(0, 9, (5, *SIZES)).astype(float)
    a = np.outer([0, 1, 0], [1, 0, 1, 1]).astype(float)
    many = linear_estimate(released, CHANNELS, a)
    value, error, _ = ratio(released * 100, CHANNELS, a, np.ones(SIZES))
    for g in range(5):
        one = linear_estimate(released[g], CHANNELS, a)
        assert many.estimate[g] == pytest.approx(float(one.estimate))
        assert many.variance[g] == pytest.approx(float(one.variance))
        v, e, _ = ratio(released[g] * 100, CHANNELS, a, np.ones(SIZES))
        assert (value[g], error[g]) == pytest.approx((float(v), float(e)))


def test_quantiles() -> None:
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert normal_quantile(0.95, 5) == pytest.approx(normal_quantile(0.99), rel=1e-12)
