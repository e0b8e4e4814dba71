"""One of two numbers for every row, as np.where gives it."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.stats.shuffling import either


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_either_number_is_chosen_and_nothing_else_is_changed(kind: type[np.integer]) -> None:
    """The extremes of the type included: their difference wraps around, and back."""
    limits, rng = np.iinfo(kind), np.random.default_rng(1)
    first, second = (rng.integers(limits.min, limits.max, size=1000, dtype=kind, endpoint=True) for _ in range(2))
    first[:2], second[:2] = (limits.min, limits.max), (limits.max, limits.min)
    before = first.copy(), second.copy()
    for mask in (rng.random(1000) < 0.5, np.ones(1000, dtype=bool), np.zeros(1000, dtype=bool)):
        found = either(mask, first, second)
        assert found.dtype == kind
        assert np.array_equal(found, np.where(mask, first, second))
    assert np.array_equal(first, before[0])
    assert np.array_equal(second, before[1])


def test_no_row_is_no_number() -> None:
    none = np.zeros(0, dtype=np.int32)
    assert len(either(none.astype(bool), none, none)) == 0
