"""What is particular to ordered-response; what every method must do is in sfumato's contract suite."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from ordered_response import METHOD, OrderedResponse, OrderedResponsePlan, chance, chances
from sfumato.errors import SpecError
from sfumato.laws.channel import Channel
from sfumato.model.private import Facts, Profile
from sfumato.model.public import Domain

PLANS = [
    OrderedResponsePlan(step=Fraction(s), law=Channel.of(chances(Fraction(s), m)))
    for s in ("5/4", "3/2", "4")
    for m in (2, 3, 9)
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_channel_is_one_and_the_same_in_fractions_and_floats(plan: OrderedResponsePlan) -> None:
    exact = [[chance(plan.step, plan.values, x, y) for y in range(plan.values)] for x in range(plan.values)]
    assert all(sum(row) == 1 for row in exact)
    np.testing.assert_allclose(plan.law.table, np.array(exact, dtype=float), rtol=1e-12)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_the_guarantee_is_the_largest_ratio(plan: OrderedResponsePlan) -> None:
    m = range(plan.values)
    ratios = {
        (x, z): max(chance(plan.step, plan.values, x, y) / chance(plan.step, plan.values, z, y) for y in m)
        for x in m
        for z in m
    }
    assert max(ratios.values()) == plan.amplification == plan.step ** (plan.values - 1)
    assert all(ratio == plan.step ** abs(x - z) for (x, z), ratio in ratios.items())
    stated = METHOD.guarantee(plan).parameters["amplification"]
    assert plan.amplification <= Fraction(stated) <= plan.amplification + Fraction(1, 10**5)


@pytest.mark.parametrize("values", [2, 5, 12, 300])
def test_at_a_bound_the_odds_are_reached_and_not_passed(values: int) -> None:
    """A prior of 1/20 ends at 1/3 where the odds grow 9.5 times, over the whole domain, declared values included."""
    facts = Facts(rows=100, true_counts=(50, 50), sizes={}, integers=frozenset())
    (own,) = METHOD.at_bound(facts, Fraction(1, 3), Fraction(1, 20))
    domain = Domain(columns=("grade",), values=tuple((v,) for v in range(values)), declared=True)
    profile = Profile(rows=100, domains=(domain,), histograms=())
    plan = METHOD.plan(OrderedResponse(**own.parameters), profile, np.random.default_rng(1)).public
    assert Fraction(19, 2) * Fraction(997, 1000) < plan.amplification <= Fraction(19, 2)


def test_a_mean_over_an_ordered_column_is_answered_closely() -> None:
    rng = np.random.default_rng(3)
    grade = rng.binomial(6, 0.4, size=20_000)
    table = pa.table({"grade": grade, "area": rng.integers(0, 5, size=len(grade))})
    roles = sf.Roles(sensitive="grade", quasi=["area"])
    release = sf.publish(table, roles=roles, method=OrderedResponse(odds=64), seed=1)
    (row,) = release.sql("SELECT AVG(grade) AS a FROM release WHERE area < 3").rows()
    true = grade[table["area"].to_numpy() < 3].mean()
    assert abs(row["a"] - true) < 6 * row["a_se"]  # false alarm 2e-9
    assert row["a_se"] < 0.05


def test_several_sensitive_columns_are_refused() -> None:
    with pytest.raises(SpecError, match="one sensitive column"):
        METHOD.needs(OrderedResponse(odds=64), sf.Roles(sensitive=("a", "b")))
