"""The rebuilt channel: against enumeration, against dense algebra, at its limits."""

from itertools import combinations

import numpy as np
import pytest

from dealing import Dealer
from sfumato.laws import decoy_channel
from sfumato.laws.decoy_channel import (
    cap_counts,
    closed_form_channel,
    fit_odds,
    leave_one_out,
    pair_matrix,
    rebuild_channel,
    replay_channel,
    symmetric_polynomials,
)
from sfumato.laws.grouping import largest_buckets, random_margins, slot_table
from sfumato.methods.splu import draw_slots
from sfumato.model.private import Deal


def enumerated(odds: np.ndarray, size: int) -> np.ndarray:
    """Pair probabilities of the conditional Poisson sample, summed over all subsets."""
    found, total = np.zeros((len(odds), len(odds))), 0.0
    for subset in combinations(range(len(odds)), size):
        weight = np.prod(odds[list(subset)])
        found[np.ix_(subset, subset)] += weight
        total += weight
    return found / total


@pytest.mark.parametrize("spread", [0.3, 1, 2])
@pytest.mark.parametrize(("values", "size"), [(4, 2), (9, 2), (5, 3), (10, 3), (7, 5), (11, 5), (9, 8)])
def test_pair_probabilities_against_enumeration(values, size, spread):
    odds = np.exp(spread * np.random.default_rng(values * size).normal(size=values))
    exact = enumerated(odds, size)
    inclusion = np.diag(exact).copy()
    assert fit_odds(inclusion, size) == pytest.approx(odds * size / odds.sum(), rel=1e-8)
    found = pair_matrix(inclusion, size)
    assert found.dense() == pytest.approx(exact, abs=1e-10)
    assert found.apply(np.eye(values)) == pytest.approx(exact, abs=1e-10)


def test_polynomials():
    odds = np.array([1.0, 2.0, 3.0, 4.0])
    assert symmetric_polynomials(odds, 5).tolist() == [1, 10, 35, 50, 24, 0]
    assert symmetric_polynomials(np.empty(0), 2).tolist() == [1, 0, 0]
    for frequent in (np.zeros(4, bool), np.ones(4, bool), np.array([True, False, False, True])):
        assert leave_one_out(odds, 3, frequent)[3] == pytest.approx([1, 6, 11, 6])


def histogram(values: int, rows: int, decay: float = 3.0) -> np.ndarray:
    shares = np.exp(-decay * np.arange(values) / values)
    return np.random.default_rng(values).multinomial(rows, shares / shares.sum()).astype(np.int64)


@pytest.mark.parametrize(("values", "size"), [(50, 5), (50, 8), (200, 20), (30, 20)])
def test_low_rank_equals_dense(values, size, monkeypatch):
    counts = cap_counts(histogram(values, 60_000, 1.0), size)
    active = np.arange(values)
    monkeypatch.setattr(decoy_channel, "TABLE_VALUES", 0)
    low_rank = closed_form_channel(active, counts, size)
    monkeypatch.setattr(decoy_channel, "TABLE_VALUES", values)
    table = closed_form_channel(active, counts, size)
    observed = np.random.default_rng(1).poisson(counts[:, None] * np.array([0.1, 0.5])).astype(float)
    for name in ("forward", "weights", "estimate", "squares"):
        expected = getattr(table.matrix, name)(observed)
        scale = 1e-9 * np.abs(expected).max()
        assert getattr(low_rank.matrix, name)(observed) == pytest.approx(expected, rel=1e-7, abs=scale)
        assert getattr(low_rank.matrix, name)(observed[:, 0]) == pytest.approx(expected[:, 0], rel=1e-7, abs=scale)
    assert low_rank.condition == pytest.approx(table.condition, rel=0.02)


@pytest.mark.parametrize(("values", "size"), [(50, 5), (1000, 20)])
def test_channel_is_stochastic_keeps_the_histogram_and_inverts(values, size):
    counts = histogram(values, 100_000)
    channel = closed_form_channel(np.arange(values), counts, size)
    assert channel.matrix.forward(np.ones(values)) == pytest.approx(1, abs=1e-12)
    assert channel.matrix.weights(np.ones(values)) == pytest.approx(1, abs=1e-9)
    assert channel.matrix.estimate(counts.astype(float)) == pytest.approx(counts, rel=1e-9, abs=1e-6)
    truth = np.random.default_rng(2).random(values)
    assert channel.matrix.weights(channel.matrix.forward(truth)) == pytest.approx(truth, rel=1e-8)
    one = np.eye(values)[:, :3]
    assert channel.total_variance(one) == pytest.approx(counts[:3] * (1 - 1 / size))


def test_fifteen_thousand_values_have_positive_variances():
    counts = histogram(15_000, 300_000, 4.0)
    channel = rebuild_channel(counts, 20, seed=1)
    observed = np.random.default_rng(2).binomial(counts[channel.active], 0.1).astype(float)
    value = channel.matrix.estimate(observed)
    assert value.sum() == pytest.approx(observed.sum())
    assert (channel.matrix.squares(observed) - value).min() > 0
    assert channel.condition < 100


@pytest.mark.parametrize("counts", [[6, 5, 4, 3, 2, 1], [7, 5, 5, 3, 2, 1]])
@pytest.mark.parametrize("rule", [random_margins, largest_buckets])
def test_every_grouping_keeps_the_histogram(counts, rule):
    """docs/explanation/splu.md, section 5.2: f M = f, leftovers included (23 = 3 * 7 + 2 rows)."""
    f = np.array(counts)
    slots = slot_table(rule(f, 3, np.random.default_rng(1)))
    assert slots.sum(axis=0) == pytest.approx(f)
    assert slots.sum(axis=1) == pytest.approx(f)


def test_closed_form_agrees_with_replay():
    """At 4,000 groups the mean of 40 replays is within 5 of its standard errors of the closed form, every pair."""
    counts, size = histogram(12, 20_000, 1.0), 5
    assert counts.max() * size < counts.sum()
    rng = np.random.default_rng(5)
    drawn = np.array([slot_table(random_margins(counts, size, rng)) for _ in range(40)])
    closed = closed_form_channel(np.arange(12), counts, size).matrix.forward(np.eye(12)) * counts[:, None]
    error = drawn.std(axis=0, ddof=1) / np.sqrt(40)
    off = ~np.eye(12, dtype=bool)
    assert (np.abs(drawn.mean(axis=0) - closed)[off] < 5 * error[off] + 0.5).all()


def test_small_tables_are_replayed_and_repeat():
    counts = np.array([30, 25, 20, 15, 10, 5, 0, 3])
    first, second = (rebuild_channel(counts, 3, seed=4) for _ in range(2))
    assert first.active.tolist() == [0, 1, 2, 3, 4, 5, 7]
    assert np.array_equal(first.matrix.matrix, second.matrix.matrix)
    assert first.identifiable.all()
    assert first.matrix.forward(np.ones(7)) == pytest.approx(1)


def test_cap():
    assert cap_counts(np.array([60, 20, 20]), 2).tolist() == [50, 25, 25]
    assert cap_counts(np.array([60, 20, 20]), 4) is None
    assert cap_counts(np.array([1, 1]), 3) is None
    capped = cap_counts(np.array([990, 3, 3, 3, 1]), 4)
    assert capped.sum() == 1000
    assert capped.max() <= 250


def test_a_value_in_every_group_is_not_identifiable():
    for counts in ([5000, 3000, 1000, 1000], [50, 30, 10, 10]):
        channel = rebuild_channel(np.array(counts), 2, seed=1)
        assert not channel.identifiable.any()
    assert not rebuild_channel(np.array([5000, 5000]), 2, seed=1).identifiable.any()


def test_the_nine_record_channel_identifies_nobody():
    """docs/explanation/splu.md, section 8: rank 2 of 4, and no unit vector lies in the row space."""
    counts = np.array([3, 3, 1, 2])
    slots = slot_table(largest_buckets(counts, 3, None))
    channel = decoy_channel._from_table(np.arange(4), counts, 3, slots / counts[:, None])
    assert np.linalg.matrix_rank(channel.matrix.matrix) == 2
    assert not channel.identifiable.any()


def test_a_block_of_twins_leaves_the_others_identifiable():
    """Two values always grouped together are lost, the rest is answered."""
    forward = np.array([[0.5, 0.5, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.7, 0.3], [0, 0, 0.3, 0.7]])
    channel = decoy_channel._from_table(np.arange(4), np.full(4, 5), 2, forward)
    assert channel.identifiable.tolist() == [False, False, True, True]
    assert channel.matrix.estimate(forward.T @ np.array([1.0, 2, 3, 4]))[2:] == pytest.approx([3, 4])


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("counts", [[40, 30, 30, 20, 0, 17], [1, 1, 1, 1, 1, 0]])
def test_drawn_slots_add_up(counts, dense, monkeypatch):
    if not dense:
        monkeypatch.setattr("sfumato.methods.splu.DENSE_CELLS", 0)
        monkeypatch.setattr("sfumato.methods.splu.WAITING_KEYS", 10)
        monkeypatch.setattr("sfumato.methods.splu.CHUNK_ROWS", 7)
    f = np.array(counts)
    slots = draw_slots(random_margins(f, 3, np.random.default_rng(1)), np.random.default_rng(2))
    assert np.array_equal(slots.true_counts(), f)
    assert slots.published_counts().sum() == f.sum()
    assert np.array_equal(slots.table().sum(axis=1), f)
    assert np.array_equal(slots.table().sum(axis=0), slots.published_counts())
    for value in range(6):
        published, count = slots.of(value)
        assert np.array_equal(slots.table()[value][published], count)


def test_replay_needs_no_generator_state():
    counts = np.array([30, 25, 20, 15, 10])
    one = replay_channel(np.arange(5), counts, 3, np.random.default_rng(1), replays=2)
    assert one.matrix.forward(np.ones(5)) == pytest.approx(1)


def test_dealing_in_batches_gives_exactly_the_drawn_slots():
    f = np.array([40, 30, 30, 20, 0, 17])
    slots = draw_slots(random_margins(f, 3, np.random.default_rng(1)), np.random.default_rng(2))
    codes = np.random.default_rng(3).permutation(np.repeat(np.arange(6), f)).astype(np.int32)
    deal = Deal(unit=0, start=slots.offsets, labels=slots.published.astype(np.int64), counts=slots.counts)
    dealer = Dealer(deal, np.random.default_rng(4))
    published = np.concatenate([dealer.deal(b, np.random.default_rng(5)) for b in np.array_split(codes, 7)])
    dealer.close()
    table = np.bincount(codes * 6 + published, minlength=36).reshape(6, 6)
    assert np.array_equal(table, slots.table())
