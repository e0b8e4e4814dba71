"""Plans: guarantee by enumeration in fractions, counts, guard rails, and how near the best possible they come."""

import os
from fractions import Fraction as F
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import PlanError, SpecError
from sfumato.methods.small_domain.plan import (
    Costs,
    balance,
    candidate_orders,
    distance_from_best,
    hand_out,
    join,
    least_variance,
    merge,
    partition,
    value_variance,
)
from sfumato.stats.gamma import gamma_bound, posterior

EXAMPLE = np.array([12, 8, 6, 5, 4, 3, 1, 1, 1, 1])


def table_of(counts, **options):
    options = {"rho1": F(1, 13), "rho2": F(1, 6), "min_size": 1000} | options
    costs = Costs(rows=int(counts.sum()), **options)
    return partition(counts, costs), costs


def channel(table):
    """C[x, y]: probability that value x of the sub-table is shown as y, exactly."""
    p, q = table.keep_probabilities
    m = table.values.size
    return [[q + p * (x == y) for y in range(m)] for x in range(m)]


def largest_posterior(table, protected):
    """By Bayes' rule over every pair (true value, shown value), with the sub-table's own frequencies as prior."""
    c, counts = channel(table), [int(k) for k in table.true_counts]
    shown = [sum(counts[x] * c[x][y] for x in range(len(counts))) for y in range(len(counts))]
    return max(
        counts[x] * c[x][y] / shown[y]
        for x in range(len(counts))
        if protected[table.values[x]]
        for y in range(len(counts))
    )


def test_the_papers_example_end_to_end():
    plan, _ = table_of(EXAMPLE, rho1=F(1, 3), rho2=F(2, 3), min_size=1, strict=False, objective="bound")
    assert plan.theta == 3
    assert [t.gamma for t in plan.sub_tables] == [4, 10]
    assert [(sum(t.keep_probabilities), t.keep_probabilities[1]) for t in plan.sub_tables] == [
        (F(4, 9), F(1, 9)),
        (F(2, 3), F(1, 15)),
    ]
    assert [largest_posterior(t, plan.protected) for t in plan.sub_tables] == [F(2, 3), F(2, 3)]
    strict, _ = table_of(EXAMPLE, rho1=F(1, 3), rho2=F(2, 3), min_size=1, objective="bound")
    assert [t.values.tolist() for t in strict.sub_tables] == [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9]]
    assert {t.gamma for t in strict.sub_tables} == {4}


histograms = st.lists(st.integers(0, 300), min_size=2, max_size=25).map(np.array).filter(lambda c: (c > 0).sum() > 1)
rhos = st.tuples(st.integers(1, 60), st.integers(1, 60)).map(lambda x: (F(x[0], 121), F(x[0] + x[1], 121)))


@given(histograms, rhos, st.booleans(), st.sampled_from(["variance", "bound"]), st.sampled_from([1, 50, 1000]))
@settings(max_examples=80, deadline=None)
def test_any_histogram(counts, pair, strict, objective, min_size):
    costs = Costs(
        rho1=pair[0], rho2=pair[1], rows=int(counts.sum()), min_size=min_size, strict=strict, objective=objective
    )
    try:
        plan = partition(counts, costs)
    except PlanError:
        least = F(int(counts[counts > 0].min()), int(counts.sum()))
        assert (
            least > pair[0]
            or costs.gamma(int(counts.sum()), int(counts[counts <= pair[0] * counts.sum()].max())) is None
        )
        return
    total = np.zeros_like(counts)
    for table in plan.sub_tables:
        total[table.values] += table.true_counts
        assert table.size >= min_size or len(plan.sub_tables) == 1
        assert largest_posterior(table, plan.protected) <= pair[1]
        share = F(int(table.true_counts[plan.protected[table.values]].max()), table.size)
        assert posterior(share, gamma_bound(share, pair[1])) == pair[1]  # attained before rounding and capping
        if strict:
            assert posterior(pair[0], table.gamma) <= pair[1]  # any prior up to rho1
    assert np.array_equal(total, counts)
    whole = np.flatnonzero(counts)
    one = costs.price(*(np.array([x]) for x in (counts.sum(), whole.size, counts[plan.protected].max())))
    assert plan.cost <= one[0] * (1 + 1e-12)


def test_small_sub_tables_are_not_made():
    counts = np.full(40, 60)
    plan, _ = table_of(counts)
    assert len(plan.sub_tables) == 2
    assert all(t.size >= 1000 for t in plan.sub_tables)
    alone, _ = table_of(counts // 3)
    assert len(alone.sub_tables) == 1


@pytest.mark.parametrize(
    ("counts", "match"),
    [([7, 0, 0], "fewer than two"), ([0, 0], "fewer than two"), ([6, 7], "rho1 must be at least 6/13")],
)
def test_hopeless_tables_are_refused(counts, match):
    with pytest.raises(PlanError, match=match):
        table_of(np.array(counts))


def test_bad_parameters_are_refused_before_planning():
    with pytest.raises(SpecError, match="rho2"):
        table_of(EXAMPLE, rho1=F(1, 3), rho2=F(1, 3))


def test_gamma_that_rounds_to_one_is_refused():
    with pytest.raises(PlanError, match="gamma rounds down to 1"):
        table_of(np.full(30, 40), rho1=F(1, 13), rho2=F(1, 13) + F(1, 10**6))


def test_unprotected_values_are_spread_and_named():
    counts = np.array([500, 200, 100, 80, 60, 40, 20]) * 100
    plan, costs = table_of(counts, rho1=F(1, 10), rho2=F(1, 4))
    assert plan.protected.tolist() == [False, False, True, True, True, True, True]
    assert all(largest_posterior(t, plan.protected) <= F(1, 4) for t in plan.sub_tables)
    assert len(plan.sub_tables) > 1
    assert plan.total_variance < costs.rows * value_variance(7, float(costs.cap))


def test_one_table_when_that_is_best():
    plan, _ = table_of(np.array([9000, 8000, 300, 200, 100]), rho1=F(1, 30), rho2=F(1, 6), min_size=9000)
    assert len(plan.sub_tables) == 1
    assert plan.sub_tables[0].values.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("inverse", [F(13), F(25, 2), F(1201, 100), F(40, 3), F(5), F(29, 10)])
@pytest.mark.parametrize("rho2", [F(1, 2), F(2, 5), F(1, 3)])
def test_no_flat_sub_table_costs_less_than_the_lower_limit(inverse, rho2):
    """A record costs least next to 1/rho1 values: ceil(1/rho1), or floor when 1/rho1 is not an integer."""
    if 1 / inverse >= rho2:
        pytest.skip("rho1 is not below rho2")
    costs = Costs(rho1=1 / inverse, rho2=rho2, rows=1)
    flat = [min(rho2 * (m - 1) / (1 - rho2), costs.cap) for m in range(2, 200)]
    cheapest = min(float(value_variance(m, float(g))) for m, g in enumerate(flat, start=2) if g > 1)
    assert least_variance(1, costs) == cheapest


def test_fewer_values_can_beat_the_ceiling():
    costs = Costs(rho1=F(100, 1201), rho2=F(1, 6), rows=1)  # 1 / rho1 = 12.01
    assert least_variance(1, costs) < 0.9 * value_variance(13, float(costs.cap))


def test_flat_histogram_reaches_the_limit():
    plan, costs = table_of(np.full(26, 400))
    assert distance_from_best(plan, costs) == 1
    assert [t.values.size for t in plan.sub_tables] == [13, 13]


def test_fifteen_thousand_values():
    rank = np.arange(1, 15001)
    counts = (300_000 * rank**-0.8 / (rank**-0.8).sum()).astype(np.int64) + 1
    plan, _ = table_of(counts)
    total = np.zeros_like(counts)
    for table in plan.sub_tables:
        total[table.values] += table.true_counts
    assert np.array_equal(total, counts)
    groups = balance(counts, plan.theta)
    assert len(groups) <= counts.size + 1


@pytest.mark.slow
@pytest.mark.parametrize("column", ["occupation", "salary"])
@pytest.mark.parametrize("level", [3, 4, 5, 6])
def test_census_plans_are_near_the_best_possible(column, level):
    counts = census(column)
    plan, costs = table_of(counts, rho2=F(1, level))
    assert distance_from_best(plan, costs) <= 1.02
    groups = balance(counts, 13)
    paper = min(merge([groups[i] for i in o], plan.protected, costs)[0] for o in candidate_orders(groups))
    assert plan.total_variance < paper
    uniform_retention = float((costs.cap - 1) / (counts.size - 1 + costs.cap))
    assert plan.retention >= 3 * uniform_retention


@pytest.mark.slow
def test_census_education_is_mostly_unprotected():
    counts = census("education")
    plan, costs = table_of(counts, rho1=F(1, 30))
    assert (~plan.protected).sum() == 6
    assert counts[~plan.protected].sum() / counts.sum() > 0.84
    assert all(largest_posterior(t, plan.protected) <= F(1, 6) for t in plan.sub_tables)
    shielded = np.where(plan.protected, counts, 0)
    whole = join(hand_out([join(balance(shielded, 1))], counts - shielded))
    assert plan.cost < 0.2 * costs.price_of([whole], plan.protected)


def census(column):
    folder = os.environ.get("SFUMATO_DATA")
    if not folder:
        pytest.skip("SFUMATO_DATA is not set")
    parquet = pytest.importorskip("pyarrow.parquet")
    codes = parquet.read_table(Path(folder) / "census_like_acs2018.parquet", columns=[column])[column]
    return np.unique(codes.to_numpy(), return_counts=True)[1]
