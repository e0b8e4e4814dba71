"""Numbers counted in an array."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.model.array_counts import NEAR, count_places


@pytest.mark.parametrize("width", [1, 2, 7, 26, 129, NEAR + 1])
@pytest.mark.parametrize("places", [1, 2, 5, 6])
def test_places_counted_together_are_those_counted_by_themselves(width: int, places: int) -> None:
    numbers = np.random.default_rng(width).integers(0, width, size=(places, 1000)).astype(np.min_scalar_type(width))
    counts = np.full(width, 3, dtype=np.int64)
    count_places(counts, numbers)
    np.testing.assert_array_equal(counts, 3 + np.bincount(numbers.ravel(), minlength=width))
