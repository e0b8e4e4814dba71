"""Coverage of the interval rules themselves, by simulated releases; exact enumerations are in the unit tests.

Each test states what it counts. False alarm: ALPHA for every comparison against a coverage, six comparisons in the
file. Each also feeds a rule that forgets something and must see it fail.
"""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.decoy_counts import calibrated_counts
from scipy.stats import binom, chi2, norm

from constants import ALPHA, SEED
from sfumato.laws.decoy_channel import DecoyChannel, rebuild_channel
from sfumato.laws.decoy_estimate import RareCells, rare_value_interval
from sfumato.laws.grouping import random_margins
from sfumato.stats.association import corrected_association, uncertainty_coefficient
from sfumato.stats.intervals import Line, count_cumulants, fieller, tail_interval

pytestmark = pytest.mark.slow

Z = float(norm.isf(0.025))


def least_hits(trials: int, coverage: float) -> int:
    """Fewer hits than this among independent trials have a chance of at most ALPHA."""
    return int(binom.ppf(ALPHA, trials, coverage))


def test_736_counts_of_a_uniform_release_hold_together():
    """16 groups x 46 values over 8,000 rows, gamma 3: 300 releases, all 736 intervals hold in 95 % of them or more.

    Without the third cumulant (a score interval at the same alpha) they must not.
    """
    rng, p, b, R = np.random.default_rng(SEED), 2 / 48, 1 / 48, 300
    group, value = rng.integers(0, 16, 8000), rng.choice(46, 8000, p=(w := 0.8 ** np.arange(46)) / w.sum())
    true = np.bincount(group * 46 + value, minlength=736).reshape(16, 46)
    rows = true.sum(axis=1, keepdims=True).astype(float)
    v, k = count_cumulants(np.broadcast_to(rows, true.shape), p, b)
    alpha, together, plain = 0.05 / 736, 0, 0
    for _ in range(R):
        hits = rng.binomial(true, p + b) + rng.binomial((rows - true).astype(int), b)
        estimate = (hits - b * rows) / p
        low, high = tail_interval(estimate, v, k, alpha, 0.0, rows, 1 / p)
        assert (low < high).all()
        together += bool(((low <= true) & (true <= high)).all())
        low, high = tail_interval(estimate, v, Line(constant=0.0), alpha, 0.0, rows)
        plain += bool(((low <= true) & (true <= high)).all())
    assert together >= least_hits(R, 0.95)
    assert plain < least_hits(R, 0.95), plain


def decoy_release(true: np.ndarray, inside: np.ndarray, size: int, rng: np.random.Generator):
    """(published counts of all rows, of the rows in P), where `inside[u]` of the records of u lie in P."""
    members = random_margins(true, size, rng).members  # no leftovers: sizes are multiples of the group size
    shown = members[np.arange(len(members))[:, None], rng.integers(0, size, members.shape)].ravel()
    owner, order = members.ravel(), rng.permutation(members.size)
    rank = np.empty(members.size, np.int64)
    sorted_ = order[np.argsort(owner[order], kind="stable")]
    rank[sorted_] = np.arange(members.size) - np.repeat(np.cumsum(true) - true, true)
    chosen = rank < inside[owner]
    return np.bincount(shown, minlength=len(true)), np.bincount(shown[chosen], minlength=len(true)).astype(float)


def cells_of(channel: DecoyChannel, inside: np.ndarray) -> RareCells:
    """The seven numbers of every published value."""
    matrix, share, e = channel.matrix, channel.published / channel.published.sum(), 1 / channel.size
    b = matrix.own_weights()
    has = e * b**2 + (1 - e * b) ** 2 / (1 - e)
    return RareCells(
        shown=inside,
        estimate=matrix.estimate(inside),
        squares=matrix.squares(inside),
        weight=b,
        published=channel.published,
        rows=np.full(len(share), inside.sum()),
        all_rows=float(channel.published.sum()),
        other=np.maximum(matrix.squares(share) - share * has, 0) / (1 - share),
        size=channel.size,
    )


def test_a_value_with_one_row_is_covered():
    """60 values of 400 rows and one with a single row, which P holds; gamma 12, 200 releases.

    In 11 of 12 the value is published 0, 1, 2 times ... by its decoys' draws. [0, upper end of the total] holds 1 in at
    least 95 % of the releases; the calibrated estimate with its own standard error must not.
    """
    rng, R, size = np.random.default_rng(SEED + 1), 200, 12
    true = np.array([400] * 59 + [399, 1])
    inside = np.array([200] * 60 + [1])
    held = normal = 0
    for _ in range(R):
        published, shown = decoy_release(true, inside, size, rng)
        if published[-1] == 0:  # never published: the total alone answers
            channel = rebuild_channel(published, size, seed=1)
            zero = np.zeros(1)
            never = RareCells(shown=zero, estimate=zero, squares=zero, weight=zero, published=zero, rows=zero + 12_000,
                          all_rows=24_000.0, other=zero, size=size)  # fmt: skip
            held += bool(never.most(0.05)[0] >= 1)
            continue
        channel = rebuild_channel(published, size, seed=1)
        cells = cells_of(channel, shown[channel.active])
        low, high = rare_value_interval(cells, 0.05)
        held += bool(low[-1] <= 1 <= high[-1])
        found = calibrated_counts(channel, shown[channel.active])
        normal += bool(abs(found.value[-1] - 1) <= Z * np.sqrt(found.variance[-1]))
    assert held >= least_hits(R, 0.95)
    assert normal < least_hits(R, 0.95)


def test_the_variance_of_a_value_that_lies_in_p():
    """12 values of 2,000 rows, gamma 4; P holds nine tenths of six of them and a tenth of the others; 300 releases.

    Mean squared error over stated variance, pooled over the six, is compared with 1 by a chi-square of 300 degrees of
    freedom (as if the six were one: they are dependent). The channel taken as known states too little.
    """
    rng, R = np.random.default_rng(SEED + 2), 300
    true, inside = np.full(12, 2000), np.array([1800] * 6 + [200] * 6)
    error, stated, before, hits = [], [], [], []
    for _ in range(R):
        published, shown = decoy_release(true, inside, 4, rng)
        channel = rebuild_channel(published, 4, seed=1)
        cells = cells_of(channel, shown)
        low, high = rare_value_interval(cells, 0.05)
        hits.append((low <= inside) & (inside <= high))
        error.append((cells.estimate - inside) ** 2)
        stated.append(cells.variance(np.clip(cells.estimate, 0, None)))
        before.append(calibrated_counts(channel, shown).variance)
    heavy = slice(0, 6)
    new, old = (np.mean(error, axis=0)[heavy].sum() / np.mean(s, axis=0)[heavy].sum() for s in (stated, before))
    assert new < chi2.isf(ALPHA, R) / R
    assert new < 1.05 < old * 1.02  # the missing term is a tenth of the variance here
    assert np.mean(hits) >= binom.ppf(ALPHA, R, 0.94) / R


@pytest.mark.parametrize("errors", [1.2, 3.0])
def test_ratios_near_a_denominator_of_zero(errors):
    """True share .8 with a denominator of `errors` standard errors, 4,000 draws: covered as often as the level says.

    The rule that answers only where the denominator is three standard errors above zero must not be.
    """
    rng, R = np.random.default_rng(SEED + 3), 4000
    VA, VB = (30 / errors) ** 2, (100 / errors) ** 2
    top, bottom = 80 + np.sqrt(VA) * rng.standard_normal(R), 100 + np.sqrt(VB) * rng.standard_normal(R)
    found = fieller(top, bottom, VA, 0.0, VB, Z, 0.0, 1.0)
    held = (found.low <= 0.8) & (found.high >= 0.8)
    assert held.sum() >= least_hits(R, 0.95)
    assert (found.low < found.high).all()
    answered = bottom >= 3 * np.sqrt(VB)
    ratio = top / bottom
    half = Z * np.sqrt(VA + ratio**2 * VB) / np.abs(bottom)
    covered = (np.abs(ratio - 0.8) <= half)[answered]
    assert covered.sum() < least_hits(int(answered.sum()), 0.95)


def test_association_is_covered_after_correction():
    """A 6 x 12 table of 20,000 rows, kept with .6 and .5: 60 releases; coverage of at least .90, and little bias.

    The plug-in value with its delta error misses nearly always: noise looks like association.
    """
    rng, R = np.random.default_rng(SEED + 4), 60
    shares = np.outer(rng.dirichlet(np.full(6, 4.0)), rng.dirichlet(np.full(12, 4.0)))
    shares *= 1 + 0.35 * np.outer(np.linspace(-1, 1, 6), np.linspace(-1, 1, 12))
    table = np.round(20_000 * shares / shares.sum()).astype(np.int64)
    true = uncertainty_coefficient(table.astype(float))
    first, second = (np.full((d, d), (1 - k) / (d - 1)) for k, d in ((0.6, 6), (0.5, 12)))
    np.fill_diagonal(first, 0.6)
    np.fill_diagonal(second, 0.5)
    values, plain, held = [], [], 0
    for r in range(R):
        drawn = rng.multinomial(table, first.T[:, None, :]).sum(axis=0).T
        released = rng.multinomial(drawn, second.T).sum(axis=1).astype(float)
        found = corrected_association(released, first, second, Z, np.random.default_rng(r))
        held += found.low <= true <= found.high
        values.append(found.value)
        plain.append(found.plug_in)
    assert held >= least_hits(R, 0.90)
    assert abs(np.mean(values) - true) < 0.25 * (np.mean(plain) - true)
