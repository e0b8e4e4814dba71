"""Answers that two ways of counting give: the same, up to the order in which they add."""

from __future__ import annotations

import math
from typing import Any


def assert_same_numbers(here: list[dict[str, Any]], there: list[dict[str, Any]]) -> None:
    """Rows are the same; numbers up to rounding."""
    assert len(here) == len(there)
    for one, other in zip(here, there, strict=True):
        assert one.keys() == other.keys()
        for name, number in one.items():
            if isinstance(number, float) and isinstance(other[name], float):
                assert math.isclose(number, other[name], rel_tol=1e-12, abs_tol=1e-12), (name, one, other)
            else:
                assert number == other[name], (name, one, other)
