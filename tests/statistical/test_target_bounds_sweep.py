"""100,000 random questions on random releases: the bounds contain the truth every time (no tolerance, no chance).

Each of 2,000 tables has its own tree, target, groups and fakes; each is asked 50 questions that select random rows.
A plan with one block moved away from the truth must be caught, so the sweep is not vacuous.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.stats import bounds, hierarchy, transform
from sfumato.stats.fake_choice import allowed_fakes, choose_fakes
from worlds import random_tree, random_weights

TABLES, QUESTIONS = 2_000, 50
AGGREGATES = ("sum", "avg", "min", "max", "order", "quantile", "count-in", "sum-in", "avg-in")


def random_release(rng: np.random.Generator) -> tuple[bounds.Bounder, np.ndarray, np.ndarray, np.ndarray]:
    """A bounder, and the group, the true code and the domain behind it."""
    tree = random_tree(rng, int(rng.integers(1, 25)), int(rng.integers(2, 5)))
    domain = np.cumsum(rng.integers(1, 50, tree.leaves)) - int(rng.integers(0, 400))
    weights = random_weights(rng, tree, 4)
    groups = int(rng.integers(1, 6))
    group = rng.integers(0, groups, int(rng.integers(1, 200)))
    codes = rng.choice(tree.leaves, len(group), p=rng.dirichlet(np.full(tree.leaves, 0.7)))
    true = np.zeros((groups, tree.leaves), dtype=np.int64)
    np.add.at(true, (group, codes), 1)
    share = [Fraction(0), Fraction(1, 10), Fraction(1, 4)][int(rng.integers(3))]
    ends = domain[tree.start].astype(float), domain[tree.stop - 1].astype(float)
    choice = choose_fakes(
        tree,
        weights,
        true,
        spans=hierarchy.spans(tree, domain.tolist()),
        ends=ends,
        allowed=allowed_fakes(true.sum(axis=1), share),
        rule="width" if rng.random() < 0.5 else "paper",
    )
    available = true + choice.fakes
    plans = transform.plan(tree, weights, available, rng=rng if rng.random() < 0.2 else None)
    transform.check_plan(tree, weights, plans, available, sizes=available.sum(axis=1))
    return bounds.Bounder(bounds.make_blocks(tree, domain.tolist(), plans)), group, codes, domain


def holds(
    name: str, b: bounds.Bounder, selected: np.ndarray, values: np.ndarray, members: np.ndarray, inside: np.ndarray
) -> bool:
    """Whether the bounds of one aggregate contain the truth; `inside` marks selected rows with a value in A."""
    s = len(values)
    chosen = values[inside]
    total, part = Fraction(int(values.sum())), Fraction(int(chosen.sum()))
    if name == "sum":
        low, high = b.total(selected)
        return low <= total <= high
    if name == "count-in":
        low, high = b.count_where(selected, bounds.condition(b.blocks, members))
        return low <= len(chosen) <= high
    if name == "sum-in":
        low, high = b.total_where(selected, bounds.condition(b.blocks, members))
        return low <= part <= high
    if name == "avg-in":
        found = b.mean_where(selected, bounds.condition(b.blocks, members))
        return not len(chosen) or (found is not None and found[0] <= part / len(chosen) <= found[1])
    if not s:
        return b.mean(selected) is None
    ordered = np.sort(values)
    if name == "avg":
        found, truth = b.mean(selected), total / s
    elif name == "min":
        found, truth = b.minimum(selected), Fraction(int(ordered[0]))
    elif name == "max":
        found, truth = b.maximum(selected), Fraction(int(ordered[-1]))
    elif name == "order":
        found, truth = b.order_statistic(selected, (s + 1) // 2), Fraction(int(ordered[(s + 1) // 2 - 1]))
    else:
        place = Fraction(3, 10) * (s - 1)
        at = int(place)
        after = ordered[min(at + 1, s - 1)]
        truth = Fraction(int(ordered[at])) + (place - at) * int(after - ordered[at])
        found = b.quantile(selected, Fraction(3, 10), continuous=True)
    return found is not None and found[0] <= truth <= found[1]


@pytest.mark.statistical
def test_every_answer_of_100_000_contains_the_truth() -> None:
    rng = np.random.default_rng(20251115)
    asked = 0
    for _ in range(TABLES):
        b, group, codes, domain = random_release(rng)
        for question in range(QUESTIONS):
            rows = rng.random(len(group)) < rng.random()
            selected = np.bincount(group[rows], minlength=b.blocks.groups)
            members = rng.random(len(domain)) < rng.random()
            name = AGGREGATES[question % len(AGGREGATES)]
            assert holds(name, b, selected, domain[codes[rows]], members, members[codes[rows]]), name
            asked += 1
    assert asked == 100_000


def test_a_wrong_release_is_caught() -> None:
    """The same questions against mirrored values must fail for every aggregate in some of 400 tables."""
    rng = np.random.default_rng(7)
    caught = set()
    for _ in range(400):
        b, group, codes, domain = random_release(rng)
        wrong = len(domain) - 1 - codes
        for name in AGGREGATES:
            rows = rng.random(len(group)) < 0.9
            selected = np.bincount(group[rows], minlength=b.blocks.groups)
            members = rng.random(len(domain)) < 0.5
            if not holds(name, b, selected, domain[wrong[rows]], members, members[wrong[rows]]):
                caught.add(name)
    assert caught == set(AGGREGATES)
