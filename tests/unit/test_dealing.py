"""Dealing: every record once, no piece too large, sub-tables of about one size."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.methods.small_domain.plan import deal


@given(st.lists(st.integers(0, 300), min_size=1, max_size=50).map(np.array), st.integers(1, 12), st.integers(1, 80))
@settings(max_examples=150)
def test_every_record_is_dealt_once_in_small_pieces(counts, bins, piece):
    groups = deal(counts, bins, piece)
    if groups is None:
        assert counts.max() > piece * bins or np.ceil(counts / piece).sum() < bins
        return
    total = np.zeros_like(counts)
    for g in groups:
        assert np.all(np.diff(g.values) > 0)
        assert 0 < g.true_counts.min() <= g.true_counts.max() <= piece
        total[g.values] += g.true_counts
    assert len(groups) == bins
    assert np.array_equal(total, counts)


def test_a_frequent_value_is_cut_into_as_few_equal_pieces_as_will_do():
    groups = deal(np.array([10, 4, 3, 2]), 3, 4)
    pieces = sorted(c for g in groups for v, c in zip(g.values, g.true_counts, strict=True) if v == 0)
    assert pieces == [3, 3, 4]
    assert [sum(v in g.values for g in groups) for v in (1, 2, 3)] == [1, 1, 1]
    assert {g.size for g in groups} <= {5, 6, 7}
