"""Rows by their codes: the same order however it is found."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.stats import allocation
from sfumato.stats.allocation import order_of


@pytest.mark.parametrize("size", [1, 2, 50, 256, 257, 40_000, 1 << 20])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 10_000, 70_000])
def test_rows_of_one_code_stay_in_their_order(size: int, rows: int) -> None:
    codes = np.random.default_rng(rows).integers(0, size, size=rows).astype(np.int32)
    codes[:1] = size - 1  # the largest code that there may be
    assert order_of(codes, size).tolist() == sorted(range(rows), key=codes.tolist().__getitem__)


@pytest.mark.parametrize(("rows", "size"), [(0, 4), (1, 1), (500, 50), (500, 3_000)])
@pytest.mark.parametrize("piece", [7, 100, 1_000])
def test_rows_by_code_are_in_the_stable_order_however_they_are_cut(
    monkeypatch: pytest.MonkeyPatch, rows: int, size: int, piece: int
) -> None:
    monkeypatch.setattr(allocation, "PIECE", piece)
    rng = np.random.default_rng(4)
    codes, numbers = rng.integers(0, size, rows).astype(np.uint16), rng.permutation(rows).astype(np.int32)
    found = allocation.by_code(numbers, codes, size)
    assert found.dtype == np.int32
    assert np.array_equal(found, numbers[np.argsort(codes, kind="stable")])
