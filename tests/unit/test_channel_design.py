"""Channels made for questions: certified optima, exact whole numbers, the certificate, workloads."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

from sfumato.errors import SpecError
from sfumato.laws.set_channel import channel_of_sets, set_answers
from sfumato.methods.shared import workloads
from sfumato.methods.shared.set_lists import best_width
from sfumato.methods.shared.workloads import (
    UNIT,
    Prices,
    WeightProgramme,
    cut_normals,
    every_set,
    exact_weights,
    feasible,
    optimise,
    shares,
)

GAMMA = Fraction(12, 5)
RNG = np.random.default_rng(20141)


def gram_of(kind, size, gamma=GAMMA):
    if kind == "sum":
        return workloads.mixture([workloads.weighted_sum(np.arange(size))], [1.0], gamma)
    return getattr(workloads, kind)(size)


# --- questions -------------------------------------------------------------------------------------------------


def test_gram_matrices_against_their_questions():
    size = 6
    prefixes = np.tril(np.ones((size, size)))
    ranges = np.array([(np.arange(size) >= u) & (np.arange(size) <= v) for u in range(size) for v in range(u, size)])
    assert (workloads.prefixes(size) == prefixes.T @ prefixes).all()
    assert (workloads.ranges(size) == ranges.T.astype(float) @ ranges).all()
    assert (workloads.gram_of(prefixes) == workloads.prefixes(size)).all()
    assert len(ranges) == size * (size + 1) / 2


@pytest.mark.parametrize(("size", "gamma"), [(2, GAMMA), (7, GAMMA), (8, Fraction(3, 2)), (6, Fraction(47))])
def test_subset_variance_is_that_of_all_subsets(size, gamma):
    channel = channel_of_sets(size, gamma, list(combinations(range(size), best_width(size, gamma))))
    W = RNG.normal(size=(5, size))
    prior = RNG.dirichlet(np.ones(size))
    answers = set_answers(channel)
    found = workloads.subset_variance(W.T @ W, gamma, prior)
    assert found == pytest.approx(answers.variance(W).sum(axis=0) @ prior, rel=1e-6)


def test_mixture_weighs_by_what_each_costs():
    size = 9
    grams = [workloads.ranges(size), 1000 * workloads.weighted_sum(np.arange(size))]
    mixed = workloads.mixture(grams, [3, 1], GAMMA, floor=0)
    assert workloads.subset_variance(mixed, GAMMA) == pytest.approx(1)
    assert mixed == pytest.approx(workloads.mixture([7 * grams[0], grams[1]], [0.75, 0.25], GAMMA, floor=0))
    assert np.linalg.matrix_rank(workloads.mixture(grams[1:], [1], GAMMA)) == size
    for bad in ([], [-1.0, 2.0], [0.0, 0.0], [1.0]):
        with pytest.raises(SpecError, match="mix"):
            workloads.mixture(grams, bad, GAMMA)
    with pytest.raises(SpecError, match="exactly"):
        workloads.mixture([np.ones((size, size))], [1.0], GAMMA)


# --- the convex programme and its pricing ------------------------------------------------------------------------


def test_weights_of_a_fixed_list_against_a_general_solver():
    """All sets of five values: the barrier method's optimum against many random feasible weights and its own dual."""
    size = 5
    members = np.concatenate([np.eye(size, dtype=bool), every_set(size)])
    members = members[np.sort(np.unique(members, axis=0, return_index=True)[1])]
    gram = workloads.centred(workloads.ranges(size), np.full(size, 0.2))
    programme = WeightProgramme(gram=gram, prior=np.full(size, 0.2), excess=1.4, mirrored=False)
    start = feasible(shares(members, False), np.ones(len(members)), 1.4, size)
    u = 1 + 1.4 * members
    assert start @ u == pytest.approx(np.ones(size), abs=1e-12)
    found = programme.solve(members, start, 1.0, 1e-6)
    assert found.c @ u == pytest.approx(np.ones(size), abs=1e-9)
    assert (found.c > 0).all()
    prices = Prices(Y=found.Y, lam=found.lam, prior=programme.prior, excess=1.4)
    bound = found.value**2 / (found.lam.sum() + prices.worth(members).max())
    assert 1 - 1e-5 < bound / found.value <= 1
    for _ in range(50):
        c = feasible(shares(members, False), RNG.exponential(size=len(members)), 1.4, size)
        M = (u * (c / (u @ programme.prior))[:, None]).T @ u
        assert np.trace(np.linalg.solve(M, gram)) >= bound


def test_mirrored_programme_gives_the_same_value():
    size = 7
    prior = np.full(size, 1 / size)
    gram = workloads.centred(workloads.prefixes(size), prior)
    assert gram == pytest.approx(gram[::-1, ::-1])
    values = []
    for mirrored in (False, True):
        members = every_set(size)
        if mirrored:
            members = np.array([row for row in members if tuple(row) >= tuple(row[::-1])])
        singles = (size + 1) // 2 if mirrored else size
        members = np.concatenate([np.eye(size, dtype=bool)[:singles], members[members.sum(axis=1) > 1]])
        programme = WeightProgramme(gram=gram, prior=prior, excess=1.4, mirrored=mirrored)
        start = feasible(shares(members, mirrored), np.ones(len(members)), 1.4, singles)
        values.append(programme.solve(members, start, 1.0, 1e-6).value)
    assert values[0] == pytest.approx(values[1], rel=3e-6)


def test_climbing_never_loses_and_ends_where_no_flip_helps():
    size = 14
    A = RNG.normal(size=(size, size))
    prices = Prices(Y=A @ A.T, lam=RNG.uniform(0, 5, size), prior=RNG.dirichlet(np.ones(size)), excess=1.4)
    start = cut_normals(prices.Y, 40, 2.4, RNG)
    assert ((start.sum(axis=1) > 0) & (start.sum(axis=1) < size)).all()
    climbed = prices.climb(start, 1000)
    assert (prices.worth(climbed) >= prices.worth(start) - 1e-9).all()
    assert (prices.worth(climbed) > prices.worth(start) + 1e-6).any()
    for row, worth in zip(climbed, prices.worth(climbed), strict=True):
        flipped = row ^ np.eye(size, dtype=bool)
        proper = (flipped.sum(axis=1) > 0) & (flipped.sum(axis=1) < size)
        assert prices.worth(flipped[proper]).max() <= worth + 1e-9


def test_worth_against_its_definition():
    size = 4
    A = RNG.normal(size=(size, size))
    prices = Prices(Y=A @ A.T, lam=RNG.uniform(size=size), prior=np.full(size, 0.25), excess=2.0)
    u = np.array([3.0, 1.0, 1.0, 3.0])
    direct = (u @ prices.Y @ u / (u @ prices.prior) - prices.lam @ u) / (u @ prices.prior)
    assert prices.worth(np.array([[True, False, False, True]])) == pytest.approx([direct])


# --- designs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "optimum"), [("ranges", 186.81), ("prefixes", 30.95), ("sum", 63.70)])
def test_certified_optima_of_eight_values(kind, optimum):
    design = optimise(gram_of(kind, 8), GAMMA, gap=1e-4)
    gram = workloads.weighted_sum(np.arange(8)) if kind == "sum" else gram_of(kind, 8)
    assert design.certified
    assert design.gap <= 1e-4
    assert set_answers(design.channel).total_variance(gram) == pytest.approx(optimum, rel=1e-3)


@pytest.mark.parametrize("gamma", [GAMMA, Fraction(4), Fraction(12), Fraction(47)])
@pytest.mark.parametrize("size", [8, 15])
def test_a_histogram_gets_what_subsets_give(size, gamma):
    design = optimise(workloads.histogram(size), gamma, gap=2e-3)
    assert design.variance / design.least == pytest.approx(1, abs=3e-3)


@pytest.mark.parametrize("size", [2, 3])
def test_smallest_domains(size):
    design = optimise(workloads.ranges(size), GAMMA)
    answers = set_answers(design.channel)
    subset = workloads.subset_variance(workloads.ranges(size), GAMMA)
    assert answers.total_variance(workloads.ranges(size)) <= subset * (1 + 1e-3)


def test_the_finished_channel_is_exact():
    """Whole numbers, equal coverage (the channel checks it), its own gamma not above the asked one, same errors."""
    gram = workloads.mixture([workloads.ranges(15), workloads.weighted_sum(np.arange(15))], [0.5, 0.5], GAMMA, 0.05)
    design = optimise(gram, GAMMA)
    assert design.channel.gamma_run <= GAMMA
    assert design.channel.gamma_run > GAMMA * (1 - Fraction(1, 10**6))
    assert abs(design.channel.total + Fraction(7, 5) * design.channel.coverage - UNIT) < 1000 * len(
        design.channel.weights
    )
    answers = set_answers(design.channel)
    assert answers.total_variance(gram) == pytest.approx(design.variance, rel=1e-4)
    assert answers.total_variance(gram) >= design.least
    H = RNG.normal(size=(3, 15))
    assert answers.weights(H) @ answers.matrix == pytest.approx(H, abs=1e-8)


def test_exact_weights_equalise_coverage():
    members = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0]], dtype=bool)
    sets, weights = exact_weights(members, np.array([0.3, 0.2, 0.05]), unit=100)
    table = {tuple(np.flatnonzero(row)): int(n) for row, n in zip(sets, weights, strict=True)}
    assert table == {(0, 1): 30, (1, 2): 20, (0,): 20, (2,): 30}


def test_prior_tunes_the_channel():
    """Questions about a skewed column: the tuned channel is better there than the flat one, and its gap is proved."""
    prior = 0.6 ** np.arange(10)
    prior /= prior.sum()
    gram = workloads.prefixes(10)
    flat, tuned = optimise(gram, GAMMA, gap=2e-3), optimise(gram, GAMMA, prior, gap=2e-3)
    assert tuned.certified
    assert tuned.gap <= 2e-3
    assert tuned.variance == pytest.approx(set_answers(tuned.channel, prior).total_variance(gram), rel=1e-5)
    assert tuned.variance < set_answers(flat.channel, prior).total_variance(gram)


def test_the_same_every_time_and_progress_is_told():
    seen = []
    first = optimise(workloads.ranges(15), GAMMA, progress=seen.append)
    again = optimise(workloads.ranges(15), GAMMA)
    assert (first.channel.members == again.channel.members).all()
    assert (first.channel.weights == again.channel.weights).all()
    assert [step.round for step in seen] == list(range(1, first.rounds + 1))
    assert seen[-1].gap == first.gap <= 0.01
    assert all(later.variance <= sooner.variance * 1.002 for sooner, later in pairwise(seen))


@pytest.mark.parametrize(
    ("gram", "gamma", "prior", "match"),
    [
        (np.eye(129), GAMMA, None, "128"),
        (np.eye(4), Fraction(1), None, "gamma"),
        (np.ones((4, 4)), GAMMA, None, "exactly"),
        (np.zeros((4, 4)), GAMMA, None, "exactly"),
        (np.full((4, 4), np.nan), GAMMA, None, "finite"),
        (np.eye(1), GAMMA, None, "two values"),
        (np.eye(4), GAMMA, np.array([1.0, 0, 0, 0]), "prior"),
    ],
)
def test_refusals(gram, gamma, prior, match):
    with pytest.raises(SpecError, match=match):
        optimise(gram, gamma, prior)
