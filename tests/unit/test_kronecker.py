"""Implicit Kronecker algebra against dense matrices."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dense_response import dense_covariance, expected_squared_distance
from sfumato.errors import SpecError
from sfumato.stats.kronecker import (
    apply_maps,
    apply_transposed,
    channel,
    check_keep,
    inverse,
    inverse_frobenius,
    keep_of_theta,
    squared,
    theta_of_keep,
)

thetas_and_sizes = st.lists(st.tuples(st.floats(0.05, 0.999), st.integers(2, 4)), min_size=1, max_size=3)


def dense(maps):
    return functools.reduce(np.kron, [m.dense() for m in maps])


def test_spec_numbers() -> None:
    """d = 7, p = .65: theta .591667, q .058333, |P^-1|_F^2 = (d-1)^3 / (dp-1)^2 + 1."""
    theta = theta_of_keep(0.65, 7)
    assert theta == pytest.approx(0.591667, abs=5e-7)
    assert pytest.approx(0.058333, abs=5e-7) == (1 - 0.65) / 6
    P = channel(theta, 7)
    assert P.dense()[0, 0] == pytest.approx(0.65, abs=1e-15)
    assert P.dense()[1, 0] == pytest.approx(0.35 / 6, abs=1e-15)
    expected = 6**3 / (7 * 0.65 - 1) ** 2 + 1
    assert inverse_frobenius(theta, 7) == pytest.approx(expected, rel=1e-13)
    assert (np.linalg.inv(P.dense()) ** 2).sum() == pytest.approx(expected, rel=1e-12)
    assert keep_of_theta(theta, 7) == pytest.approx(0.65, abs=1e-15)


@given(thetas_and_sizes, st.randoms(use_true_random=False))
def test_implicit_equals_dense(spec, random) -> None:
    maps = [channel(t, d) for t, d in spec]
    x = np.random.default_rng(random.randrange(2**32)).normal(size=[d for _, d in spec])
    for name, implicit in {
        "P": maps,
        "inverse": [inverse(m) for m in maps],
        "square": squared(maps),
        "inverse square": squared([inverse(m) for m in maps]),
    }.items():
        D = dense(implicit)
        scale = np.abs(D).sum(axis=1).max() * np.abs(x).max()
        assert np.abs(apply_maps(implicit, x).ravel() - D @ x.ravel()).max() <= 1e-12 * scale, name
        assert np.abs(apply_transposed(implicit, x).ravel() - D.T @ x.ravel()).max() <= 1e-12 * scale, name
    for one in maps:
        np.testing.assert_allclose(one.squared().dense(), one.dense() ** 2, rtol=1e-12)
        np.testing.assert_allclose(inverse(one).dense(), np.linalg.inv(one.dense()), rtol=1e-9, atol=1e-9)
    back = apply_maps([inverse(m) for m in maps], apply_maps(maps, x))
    np.testing.assert_allclose(back, x, atol=1e-9)


@given(st.floats(0.05, 0.99), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_lumped_channel_is_the_exact_channel_between_classes(theta, sizes) -> None:
    """Summing the rows of the full channel over classes gives the lumped one, whichever value of a class is true."""
    d = sum(sizes)
    full = np.eye(1) if d == 1 else channel(theta, d).dense()
    member = np.repeat(np.arange(len(sizes)), sizes)
    between = np.array([[full[member == j, v].sum() for v in range(d)] for j in range(len(sizes))])
    lumped = channel(theta, d, np.array(sizes))
    np.testing.assert_allclose(lumped.dense()[:, member], between, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(inverse(lumped).dense() @ lumped.dense(), np.eye(len(sizes)), atol=1e-9)


def test_maps_act_on_the_last_axes_and_none_is_the_identity() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    m = channel(0.4, 4)
    out = apply_maps([None, m], x)
    for i in range(2):
        for j in range(3):
            np.testing.assert_allclose(out[i, j], m.dense() @ x[i, j])
    assert channel(1.0, 4) is None


def test_expected_squared_distance_is_the_trace() -> None:
    rng = np.random.default_rng(1)
    pi = rng.dirichlet(np.ones(12)).reshape(3, 4)
    thetas, sizes = [0.5, 0.7], [3, 4]
    cov = dense_covariance(pi, [channel(t, d) for t, d in zip(thetas, sizes, strict=True)], rows=100)
    assert expected_squared_distance(thetas, sizes, 100) == pytest.approx(np.trace(cov), rel=1e-12)
    assert expected_squared_distance([1.0, 1.0], sizes, 100) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(
    ("keep", "size"), [(1 / 3, 3), (0.2, 3), (1.1, 3), (float("nan"), 3), (float("inf"), 3), (-1, 3), (0.9, 1)]
)
def test_singular_inverted_and_impossible_keeps_are_refused(keep, size) -> None:
    with pytest.raises(SpecError, match="keep probability"):
        check_keep(keep, size, "a")


def test_regular_keeps_pass() -> None:
    for keep, size in [(1.0, 1), (1.0, 5), (0.34, 3), (0.5000001, 2)]:
        check_keep(keep, size, "a")
