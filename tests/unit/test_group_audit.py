"""The audit: docs/explanation/target-distribution.md, section 9, and agreement with trying every histogram."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from block_worlds import random_tree, random_weights
from sfumato.laws import block_tree
from sfumato.laws.block_tree import balanced
from sfumato.laws.blocks import audit_group, enumerate_posterior, only_homogeneous
from sfumato.methods.target_distribution import plan

TWO = balanced(2)


def weights(*masses: int) -> np.ndarray:
    return plan.quantise(TWO, masses).weights


@pytest.mark.parametrize(("blocks", "first"), [([4, 0, 0], Fraction(18, 25)), ([1, 2, 1], Fraction(9, 14))])
def test_two_to_one_target_with_four_rows(blocks: list[int], first: Fraction) -> None:
    audit = audit_group(TWO, weights(2, 1), np.array(blocks), [Fraction(2, 3), Fraction(1, 3)])
    assert audit == pytest.approx([float(first), 1 - float(first)], abs=1e-12)


def test_all_roots_on_two_equal_values_reveal_a_homogeneous_group() -> None:
    audit = audit_group(TWO, weights(1, 1), np.array([5, 0, 0]), [Fraction(99, 100), Fraction(1, 100)])
    assert audit is not None
    assert audit[0] == pytest.approx(99**5 / (99**5 + 1), rel=1e-12)
    assert only_homogeneous(TWO, weights(1, 1), np.array([5, 0, 0]))


def test_single_values_tell_no_homogeneous_group() -> None:
    assert not only_homogeneous(TWO, weights(1, 1), np.array([0, 3, 3]))
    assert audit_group(TWO, weights(1, 1), np.array([0, 0, 0]), [0.5, 0.5]) is None


def test_posterior_equals_trying_every_histogram() -> None:
    rng = np.random.default_rng(67)
    for _ in range(80):
        tree = random_tree(rng, int(rng.integers(2, 6)), 3)
        w = random_weights(rng, tree)
        rows = int(rng.integers(1, 7))
        counts = rng.multinomial(rows, np.full(tree.leaves, 1 / tree.leaves))
        blocks = block_tree.plan(tree, w, counts[None])[0]
        prior = [Fraction(int(x)) for x in rng.integers(0, 5, tree.leaves) + (counts > 0)]
        prior = [p / sum(prior) for p in prior]
        brute = enumerate_posterior(tree, lambda h, t=tree, w=w: block_tree.plan(t, w, h), blocks, prior, rows=rows)
        audit = audit_group(tree, w, blocks, prior)
        assert brute is not None
        assert audit is not None
        assert audit == pytest.approx(brute, abs=1e-12)


def test_homogeneity_equals_trying_every_histogram() -> None:
    rng = np.random.default_rng(71)
    seen = set()
    for _ in range(80):
        tree = random_tree(rng, int(rng.integers(2, 4)), 3)
        w = random_weights(rng, tree, 1)
        rows = int(rng.integers(2, 6))
        every = [c for c in np.ndindex(*(rows + 1,) * tree.leaves) if sum(c) == rows]
        plans = block_tree.plan(tree, w, np.array(every))
        pick = int(rng.integers(len(every)))
        same = [c for c, p in zip(every, plans, strict=True) if (p == plans[pick]).all()]
        expected = all(max(c) == rows for c in same)
        assert only_homogeneous(tree, w, plans[pick]) == expected
        seen.add(expected)
    assert seen == {True, False}


def test_a_plan_the_prior_cannot_produce_has_no_posterior() -> None:
    assert audit_group(TWO, weights(1, 1), np.array([0, 2, 2]), [1, 0]) is None
