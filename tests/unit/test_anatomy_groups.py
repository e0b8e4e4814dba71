"""The groups of an anatomy release: sums over them, M and its inverse, pairs and triples of values, bounds."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array

from sfumato.answering.functionals import estimate_apart
from sfumato.laws import groups as channels
from sfumato.laws.groups import Channel, Groups, estimate, groups_of, triples
from sfumato.model.public import Asked, Observed

VALUES, GROUPS, KEYS, STRATA = 9, 120, 3, 7


@pytest.fixture(scope="module")
def channel() -> Channel:
    """Groups of three to five values."""
    rng = np.random.default_rng(3)
    held = [rng.permutation(VALUES)[: rng.integers(3, 6)] for _ in range(GROUPS)]
    number = np.repeat(np.arange(GROUPS), [len(h) for h in held])
    return Channel(groups_of(number, np.concatenate(held).astype(np.int32), VALUES))


def rows_of(channel: Channel) -> Observed:
    """One entry per row: strata in no order, two patterns, several strata of one output row and pattern."""
    rng = np.random.default_rng(4)
    part = rng.permutation(np.repeat(np.arange(GROUPS), channel.groups.sizes.astype(int)))
    measure = rng.integers(1, 9, size=len(part)).astype(float)
    return Observed(
        stratum=rng.integers(0, STRATA, size=len(part)).astype(np.intp),
        part=part.astype(np.int64),
        value=np.zeros(len(part), dtype=np.intp),
        moments=np.column_stack([np.ones(len(part)), measure, measure**2]),
        key=np.array([0, 1, 2, 0, 1, 2, 0], dtype=np.intp),
        pattern=np.array([0, 0, 0, 0, 1, 1, 0], dtype=np.intp),
        keys=KEYS,
    )


def asked(h: np.ndarray) -> Asked:
    """Counts and sums of the functionals of two patterns, (2, F, values)."""
    F = h.shape[1]
    return Asked(
        units=(0,), classes=(np.arange(VALUES, dtype=np.int32),), coefficients=tuple(csr_array(x) for x in h),
        measure=np.array([0] * (F - 1) + [1], dtype=np.intp), products=np.array([[0, 1], [1, 2]], dtype=np.intp),
        pairs=np.array([[0, F - 1]], dtype=np.intp), binary=True, z=1.96,
    )  # fmt: skip


def questions() -> dict[str, np.ndarray]:
    several = np.zeros((2, 3, VALUES))
    several[0, 0, [1, 4]], several[1, 0, [2]], several[:, 1, 5], several[:, 2, 5] = 1, 1, 1, 1
    every = np.concatenate([np.tile(np.eye(VALUES), (2, 1, 1)), np.ones((2, 1, VALUES))], axis=1)
    return {"few values": several, "every value": every}


@pytest.mark.parametrize("name", questions())
def test_single_rows_of_finer_strata_give_the_same_as_merged_ones(name: str, channel: Channel) -> None:
    """Estimates up to rounding, bounds exactly: they are sums of whole numbers."""
    question, seen = asked(questions()[name]), rows_of(channel)
    cuts, place = np.unique(np.column_stack([seen.key, seen.pattern]), axis=0, return_inverse=True)
    coarse = replace(seen, stratum=place.reshape(-1)[seen.stratum], key=cuts[:, 0], pattern=cuts[:, 1])
    assert len(cuts) < STRATA
    found, merged = (estimate_apart(partial(estimate, channel), rows, question) for rows in (seen, coarse))
    for field in ("value", "variance", "covariance", "low", "high"):
        np.testing.assert_allclose(getattr(found, field), getattr(merged, field), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.minimum, merged.minimum)
    np.testing.assert_array_equal(found.maximum, merged.maximum)
    assert (found.maximum[:, 0] > found.minimum[:, 0]).all()


def test_bounds_are_those_of_the_rows_of_an_output_row_in_each_group(channel: Channel) -> None:
    """Group by group, in a loop: max(0, c(P) + c(A) - |g|) and min(c(P), c(A))."""
    h, seen = questions()["few values"], rows_of(channel)
    found = estimate(channel, seen, asked(h))
    low, high = np.zeros(KEYS), np.zeros(KEYS)
    for g in range(GROUPS):
        held = channel.groups.held[[g]].indices
        for k in range(KEYS):
            for pattern in range(2):
                strata = np.flatnonzero((seen.key == k) & (seen.pattern == pattern))
                inside = int((np.isin(seen.stratum, strata) & (seen.part == g)).sum())
                counted = int(h[pattern, 0][held].sum())
                low[k] += max(0, inside + counted - int(channel.groups.sizes[g]))
                high[k] += min(inside, counted)
    np.testing.assert_array_equal(found.minimum[:, 0], low)
    np.testing.assert_array_equal(found.maximum[:, 0], high)


def test_what_was_kept_of_other_entries_is_forgotten(channel: Channel) -> None:
    question, seen = asked(questions()["few values"]), rows_of(channel)
    before = estimate(channel, seen, question)
    other = Observed(
        stratum=seen.stratum, part=np.roll(seen.part, 1), value=seen.value, moments=seen.moments,
        key=seen.key, pattern=seen.pattern, keys=KEYS,
    )  # fmt: skip
    after = estimate(channel, other, question)
    fresh = estimate(Channel(channel.groups), other, question)
    np.testing.assert_array_equal(after.value, fresh.value)
    np.testing.assert_array_equal(after.maximum, fresh.maximum)
    assert (before.value != after.value).any()


def test_the_same_entries_under_other_patterns(channel: Channel) -> None:
    """Aggregates of one question cut the same rows in their own ways: what is kept of one is not that of another."""
    question, seen = asked(questions()["few values"]), rows_of(channel)
    estimate(channel, seen, question)
    turned = replace(seen, pattern=1 - seen.pattern)
    found = estimate(channel, turned, question)
    fresh = estimate(Channel(channel.groups), turned, question)
    np.testing.assert_array_equal(found.value, fresh.value)
    np.testing.assert_array_equal(found.minimum, fresh.minimum)
    np.testing.assert_array_equal(found.maximum, fresh.maximum)


def test_rows_in_a_group_without_values_are_not_passed_over(channel: Channel) -> None:
    rows = rows_of(channel)
    wrong = replace(rows, part=np.append(rows.part[:-1], GROUPS), memo={})
    with pytest.raises(IndexError, match="holds no values"):
        estimate(channel, wrong, asked(questions()["few values"]))


def random_groups(values: int, number: int, largest: int) -> Groups:
    rng = np.random.default_rng(values)
    held = [rng.choice(values, rng.integers(2, largest + 1), replace=False) for _ in range(number)]
    of = np.repeat(np.arange(number), [len(h) for h in held])
    return groups_of(of, np.concatenate(held).astype(np.int32), values)


def test_sizes_of_groups() -> None:
    number, codes = np.array([0, 0, 2, 2, 2, 5], dtype=np.int32), np.arange(6, dtype=np.int32)
    assert groups_of(number, codes, 6).sizes.tolist() == [2, 0, 3, 0, 0, 1]
    assert len(groups_of(number[:0], codes[:0], 6)) == 0


def test_pairs_and_triples_are_the_sums_over_the_groups_that_hold_them() -> None:
    """Sixty groups of two to four of six values; a seventh value is in none."""
    groups = random_groups(6, 60, 4)
    held = groups.held.copy()
    held.resize((60, 7))
    groups = Groups(held=held)
    sets = [set(held[[g]].indices.tolist()) for g in range(60)]
    weight = np.random.default_rng(6).random(60)
    found = triples(groups, weight)
    for u, s, t in product(range(7), repeat=3):
        assert found[u, s, t] == pytest.approx(sum(w for w, g in zip(weight, sets, strict=True) if {u, s, t} <= g))
    for u, s in product(range(7), repeat=2):
        assert groups.together[u, s] == pytest.approx(sum(1 / len(g) for g in sets if {u, s} <= g))


@pytest.mark.parametrize(("values", "number", "largest"), [(60, 25, 4), (60, 55, 3), (40, 200, 5)])
def test_both_forms_are_the_same_matrix(values: int, number: int, largest: int) -> None:
    """Values that no group holds, groups of several sizes, fewer groups than values and more."""
    held = random_groups(values, number, largest)
    counts = held.by_value(np.ones(len(held))).astype(np.int64)
    present = np.flatnonzero(counts)
    one, other = (form(held, present, counts[present]) for form in (channels._ByValues, channels._ByGroups))
    x = np.random.default_rng(1).normal(size=(7, len(present)))
    M = np.zeros((values, values))
    for g in range(len(held)):
        inside = held.held[[g]].indices
        M[np.ix_(inside, inside)] += 1 / held.sizes[g]
    M = M[np.ix_(present, present)] / counts[present][:, None]
    for form in (one, other):
        np.testing.assert_allclose(form.mean(x), x @ M.T, atol=1e-12)
    np.testing.assert_allclose(other.solve(x), one.solve(x), rtol=1e-7, atol=1e-7 * np.abs(one.solve(x)).max())
    assert number < len(present) or np.linalg.matrix_rank(M) > values // 2


def test_fewer_groups_than_values_tell_some_sums_and_not_the_others() -> None:
    """Every group's own sum is identified, a single value among more values than groups is not."""
    held = random_groups(60, 25, 4)
    channel = Channel(held)
    assert isinstance(channel._shares, channels._ByGroups)
    v = np.zeros((2, 60))
    inside = held.held[[0]].indices
    v[0] = channel.mean(np.eye(60)[inside].sum(axis=0)[None])[0]  # M w for the w of one group
    v[1, channel.present[0]] = 1.0
    w, identified = channel.weights(v)
    assert identified.tolist() == [True, False]
    np.testing.assert_allclose(channel.mean(w[:1]), v[:1], atol=1e-9)
