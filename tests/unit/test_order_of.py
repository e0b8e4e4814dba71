"""Rows by their codes: in their own order, however it is found, or in any, all equally likely."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from sfumato.stats import shuffling
from sfumato.stats.allocation import order_of
from sfumato.stats.shuffling import shuffled_order


@pytest.mark.parametrize("size", [1, 2, 50, 256, 257, 40_000, 1 << 20])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 10_000, 70_000])
def test_rows_of_one_code_stay_in_their_order(size: int, rows: int) -> None:
    codes = np.random.default_rng(rows).integers(0, size, size=rows).astype(np.int32)
    codes[:1] = size - 1  # the largest code that there may be
    assert order_of(codes, size).tolist() == sorted(range(rows), key=codes.tolist().__getitem__)


@pytest.mark.parametrize("size", [1, 2, 50, 1001, 1 << 30])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 70_000])
def test_a_random_order_goes_by_codes_and_holds_every_row(size: int, rows: int) -> None:
    rng = np.random.default_rng(rows)
    codes = rng.integers(0, size, size=rows).astype(np.int32)
    codes[:1] = size - 1
    order = shuffled_order(codes, size, rng)
    assert (np.diff(codes[order]) >= 0).all()
    assert sorted(order.tolist()) == list(range(rows))


@pytest.mark.parametrize("bits", [0, 1, 32])
def test_all_orders_of_one_code_are_equally_likely(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six orders of the three rows of code 1, also where keys tie (`bits` of them are left): chi-square of 5 degrees.

    False alarms: 1e-6 each. An order that ties leave as it was would be found with a probability near 1.
    """
    monkeypatch.setattr(shuffling, "KEY", np.uint64(bits))
    rng, codes, runs = np.random.default_rng(5), np.array([1, 0, 1, 1, 0], dtype=np.int32), 6_000
    seen = Counter(tuple(shuffled_order(codes, 2, rng)[2:].tolist()) for _ in range(runs))
    assert sum((seen[order] - runs / 6) ** 2 / (runs / 6) for order in permutations([0, 2, 3])) < stats.chi2.isf(
        1e-6, 5
    )
