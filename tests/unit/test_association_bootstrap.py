"""The association behind a randomised table: what is exact without sampling, ends of the scale, determinism."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import SpecError
from sfumato.stats.association import (
    _likeliest,
    _publish,
    _table_of,
    _whole_table,
    corrected_association,
    uncertainty_coefficient,
)

Z = 1.959963984540054
TRUE = 1000 * np.array([[5, 3, 2], [1, 9, 4]])


def channel(keep: float, size: int) -> np.ndarray:
    """Released by true: kept with `keep`, else one of the other values."""
    other = (1 - keep) / (size - 1)
    return np.full((size, size), other) + (keep - other) * np.eye(size)


def test_ends_of_the_scale():
    assert uncertainty_coefficient(np.diag([3.0, 4, 5])) == pytest.approx(1.0)
    assert uncertainty_coefficient(np.outer([1.0, 2, 3], [4.0, 5])) == pytest.approx(0.0, abs=1e-12)
    assert uncertainty_coefficient(np.ones((3, 1))) == 0.0


def test_an_untouched_table_is_answered_exactly():
    found = corrected_association(TRUE.astype(float), np.eye(2), np.eye(3), Z, np.random.default_rng(1))
    assert found.value == found.low == found.high == pytest.approx(uncertainty_coefficient(TRUE))


def test_the_same_release_gets_the_same_answer():
    first, second = channel(0.7, 2), channel(0.7, 3)
    released = _publish(TRUE, first, second, np.random.default_rng(3))
    one, other = (corrected_association(released, first, second, Z, np.random.default_rng(9)) for _ in range(2))
    assert one == other
    assert 0 <= one.low < one.value < one.high <= 1


def test_a_release_has_the_rows_and_the_means_of_its_channel():
    """40 releases of 24,000 rows: each cell's mean within 6 standard errors of (first x second) table."""
    first, second, rng = channel(0.6, 2), channel(0.5, 3), np.random.default_rng(5)
    found = np.array([_publish(TRUE, first, second, rng) for _ in range(40)])
    assert (found.sum(axis=(1, 2)) == TRUE.sum()).all()
    expected = first @ TRUE @ second.T
    error = np.sqrt(expected / 40)  # at most Poisson
    assert (np.abs(found.mean(axis=0) - expected) < 6 * error).all()
    assert np.abs(found.mean(axis=0) - first.T @ TRUE @ second).max() < 6 * error.max()  # both channels are symmetric


def test_tables_of_a_wanted_association():
    shares = TRUE / TRUE.sum()
    for target in (0.0, 0.01, 0.05, 0.2):
        table = _table_of(shares, target)
        assert table.min() >= 0
        assert uncertainty_coefficient(table) == pytest.approx(target, abs=1e-6)
    np.testing.assert_allclose(_table_of(shares, 1e-9).sum(axis=0), shares.sum(axis=0), rtol=1e-3)
    assert uncertainty_coefficient(_table_of(shares, 5.0)) <= 1  # no table reaches it: the strongest in that direction


def test_whole_tables_add_up():
    shares = np.random.default_rng(2).dirichlet(np.ones(12)).reshape(3, 4)
    counts = _whole_table(shares, 1001)
    assert counts.sum() == 1001
    assert np.abs(counts - 1001 * shares).max() < 1


def test_likeliest_table_of_the_expected_release_is_the_true_one():
    first, second = channel(0.9, 2), channel(0.9, 3)
    np.testing.assert_allclose(_likeliest(first @ TRUE @ second.T, first, second), TRUE / TRUE.sum(), atol=1e-6)


def test_a_higher_level_is_wider():
    first, second = channel(0.6, 2), channel(0.5, 3)
    released = _publish(TRUE, first, second, np.random.default_rng(3))
    narrow, wide = (corrected_association(released, first, second, z, np.random.default_rng(9)) for z in (Z, 2.576))
    assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high
    assert wide.high - wide.low > narrow.high - narrow.low


def test_channels_of_another_table_are_refused():
    with pytest.raises(SpecError, match="channel 1"):
        corrected_association(TRUE.astype(float), channel(0.6, 2), channel(0.6, 2), Z, np.random.default_rng(1))
