"""100,000 random questions on random releases: the bounds contain the truth every time (no tolerance, no chance).

Four tests of 25,000. Each of 2,000 tables has its own tree, target, groups and fakes; each is asked 50 questions that
select random rows.
Mirrored values must be caught for every aggregate, so the sweep is not vacuous.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from block_worlds import random_tree, random_weights
from sfumato.laws import block_bounds, block_tree
from sfumato.laws.block_tree import spans
from sfumato.methods.target_distribution.fakes import allowed_fakes, choose_fakes

TABLES, QUESTIONS, PARTS = 2_000, 50, 4
AGGREGATES = ("sum", "avg", "min", "max", "median", "quantile", "count-in", "sum-in", "avg-in")


def random_release(rng: np.random.Generator) -> tuple[block_bounds.Bounder, np.ndarray, np.ndarray, np.ndarray]:
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
        spans=spans(tree, domain.tolist()),
        ends=ends,
        allowed=allowed_fakes(true.sum(axis=1), share),
        rule="width" if rng.random() < 0.5 else "paper",
    )
    available = true + choice.fakes
    plans = block_tree.plan(tree, weights, available, rng=rng if rng.random() < 0.2 else None)
    block_tree.check_plan(tree, weights, plans, available, sizes=available.sum(axis=1))
    return block_bounds.Bounder(block_bounds.make_blocks(tree, plans)), group, codes, domain


def holds(
    name: str, b: block_bounds.Bounder, domain: np.ndarray, group: np.ndarray, codes: np.ndarray, members: np.ndarray
) -> bool:
    """Whether the bounds of one aggregate over the selected rows contain the truth; `members` marks the set A."""
    asked = block_bounds.one_answer(np.bincount(group, minlength=b.blocks.groups))
    inside = members if name.endswith("-in") else np.ones(len(domain), dtype=bool)
    value = block_bounds.exact_numbers(domain * inside, 1000)
    member = block_bounds.exact_numbers(inside.astype(int), 1000)
    values = np.sort(domain[codes[inside[codes]]])
    s, total = len(values), Fraction(int(values.sum()))
    found: tuple[Fraction, Fraction] | None
    if name.startswith("sum"):
        (found,), truth = b.totals(asked, value), total
    elif name.startswith("count"):
        (found,), truth = b.totals(asked, member), Fraction(s)
    elif not s:
        return name == "avg-in" or b.ratio([(asked, value, member)]) is None
    elif name.startswith("avg"):
        found, truth = b.ratio([(asked, value, member)]), total / s
    elif name in ("min", "max"):
        place = 1 if name == "min" else s
        found, truth = b.order_statistic(asked, value, place), Fraction(int(values[place - 1]))
    else:
        share = Fraction(3, 10) if name == "quantile" else Fraction(1, 2)
        at = int(share * (s - 1))
        step = int(values[min(at + 1, s - 1)] - values[at])
        truth = int(values[at]) + (share * (s - 1) - at) * step
        found = b.quantile(asked, value, share)
    return found is not None and found[0] <= truth <= found[1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(PARTS))
def test_every_answer_of_100_000_contains_the_truth(seed: int) -> None:
    rng = np.random.default_rng([20251115, seed])
    asked = 0
    for _ in range(TABLES // PARTS):
        b, group, codes, domain = random_release(rng)
        for question in range(QUESTIONS):
            rows = rng.random(len(group)) < rng.random()
            members = rng.random(len(domain)) < rng.random()
            name = AGGREGATES[question % len(AGGREGATES)]
            assert holds(name, b, domain, group[rows], codes[rows], members), name
            asked += 1
    assert asked * PARTS == 100_000


def test_a_wrong_release_is_caught() -> None:
    """The same questions against mirrored values must fail for every aggregate in some of 400 tables."""
    rng = np.random.default_rng(7)
    caught = set()
    for _ in range(400):
        b, group, codes, domain = random_release(rng)
        wrong = len(domain) - 1 - codes
        for name in AGGREGATES:
            rows = rng.random(len(group)) < 0.9
            members = rng.random(len(domain)) < 0.5
            if not holds(name, b, domain, group[rows], wrong[rows], members):
                caught.add(name)
    assert caught == set(AGGREGATES)
