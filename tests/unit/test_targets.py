"""Targets and their integer weights."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import SpecError
from sfumato.laws.block_tree import balanced, from_nested
from sfumato.methods.target_distribution import plan


def test_uniform_taxonomy_has_root_weights_three_to_two() -> None:
    _, tree = from_nested([["flu", "cold", "pneu"], ["ulcer", "gastritis"]])
    target = plan.quantise(tree, plan.uniform_masses(5))
    assert target.weights.tolist() == [1, 3, 2, 1, 1, 1, 1, 1]
    assert target.probabilities == (Fraction(1, 5),) * 5
    assert target.distance == 0


def test_exact_weights_are_reduced() -> None:
    tree = balanced(2)
    assert plan.quantise(tree, [Fraction(2, 6), Fraction(4, 6)]).weights.tolist() == [1, 1, 2]
    assert plan.quantise(tree, [579, 848], max_weight=None).weights.tolist() == [1, 579, 848]


def test_a_node_without_mass_gives_its_children_none() -> None:
    target = plan.quantise(balanced(4), [0, 0, 1, 2])
    assert target.weights.tolist() == [1, 0, 1, 0, 0, 1, 2]
    assert target.probabilities == (0, 0, Fraction(1, 3), Fraction(2, 3))


def test_quantised_weights_are_nearest_in_l1_by_exhaustive_search() -> None:
    rng = np.random.default_rng(11)
    for _ in range(120):
        size = int(rng.integers(2, 4))
        masses = [int(x) for x in rng.integers(0, 200, size) ** int(rng.integers(1, 3))]
        if not any(masses):
            continue
        top = int(rng.integers(size, 9))
        share = [Fraction(m, sum(masses)) for m in masses]
        found = plan.quantise(balanced(size, arity=size), masses, max_weight=top).weights[1:].tolist()

        def error(w: tuple[int, ...], share: list[Fraction] = share) -> Fraction:
            return sum((abs(Fraction(x, sum(w)) - s) for x, s in zip(w, share, strict=True)), Fraction(0))

        best = min(
            error(w)
            for w in product(range(top + 1), repeat=size)
            if 1 <= sum(w) <= top and all((x > 0) == (m > 0) for x, m in zip(w, masses, strict=True))
        )
        assert sum(found) <= top
        assert error(tuple(found)) == best


def test_distance_is_total_variation_to_the_represented_distribution() -> None:
    tree = balanced(2)
    target = plan.quantise(tree, [579, 848], max_weight=16)
    p = Fraction(target.weights[1].item(), target.weights[1:].sum().item())
    assert target.probabilities == (p, 1 - p)
    assert target.distance == abs(p - Fraction(579, 1427))
    asked = [Fraction(579, 1427), Fraction(848, 1427)]
    assert target.distance == sum(abs(x - y) for x, y in zip(asked, target.probabilities, strict=True)) / 2


def test_normal_masses_are_cells_between_midpoints() -> None:
    values = [0, 1, 3, 10]
    masses = plan.normal_masses(values, 2, 3)
    edges = [-np.inf, 0.5, 2, 6.5, np.inf]
    assert [float(m) for m in masses] == pytest.approx(np.diff(stats.norm(2, 3).cdf(edges)).tolist(), abs=1e-15)
    far = plan.normal_masses([0, 1, 2], -30, 1)
    assert far[2] > 0
    assert float(far[2]) == pytest.approx(stats.norm.sf(31.5), rel=1e-12)


def test_zipf_is_exact_for_whole_exponents() -> None:
    assert plan.zipf_masses(3, 1) == (1, Fraction(1, 2), Fraction(1, 3))
    assert float(plan.zipf_masses(4, 0.5)[3]) == 0.5


def test_explicit_weights_follow_the_domain() -> None:
    assert plan.explicit_masses(["a", "b", "c"], {"c": "1/3", "a": "0.5"}) == (Fraction(1, 2), 0, Fraction(1, 3))
    with pytest.raises(SpecError, match="'z', which is not in the domain"):
        plan.explicit_masses(["a"], {"z": 1})
    with pytest.raises(SpecError, match="not a number"):
        plan.explicit_masses(["a"], {"a": "much"})


def test_target_texts() -> None:
    assert plan.parse_target("uniform") == ("uniform", ())
    assert plan.parse_target("normal(2000, 1/2)") == ("normal", (2000, Fraction(1, 2)))
    assert plan.parse_target("zipf(1.5)") == ("zipf", (Fraction(3, 2),))
    for bad in ("normal", "normal(1)", "zipf(1,2)", "gauss(1,2)", "zipf(x)", "uniform(3)"):
        with pytest.raises(SpecError):
            plan.parse_target(bad)


@pytest.mark.parametrize(
    ("masses", "message"),
    [
        ([1, -1], "negative"),
        ([1.0, float("nan")], "not a finite"),
        ([1.0, float("inf")], "not a finite"),
        ([0, 0], "every mass"),
        ([1], "1 masses for a domain of 2"),
    ],
)
def test_bad_masses_are_refused(masses: list[float], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan.quantise(balanced(2), masses)


def test_max_weight_below_the_children_with_mass_is_refused() -> None:
    tree = balanced(5, arity=5)
    assert plan.quantise(tree, [1, 0, 1, 1, 0], max_weight=3).weights.tolist() == [1, 1, 0, 1, 1, 0]
    with pytest.raises(SpecError, match="max_weight=5"):
        plan.quantise(tree, [1, 2, 1, 1, 1], max_weight=4)


@pytest.mark.parametrize("call", [("zipf", -1.0), ("zipf", float("nan")), ("sd", 0.0), ("sd", float("inf"))])
def test_bad_parameters_of_named_targets_are_refused(call: tuple[str, float]) -> None:
    with pytest.raises(SpecError):
        plan.zipf_masses(3, call[1]) if call[0] == "zipf" else plan.normal_masses([1, 2], 0, call[1])
