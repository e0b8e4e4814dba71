"""Distances of tables by hand."""

from __future__ import annotations

import numpy as np
import pytest
from papers.rr import base_error, cube_error

from sfumato.stats.association import chi_square_distance, euclidean_distance, kl_distance

TRUE = np.array([[4.0, 0.0], [2.0, 2.0]])
ESTIMATED = np.array([[3.0, 1.0], [3.0, 1.0]])


def test_by_hand() -> None:
    assert chi_square_distance(TRUE, ESTIMATED) == pytest.approx((1 / 64) / (1 / 2) + 2 * (1 / 64) / (1 / 4))
    assert euclidean_distance(TRUE, ESTIMATED) == pytest.approx(np.sqrt(4 / 64))
    expected = 0.5 * np.log(4 / 3) + 0.25 * np.log(2 / 3) + 0.25 * np.log(2)
    assert kl_distance(TRUE, ESTIMATED) == pytest.approx(expected)
    assert base_error(TRUE, ESTIMATED) == pytest.approx((1 / 4 + 1 / 2 + 1 / 2) / 3)
    # cube: 3 cells, 2 rows (4, 4 exact), 2 columns (6, 2 exact), 1 total (8 exact)
    assert cube_error(TRUE, ESTIMATED) == pytest.approx((1 / 4 + 1 / 2 + 1 / 2) / 8)


def test_kl_of_a_table_with_a_lost_cell_is_infinite() -> None:
    assert kl_distance(TRUE, np.array([[4.0, 0], [4, 0]])) == np.inf
    assert kl_distance(TRUE, TRUE) == 0.0
    mixed = 0.5 * np.log(1 / (0.9 + 0.05)) + 0.25 * np.log(0.25 / (0.9 * 0.5 + 0.025)) + 0.25 * np.log(0.25 / 0.025)
    lost = np.array([[4.0, -1.0], [4.0, 0.0]])
    by_hand = 0.5 * np.log(0.5 / (0.9 * 0.5 + 0.025)) + mixed - 0.5 * np.log(1 / 0.95)
    assert kl_distance(TRUE, lost, mix=0.1) == pytest.approx(by_hand)
