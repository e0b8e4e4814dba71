"""Values that share a group: pairs, triples and the covariances made of them, against sums group by group."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from sfumato.methods.anatomy import anatomised, values_together
from sfumato.methods.anatomy.held_values import inverse_sizes

VALUES = 7


@pytest.fixture
def groups() -> anatomised.Groups:
    """Sixty groups of two to four of seven values; the last value is in none."""
    rng = np.random.default_rng(5)
    held = [rng.permutation(VALUES - 1)[: rng.integers(2, 5)] for _ in range(60)]
    number = np.repeat(np.arange(60), [len(h) for h in held])
    return anatomised.groups_of(number, np.concatenate(held).astype(np.int32), VALUES)


@pytest.mark.parametrize(("many", "large"), [(0, 16), (10**6, 16), (10**6, 1)])
@pytest.mark.parametrize("alike", [0, 50, 60])
def test_pairs_and_triples_are_the_sums_over_the_groups_that_hold_them(
    groups: anatomised.Groups, alike: int, many: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether no two groups have one weight, most of them or all; whether equal groups are looked at once; by places
    or by products of matrices, some groups at a time."""
    monkeypatch.setattr(values_together, "MANY_GROUPS", many)
    monkeypatch.setattr(values_together, "LARGE", large)
    monkeypatch.setattr(values_together, "TOGETHER", 50)
    kind, each = np.arange(len(groups)), np.random.default_rng(6).random(len(groups))
    kind[:alike] = 0
    weight = each[kind]
    sets = [{int(u) for u in column if u < VALUES} for column in groups.members.T]
    pairs = values_together.pairs_of(groups.members, kind, each, VALUES)
    triples = values_together.triples_of(groups.members, kind, each, VALUES)
    for u, s in product(range(VALUES), repeat=2):
        assert pairs[u, s] == pytest.approx(sum(w for w, g in zip(weight, sets, strict=True) if {u, s} <= g))
    for u, s, t in product(range(VALUES), repeat=3):
        assert triples[u, s, t] == pytest.approx(sum(w for w, g in zip(weight, sets, strict=True) if {u, s, t} <= g))


@pytest.mark.parametrize("cells", [0, 10**6])
@pytest.mark.parametrize(("least", "most"), [(1, 1), (2, 2), (5, 6), (6, 6), (6, 7), (3, 7)])
def test_pairs_come_from_tables_of_two_or_three_places_alike(
    least: int, most: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(most)
    held = [rng.permutation(9)[: rng.integers(least, most + 1)] for _ in range(80)]
    number = np.repeat(np.arange(80), [len(h) for h in held])
    made = anatomised.groups_of(number, np.concatenate(held).astype(np.int32), 9)
    monkeypatch.setattr(values_together, "MOST_CELLS", cells)
    by_group = np.zeros((80, 9))
    by_group[number, np.concatenate(held)] = 1.0
    found = values_together.pairs_of(made.members, made.sizes, inverse_sizes(made), 9)
    np.testing.assert_allclose(found, by_group.T @ (by_group / made.sizes[:, None]), rtol=1e-12, atol=1e-12)
    held = values_together.pairs_and_counts(made.members, made.sizes, inverse_sizes(made), 9)[1]
    assert held.tolist() == made.true_counts.tolist() == made.by_value().tolist() == by_group.sum(axis=0).tolist()


def test_different_groups_are_told_once_with_how_many_there_are() -> None:
    members = np.array([[0, 2, 0, 0, 1], [1, 3, 1, 1, 2], [4, 4, 4, 3, 4]], dtype=np.uint8)  # 4: no value
    assert values_together._different(members, np.array([2, 2, 2, 3, 2]), 4)[2] is None, "few"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values_together, "MANY_GROUPS", 4)
        found, kind, times = values_together._different(members, np.array([2, 2, 2, 3, 2]), 4)
        assert times is not None
        told = {(*column, k): n for *column, k, n in np.vstack([found, kind, times]).T.tolist()}
        assert told == {(0, 1, 4, 2): 2, (2, 3, 4, 2): 1, (0, 1, 3, 3): 1, (1, 2, 4, 2): 1}
        long = np.zeros((40, 5), dtype=np.uint8)
        assert values_together._different(long, np.zeros(5, dtype=int), 4)[2] is None, "no number holds so many values"


def test_three_places_share_no_pair_and_leave_few() -> None:
    for places in range(8):
        threes = values_together._threes(range(places))
        pairs = [pair for chosen in threes for pair in combinations(chosen, 2)]
        assert len(set(pairs)) == len(pairs)
    assert len(values_together._threes(range(6))) == 4, "twelve of fifteen pairs"


def test_sizes_of_groups_in_order_and_in_no_order() -> None:
    number = np.array([0, 0, 2, 2, 2, 5], dtype=np.int32)
    codes = np.arange(6, dtype=np.int32)
    assert anatomised.groups_of(number, codes, 6).sizes.tolist() == [2, 0, 3, 0, 0, 1]
    assert anatomised.groups_of(number[::-1], codes, 6).sizes.tolist() == [2, 0, 3, 0, 0, 1]
    assert len(anatomised.groups_of(number[:0], codes[:0], 6)) == 0


def test_covariances_by_triples_are_those_by_groups(groups: anatomised.Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    """By triples from some number of weights on, and never where values are too many for them."""

    def found(*, triples: bool) -> np.ndarray:
        channel = anatomised.Channel(groups)
        w, _ = channel.weights(np.eye(VALUES))
        moments = anatomised._Moments(channel, w[None])
        assert (moments._spread is not None) == triples
        return np.array([[moments.covariance(0, i, 0, j) for i in range(VALUES)] for j in range(VALUES)])

    monkeypatch.setattr(anatomised, "FEW_WEIGHTS", VALUES)
    few = found(triples=False)
    monkeypatch.setattr(anatomised, "FEW_WEIGHTS", VALUES - 1)
    by_triples = found(triples=True)
    np.testing.assert_allclose(by_triples, few, atol=1e-12)
    assert np.abs(by_triples).max() > 0.01
    monkeypatch.setattr(values_together, "MOST_VALUES", 0)
    np.testing.assert_array_equal(found(triples=False), few)


def test_a_question_gets_its_errors_in_one_way_whatever_was_asked_before(groups: anatomised.Groups) -> None:
    channel = anatomised.Channel(groups)
    for weights in (1, anatomised.FEW_WEIGHTS, anatomised.FEW_WEIGHTS + 1, 1, anatomised.FEW_WEIGHTS):
        moments = anatomised._Moments(channel, np.ones((1, weights, VALUES)))
        assert (moments._spread is not None) == (weights > anatomised.FEW_WEIGHTS)


def test_triples_are_left_where_they_cost_more_than_a_pass_over_the_groups() -> None:
    assert values_together.few_enough(200_000, 6, 50)
    assert not values_together.few_enough(200_000, 6, 3_000)
    assert not values_together.few_enough(200_000, 40, 50)
