"""The coin and the step of randomised response, outcome by outcome."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.laws.independent_columns import randomise_codes


class Scripted:
    """A stand-in for a generator that hands out prepared whole numbers."""

    def __init__(self, *numbers: list[int]) -> None:
        self.numbers = list(numbers)

    def integers(self, low: int, high: int, size: int, dtype: type) -> np.ndarray:
        found = np.asarray(self.numbers.pop(0), dtype=dtype)
        assert found.shape == (size,)
        assert found.size == 0 or low <= found.min() <= found.max() < high
        return found


@pytest.mark.parametrize("units", [1, (1 << 31) + 12_345, (1 << 32) - 1])
def test_a_value_is_kept_below_its_probability_and_moved_from_it_on(units: int) -> None:
    """The 32 bits of the coin on both sides of the keep probability, and at both ends."""
    coins = sorted({0, units - 1, units, 2**32 - 1})
    draws = Scripted(coins, [1] * sum(coin >= units for coin in coins))
    codes = np.zeros(len(coins), dtype=np.int32)
    shown = randomise_codes(codes, keep=units / 2**32, size=3, rng=draws)  # type: ignore[arg-type]
    assert shown.tolist() == [int(coin >= units) for coin in coins]
    assert not codes.any()


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("size", [2, 5, 200])
def test_steps_reach_every_other_value_once(size: int, dtype: type) -> None:
    for code in range(size):
        rows = size - 1
        draws = Scripted([2**32 - 1] * rows, [*range(1, size)])
        codes = np.full(rows, code, dtype=dtype)
        shown = randomise_codes(codes, keep=0.5, size=size, rng=draws)  # type: ignore[arg-type]
        assert sorted(shown.tolist()) == [other for other in range(size) if other != code]
        assert shown.dtype == dtype
