"""Plans without fakes: the paper's tables, optimality and the P-private check by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from block_worlds import all_private_plans, is_private, random_tree, random_weights
from sfumato.errors import PlanError
from sfumato.laws import block_tree
from sfumato.laws.block_tree import balanced, from_nested, spans
from sfumato.methods.target_distribution import plan

SALARY = [30, 40, 50, 60]
TREE = balanced(4)
UNIFORM = plan.quantise(TREE, plan.uniform_masses(4)).weights


def histogram(values: list[int], domain: list[int]) -> np.ndarray:
    return np.array([[values.count(v) for v in domain]], dtype=np.int64)


# nodes of TREE: 0 root, 1 [30-40], 2 [50-60], 3..6 leaves
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([30, 40, 50, 60], [0, 0, 0, 1, 1, 1, 1]),
        ([40, 30, 50], [1, 1, 1, 0, 0, 0, 0]),
        ([40, 60, 60, 60], [2, 1, 1, 0, 0, 0, 0]),
        ([30, 30, 40, 40, 50, 60], [2, 0, 0, 1, 1, 1, 1]),
        ([], [0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_salary_groups(values: list[int], expected: list[int]) -> None:
    assert block_tree.plan(TREE, UNIFORM, histogram(values, SALARY)).tolist() == [expected]


def test_taxonomy_group_has_five_leaves_and_one_root() -> None:
    domain, tree = from_nested([["flu", "cold", "pneu"], ["ulcer", "gastritis"]])
    weights = plan.quantise(tree, plan.uniform_masses(5)).weights
    counts = np.array([[2, 1, 1, 1, 1]])
    assert domain[0] == "flu"
    assert block_tree.plan(tree, weights, counts).tolist() == [[1, 0, 0, 1, 1, 1, 1, 1]]


def test_a_single_value_domain_is_all_leaves() -> None:
    tree = balanced(1)
    plans = block_tree.plan(tree, np.ones(1, dtype=np.int64), np.array([[7], [0]]))
    assert plans.tolist() == [[7], [0]]
    block_tree.check_plan(tree, np.ones(1, dtype=np.int64), plans, np.array([[7], [0]]), sizes=np.array([7, 0]))


def test_groups_do_not_disturb_each_other() -> None:
    rng = np.random.default_rng(3)
    tree = balanced(13, arity=3)
    weights = random_weights(rng, tree)
    counts = rng.integers(0, 9, (40, 13))
    together = block_tree.plan(tree, weights, counts)
    assert together.tolist() == [block_tree.plan(tree, weights, row[None])[0].tolist() for row in counts]


def test_a_value_without_mass_stays_at_the_nearest_ancestor_with_mass() -> None:
    weights = plan.quantise(TREE, [0, 1, 1, 1]).weights
    assert block_tree.plan(TREE, weights, np.array([[1, 0, 1, 1]])).tolist() == [[0, 1, 0, 0, 0, 1, 1]]
    assert block_tree.plan(TREE, weights, np.array([[1, 0, 0, 0]])).tolist() == [[1, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize("randomised", [False, True])
def test_random_plans_satisfy_the_definition_word_for_word(randomised: bool) -> None:
    rng = np.random.default_rng(17)
    for _ in range(200):
        tree = random_tree(rng, int(rng.integers(1, 9)), 4)
        weights = random_weights(rng, tree)
        counts = rng.integers(0, 6, (3, tree.leaves))
        plans = block_tree.plan(tree, weights, counts, rng=rng if randomised else None)
        block_tree.check_plan(tree, weights, plans, counts, sizes=counts.sum(axis=1))
        assert all(is_private(tree, weights, row.tolist()) for row in plans)


def test_check_agrees_with_the_definition_on_arbitrary_blocks() -> None:
    rng = np.random.default_rng(23)
    seen = {True: 0, False: 0}
    for _ in range(1500):
        tree = random_tree(rng, int(rng.integers(2, 5)), 3)
        weights = random_weights(rng, tree, 2)
        blocks = rng.integers(0, 3, tree.nodes)
        plenty = np.full((1, tree.leaves), 100)
        try:
            block_tree.check_plan(tree, weights, blocks[None], plenty, sizes=np.array([blocks.sum()]))
            accepted = True
        except PlanError:
            accepted = False
        assert accepted == is_private(tree, weights, blocks.tolist())
        seen[accepted] += 1
    assert min(seen.values()) > 20


def test_check_refuses_wrong_sizes_and_missing_values() -> None:
    counts = np.array([[1, 1, 1, 1]])
    plans = block_tree.plan(TREE, UNIFORM, counts)
    with pytest.raises(PlanError, match="add up"):
        block_tree.check_plan(TREE, UNIFORM, plans, counts, sizes=np.array([5]))
    with pytest.raises(PlanError, match="more blocks"):
        block_tree.check_plan(TREE, UNIFORM, plans, np.array([[2, 0, 1, 1]]), sizes=np.array([4]))


def test_plan_is_cheapest_among_all_private_generalisations() -> None:
    rng = np.random.default_rng(29)
    for _ in range(40):
        tree = random_tree(rng, int(rng.integers(2, 5)), 3)
        weights = random_weights(rng, tree, 2)
        counts = rng.multinomial(int(rng.integers(1, 6)), np.full(tree.leaves, 1 / tree.leaves))
        cost = spans(tree, np.cumsum(rng.integers(1, 9, tree.leaves)).tolist())
        best = min(float(np.dot(blocks, cost)) for blocks in all_private_plans(tree, weights, counts.tolist()))
        assert (block_tree.plan(tree, weights, counts[None]) @ cost)[0] == best


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(SALARY), max_size=12), st.randoms(use_true_random=False))
def test_row_order_does_not_matter(values: list[int], random: object) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    first = block_tree.plan(TREE, UNIFORM, histogram(values, SALARY))
    assert first.tolist() == block_tree.plan(TREE, UNIFORM, histogram(shuffled, SALARY)).tolist()


def test_bound_width_of_salary_group_three() -> None:
    plans = block_tree.plan(TREE, UNIFORM, histogram([40, 60, 60, 60], SALARY))
    low, high = np.array(SALARY, float)[TREE.start], np.array(SALARY, float)[TREE.stop - 1]
    assert block_tree.bound_width(plans, low, high, np.array([4])).tolist() == [80]
