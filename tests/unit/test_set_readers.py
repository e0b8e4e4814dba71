"""Readers of published sets: closed forms against Bayes' rule over every set, value and predicate."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from sfumato.laws.set_channel import SetChannel
from sfumato.methods.shared.readers import amplified
from sfumato.methods.shared.set_lists import best_list

CHANNEL = best_list(6, 2).channel(Fraction(12, 5))
GAMMA = CHANNEL.gamma_run


def bayes(channel: SetChannel, prior: list[Fraction], inside: tuple[int, ...]) -> Fraction:
    """The largest posterior of a predicate over all published sets, by Bayes' rule in fractions."""
    found = []
    for z in range(len(channel.members)):
        joint = [prior[x] * channel.probability(z, x) for x in range(channel.size)]
        found.append(sum(joint[x] for x in inside) / sum(joint))
    return max(found)


def test_no_prior_and_predicate_passes_the_bound_and_one_reaches_it() -> None:
    rho1, rng = Fraction(1, 13), np.random.default_rng(3)
    bound, largest = amplified(rho1, GAMMA), Fraction(0)
    for inside in (s for size in (1, 2, 3) for s in combinations(range(6), size)):
        for _ in range(4):
            weights = [Fraction(int(w)) for w in rng.integers(0, 9, 6) + (rng.random(6) < 0.3) * 1000]
            held, rest = sum(weights[x] for x in inside), sum(w for x, w in enumerate(weights) if x not in inside)
            if held and rest:
                prior = [w / held * rho1 if x in inside else w / rest * (1 - rho1) for x, w in enumerate(weights)]
                largest = max(largest, bayes(CHANNEL, prior, inside))
    assert largest <= bound
    sharp = [rho1, *[Fraction(0)] * 4, 1 - rho1]  # all other belief on one value that some set leaves out
    assert bayes(CHANNEL, sharp, (0,)) == bound


def test_a_person_with_several_rows_multiplies_the_odds() -> None:
    rho1 = Fraction(1, 13)
    twice = amplified(amplified(rho1, GAMMA), GAMMA)
    assert amplified(rho1, GAMMA, rows=2) == twice


@pytest.mark.parametrize("rows", [1, 4])
def test_more_rows_never_help_the_person(rows: int) -> None:
    assert amplified(Fraction(1, 13), GAMMA, rows) < amplified(Fraction(1, 13), GAMMA, rows + 1)
