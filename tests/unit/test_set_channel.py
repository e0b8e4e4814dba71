"""The set channel: exact probabilities, its guarantee by enumeration, refusals, draws."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import SpecError
from sfumato.laws.set_channel import (
    UNIT,
    JoinedSamplers,
    SetChannel,
    channel_of_blocks,
    channel_of_sets,
    sampler,
    shifted,
)

GAMMA = Fraction(12, 5)
RHO1, RHO2 = Fraction(1, 13), Fraction(1, 6)


def all_subsets(size, width, gamma=GAMMA):
    return channel_of_sets(size, gamma, list(combinations(range(size), width)))


def weighted(gamma=GAMMA):
    """Sets of several sizes and uneven weights, singletons filling up to equal coverage."""
    sets = [(0, 1), (1, 2, 3), (0, 3, 4), (2, 4), (0,), (2,), (3,), (4,)]
    return channel_of_sets(5, gamma, sets, [5, 3, 1, 2, 2, 3, 4, 5])


def probabilities(channel):
    return [[channel.probability(z, x) for x in range(channel.size)] for z in range(len(channel.weights))]


@pytest.mark.parametrize("channel", [all_subsets(6, 2), all_subsets(2, 1), weighted(), weighted(Fraction(47))])
def test_exact_rows_sum_to_one_and_have_two_levels(channel):
    table = probabilities(channel)
    for x in range(channel.size):
        assert sum(row[x] for row in table) == 1
    for row, held in zip(table, channel.members, strict=True):
        inside = {p for p, h in zip(row, held, strict=True) if h}
        outside = {p for p, h in zip(row, held, strict=True) if not h}
        assert len(inside) == len(outside) == 1
        assert inside.pop() / outside.pop() == channel.gamma_run
    assert channel.matrix() == pytest.approx(np.array(table, dtype=float), rel=1e-14)


@pytest.mark.parametrize("channel", [all_subsets(6, 2), weighted(), weighted(Fraction(47))])
def test_keep_is_rounded_down_and_gamma_only_falls(channel):
    wanted = (channel.gamma - 1) * channel.coverage / (channel.total + (channel.gamma - 1) * channel.coverage)
    assert channel.keep <= wanted < channel.keep + Fraction(1, UNIT)
    assert channel.gamma_run <= channel.gamma
    assert channel.gamma_run > channel.gamma * (1 - Fraction(1, 10**6))


def test_without_rounding_the_channel_is_the_stated_formula():
    """keep = 1/2 exactly for gamma 4, two values: nothing to round, so the formula holds to the last digit."""
    channel = all_subsets(3, 1, Fraction(4))
    assert channel.keep == Fraction(1, 2)
    for z, row in enumerate(probabilities(channel)):
        for x, p in enumerate(row):
            assert p == Fraction(4 if z == x else 1, 6)


@pytest.mark.parametrize("width", range(1, 6))
def test_guarantee_over_all_sets_predicates_and_extreme_priors(width):
    """Six values: every published set against every predicate, with the prior that lifts it most."""
    channel = all_subsets(6, width)
    limit, reached = RHO2, Fraction(0)
    for row in probabilities(channel):
        for held in range(1, 2**6 - 1):
            inside = [x for x in range(6) if held >> x & 1]
            outside = [x for x in range(6) if not held >> x & 1]
            # the posterior is largest when all belief inside sits on the likeliest value and outside on the unlikeliest
            top, low = max(row[x] for x in inside), min(row[x] for x in outside)
            posterior = RHO1 * top / (RHO1 * top + (1 - RHO1) * low)
            assert posterior <= limit
            reached = max(reached, posterior)
    assert reached == channel.posterior(RHO1)
    # at gamma itself, before keep is rounded, the largest posterior is 1/6 exactly
    assert RHO1 * GAMMA / (RHO1 * GAMMA + 1 - RHO1) == RHO2
    assert RHO2 - reached < Fraction(1, 10**8)


def test_largest_posterior_is_exactly_the_limit_where_nothing_is_rounded():
    """Six values, all pairs, weights that make keep a multiple of 2^-32: the enumeration meets 1/6 exactly."""
    gamma = Fraction(12, 5)  # the formula itself, without the draw's rounding
    best = Fraction(0)
    for pair in combinations(range(6), 2):
        level = [gamma if x in pair else Fraction(1) for x in range(6)]
        for held in range(1, 2**6 - 1):
            top = max(level[x] for x in range(6) if held >> x & 1)
            low = min(level[x] for x in range(6) if not held >> x & 1)
            best = max(best, RHO1 * top / (RHO1 * top + (1 - RHO1) * low))
    assert best == Fraction(1, 6)


@settings(max_examples=60, deadline=None)
@given(
    beliefs=st.lists(st.integers(0, 50), min_size=6, max_size=6),
    held=st.integers(1, 2**6 - 2),
    width=st.integers(1, 5),
)
def test_any_prior_any_predicate(beliefs, held, width):
    """A random prior: whenever a predicate has at most rho1, no set lifts it above rho2."""
    total = sum(beliefs)
    inside = sum(b for x, b in enumerate(beliefs) if held >> x & 1)
    if total == 0 or Fraction(inside, total) > RHO1:
        return
    for row in probabilities(all_subsets(6, width)):
        seen = sum(b * p for b, p in zip(beliefs, row, strict=True))
        assert sum(b * p for x, (b, p) in enumerate(zip(beliefs, row, strict=True)) if held >> x & 1) <= RHO2 * seen


def test_singletons_are_uniform_perturbation():
    """w = 1: shown with p + q if true, q if not, as `uniform` draws it, the same multiple of 2^-32."""
    for size in (2, 3, 8, 50):
        channel = channel_of_blocks(size, GAMMA, [(0,)])
        q = 1 / (size - 1 + GAMMA)
        p = Fraction(int((GAMMA - 1) * q * UNIT), UNIT)
        assert channel.keep == p
        assert channel.probability(0, 0) == p + (1 - p) / size
        assert channel.probability(0, 1) == (1 - p) / size


def test_shifts_cover_alike_and_are_numbered_by_block_then_shift():
    members = shifted(7, [(0, 1, 3), (0, 2)])
    assert members.shape == (14, 7)
    assert (members[:7].sum(axis=0) == 3).all()
    assert (members[7:].sum(axis=0) == 2).all()
    assert np.flatnonzero(members[5]).tolist() == [1, 5, 6]
    assert np.flatnonzero(members[7 + 6]).tolist() == [1, 6]


@pytest.mark.parametrize(
    ("size", "sets", "weights"),
    [
        (3, [(0,), (1,)], None),  # value 2 is not covered
        (3, [(0,), (1,), (2,)], [1, 1, 2]),  # uneven
        (3, [(0,), (1,), (2,)], [1, 1, 0]),
        (3, [(0,), (1,), (2,)], [1, 1]),
        (3, [(0, 1, 2)], None),  # everything
        (3, [(), (0,), (1,), (2,)], None),
        (2, [(0,), (1,), (0,), (1,)], None),  # twice
        (3, [(1, 0), (1, 2), (0, 2)], None),  # not ascending
        (3, [(0, 0), (1,), (2,)], None),
        (3, [(0,), (1,), (3,)], None),
        (3, [(-1,), (0,), (1,)], None),
        (1, [(0,)], None),
        (3, [], None),
        (2, [(0,), (1,)], [2**60, 2**60]),
    ],
)
def test_refusals(size, sets, weights):
    with pytest.raises(SpecError):
        channel_of_sets(size, GAMMA, sets, weights)


@pytest.mark.parametrize("gamma", [Fraction(1), Fraction(1, 2), Fraction(-3)])
def test_gamma_must_amplify(gamma):
    with pytest.raises(SpecError, match="gamma"):
        channel_of_blocks(4, gamma, [(0,)])


class Scripted:
    """A stand-in for a generator that hands out prepared whole numbers: every outcome of a draw, each once."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def integers(self, low, high, size=None, dtype=np.int64):
        found = np.asarray(self.numbers.pop(0), dtype=dtype)
        assert found.shape == ((size,) if np.isscalar(high) else high.shape)
        assert (found >= low).all()
        assert (found < high).all()
        return found


def table_law(tables, table):
    """The exact law of one alias table: every column, cut by whole numbers."""
    law = {}
    at = slice(table * tables.width, (table + 1) * tables.width)
    for own, other, cut in zip(tables.own[at], tables.other[at], tables.cut[at], strict=True):
        for z, part in ((own, int(cut)), (other, tables.total - int(cut))):
            law[int(z)] = law.get(int(z), Fraction(0)) + Fraction(part, tables.total * tables.width)
    return {z: p for z, p in law.items() if p}


@pytest.mark.parametrize("channel", [all_subsets(6, 3), weighted(), channel_of_blocks(13, GAMMA, [(0, 1, 3, 9)])])
def test_alias_tables_draw_exactly_by_weight(channel):
    draw = sampler(channel)
    everything = {z: Fraction(int(n), channel.total) for z, n in enumerate(channel.weights)}
    assert table_law(draw.everything, 0) == everything
    for x in range(channel.size):
        mine = {z: Fraction(int(channel.weights[z]), channel.coverage) for z in np.flatnonzero(channel.members[:, x])}
        assert table_law(draw.holding, x) == mine


def test_draw_takes_the_right_branch_at_the_very_edge():
    """One unit below the keep probability the value's own sets are drawn, at it all sets."""
    channel = channel_of_blocks(5, GAMMA, [(0,)])
    draw = sampler(channel)
    keep = channel.keep_units
    rng = Scripted([keep - 1, keep], [0, 3])
    assert draw.draw(np.array([4, 4], dtype=np.int32), rng).tolist() == [4, 3]


def test_a_shared_column_is_cut_where_it_says():
    """Below the cut the column's own set, from the cut on the other: every level of every column of a small table."""
    draws, tables = JoinedSamplers([sampler(weighted())]), sampler(weighted()).everything
    assert not tables.plain
    column, level = np.divmod(np.arange(tables.width * tables.total), tables.total)
    shown = draws._from(np.full(len(column), draws.every[0]), Scripted(column, level))
    assert np.bincount(shown).tolist() == (tables.width * weighted().weights).tolist()


def test_draw_keeps_its_input_and_repeats_with_its_seed():
    channel = weighted()
    codes = np.arange(5, dtype=np.int32).repeat(40_000)  # more than one chunk
    before = codes.copy()
    first = sampler(channel).draw(codes, np.random.default_rng(3))
    assert (codes == before).all()
    assert first.dtype == np.int32
    assert (first == sampler(channel).draw(codes, np.random.default_rng(3))).all()
    assert set(np.unique(first)) == set(range(len(channel.weights)))
    assert sampler(channel).draw(codes[:0], np.random.default_rng(3)).shape == (0,)


def test_a_channel_is_valid_or_does_not_exist():
    with pytest.raises(SpecError):
        SetChannel(gamma=GAMMA, members=np.zeros((0, 3), dtype=bool), weights=np.zeros(0, dtype=np.int64))
