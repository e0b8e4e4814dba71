"""Uncertainty coefficients of Adult to two decimals, and non-negative tables."""

from __future__ import annotations

import numpy as np
import pytest

from adult_table import ESGRO, adult, tensor_of
from sfumato.stats.association import expectation_maximisation, project_to_simplex, uncertainty_coefficient
from sfumato.stats.kronecker import apply_maps, channel

ORIGINAL = {"ES": 11.54, "EG": 0.68, "ER": 1.92, "SG": 4.12, "SR": 1.07, "RG": 1.08, "GR": 1.27,
            "EO": 9.90, "SO": 2.74, "GO": 4.40, "RO": 0.57}  # fmt: skip


def test_original_uncertainty_coefficients() -> None:
    """Tables 4 and 5, exact to two decimals; the published G-R is I / H(G), i.e. U of (R, G)."""
    table, letters = tensor_of(adult(), ESGRO), "ESGRO"
    for pair, expected in ORIGINAL.items():
        x, y = (letters.index(c) for c in pair)
        two_way = table.sum(axis=tuple(i for i in range(5) if i not in (x, y)))
        two_way = two_way if x < y else two_way.T
        assert round(100 * uncertainty_coefficient(two_way), 2) == expected, pair


def test_ends_of_the_scale() -> None:
    assert uncertainty_coefficient(np.diag([3.0, 4, 5])) == pytest.approx(1.0)
    assert uncertainty_coefficient(np.outer([1.0, 2, 3], [4.0, 5])) == pytest.approx(0.0, abs=1e-12)
    assert uncertainty_coefficient(np.ones((3, 1))) == 0.0


def test_em_of_the_expected_release_is_the_truth() -> None:
    true = np.array([[5.0, 3, 2], [1, 9, 4]])
    channels = [channel(0.8, 2), channel(0.8, 3)]
    shares = expectation_maximisation(apply_maps(channels, true), channels, steps=5000, tolerance=1e-14)
    np.testing.assert_allclose(shares, true / true.sum(), atol=1e-7)


def test_em_is_nonnegative_sums_to_one_and_raises_the_likelihood() -> None:
    rng = np.random.default_rng(3)
    observed = rng.integers(0, 4, (4, 5)).astype(float)
    channels = [channel(0.3, 4), channel(0.4, 5)]
    likelihoods = []
    for steps in (1, 3, 10, 100):
        shares = expectation_maximisation(observed, channels, steps=steps)
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1.0, abs=1e-12)
        likelihoods.append((observed * np.log(apply_maps(channels, shares))).sum())
    assert likelihoods == sorted(likelihoods)


def test_projection_is_the_nearest_table() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        x = rng.normal(0.2, 0.5, 6)
        p = project_to_simplex(x)
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1.0, abs=1e-12)
        for y in rng.dirichlet(np.ones(6), 20):  # variational inequality
            assert (x - p) @ (y - p) <= 1e-12
    np.testing.assert_allclose(project_to_simplex(np.array([0.2, 0.8])), [0.2, 0.8])
