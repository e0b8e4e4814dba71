"""Fakes: the paper's examples, exhaustive search over all multisets of fakes, rules for k, limits on the work."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from block_worlds import fake_sets, random_tree, random_weights
from sfumato.errors import SpecError
from sfumato.laws import block_tree
from sfumato.laws import block_tree as blocktree
from sfumato.methods.target_distribution import plan
from sfumato.methods.target_distribution.fakes import FakeTable, allowed_fakes, choose_fakes

SALARY = [30, 40, 50, 60]
GROUP_3 = [40, 60, 60, 60]
WIDTHS = [80, 70, 70, 100, 90, 100, 100, 120, 100]  # [140,220] [150,220] [150,220] [130,230] .. for k = 0..8


def plan_cost(plans: np.ndarray, spans: np.ndarray) -> np.ndarray:
    """The sum of spans of each group's blocks."""
    return plans @ spans


def uniform(domain: list[int]) -> tuple[blocktree.BlockTree, np.ndarray, np.ndarray]:
    tree = blocktree.balanced(len(domain))
    return tree, plan.quantise(tree, plan.uniform_masses(len(domain))).weights, blocktree.spans(tree, domain)


def histogram(values: list[int], domain: list[int]) -> np.ndarray:
    return np.array([[values.count(v) for v in domain]], dtype=np.int64)


def ends(tree: blocktree.BlockTree, domain: list[int]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array(domain, dtype=np.float64)
    return values[tree.start], values[tree.stop - 1]


@pytest.mark.parametrize(
    ("domain", "values", "costs"),
    [
        (SALARY, GROUP_3, [80, 50, 40, 50, 20, 30, 20, 50, 0]),
        (list(range(1, 9)), [1, 3, 5], [13, 4, 11]),
        (list(range(1, 9)), [1, 3, 5, 7], [4, 11, 10, 17, 0]),
        (list(range(1, 9)), [1, 2, 3, 5, 6, 7, 7], [17, 2, 7]),
    ],
)
def test_least_costs_by_number_of_fakes(domain: list[int], values: list[int], costs: list[int]) -> None:
    tree, weights, spans = uniform(domain)
    table = FakeTable(tree, weights, spans, histogram(values, domain), len(costs) - 1)
    assert table.solve().tolist() == [costs]
    with_fakes = histogram(values, domain) + table.fakes()[0]
    assert plan_cost(block_tree.plan(tree, weights, with_fakes), spans).tolist() == costs


def test_the_only_four_fakes_that_cost_nothing_are_found() -> None:
    domain = list(range(1, 9))
    tree, weights, spans = uniform(domain)
    table = FakeTable(tree, weights, spans, histogram([1, 3, 5, 7], domain), 4)
    table.solve()
    assert table.fakes()[0, 4].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]


def test_cost_of_every_single_fake_in_example_four() -> None:
    domain = list(range(1, 17))
    tree, weights, spans = uniform(domain)
    group = histogram([1, 1, 1, 2, 3, 4, 5, 6, 7, 9, 9, 11, 11, 13, 13, 15, 15], domain)
    costs = plan_cost(block_tree.plan(tree, weights, group + np.eye(16, dtype=np.int64)), spans)
    assert costs.tolist() == [62, 62, 62, 62, 46, 46, 40, 38, 46, 44, 46, 44, 46, 44, 46, 44]
    table = FakeTable(tree, weights, spans, group, 1)
    assert table.solve()[0, 1] == 38
    assert np.flatnonzero(table.fakes()[0, 1]).tolist() == [7]


def test_fakes_equal_exhaustive_search() -> None:
    """120 random trees of arity 2-4 with weights 0-3 and spans 0-9, n <= 6, k <= 3, in batches of three groups."""
    rng = np.random.default_rng(41)
    for _ in range(120):
        tree = random_tree(rng, int(rng.integers(2, 7)), 4)
        weights = random_weights(rng, tree)
        spans = blocktree.spans(tree, np.cumsum(rng.integers(1, 10, tree.leaves)).tolist())
        groups = np.array(
            [rng.multinomial(rng.integers(0, 7), np.full(tree.leaves, 1 / tree.leaves)) for _ in range(3)]
        )
        table = FakeTable(tree, weights, spans, groups, 3)
        found = table.solve()
        fakes = table.fakes()
        for g, group in enumerate(groups):
            for k in range(4):
                brute = min(
                    plan_cost(block_tree.plan(tree, weights, (group + f)[None]), spans)[0]
                    for f in fake_sets(tree.leaves, k)
                )
                plans = block_tree.plan(tree, weights, (group + fakes[g, k])[None])
                assert found[g, k] == brute == plan_cost(plans, spans)[0]
                assert fakes[g, k].sum() == k
                block_tree.check_plan(
                    tree, weights, plans, (group + fakes[g, k])[None], sizes=np.array([group.sum() + k])
                )


def test_no_fakes_equals_the_plain_plan() -> None:
    rng = np.random.default_rng(43)
    tree = blocktree.balanced(20, arity=3)
    weights = random_weights(rng, tree)
    spans = blocktree.spans(tree, None)
    groups = rng.integers(0, 30, (10, 20))
    costs = FakeTable(tree, weights, spans, groups, 5).solve()[:, 0]
    assert costs.tolist() == plan_cost(block_tree.plan(tree, weights, groups), spans).tolist()


@pytest.mark.parametrize(("rule", "number"), [("width", 1), ("paper", 8)])
def test_rules_for_the_number_of_fakes(rule: str, number: int) -> None:
    tree, weights, spans = uniform(SALARY)
    group = histogram(GROUP_3, SALARY)
    choice = choose_fakes(
        tree,
        weights,
        group,
        spans=spans,
        ends=ends(tree, SALARY),
        allowed=np.array([8]),
        rule=rule,  # type: ignore[arg-type]
    )
    assert choice.fakes.sum() == number
    assert choice.notice is None
    for most in range(1, 9):
        assert (
            choose_fakes(
                tree, weights, group, spans=spans, ends=ends(tree, SALARY), allowed=np.array([most])
            ).fakes.sum()
            == 1
        )


def test_widths_of_salary_group_three() -> None:
    tree, weights, spans = uniform(SALARY)
    group = histogram(GROUP_3, SALARY)
    table = FakeTable(tree, weights, spans, group, 8)
    table.solve()
    plans = block_tree.plan(tree, weights, group + table.fakes()[0])
    assert block_tree.bound_width(plans, *ends(tree, SALARY), np.full(9, 4)).tolist() == WIDTHS


def test_batching_changes_nothing() -> None:
    rng = np.random.default_rng(47)
    tree = blocktree.balanced(17)
    domain = list(range(17))
    weights, spans = random_weights(rng, tree), blocktree.spans(tree, domain)
    groups = np.array([rng.multinomial(n, np.full(17, 1 / 17)) for n in rng.integers(0, 90, 30)])
    allowed = allowed_fakes(groups.sum(axis=1), 0.1)
    together = choose_fakes(tree, weights, groups, spans=spans, ends=ends(tree, domain), allowed=allowed)
    for g in range(30):
        alone = choose_fakes(
            tree, weights, groups[g : g + 1], spans=spans, ends=ends(tree, domain), allowed=allowed[g : g + 1]
        )
        one, all_ = (
            block_tree.bound_width(
                block_tree.plan(tree, weights, groups[g : g + 1] + fakes),
                *ends(tree, domain),
                groups[g : g + 1].sum(axis=1),
            )
            for fakes in (alone.fakes, together.fakes[g : g + 1])
        )
        assert one == all_


def test_allowed_fakes_are_exact_shares_or_a_number() -> None:
    rows = np.array([0, 19, 20, 100, 1427])
    assert allowed_fakes(rows, 0.05).tolist() == [0, 0, 1, 5, 71]
    assert allowed_fakes(rows, 0.29).tolist() == [0, 5, 5, 29, 413]
    assert allowed_fakes(rows, Fraction(1, 20)).tolist() == [0, 0, 1, 5, 71]
    assert allowed_fakes(rows, 3).tolist() == [0, 3, 3, 3, 3]


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), float("inf")])
def test_bad_numbers_of_fakes_are_refused(share: float) -> None:
    with pytest.raises(SpecError, match="fakes"):
        allowed_fakes(np.array([10]), share)


def test_the_work_limit_lowers_large_groups_first_and_says_so() -> None:
    rng = np.random.default_rng(53)
    domain = list(range(64))
    tree, weights, spans = uniform(domain)
    groups = np.array([rng.multinomial(n, rng.dirichlet(np.ones(64))) for n in (40, 1000)])
    allowed = allowed_fakes(groups.sum(axis=1), 0.05)
    full = choose_fakes(tree, weights, groups, spans=spans, ends=ends(tree, domain), allowed=allowed)
    limited = choose_fakes(
        tree, weights, groups, spans=spans, ends=ends(tree, domain), allowed=allowed, work_limit=30_000
    )
    assert full.notice is None
    assert limited.notice is not None
    assert f"instead of up to {allowed[1]} in 1 groups" in limited.notice
    assert limited.tried[0] == allowed[0]
    assert 0 < limited.tried[1] < allowed[1]
    assert limited.fakes[1].sum() <= limited.tried[1]
