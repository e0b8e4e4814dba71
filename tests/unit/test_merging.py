"""Order, prices and the dynamic programme: docs/explanation/small-domain.md, 3.3 to 3.5, brute force beside each."""

from fractions import Fraction as F
from itertools import pairwise
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.methods.small_domain.plan import Costs, balance, candidate_orders, group_of, join, merge, value_variance

EXAMPLE = np.array([12, 8, 6, 5, 4, 3, 1, 1, 1, 1])
EVERY = np.ones(10, dtype=bool)
A = 2 * sqrt(log(2 / 0.05))


def example(*, strict):
    costs = Costs(rho1=F(1, 3), rho2=F(2, 3), rows=42, strict=strict, objective="bound", delta=0.05)
    return balance(EXAMPLE, 3), costs


def test_order_of_the_papers_example():
    groups, _ = example(strict=False)
    assert candidate_orders(groups) == [[0, 2, 1, 3, 4], [3, 2, 1, 0, 4], [0, 1, 2, 3, 4]]


def test_merge_of_the_papers_example():
    groups, costs = example(strict=False)
    cost, tables = merge([groups[i] for i in (0, 2, 1, 3, 4)], EVERY, costs)
    assert round(cost / A, 6) == 0.525773
    assert round(costs.price_of([join(groups)], EVERY) / A, 6) == 0.540062
    assert [(t.values.tolist(), t.true_counts.tolist()) for t in tables] == [
        ([0, 1, 2, 3, 4, 5], [12, 8, 6, 4, 4, 2]),
        ([3, 5, 6, 7, 8, 9], [1, 1, 1, 1, 1, 1]),
    ]
    assert [costs.gamma(t.size, int(t.true_counts.max())) for t in tables] == [4, 10]


def test_merge_of_the_papers_example_with_the_cap():
    groups, costs = example(strict=True)
    cost, tables = min(
        (merge([groups[i] for i in o], EVERY, costs) for o in candidate_orders(groups)), key=lambda c: c[0]
    )
    assert round(cost / A, 6) == 0.578113
    assert [t.values.tolist() for t in tables] == [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9]]
    assert costs.gamma(6, 1) == 4


def set_partitions(items):
    if not items:
        yield []
        return
    head, *tail = items
    for blocks in set_partitions(tail):
        yield [[head], *blocks]
        for at, block in enumerate(blocks):
            yield [*blocks[:at], [head, *block], *blocks[at + 1 :]]


def test_no_other_set_partition_of_the_groups_is_cheaper():
    groups, costs = example(strict=False)
    prices = [
        costs.price_of([join([groups[i] for i in block]) for block in blocks], EVERY)
        for blocks in set_partitions(list(range(5)))
    ]
    assert len(prices) == 52
    assert round(min(prices) / A, 6) == 0.525773


def test_value_variance_is_the_sum_over_values():
    m, gamma = 13, 2.4
    q = 1 / (m - 1 + gamma)
    p = (gamma - 1) * q
    per_record = ((p + q) * (1 - p - q) + (m - 1) * q * (1 - q)) / p**2
    assert value_variance(m, gamma) == pytest.approx(per_record, rel=1e-14)


parameters = st.tuples(st.integers(1, 400), st.integers(1, 400), st.integers(2, 500)).map(
    lambda x: (F(min(x[0], x[1]), 401 + x[2]), F(max(x[0], x[1]) + 1, 401 + x[2]))
)


@given(parameters, st.booleans(), st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)), min_size=1))
@settings(max_examples=150)
def test_vector_gammas_are_the_exact_ones(rhos, strict, pairs):
    costs = Costs(rho1=rhos[0], rho2=rhos[1], rows=10**6, strict=strict)
    sizes = np.array([n for n, _ in pairs])
    largest = np.array([min(n, k) for n, k in pairs])
    exact = [costs.gamma(int(n), int(k)) for n, k in zip(sizes, largest, strict=True)]
    assert np.array_equal(
        costs.gammas(sizes, largest), [np.nan if g is None else float(g) for g in exact], equal_nan=True
    )


def test_parameters_with_long_decimals_stay_exact():
    costs = Costs(rho1=F("0.0769230769230769"), rho2=F("0.1666666666666667"), rows=10**9)
    sizes, largest = np.array([13 * 10**7, 10**9]), np.array([10**7, 10**6])
    exact = [float(costs.gamma(int(n), int(k))) for n, k in zip(sizes, largest, strict=True)]
    assert costs.gammas(sizes, largest).tolist() == exact


@given(parameters, st.booleans(), st.integers(2, 10**6), st.data())
@settings(max_examples=150)
def test_gamma_never_exceeds_what_the_largest_share_allows(rhos, strict, size, data):
    largest = data.draw(st.integers(1, size))
    costs = Costs(rho1=rhos[0], rho2=rhos[1], rows=10**7, strict=strict)
    gamma = costs.gamma(size, largest)
    share = F(largest, size)
    if gamma is None:
        return
    assert share * gamma <= rhos[1] * (share * gamma + 1 - share)
    if strict:
        assert gamma <= rhos[1] * (1 - rhos[0]) / (rhos[0] * (1 - rhos[1]))


random_groups = st.lists(
    st.dictionaries(st.integers(0, 8), st.integers(1, 30), min_size=1, max_size=5), min_size=1, max_size=8
).map(lambda ds: [group_of(np.array(list(d)), np.array(list(d.values()))) for d in ds])


@given(
    random_groups,
    st.booleans(),
    st.sampled_from(["variance", "bound"]),
    st.integers(1, 60),
    st.lists(st.booleans(), min_size=9, max_size=9),
)
@settings(max_examples=80)
def test_the_dynamic_programme_finds_the_cheapest_cut(groups, strict, objective, min_size, flags):
    rows = sum(g.size for g in groups)
    protected = np.array(flags)
    costs = Costs(rho1=F(1, 5), rho2=F(1, 2), rows=rows, strict=strict, objective=objective, min_size=min_size)
    t = len(groups)
    prices = []
    for mask in range(2 ** (t - 1)):
        cuts = [0, *(i + 1 for i in range(t - 1) if mask >> i & 1), t]
        prices.append(costs.price_of([join(groups[a:b]) for a, b in pairwise(cuts)], protected))
    cost, tables = merge(groups, protected, costs)
    assert cost == pytest.approx(min(prices), rel=1e-12)
    if tables:
        assert costs.price_of(tables, protected) == pytest.approx(cost, rel=1e-12)


def test_a_group_without_protected_values_and_a_single_value_are_infeasible():
    costs = Costs(rho1=F(1, 5), rho2=F(1, 2), rows=100)
    assert costs.gamma(10, 0) is None
    assert costs.gamma(10, 10) is None
    assert costs.gamma(10, 5) is None
    assert merge([group_of(np.array([0]), np.array([100]))], EVERY, costs)[1] == []
