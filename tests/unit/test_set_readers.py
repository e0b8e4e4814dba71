"""Readers of published sets: closed forms against Bayes' rule over every set, value and predicate."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import sfumato as sf
from contract.examples import COUNTS, diseases, profile_for, roles
from sfumato.methods import REGISTRY
from sfumato.methods.shared.set_channel import SetChannel
from sfumato.methods.shared.set_lists import best_list
from sfumato.methods.shared.set_readers import cell_posterior, prior_posterior, table_posterior
from sfumato.methods.subset_response.readers import posteriors
from sfumato.publishing.randomness import Secret

CHANNEL = best_list(6, 2).channel(Fraction(12, 5))


def bayes(channel: SetChannel, prior: list[Fraction], inside: tuple[int, ...]) -> Fraction:
    """The largest posterior of a predicate over all published sets, by Bayes' rule in fractions."""
    found = []
    for z in range(len(channel.members)):
        joint = [prior[x] * channel.probability(z, x) for x in range(channel.size)]
        found.append(sum(joint[x] for x in inside) / sum(joint))
    return max(found)


def test_the_reader_with_the_histogram_is_bayes_rule() -> None:
    counts = np.array([40, 7, 21, 3, 12, 17])
    prior = [Fraction(int(c), int(counts.sum())) for c in counts]
    for x in range(6):
        assert table_posterior(CHANNEL, counts, [x]) == bayes(CHANNEL, prior, (x,))


def test_no_prior_and_predicate_passes_the_bound_and_one_reaches_it() -> None:
    rho1, rng = Fraction(1, 13), np.random.default_rng(3)
    bound, largest = prior_posterior(CHANNEL, rho1), Fraction(0)
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
    twice = prior_posterior(CHANNEL, prior_posterior(CHANNEL, rho1))
    assert prior_posterior(CHANNEL, rho1, rows=2) == twice


def test_cells_take_the_worst_and_the_plan_speaks_for_itself() -> None:
    method, columns = REGISTRY["subset-response"], diseases()
    spec = sf.SubsetResponse(rho1="1/5", rho2="1/2")
    profile = profile_for(method.needs(spec, roles()), columns)
    plan = method.plan(spec, profile, Secret.from_seed(1).stream("plan")).public
    alone = posteriors(plan)
    assert alone.histogram is None
    assert alone.linking is None
    assert alone.value == alone.set == alone.corruption == alone.person <= plan.rho2
    cells = np.stack([np.bincount(columns["disease"][columns["sex"] == s], minlength=len(COUNTS)) for s in (0, 1)])
    known = posteriors(plan, true_counts=COUNTS, cells=cells, rows_per_person=3)
    assert known.histogram is not None
    assert known.linking is not None
    assert known.histogram <= plan.rho2
    assert known.linking >= known.histogram
    assert known.person > known.value
    values = list(range(len(COUNTS)))
    assert known.linking == max(table_posterior(plan.channel, row, values) for row in cells)
    assert cell_posterior(plan.channel, np.zeros((2, len(COUNTS)), dtype=np.int64), values) == 0


@pytest.mark.parametrize("rows", [1, 4])
def test_more_rows_never_help_the_person(rows: int) -> None:
    assert prior_posterior(CHANNEL, Fraction(1, 13), rows) < prior_posterior(CHANNEL, Fraction(1, 13), rows + 1)
