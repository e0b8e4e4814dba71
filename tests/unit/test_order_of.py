"""Rows by their codes: the same order however it is found."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.stats.shuffling import order_of


@pytest.mark.parametrize("size", [1, 2, 50, 256, 257, 40_000, 1 << 20])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 10_000, 70_000])
def test_rows_of_one_code_stay_in_their_order(size: int, rows: int) -> None:
    codes = np.random.default_rng(rows).integers(0, size, size=rows).astype(np.int32)
    codes[:1] = size - 1  # the largest code that there may be
    assert order_of(codes, size).tolist() == sorted(range(rows), key=codes.tolist().__getitem__)
