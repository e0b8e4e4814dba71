"""What `guarantee` states, against brute force on small domains: every value, every output, every prior of a grid.

Nothing here calls the formulas that `guarantee` uses; chances are added up in fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from constants import SEED
from contract.test_contract import planned
from sfumato.methods import REGISTRY
from sfumato.methods.registry import BUILT_IN
from sfumato.model.public import Guarantee, Trust

SMALL = (2, 3, 4)  # sizes of small domains
STEP = 12  # priors are multiples of 1 / STEP


def priors(values: int) -> list[tuple[Fraction, ...]]:
    """Every prior over the values that is a multiple of 1 / STEP."""
    grid = product(range(STEP + 1), repeat=values - 1)
    return [
        (*(Fraction(k, STEP) for k in some), Fraction(STEP - sum(some), STEP)) for some in grid if sum(some) <= STEP
    ]


def largest_posterior(channel: list[list[Fraction]], rho1: Fraction) -> Fraction:
    """Over all priors of the grid, and those that put exactly rho1 on one value: of a value that had at most rho1."""
    m = range(len(channel))
    rest = [tuple(rho1 if v == x else (1 - rho1) * (v == z) for v in m) for x in m for z in m if z != x]
    found = Fraction(0)
    for prior in [*priors(len(channel)), *rest]:
        for y in range(len(channel[0])):
            seen = sum((prior[x] * channel[x][y] for x in m), Fraction(0))
            shares = [prior[x] * channel[x][y] / seen for x in m if 0 < prior[x] <= rho1] if seen else []
            found = max(found, *shares, Fraction(0))
    return found


def rounded_up(stated: float, true: Fraction, digits: int = 6) -> bool:
    return true <= Fraction(stated) + Fraction(1, 10**12) and Fraction(stated) <= true + Fraction(2, 10**digits)


def subset_response() -> None:
    """Every listed set an output; the list of every small domain, of sets of one value and of two."""
    from sfumato.laws.set_channel import PlannedList
    from sfumato.laws.set_lists import SetLists
    from sfumato.methods.subset_response import METHOD, SubsetResponsePlan

    for m, rho1, gamma in product(SMALL, (Fraction(1, 5), Fraction(1, 3)), (Fraction(3, 2), Fraction(7, 4))):
        for width in range(1, m):
            sets = tuple(combinations(range(m), width))
            listed = PlannedList(sets=sets, cyclic=False)
            law = SetLists(values=m, gammas=(gamma,), lists=(listed,))
            plan = SubsetResponsePlan(rho1=rho1, rho2=Fraction(1, 2), law=law)
            keep = plan.channel.keep  # what runs: a set that holds the value, else one of all
            holding = Fraction(sum(0 in z for z in sets))
            channel = [[keep * (x in z) / holding + (1 - keep) / len(sets) for z in sets] for x in range(m)]
            assert all(sum(row) == 1 for row in channel)
            reached = largest_posterior(channel, rho1)
            assert rounded_up(METHOD.guarantee(plan).parameters["posterior"], reached)
            assert reached <= plan.rho2


def uniform() -> None:
    from sfumato.laws.keep_or_redraw import KeepOrRedraw
    from sfumato.methods.uniform import METHOD, UniformPlan

    for m, rho1, gamma in product(SMALL, (Fraction(1, 5), Fraction(1, 3)), (Fraction(3, 2), Fraction(7, 4))):
        plan = UniformPlan(rho1=rho1, rho2=Fraction(1, 2), law=KeepOrRedraw(values=m, gammas=(gamma,)))
        ((p, q),) = plan.law.channels
        channel = [[p * (x == y) + q for y in range(m)] for x in range(m)]
        assert all(sum(row) == 1 for row in channel)
        reached = largest_posterior(channel, rho1)
        assert rounded_up(METHOD.guarantee(plan).parameters["posterior"], reached)
        assert reached <= plan.rho2


def small_domain() -> None:
    """Each sub-table is a channel of its own; the reader knows which one a record is in."""
    _, _, found, _ = planned("small-domain")
    plan = found.public
    posteriors = []
    for domain, gamma in zip(plan.law.domains, plan.law.gammas, strict=True):
        q = 1 / (len(domain) - 1 + gamma)
        channel = [[gamma * q if x == y else q for y in range(2)] for x in range(2)]  # of two values, up to a factor
        posteriors.append(largest_posterior(channel, plan.rho1))
    stated = REGISTRY["small-domain"].guarantee(plan).parameters
    assert rounded_up(stated["posterior"], max(posteriors))
    assert max(posteriors) <= plan.rho2


def splu() -> None:
    """T_p and T_f from the exact law of a published total."""
    from dataclasses import replace

    _, _, found, _ = planned("splu")
    for size, epsilon in product((2, 3, 4), (Fraction(3, 10), Fraction(1, 2))):
        law = replace(found.law, gamma={"disease": size})
        plan = replace(found.public, law=law, epsilon=epsilon, t_e=Fraction(1, 5))
        stated = REGISTRY["splu"].guarantee(plan).parameters

        def chance(f: int, wrong: Callable[[Fraction], bool], size: int = size) -> Fraction:
            """Pr[wrong(|X - f| / f)], X ~ Binomial(size * f, 1 / size)."""
            n, p = size * f, Fraction(1, size)
            chances = (math.comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1))
            return sum((c for x, c in enumerate(chances) if wrong(Fraction(abs(x - f), f))), Fraction(0))

        hidden = min(chance(f, lambda e, eps=epsilon: e > eps) for f in range(1, plan.alpha + 1))
        assert stated["t_p"] <= hidden <= Fraction(stated["t_p"]) + Fraction(2, 10**6)
        t_f = stated["t_f"]
        missed = [chance(f, lambda e, eps=epsilon: e >= eps) <= plan.t_e for f in range(1, t_f + 12)]
        assert all(missed[t_f - 1 :])
        assert t_f == 1 or not missed[t_f - 2]
        assert stated["posterior"] == f"1/{size}"


def target_distribution() -> None:
    """The share of every value that a group's blocks leave open is the published target, recomputed in fractions."""
    _, _, found, _ = planned("target-distribution")
    plan, law, side = found.public, found.law, found.work.side
    weight_of = [dict(enumerate(part.probabilities)) for part in law.parts]
    for g, part in enumerate(law.group_part):
        mine = np.flatnonzero(side["group_id"] == g)
        total = int(side["count"][mine].sum())
        marginal = [Fraction(0)] * len(law.order)
        for k in mine:
            start, stop = law.blocks[int(side["block"][k])]
            inside = sum(weight_of[part][v] for v in range(start, stop))
            for v in range(start, stop):
                marginal[v] += Fraction(int(side["count"][k]), total) * weight_of[part][v] / inside
        assert tuple(marginal) == law.parts[part].probabilities
        assert sum(marginal) == 1
    stated = REGISTRY["target-distribution"].guarantee(plan).parameters
    assert stated["groups"] == len(law.group_part)


def randomized_response() -> None:
    """epsilon: the largest log ratio of the channel, column by column; of a record: of all columns at once."""
    from sfumato.laws.independent_columns import IndependentColumns
    from sfumato.methods.randomized_response.method import METHOD, RandomizedResponsePlan

    for sizes, keep in (((2, 3), (0.7, 0.6)), ((4, 2), (0.4, 0.9)), ((3,), (0.5,))):
        names = ("disease", "sex")[: len(sizes)]
        law = IndependentColumns(columns=names, sizes=sizes, keep=keep)
        plan = RandomizedResponsePlan(scope="given", law=law, risk=None, baseline={"disease": 0.5})
        stated = METHOD.guarantee(plan).parameters
        channels = [
            [[p if x == y else (1 - p) / (d - 1) for y in range(d)] for x in range(d)]
            for d, p in zip(sizes, keep, strict=True)
        ]
        for name, channel in zip(names, channels, strict=True):
            loss = max(math.log(a[y] / b[y]) for a in channel for b in channel for y in range(len(channel)))
            assert loss <= stated["epsilon"][name] + 1e-12 <= loss + 2e-3
        records = list(product(*(range(d) for d in sizes)))
        joint = {
            (x, y): math.prod(c[i][j] for c, i, j in zip(channels, x, y, strict=True)) for x in records for y in records
        }
        total = max(math.log(joint[x, y] / joint[z, y]) for x in records for y in records for z in records)
        assert total <= stated["epsilon_total"] + 1e-12 <= total + 5e-3


def anatomy() -> None:
    """Every way to hand a group's values to its members: each member has each value in an equal share of them."""
    from itertools import permutations

    _, _, found, _ = planned("anatomy")
    side, plan = found.work.side, found.public
    least = Fraction(REGISTRY["anatomy"].guarantee(plan).parameters["posterior"])
    shapes = set()
    for g in range(plan.law.groups):
        held = tuple(side["unit0"][side["group_id"] == g].tolist())
        assert len(set(held)) == len(held) >= plan.law.l
        shapes.add(len(held))
    for size in shapes:  # which values they are does not matter
        ways = list(permutations(range(size)))
        share = max(Fraction(sum(way[0] == v for way in ways), len(ways)) for v in range(size))
        assert share <= least
    assert Fraction(1, min(shapes)) == least


def l_diversity() -> None:
    """The largest share of a value in the classes of the release, recounted row by row."""
    from sfumato.model.private import Batch

    needs, _, found, codes = planned("l-diversity")
    plan = found.public
    arrays = tuple(codes[unit] for unit in needs.units)
    out = plan.law.apply(found.work, Batch(rows=len(arrays[0]), codes=arrays, labels=()), np.random.default_rng(SEED))
    classes: dict[tuple[int, ...], list[int]] = {}
    stay = np.ones(len(arrays[0]), dtype=bool) if out.stay is None else out.stay
    published = [c for c in out.codes if c is not None]
    for row in np.flatnonzero(stay):
        classes.setdefault(tuple(int(c[row]) for c in published), []).append(int(arrays[-1][row]))
    stated = Fraction(REGISTRY["l-diversity"].guarantee(plan).parameters["l"])
    assert plan.kind == "frequency"
    assert max(Fraction(values.count(v), len(values)) for values in classes.values() for v in set(values)) <= 1 / stated


def distribution_draw() -> None:
    """Nothing is promised, and nothing is kept: every row of the channel is the same."""
    _, profile, found, _ = planned("distribution-draw")
    channel = found.law.channel(found.work, profile)
    assert (channel == channel[0]).all()
    stated: Guarantee = REGISTRY["distribution-draw"].guarantee(found.public)
    assert stated.trust is Trust.BASELINE
    assert stated.parameters == {}


BRUTE: dict[str, Callable[[], None]] = {
    "subset-response": subset_response,
    "uniform": uniform,
    "small-domain": small_domain,
    "splu": splu,
    "target-distribution": target_distribution,
    "randomized-response": randomized_response,
    "anatomy": anatomy,
    "l-diversity": l_diversity,
    "distribution-draw": distribution_draw,
}


def test_every_built_in_method_is_here() -> None:
    assert list(BRUTE) == list(BUILT_IN)


@pytest.mark.parametrize("name", BRUTE)
def test_the_guarantee_is_that_of_brute_force(name: str) -> None:
    BRUTE[name]()


def test_a_channel_that_gives_away_more_is_noticed() -> None:
    """The yardstick itself: a channel of twice the odds reaches a higher posterior."""
    weak, strong = (
        [[g / (g + 2) if x == y else 1 / (g + 2) for y in range(3)] for x in range(3)] for g in map(Fraction, (2, 4))
    )
    rho1 = Fraction(1, 3)
    assert largest_posterior(weak, rho1) == Fraction(1, 2)
    assert largest_posterior(strong, rho1) == Fraction(2, 3)
