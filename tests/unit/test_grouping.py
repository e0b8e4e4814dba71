"""Groupings: distinct values, exact margins, eligible templates, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import PlanError, SpecError
from sfumato.laws import grouping
from sfumato.laws.grouping import Grouping, largest_buckets, random_margins, template_counts
from sfumato.methods.anatomy import _hand_out


def eligible_counts(rng: np.random.Generator, values: int, rows: int, size: int) -> np.ndarray:
    """Random counts of about `rows` records that groups of `size` allow, the most frequent often at the limit."""
    weights = rng.gamma(0.3, size=values) + 1e-3
    counts = rng.multinomial(rows, weights / weights.sum()).astype(np.int64)
    while counts.max() * size > counts.sum():
        counts = np.minimum(counts, max(1, int(counts.sum()) // size))
        if np.count_nonzero(counts) < size:
            counts[:size] = np.maximum(counts[:size], 1)
    return counts


def assert_valid(found: Grouping, counts: np.ndarray, size: int) -> None:
    members = found.members
    assert members.shape == (counts.sum() // size, size)
    assert members.dtype == np.int32
    assert np.array_equal(found.counts, counts)
    ordered = np.sort(members, axis=1)
    assert (ordered[:, 1:] != ordered[:, :-1]).all()
    assert len(found.leftover_values) == counts.sum() % size
    assert len(np.unique(found.leftover_values)) == len(found.leftover_values)
    for group, value in zip(found.leftover_groups, found.leftover_values, strict=True):
        assert value not in members[group]
    assert np.array_equal(found.rows(np.arange(len(members))), members)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(2, 8), values=st.integers(8, 40), rows=st.integers(20, 500))
def test_margins_exact_and_values_distinct(seed, size, values, rows):
    rng = np.random.default_rng(seed)
    counts = eligible_counts(rng, values, rows, size)
    assert_valid(random_margins(counts, size, rng), counts, size)
    assert_valid(largest_buckets(counts, size, rng), counts, size)
    assert_valid(largest_buckets(counts, size, None), counts, size)


def test_value_in_every_group():
    found = random_margins(np.array([10, 5, 5]), 2, np.random.default_rng(1))
    assert (found.members == 0).any(axis=1).all()


def test_leftovers_go_to_different_groups_where_possible():
    for seed in range(50):
        found = random_margins(np.array([3, 3, 3, 3, 2]), 4, np.random.default_rng(seed))
        assert len(set(found.leftover_groups.tolist())) == 2


def test_one_group_takes_all_leftovers():
    found = random_margins(np.ones(5, np.int64), 3, np.random.default_rng(1))
    assert found.leftover_groups.tolist() == [0, 0]
    assert_valid(found, np.ones(5, np.int64), 3)


def test_template_blocks_are_eligible_on_random_cases(monkeypatch):
    """Template and remainder existed in 300 of 300 random cases, f = G included."""
    monkeypatch.setattr(grouping, "TEMPLATE_GROUPS", 2000)
    monkeypatch.setattr(grouping, "REMAINDER_GROUPS", 100)
    rng = np.random.default_rng(7)
    for case in range(300):
        size = int(rng.integers(2, 9))
        counts = eligible_counts(rng, int(rng.integers(size, 60)), int(rng.integers(20_000, 200_000)), size)
        counts[0] += size - counts.sum() % size if counts.sum() % size else 0
        if counts.max() * size > counts.sum():
            continue
        groups = int(counts.sum()) // size
        blocks = template_counts(counts, size, groups)
        if groups <= 2000:
            assert len(blocks) == 1
            continue
        assert len(blocks) == 2, case
        assert np.array_equal(sum(copies * block for block, copies in blocks), counts)
        for block, _ in blocks:
            assert block.min() >= 0
            assert block.sum() % size == 0
            assert block.max() * size <= block.sum()
        template, copies = blocks[0]
        remainder = groups - copies * int(template.sum()) // size
        assert remainder >= max(100, copies * len(counts))


def test_template_with_every_group_holding_a_value(monkeypatch):
    monkeypatch.setattr(grouping, "TEMPLATE_GROUPS", 500)
    monkeypatch.setattr(grouping, "REMAINDER_GROUPS", 50)
    counts = np.array([4000, 2001, 1000, 999, 3999, 1, 0, 0], np.int64)
    found = random_margins(counts, 3, np.random.default_rng(3))
    assert len(found.blocks) == 2
    assert_valid(found, counts, 3)


def test_ten_million_rows_in_a_few_distinct_groups():
    counts = np.full(50, 200_000, np.int64)
    counts[0] += 3
    found = random_margins(counts, 5, np.random.default_rng(1))
    assert [(len(block.rows), block.copies) for block in found.blocks] == [(199_900, 10), (1_000, 1)]
    assert np.array_equal(found.counts, counts)


def test_refusals():
    rng = np.random.default_rng(1)
    with pytest.raises(PlanError) as caught:
        random_margins(np.array([60, 20, 20]), 2, rng)
    assert caught.value.limit == 1
    with pytest.raises(PlanError) as caught:
        random_margins(np.array([30, 30, 20, 20]), 5, rng)
    assert caught.value.limit == 3
    with pytest.raises(PlanError):
        random_margins(np.array([1, 1]), 3, rng)
    for size in (1, 0, -2, 2.5, True):
        with pytest.raises(SpecError):
            random_margins(np.array([2, 2]), size, rng)
    with pytest.raises(SpecError):
        random_margins(np.array([2, -2, 5]), 2, rng)


# The SPLU paper's example: disease of records 1..9 and what its figure publishes for them.
TRUE = ["Hiv", "Flu", "Flu", "Fever", "Hiv", "Flu", "Fever", "Fever", "H5N1"]
PUBLISHED = ["Flu", "Flu", "Fever", "Hiv", "Flu", "Hiv", "Fever", "Flu", "H5N1"]


def test_nine_record_example():
    """The paper's nine records: alphabetical ties, smallest id; the figure's values are decoys; rank 2 of 4."""
    domain, codes = np.unique(TRUE, return_inverse=True)
    found = largest_buckets(np.bincount(codes), 3, None)
    records = {code: (np.flatnonzero(codes == code) + 1).tolist() for code in range(4)}
    groups = [{records[code].pop(0) for code in row} for row in found.members.tolist()]
    assert groups == [{1, 2, 4}, {3, 7, 9}, {5, 6, 8}]
    for ids, row in zip(groups, found.members, strict=True):
        assert {PUBLISHED[i - 1] for i in ids} <= set(domain[row])
    held = np.eye(4)[found.members].sum(axis=1)  # groups by values
    assert np.linalg.matrix_rank(held.T @ held) == 2


def test_rank_of_the_uniform_histogram():
    """docs/explanation/splu.md, section 8: index ties leave rank 5 of 50, random ties and random margins 50."""
    counts, rng = np.full(50, 200), np.random.default_rng(2)
    ranks = []
    for found in (largest_buckets(counts, 10, None), largest_buckets(counts, 10, rng), random_margins(counts, 10, rng)):
        held = np.eye(50)[found.members].sum(axis=1)
        ranks.append(np.linalg.matrix_rank(held.T @ held))
    assert ranks == [5, 50, 50]


def test_same_generator_same_grouping():
    counts = np.array([40, 30, 30, 20, 17])
    first, second = (random_margins(counts, 3, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(first.members, second.members)
    assert np.array_equal(first.leftover_groups, second.leftover_groups)


@pytest.mark.parametrize(
    ("counts", "kept", "size"),
    [([1] * 5, [1] * 5, 3), ([9, 8, 7, 7], [9, 8, 7, 7], 3), ([9, 1, 1, 1], [3, 1, 1, 1], 2)],
)
def test_values_and_labels_of_anatomy_groups(counts, kept, size):
    """In order of groups and values, left over ones among them; a value's labels are the groups that hold it."""
    counts, kept, rng = np.array(counts), np.array(kept), np.random.default_rng(3)
    deal, side = _hand_out(random_margins(kept, size, rng), counts, kept, rng)
    group, code = side["group_id"], side["unit0"]
    assert np.array_equal(np.lexsort((code, group)), np.arange(kept.sum()))
    assert np.array_equal(np.bincount(code), kept)
    for value in range(len(counts)):
        labels = deal.labels[deal.start[value] : deal.start[value + 1]]
        assert sorted(labels) == sorted([*group[code == value], *[-1] * (counts[value] - kept[value])])
