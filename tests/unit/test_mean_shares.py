"""M of a release by values and by groups: one matrix, whichever there are more of."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.methods.anatomy import mean_shares
from sfumato.methods.anatomy.anatomised import Channel
from sfumato.methods.anatomy.held_values import Groups, groups_of


def groups(values: int, number: int, largest: int) -> Groups:
    rng = np.random.default_rng(values)
    held = [rng.choice(values, rng.integers(2, largest + 1), replace=False) for _ in range(number)]
    of = np.repeat(np.arange(number), [len(h) for h in held])
    return groups_of(of, np.concatenate(held).astype(np.int32), values)


@pytest.mark.parametrize(("values", "number", "largest"), [(60, 25, 4), (60, 55, 3), (40, 200, 5)])
def test_both_forms_are_the_same_matrix(values: int, number: int, largest: int) -> None:
    """Values that no group holds, groups of several sizes, fewer groups than values and more."""
    held = groups(values, number, largest)
    counts = held.by_value(np.ones(len(held))).astype(np.int64)
    present = np.flatnonzero(counts)
    one, other = (form(held, present, counts[present]) for form in (mean_shares._ByValues, mean_shares._ByGroups))
    x = np.random.default_rng(1).normal(size=(7, len(present)))
    M = np.zeros((values, values))
    for g in range(len(held)):
        inside = held.members[:, g][held.members[:, g] < values]
        M[np.ix_(inside, inside)] += 1 / held.sizes[g]
    M = M[np.ix_(present, present)] / counts[present][:, None]
    for form in (one, other):
        np.testing.assert_allclose(form.mean(x), x @ M.T, atol=1e-12)
    np.testing.assert_allclose(other.solve(x), one.solve(x), rtol=1e-7, atol=1e-7 * np.abs(one.solve(x)).max())
    assert number < len(present) or np.linalg.matrix_rank(M) > values // 2


def test_fewer_groups_than_values_tell_some_sums_and_not_the_others() -> None:
    """Every group's own sum is identified, a single value among more values than groups is not."""
    held = groups(60, 25, 4)
    channel = Channel(held)
    assert isinstance(channel._shares, mean_shares._ByGroups)
    v = np.zeros((2, 60))
    inside = held.members[:, 0][held.members[:, 0] < 60]
    v[0] = channel.mean(np.eye(60)[inside].sum(axis=0)[None])[0]  # M w for the w of one group
    v[1, channel.present[0]] = 1.0
    w, identified = channel.weights(v)
    assert identified.tolist() == [True, False]
    np.testing.assert_allclose(channel.mean(w[:1]), v[:1], atol=1e-9)


@pytest.mark.parametrize(("least", "all_are"), [(1e-3, True), (2e-6, True), (5e-7, False), (0.0, False)])
def test_a_triangle_inverts_only_what_is_identified_altogether(least: float, all_are: bool) -> None:
    """Eigenvalues from 1 down to `least`; sums of rows bound the largest by less than 2, so that 2e-6 is certain."""
    turned, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(12, 12)))
    eigen = np.concatenate([[least], np.linspace(0.9, 1, 11)])
    G = (turned * eigen) @ turned.T
    assert np.abs(G).sum(axis=1).max() < 2
    assert mean_shares._all_identified(G) == all_are
    x, keep = np.random.default_rng(4).normal(size=(12, 3)), eigen > mean_shares.SINGULAR
    expected = (turned[:, keep] / eigen[keep] ** 2) @ (turned[:, keep].T @ x)
    np.testing.assert_allclose(
        mean_shares._inverted_twice(G)(x), expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max()
    )
