"""The least possible error: reached exactly by all best subsets, kept by every other channel."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from sfumato.laws.set_channel import channel_of_sets, set_answers
from sfumato.methods.shared import workloads
from sfumato.methods.shared.set_lists import (
    best_list,
    best_width,
    flat_reach,
    least_histogram,
    least_partition,
    least_sized_partition,
    least_total,
    least_variance,
    reach,
    singular_values,
    spread_bound,
    times_least,
)

GAMMAS = [Fraction(12, 5), Fraction(4), Fraction(12), Fraction(47)]
RNG = np.random.default_rng(20141)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("size", [2, 8, 13, 15, 50, 100, 512])
def test_subsets_reach_the_bound_in_exact_fractions(size, gamma):
    assert least_histogram(size, gamma) == least_variance(size, gamma)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("size", [2, 8, 15, 50])
def test_general_bound_gives_the_same_for_the_histogram(size, gamma):
    assert least_total(np.eye(size), gamma) == pytest.approx(float(least_histogram(size, gamma)), rel=1e-10)


def test_flat_reach_is_the_largest_over_all_widths_and_below_the_general_one():
    for gamma in GAMMAS:
        for size in (2, 5, 13, 40):
            every = [(gamma - 1) ** 2 * w * (size - w) / (size + (gamma - 1) * w) ** 2 for w in range(1, size)]
            assert flat_reach(size, gamma) == max(every) <= reach(gamma)
    assert flat_reach(5, Fraction(4)) == reach(Fraction(4))  # m / (gamma + 1) is whole: no difference


def random_channel(size, gamma, k):
    """Any channel of amplification at most gamma, not a set channel: random rows, then columns made to sum to one."""
    rows = RNG.uniform(1, float(gamma) ** 0.5, size=(k, size)) * RNG.exponential(size=(k, 1))
    return rows / rows.sum(axis=0)


def total(Q, prior, gram):
    inverse = np.linalg.inv(Q.T @ (Q / (Q @ prior)[:, None]))
    return float((inverse * gram).sum() - prior @ np.diag(gram))


@pytest.mark.parametrize("kind", ["histogram", "prefixes", "ranges"])
@pytest.mark.parametrize("gamma", GAMMAS)
def test_no_channel_passes_the_bound(kind, gamma):
    """Random channels and random set channels, flat and skewed priors, weights tuned to the prior."""
    size = 6
    gram = getattr(workloads, kind)(size)
    for _ in range(20):
        prior = RNG.dirichlet(np.full(size, 3.0))
        Q = random_channel(size, gamma, 14)
        amplification = (Q.max(axis=1) / Q.min(axis=1)).max()
        assert amplification > 1
        for pi in (prior, np.full(size, 1 / size)):
            bound = least_total(gram, Fraction(float(amplification)).limit_denominator(10**6) + Fraction(1, 10**5), pi)
            assert total(Q, pi, gram) >= bound * (1 - 1e-9)
        sets = [(x,) for x in range(size)] + [(0, 1, 2), (3, 4, 5), (0, 2, 4), (1, 3, 5)]
        channel = channel_of_sets(size, gamma, sets, RNG.integers(1, 9, 1).tolist() * size + [2, 2, 3, 3])
        assert set_answers(channel, prior).total_variance(gram) >= least_total(gram, gamma, prior) * (1 - 1e-9)


def test_bound_is_tight_enough_to_fail_a_better_claim():
    """The list of 13 sets meets the bound to the rounding of keep: a bound 1 % higher would be false."""
    gamma = Fraction(12, 5)
    answers = set_answers(best_list(13, 4).channel(gamma))
    bound = least_total(np.eye(13), gamma)
    assert bound <= answers.total_variance(np.eye(13)) < 1.0001 * bound
    assert times_least(answers.total_variance(np.eye(13)), bound) == pytest.approx(1, abs=1e-6)
    assert times_least(1.0, 0.0) == float("inf")


@pytest.mark.parametrize("tau", [0.3, 1.0, 1.7, 2.6, 3.9])
def test_capped_spread_against_a_solver(tau):
    """sum s^2 / lam - s^2 with lam <= 1 and sum of lam <= tau: the rule against a general optimiser."""
    s = np.array([5.0, 2.0, 1.0, 0.4])
    found = spread_bound(s, tau)
    solved = optimize.minimize(
        lambda lam: (s**2 / lam - s**2).sum(),
        np.full(4, tau / 4),
        jac=lambda lam: -(s**2) / lam**2,
        bounds=[(1e-6, 1)] * 4,
        constraints={"type": "ineq", "fun": lambda lam: tau - lam.sum(), "jac": lambda lam: -np.ones(4)},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert found == pytest.approx(solved.fun, rel=1e-4)


def test_spread_bound_edges():
    assert spread_bound(np.array([1.0, 0.5]), 2.0) == 0.0  # tau suffices for all
    assert spread_bound(np.array([1.0, 0.5]), 9.0) == 0.0
    assert spread_bound(np.zeros(3), 0.5) == 0.0
    assert spread_bound(np.array([3.0, 0.0]), 0.5) == pytest.approx(9 / 0.5 - 9)


def test_singular_values_of_questions():
    """Against the singular values of W itself; a constant added to a question changes nothing."""
    W, pi = RNG.normal(size=(9, 5)), RNG.dirichlet(np.ones(5))
    r = np.sqrt(pi)
    direct = np.linalg.svd(W * r @ (np.eye(5) - np.outer(r, r)), compute_uv=False)[:4]
    assert singular_values(W.T @ W, pi) == pytest.approx(direct, rel=1e-8)
    shifted = W + RNG.normal(size=(9, 1))
    assert singular_values(shifted.T @ shifted, pi) == pytest.approx(direct, rel=1e-7)


@pytest.mark.parametrize("rho2", [Fraction(1, 6), Fraction(1, 4), Fraction(1, 3)])
@pytest.mark.parametrize("rho1", [Fraction(1, 13), Fraction(1, 25), Fraction(2, 25), Fraction(2, 23)])
def test_least_of_any_strict_partition(rho1, rho2):
    """Only the two sizes around 1 / rho1 matter, as a search over many sizes shows."""
    cap = rho2 * (1 - rho1) / (rho1 * (1 - rho2))

    def at(size):
        return least_variance(size, min(cap, rho2 * (size - 1) / (1 - rho2)))

    floor = int(1 / rho1)
    beside = min(at(floor), at(floor if floor == 1 / rho1 else floor + 1))
    assert least_partition(rho1, rho2, cap) == beside
    allowed = [size for size in range(2, 80) if rho2 * (size - 1) > 1 - rho2]
    assert beside == min(at(size) for size in allowed)


def test_partition_at_thirteen_values():
    found = least_partition(Fraction(1, 13), Fraction(1, 6), Fraction(12, 5))
    assert found == least_variance(13, Fraction(12, 5))
    assert best_width(13, Fraction(12, 5)) == 4


@pytest.mark.parametrize(
    ("rows", "values", "min_size"), [(75_325, 3_769, 1000), (295_243, 8_870, 1000), (30_000, 900, 1000)]
)
def test_no_partition_of_large_sub_tables_passes_the_bound(rows: int, values: int, min_size: int) -> None:
    """Random partitions, even ones among them, of 13 values and more, so that gamma is at its cap in all of them."""
    rho1, rho2, cap = Fraction(1, 13), Fraction(1, 6), Fraction(12, 5)
    least = rows * least_sized_partition(rho1, rho2, cap, values=values, rows=rows, min_size=min_size)
    rng = np.random.default_rng(5)
    found = []
    for tables in (1, 2, max(1, rows // min_size // 2), rows // min_size):
        for even in (True, False):
            share = np.full(tables, 1 / tables) if even else rng.dirichlet(np.ones(tables))
            sizes = min_size + np.floor((rows - tables * min_size) * share).astype(int)
            sizes[0] += rows - sizes.sum()
            listed = np.maximum(13, np.ceil(values / tables * (np.ones(tables) if even else tables * share))).astype(
                int
            )
            listed[0] += max(0, values - listed.sum())
            found.append(sum(int(n) * least_variance(int(m), cap) for n, m in zip(sizes, listed, strict=True)))
    assert min(found) >= least
    assert min(found) <= 1.1 * float(least)  # sub-tables of equal size come near it


def test_without_a_minimum_size_the_bound_is_that_of_any_sub_tables() -> None:
    rho1, rho2, cap = Fraction(1, 13), Fraction(1, 6), Fraction(12, 5)
    free = least_partition(rho1, rho2, cap)
    assert least_sized_partition(rho1, rho2, cap, values=50, rows=295_243, min_size=1000) == free
    assert least_sized_partition(rho1, rho2, cap, values=3_769, rows=75_325, min_size=1) == free
    sized = least_sized_partition(rho1, rho2, cap, values=3_769, rows=75_325, min_size=1000)
    assert float(sized / free) == pytest.approx(2.09**2, rel=0.01)
