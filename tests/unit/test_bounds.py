"""Bounds: the paper's salary answers and the extremes over every possible world of random small releases."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.stats import hierarchy, targets, transform
from sfumato.stats.bounds import Bounder, condition, make_blocks
from worlds import random_tree, random_weights, worlds

SALARY = [30, 40, 50, 60]
TREE = hierarchy.balanced(4)
UNIFORM = targets.quantise(TREE, targets.uniform_masses(4)).weights
GROUPS = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [0, 1, 0, 3]])
PLANS = transform.plan(TREE, UNIFORM, GROUPS)


def bounder(plans: np.ndarray) -> Bounder:
    return Bounder(make_blocks(TREE, SALARY, plans))


@pytest.mark.parametrize(
    ("selected", "low", "high"),
    [
        ([2, 3, 1], Fraction(35), Fraction(55)),
        ([0, 3, 0], Fraction(110, 3), Fraction(160, 3)),
        ([0, 0, 4], Fraction(35), Fraction(55)),
        ([1, 1, 1], Fraction(30), Fraction(60)),
    ],
)
def test_salary_averages(selected: list[int], low: Fraction, high: Fraction) -> None:
    assert bounder(PLANS).mean(np.array(selected)) == (low, high)


def test_salary_averages_with_fakes() -> None:
    group_2 = transform.plan(TREE, UNIFORM, np.array([[1, 1, 1, 1]]))
    assert bounder(group_2).mean(np.array([3])) == (40, 50)
    group_3 = transform.plan(TREE, UNIFORM, np.array([[0, 1, 0, 3]]) + np.array([[3, 2, 3, 0]]))
    assert bounder(group_3).mean(np.array([4])) == (Fraction(130, 4), Fraction(230, 4))


def test_salary_averages_of_the_wider_table() -> None:
    plans = PLANS.copy()
    plans[0] = [0, 2, 0, 0, 0, 1, 1]
    plans[2] = [4, 0, 0, 0, 0, 0, 0]
    assert bounder(plans).mean(np.array([2, 3, 1])) == (Fraction(100, 3), 55)
    assert bounder(plans).mean(np.array([0, 0, 4])) == (30, 60)


def test_nothing_selected() -> None:
    none = np.zeros(3, dtype=np.int64)
    b = bounder(PLANS)
    where = condition(b.blocks, np.array([True, False, False, False]))
    assert b.total(none) == (0, 0)
    assert b.count_where(none, where) == (0, 0)
    assert b.total_where(none, where) == (0, 0)
    for answer in (b.mean(none), b.minimum(none), b.maximum(none), b.mean_where(none, where)):
        assert answer is None
    assert b.quantile(none, Fraction(1, 2), continuous=True) is None


def test_no_groups_at_all() -> None:
    b = bounder(np.zeros((0, 7), dtype=np.int64))
    assert b.total(np.zeros(0, dtype=np.int64)) == (0, 0)


def test_values_beyond_int64_and_decimals_stay_exact() -> None:
    tree = hierarchy.balanced(2)
    big = Bounder(make_blocks(tree, [0.1, 10**30], np.array([[3, 0, 0]])))
    assert big.total(np.array([3])) == (3 * Fraction(0.1), 3 * 10**30)


def quantile(values: list[Fraction], share: Fraction, *, continuous: bool) -> Fraction:
    ordered = sorted(values)
    if not continuous:
        return ordered[max(0, -((-share * len(values)) // 1) - 1)]
    place = share * (len(values) - 1)
    at = int(place)
    part = place - at
    return ordered[at] * (1 - part) + ordered[min(at + 1, len(values) - 1)] * part


def extremes(numbers: list[Fraction]) -> tuple[Fraction, Fraction]:
    return min(numbers), max(numbers)


def test_bounds_equal_the_extremes_over_all_worlds() -> None:
    """150 random releases of 1-2 groups, trees of 2-5 values, blocks with and without fakes, negative values too."""
    rng = np.random.default_rng(61)
    for _ in range(150):
        tree = random_tree(rng, int(rng.integers(2, 6)), 3)
        values = [Fraction(int(v), 2) for v in np.cumsum(rng.integers(1, 6, tree.leaves)) - 8]
        rows = rng.integers(1, 4, int(rng.integers(1, 3)))
        true = np.array([rng.multinomial(n + rng.integers(0, 2), np.full(tree.leaves, 1 / tree.leaves)) for n in rows])
        plans = transform.plan(tree, random_weights(rng, tree), true)
        selected = np.array([int(rng.integers(0, n + 1)) for n in rows])
        members = rng.random(tree.leaves) < 0.5
        every = worlds(tree, values, plans, selected.tolist())
        b = Bounder(make_blocks(tree, values, plans))
        where = condition(b.blocks, members)
        chosen = {v for v, m in zip(values, members, strict=True) if m}
        inside = [[v for v in world if v in chosen] for world in every]
        assert b.total(selected) == extremes([sum(w, Fraction(0)) for w in every])
        assert b.count_where(selected, where) == extremes([Fraction(len(w)) for w in inside])
        assert b.total_where(selected, where) == extremes([sum(w, Fraction(0)) for w in inside])
        filled = [w for w in inside if w]
        mean = b.mean_where(selected, where)
        assert mean == (extremes([sum(w, Fraction(0)) / len(w) for w in filled]) if filled else None)
        s = int(selected.sum())
        if s == 0:
            continue
        assert b.mean(selected) == extremes([sum(w, Fraction(0)) / s for w in every])
        assert b.minimum(selected) == extremes([min(w) for w in every])
        assert b.maximum(selected) == extremes([max(w) for w in every])
        for j in range(1, s + 1):
            assert b.order_statistic(selected, j) == extremes([sorted(w)[j - 1] for w in every])
        for share in (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1)):
            for continuous in (True, False):
                assert b.quantile(selected, share, continuous=continuous) == extremes(
                    [quantile(w, share, continuous=continuous) for w in every]
                )
