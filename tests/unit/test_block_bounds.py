"""Bounds: the paper's salary answers and the extremes over every possible world of random small releases."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from block_worlds import random_tree, random_weights, worlds
from sfumato.laws import block_tree
from sfumato.laws.block_bounds import Bounder, Selection, WholeNumbers, exact_numbers, make_blocks, one_answer
from sfumato.laws.block_tree import balanced
from sfumato.methods.target_distribution import plan

SALARY = [30, 40, 50, 60]
TREE = balanced(4)
UNIFORM = plan.quantise(TREE, plan.uniform_masses(4)).weights
GROUPS = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [0, 1, 0, 3]])
PLANS = block_tree.plan(TREE, UNIFORM, GROUPS)


VALUE = exact_numbers(SALARY, 100)
ONE = exact_numbers([1] * 4, 100)


def mean(plans: np.ndarray, selected: list[int]) -> tuple[Fraction, Fraction] | None:
    return Bounder(make_blocks(TREE, plans)).ratio([(one_answer(selected), VALUE, ONE)])


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
    assert mean(PLANS, selected) == (low, high)
    (total,) = Bounder(make_blocks(TREE, PLANS)).totals(one_answer(selected), VALUE)
    assert total == (low * sum(selected), high * sum(selected))


def test_salary_averages_with_fakes() -> None:
    group_2 = block_tree.plan(TREE, UNIFORM, np.array([[1, 1, 1, 1]]))
    assert mean(group_2, [3]) == (40, 50)
    group_3 = block_tree.plan(TREE, UNIFORM, np.array([[0, 1, 0, 3]]) + np.array([[3, 2, 3, 0]]))
    assert mean(group_3, [4]) == (Fraction(130, 4), Fraction(230, 4))


def test_salary_averages_of_the_wider_table() -> None:
    plans = PLANS.copy()
    plans[0] = [0, 2, 0, 0, 0, 1, 1]
    plans[2] = [4, 0, 0, 0, 0, 0, 0]
    assert mean(plans, [2, 3, 1]) == (Fraction(100, 3), 55)
    assert mean(plans, [0, 0, 4]) == (30, 60)


def test_nothing_selected() -> None:
    b, none = Bounder(make_blocks(TREE, PLANS)), one_answer([0, 0, 0])
    assert b.totals(none, VALUE) == [(0, 0)]
    assert b.ratio([(none, VALUE, ONE)]) is None
    assert b.order_statistic(none, VALUE, 1) is None
    assert b.quantile(none, VALUE, Fraction(1, 2)) is None


def test_no_groups_at_all() -> None:
    b = Bounder(make_blocks(TREE, np.zeros((0, 7), dtype=np.int64)))
    assert b.totals(one_answer([]), VALUE) == [(0, 0)]


def test_values_beyond_int64_and_decimals_stay_exact() -> None:
    big = Bounder(make_blocks(balanced(2), np.array([[3, 0, 0]])))
    assert big.totals(one_answer([3]), exact_numbers([0.1, 10**30], 3)) == [(3 * Fraction(0.1), 3 * 10**30)]


def test_many_output_rows_at_once_equal_one_at_a_time() -> None:
    rng = np.random.default_rng(79)
    b = Bounder(make_blocks(TREE, PLANS))
    rows = np.array([[rng.integers(0, n + 1) for n in (4, 3, 4)] for _ in range(20)])
    key, group = np.nonzero(rows)
    together = b.totals(Selection(key=key, group=group, rows=rows[key, group], keys=20), VALUE)
    assert together == [b.totals(one_answer(row), VALUE)[0] for row in rows]


def test_parts_of_one_ratio_are_never_too_narrow() -> None:
    """Two filters on one group compete for blocks; the bounds treat them apart and stay outside the extremes."""
    b = Bounder(make_blocks(TREE, np.array([[1, 0, 0, 0, 1, 0, 1]])))
    low_half, high_half = (exact_numbers(h, 9) for h in ([1, 1, 0, 0], [0, 0, 1, 1]))
    found = b.ratio([(one_answer([1]), low_half, ONE), (one_answer([1]), high_half, ONE)])
    every = [
        Fraction(first + second, 2)
        for first, second in [(1, 1), (1, 0), (0, 1), (0, 0), (1, 1)]  # (row 1 low?, row 2 high?) over all worlds
    ]
    assert found is not None
    assert found[0] <= min(every)
    assert found[1] >= max(every)


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
        plans = block_tree.plan(tree, random_weights(rng, tree), true)
        selected = np.array([int(rng.integers(0, n + 1)) for n in rows])
        members = rng.random(tree.leaves) < 0.5
        every = worlds(tree, values, plans, selected.tolist())
        b = Bounder(make_blocks(tree, plans))
        rows_asked = one_answer(selected)
        value = exact_numbers(values, 99)
        among = exact_numbers([v * bool(m) for v, m in zip(values, members, strict=True)], 99)
        member = exact_numbers(members.astype(int), 99)
        chosen = {v for v, m in zip(values, members, strict=True) if m}
        inside = [[v for v in world if v in chosen] for world in every]
        assert b.totals(rows_asked, value) == [extremes([sum(w, Fraction(0)) for w in every])]
        assert b.totals(rows_asked, member) == [extremes([Fraction(len(w)) for w in inside])]
        assert b.totals(rows_asked, among) == [extremes([sum(w, Fraction(0)) for w in inside])]
        filled = [w for w in inside if w]
        found = b.ratio([(rows_asked, among, member)])
        assert found == (extremes([sum(w, Fraction(0)) / len(w) for w in filled]) if filled else None)
        s = int(selected.sum())
        if s == 0:
            continue
        one = WholeNumbers(whole=np.ones(tree.leaves, dtype=np.int64), denominator=1)
        assert b.ratio([(rows_asked, value, one)]) == extremes([sum(w, Fraction(0)) / s for w in every])
        for j in range(1, s + 1):
            assert b.order_statistic(rows_asked, value, j) == extremes([sorted(w)[j - 1] for w in every])
        for share in (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1)):
            for continuous in (True, False):
                assert b.quantile(rows_asked, value, share, continuous=continuous) == extremes(
                    [quantile(w, share, continuous=continuous) for w in every]
                )


def test_the_count_formula() -> None:
    """COUNT where S in A: max(0, s - (n+k-must)) and min(s, may)."""
    rng = np.random.default_rng(83)
    for _ in range(100):
        tree = random_tree(rng, int(rng.integers(2, 9)), 3)
        plans = rng.integers(0, 3, (1, tree.nodes))
        members = rng.random(tree.leaves) < 0.5
        prefix = np.concatenate(([0], np.cumsum(members)))
        hits = prefix[tree.stop] - prefix[tree.start]
        total = int(plans.sum())
        must, may = int(plans[0, hits == tree.stop - tree.start].sum()), int(plans[0, hits > 0].sum())
        s = int(rng.integers(0, total + 1))
        (found,) = Bounder(make_blocks(tree, plans)).totals(one_answer([s]), exact_numbers(members.astype(int), total))
        assert found == (max(0, s - (total - must)), min(s, may))
