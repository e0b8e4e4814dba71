"""Lists of sets: the exact table of widths and variances, cyclic lists, their loss against all subsets."""

from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest

from sfumato.laws.set_channel import set_answers
from sfumato.methods.shared import set_lists
from sfumato.methods.shared.set_lists import (
    BlockSearch,
    _shifts_differ,
    best_list,
    best_width,
    cyclic_variance,
    difference_set,
    hit_rates,
    least_variance,
    list_for,
    loss,
    total_variance,
)

G24 = Fraction(12, 5)
# m, gamma, w, a, b, keep, V, V of one value; where a fraction has a short form it is given as such
TABLE = [
    (2, G24, 1, "12/17", "5/17", ".411765", "2.4490", "2.4490"),
    (8, G24, 2, "4/9", "2/9", ".259259", "29.5000", "38.5714"),
    (8, Fraction(4), 2, "4/7", ".204082", "3/7", "10.2407", "10.8889"),
    (13, G24, 4, "16/31", ".290323", ".301075", "53.3878", "96.7347"),
    (15, Fraction(4), 3, "1/2", ".178571", "3/8", "22.2963", "32.6667"),
    (50, G24, 15, "36/71", ".295775", ".295775", "234.2667", "1320"),
    (50, Fraction(4), 10, "1/2", ".193878", "3/8", "84.3889", "304.8889"),
    (50, Fraction(12), 4, "24/47", ".071211", ".468085", "18.0779", "29.1570"),
    (50, Fraction(47), 1, "47/96", ".010417", ".479167", "3.2883", "3.2883"),
    (100, G24, 29, "348/703", ".287929", ".288762", "479.1066", "5192.449"),
    (512, G24, 151, "1812/3617", ".294519", ".292231", "2496.9801", "134215.714"),
]


def agrees(found, stated):
    if "/" in stated:
        return found == Fraction(stated)
    digits = len(stated.partition(".")[2])
    return round(float(found), digits) == float(stated)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]}-{row[1]}")
def test_table_of_widths(row):
    size, gamma, width, a, b, keep, variance, single = row
    assert best_width(size, gamma) == width
    rates = hit_rates(size, gamma, width)
    assert agrees(rates[0], a)
    assert agrees(rates[1], b)
    assert agrees((gamma - 1) * width / (gamma * width + size - width), keep)
    assert agrees(total_variance(size, gamma, width), variance)
    assert agrees(total_variance(size, gamma, 1), single)


@pytest.mark.parametrize("gamma", [Fraction(101, 100), Fraction(3, 2), G24, Fraction(4), Fraction(7), Fraction(47)])
def test_best_width_against_every_width(gamma):
    for size in (2, 3, 4, 5, 9, 24, 41):
        by_force = min(range(1, size), key=lambda w: (total_variance(size, gamma, w), w))
        assert best_width(size, gamma) == by_force


def test_wider_domains_cost_more():
    """V grows with m at one gamma: more values are never easier."""
    for gamma in (Fraction(3, 2), G24, Fraction(12)):
        variances = [least_variance(size, gamma) for size in range(2, 60)]
        assert variances == sorted(variances)


def differences(size, block):
    held = np.array(block)
    return np.bincount(((held[:, None] - held) % size).ravel(), minlength=size)[1:]


@pytest.mark.parametrize(
    ("size", "width"), [(7, 3), (13, 4), (21, 5), (11, 5), (31, 6), (7, 4), (13, 9), (5, 1), (5, 4)]
)
def test_perfect_difference_sets(size, width):
    block = difference_set(size, width)
    assert len(block) == width
    assert len(set(differences(size, block))) == 1


@pytest.mark.parametrize(("size", "width"), [(8, 2), (50, 15), (16, 6), (43, 7)])
def test_no_difference_set(size, width):
    """No whole number of repetitions, or (16, 6, 2) and (43, 7, 1), which have no cyclic one."""
    assert difference_set(size, width) is None


def test_lists_of_small_domains():
    assert len(best_list(8, 2)) == comb(8, 2)
    assert not best_list(8, 2).cyclic
    assert len(best_list(12, 4)) == 495
    assert len(best_list(12, 5)) == 48  # 792 subsets are too many
    assert len(best_list(13, 4)) == 13
    assert len(best_list(50, 15)) == 200
    assert len(best_list(9, 1)) == 9
    for size, width in ((8, 0), (8, 8), (2, 2)):
        with pytest.raises(ValueError, match="holds 1 to"):
            best_list(size, width)
    with pytest.raises(ValueError, match="two values"):
        best_width(1, G24)


@pytest.mark.parametrize(
    ("size", "gamma", "most"),
    [(50, G24, 0.01), (50, Fraction(4), 0.014), (50, Fraction(12), 0.014), (20, G24, 0.013), (100, G24, 0.01)],
)
def test_loss_of_cyclic_lists(size, gamma, most):
    listed = best_list(size, best_width(size, gamma))
    assert len(listed) <= 4 * size
    assert 0 < loss(listed, gamma) <= most


@pytest.mark.parametrize("gamma", [Fraction(3, 2), G24, Fraction(4), Fraction(6), Fraction(12), Fraction(20)])
def test_small_sets_lose_no_more_than_large_ones(gamma):
    """Four blocks of two values cover few pairs: they lost up to 9 %, and sets that gain less were not taken."""
    for size in (13, 14, 15, 16, 18, 20, 24, 28, 32, 40, 50, 64):
        listed = best_list(size, best_width(size, gamma))
        assert loss(listed, gamma) <= 0.018
        assert len(listed) <= 16 * size
        assert len(set(listed.channel(gamma).sets())) == len(listed)


@pytest.mark.parametrize(("size", "gamma"), [(13, G24), (50, Fraction(47)), (8, G24), (31, Fraction(4))])
def test_lists_without_loss(size, gamma):
    assert loss(best_list(size, best_width(size, gamma)), gamma) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("size", "width"), [(20, 6), (50, 15), (23, 9)])
def test_spectrum_gives_the_variance_of_the_channel(size, width):
    """The circulant formula against the channel's own matrix."""
    blocks = BlockSearch(size).spread(width, 2)
    found = cyclic_variance(size, G24, blocks)
    listed = best_list(size, width)
    assert cyclic_variance(size, G24, listed.blocks) < found  # four blocks are more even than two
    dense = set_answers(listed.channel(G24)).total_variance(np.eye(size))
    assert cyclic_variance(size, G24, listed.blocks) == pytest.approx(dense, rel=1e-6)


@pytest.mark.parametrize("size", [40, 90, 120])
def test_a_list_that_no_reader_takes_is_not_made(size, monkeypatch):
    """Small sets need many blocks; where that is more than is read, values are published one by one."""
    gamma = Fraction(9)
    made = list_for(size, gamma)
    assert made.width > 1
    best_list.cache_clear()
    monkeypatch.setattr(set_lists, "MOST_CELLS", (len(made.blocks) - 1) * size**2)
    try:
        short = list_for(size, gamma)
    finally:
        best_list.cache_clear()
    assert (short.width, len(short)) == (1, size)


def test_the_search_repeats_itself_and_beats_chance():
    first = BlockSearch(40).spread(12, 4)
    assert first == BlockSearch(40).spread(12, 4)
    assert all(len(block) == 12 and list(block) == sorted(block) for block in first)
    rng = np.random.default_rng(1)
    by_chance = [[sorted(rng.choice(40, 12, replace=False).tolist()) for _ in range(4)] for _ in range(20)]
    assert cyclic_variance(40, G24, first) < 0.95 * min(cyclic_variance(40, G24, blocks) for blocks in by_chance)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "most"), [(129, 0.015), (512, 0.015), (1424, 0.015)])
def test_wide_domains_by_chosen_swaps(size, most):
    listed = best_list(size, best_width(size, G24))
    assert loss(listed, G24) <= most


def test_the_explanation_states_the_same_numbers():
    """Both tables of the page, line by line, against the code."""
    page = Path(__file__).parents[2].joinpath("docs", "explanation", "set-channels.md").read_text()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| ")
    ]
    widths = [row for row in rows if len(row) == 8 and row[0].isdigit()]
    assert len(widths) == len(TABLE)
    for (m, gamma, w, *numbers), known in zip(widths, TABLE, strict=True):
        assert (int(m), Fraction(gamma), int(w), *numbers) == known
    losses = [row for row in rows if len(row) == 5 and row[0].isdigit()]
    assert len(losses) == 9
    for m, gamma, w, sets, lost in losses:
        listed = best_list(int(m), best_width(int(m), Fraction(gamma)))
        assert (listed.width, len(listed)) == (int(w), int(sets))
        assert round(100 * loss(listed, Fraction(gamma)), 2) == float(lost.split()[0])


@pytest.mark.parametrize(
    "gamma", [Fraction(3, 2), Fraction(2), Fraction(12, 5), Fraction(4), Fraction(8), Fraction(12)]
)
def test_no_list_counts_less_accurately_than_uniform(gamma):
    """Total variance of the list that is published against that of one value, at the same gamma."""
    for size in (*range(2, 33), 50, 64):
        listed = list_for(size, gamma)
        own = set_answers(listed.channel(gamma)).total_variance(np.eye(size))
        assert own <= float(total_variance(size, gamma, 1)) * (1 + 1e-7), size  # keep is rounded down to 2^-32


def test_a_short_list_that_would_lose_more_than_sets_gain_is_not_taken():
    """At the largest gamma, in steps of 1/100, at which sets of two values gain if all of them are listed."""
    for size in (14, 20, 30):
        gamma = next(Fraction(k, 100) for k in range(100 * size, 100, -1) if best_width(size, Fraction(k, 100)) == 2)
        wide, one = best_list(size, 2), float(total_variance(size, gamma, 1))
        assert float(total_variance(size, gamma, 2)) < one < cyclic_variance(size, gamma, wide.blocks)
        assert list_for(size, gamma).width == 1


def test_no_set_is_listed_twice():
    """(18, 4): the best blocks that the search finds from its first starts are shifts of themselves."""
    for size, width in ((18, 4), (13, 2), (16, 4), (20, 5), (24, 6)):
        listed = best_list(size, width)
        assert len(set(listed.channel(G24).sets())) == len(listed)


@pytest.mark.parametrize(
    ("rows", "differ"),
    [
        (["110100"], True),
        (["110110"], False),  # a shift of itself, by 3
        (["111111"], False),
        (["110100", "111000"], True),
        (["110100", "001101"], False),  # a shift of the other, around the end
        (["1100", "1010"], False),
    ],
)
def test_shifts_that_are_the_same_set_are_seen(rows: list[str], differ: bool) -> None:
    blocks = np.array([[c == "1" for c in row] for row in rows])
    every = {np.roll(row, t).tobytes() for row in blocks for t in range(blocks.shape[1])}
    assert _shifts_differ(blocks) == differ == (len(every) == blocks.size)
