"""Published blocks as a reader opens them: refusals of what cannot be, and rounding that never cuts the truth off."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import PlanError, ReleaseError
from sfumato.laws import block_bounds, block_tree

TREE = block_tree.balanced(4)
ORDER = np.arange(4)
GOOD = {"group_id": [0, 1], "block": [0, 0], "count": [3, 2]}


def opened(**changes: object) -> block_bounds.OpenBlocks:
    side = {name: np.array(values) for name, values in (GOOD | changes).items() if values is not None}
    return block_bounds.open_blocks(TREE, ORDER, side, np.array([3, 2]))


def test_a_good_table_opens() -> None:
    assert opened().bounder.copies == 5
    opened().check([np.ones(7, dtype=np.int64)], np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize(
    "changes",
    [
        {"group_id": None},
        {"block": ["a", "b"]},
        {"group_id": [0, 2]},
        {"group_id": [-1, 1]},
        {"block": [0, 7]},
        {"count": [3, 0]},
        {"count": [2, 2]},
        {"count": [3, -2]},
    ],
)
def test_tables_that_cannot_be_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ReleaseError):
        opened(**changes)


def test_an_order_that_is_no_permutation_is_refused() -> None:
    side = {name: np.array(values) for name, values in GOOD.items()}
    with pytest.raises(ReleaseError, match="orders the values"):
        block_bounds.open_blocks(TREE, np.array([0, 1, 2, 2]), side, np.array([3, 2]))


def test_check_refuses_blocks_that_are_not_private() -> None:
    with pytest.raises(PlanError):
        opened(block=[3, 0]).check([np.ones(7, dtype=np.int64)], np.zeros(2, dtype=np.int64))


def test_limits_round_outward() -> None:
    third = Fraction(1, 3)
    assert Fraction(block_bounds._down(third)) <= third <= Fraction(block_bounds._up(third))
    assert block_bounds._up(third) == math.nextafter(block_bounds._down(third), 1)
    assert block_bounds._down(Fraction(1, 2)) == block_bounds._up(Fraction(1, 2)) == 0.5
    assert Fraction(block_bounds._down(-third)) <= -third
