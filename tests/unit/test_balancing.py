"""Balancing and handing out: the example of docs/explanation/small-domain.md, 8, and properties of any histogram."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.methods.small_domain.plan import balance, group_of, hand_out, join

EXAMPLE = np.array([12, 8, 6, 5, 4, 3, 1, 1, 1, 1])
histograms = st.lists(st.integers(1, 400), min_size=2, max_size=40).map(np.array)


def added(groups, size):
    total = np.zeros(size, dtype=np.int64)
    for g in groups:
        np.add.at(total, g.values, g.true_counts)
    return total


def test_the_papers_example():
    groups = balance(EXAMPLE, 42 // 12)
    listed = [(g.values.tolist(), g.true_counts.tolist()) for g in groups]
    assert listed == [
        ([0, 1, 2], [6, 6, 6]),
        ([0, 3, 4], [4, 4, 4]),
        ([0, 1, 5], [2, 2, 2]),
        ([3, 5, 6], [1, 1, 1]),
        ([7, 8, 9], [1, 1, 1]),
    ]


@given(histograms, st.data())
@settings(max_examples=80)
def test_groups_are_balanced_and_add_up(counts, data):
    theta = data.draw(st.integers(1, int(counts.sum() // counts.max())))
    groups = balance(counts, theta)
    assert np.array_equal(added(groups, counts.size), counts)
    assert len(groups) <= counts.size + 1
    left = counts.copy()
    for g in groups[:-1]:
        assert g.values.size == theta
        assert len(set(g.true_counts.tolist())) == 1
        left[g.values] -= g.true_counts
        assert left.max() * theta <= left.sum()
    last = groups[-1]
    assert last.true_counts.max() * theta <= last.size
    assert last.values.size == theta or last.size < theta**2


def test_the_step_is_the_largest_that_keeps_the_rest_balanced():
    rng = np.random.default_rng(20)
    for _ in range(200):
        counts = rng.integers(1, 60, rng.integers(3, 12))
        theta = int(counts.sum() // counts.max())
        first = balance(counts, theta)[0]
        if first.values.size != theta or len(set(first.true_counts.tolist())) != 1:
            continue
        top = np.argsort(-counts, kind="stable")[:theta]
        assert np.array_equal(np.sort(top), first.values)
        bigger = counts.copy()
        bigger[top] -= first.true_counts[0] + 1
        assert bigger.min() < 0 or bigger.max() * theta > bigger.sum()


def test_unbalanced_counts_are_refused():
    with pytest.raises(ValueError, match="2-balanced"):
        balance(np.array([5, 1]), 2)


@given(histograms, st.lists(st.integers(0, 900), min_size=1, max_size=6), st.booleans())
@settings(max_examples=80)
def test_unprotected_records_are_all_handed_out_in_proportion(counts, open_, split):
    groups = balance(np.concatenate([counts, np.zeros(len(open_), dtype=np.int64)]), 1)
    extra = np.concatenate([np.zeros_like(counts), np.array(open_, dtype=np.int64)])
    filled = hand_out(groups, extra, split=split)
    assert np.array_equal(added(filled, extra.size), added(groups, extra.size) + extra)
    if not split:
        for g, h in zip(groups[:-1], filled[:-1], strict=True):
            assert h.size - g.size == g.size * int(extra.sum()) // int(counts.sum())
    elif extra.any():
        assert all((h.values >= counts.size).sum() <= 1 for h in filled)


def test_handing_out_fills_group_after_group_most_frequent_first():
    groups = balance(np.array([10, 10, 10, 10, 0, 0]), 2)
    filled = hand_out(groups, np.array([0, 0, 0, 0, 15, 45]))
    assert [(g.values.tolist(), g.true_counts.tolist()) for g in filled] == [
        ([0, 1, 5], [10, 10, 30]),
        ([2, 3, 4, 5], [10, 10, 15, 15]),
    ]
    split = hand_out(groups, np.array([0, 0, 0, 0, 15, 45]), split=True)
    assert [(g.values.tolist(), g.true_counts.tolist()) for g in split] == [
        ([0, 1, 5], [10, 10, 30]),
        ([2, 3, 5], [5, 5, 15]),
        ([2, 3, 4], [5, 5, 15]),
    ]


def test_joining_adds_counts_of_shared_values():
    joined = join([group_of(np.array([3, 1]), np.array([2, 5])), group_of(np.array([1, 7]), np.array([1, 4]))])
    assert (joined.values.tolist(), joined.true_counts.tolist(), joined.size) == ([1, 3, 7], [6, 2, 4], 12)
