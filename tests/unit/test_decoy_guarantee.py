"""Exact guarantees of decoy groups: the numbers of docs/explanation/splu.md, sections 4 and 8."""

from fractions import Fraction as F
from math import comb

import numpy as np
import pytest

from sfumato.errors import SpecError
from sfumato.methods.splu import (
    amplification,
    error_probability,
    large_sum_utility,
    small_sum_privacy,
    tail_probability,
)


def by_sum(f: int, size: int, inside) -> float:
    """Pr[not inside(X)] for X ~ Binomial(size f, 1/size), term by term in exact integers."""
    n = size * f
    hit = sum(comb(n, x) * (size - 1) ** (n - x) for x in range(n + 1) if inside(x))
    return float(1 - F(hit, size**n))


def test_error_probabilities_of_the_spec():
    found = error_probability(np.array([5, 1, 2, 3]), 10, F(3, 10))
    assert found == pytest.approx([0.480067, 0.612580, 0.714820, 0.763912], abs=5e-7)


@pytest.mark.parametrize(("alpha", "expected"), [(3, 0.612580), (4, 0.429081), (10, 0.241032)])
def test_small_sum_privacy(alpha, expected):
    assert small_sum_privacy(10, F(3, 10), alpha) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize("epsilon", [F(1, 10), F(3, 10), F(1, 3), F(1, 2)])
@pytest.mark.parametrize("size", [2, 5])
def test_both_tails_against_exact_sums(size, epsilon):
    """Equality is inside for privacy and outside for utility; f = 10 and epsilon = 3/10 hits it."""
    f = np.arange(1, 21)
    privacy = [by_sum(k, size, lambda x, k=k: abs(x - k) <= epsilon * k) for k in range(1, 21)]
    utility = [by_sum(k, size, lambda x, k=k: abs(x - k) < epsilon * k) for k in range(1, 21)]
    assert error_probability(f, size, epsilon) == pytest.approx(privacy, abs=1e-12)
    assert tail_probability(f, size, epsilon) == pytest.approx(utility, abs=1e-12)


@pytest.mark.parametrize(
    ("size", "epsilon", "exact"), [(10, "0.3", 41), (10, "0.1", 351), (5, "0.2", 81), (5, "0.1", 311)]
)
def test_large_sum_utility(size, epsilon, exact):
    miss = F("0.05")
    assert large_sum_utility(size, F(epsilon), miss) == exact
    assert tail_probability(np.array([exact - 1]), size, F(epsilon))[0] > miss
    assert (tail_probability(np.arange(exact, 4 * exact), size, F(epsilon)) <= float(miss)).all()


def test_the_printed_threshold_is_false():
    """The SPLU paper's T_f for size 10, epsilon 0.3, T_E 0.05 is 4.7; at f = 5 the tail is 0.48."""
    printed = (1 / (10 * 0.3**2 * 0.05)) ** 0.5
    assert 4 < printed < 5
    assert tail_probability(np.array([5]), 10, F("0.3"))[0] > 0.48


def test_amplification():
    found = amplification(np.array([746, 900, 990, 1000, 6364]), 10)
    assert found[:4] == pytest.approx([36.4, 91, 901, np.inf], rel=2e-3)


def test_refusals():
    for size, epsilon, alpha in ((1, F(1, 10), 3), (5, F(0), 3), (5, F(1), 3), (5, F(1, 10), 0)):
        with pytest.raises(SpecError):
            small_sum_privacy(size, epsilon, alpha)
    for miss in (F(0), F(1)):
        with pytest.raises(SpecError):
            large_sum_utility(5, F(1, 10), miss)
