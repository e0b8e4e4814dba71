"""Repeated releases of set channels: draws cell by cell, unbiased answers, their variance, interval coverage.

Draws are tested at ALPHA after a Bonferroni correction inside each check. The bands of the release check are those
stated for the method (mean within 4 standard errors, variance over formula .8 to 1.2, coverage .92 to .98 each, .94 to
.96 on average); for 1,000 releases a right channel with a fresh seed leaves them with probability below 1 % for both
channels together. Every check also rejects wrong channels: noise 30 % less or more, the last value untouched, a keep
probability 10 % off.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from constants import ALPHA, SEED
from sfumato.laws.set_channel import UNIT, count_cumulants, sampler, set_answers
from sfumato.methods.shared import workloads
from sfumato.methods.shared.set_lists import best_list
from sfumato.methods.shared.workloads import optimise

pytestmark = pytest.mark.slow

GAMMA, SIZE, DRAWS, RELEASES = Fraction(12, 5), 50, 200_000, 1000
Z = float(stats.norm.ppf(0.975))


def designed():
    grams = [workloads.ranges(SIZE), workloads.weighted_sum(np.arange(SIZE)), workloads.histogram(SIZE)]
    return optimise(workloads.mixture(grams, [0.4, 0.4, 0.2], GAMMA), GAMMA, rounds=6).channel


CHANNELS = ("subsets", "designed")


@cache
def channel_named(name):
    return best_list(SIZE, 15).channel(GAMMA) if name == "subsets" else designed()


class LastUntouched:
    """A faulty draw: rows of the last value always show one of their own sets."""

    def __init__(self, right):
        self.right, self.open = right, replace(right, keep_units=UNIT - 1)

    def draw(self, codes, rng):
        last = codes == SIZE - 1
        return np.where(last, self.open.draw(codes, rng), self.right.draw(codes, rng))


def mutants(right):
    keep = right.keep_units
    return {
        "30 % less noise": replace(right, keep_units=int(UNIT - 0.7 * (UNIT - keep))),
        "30 % more noise": replace(right, keep_units=max(0, int(UNIT - 1.3 * (UNIT - keep)))),
        "last value untouched": LastUntouched(right),
        "keep 10 % off": replace(right, keep_units=int(1.1 * keep)),
    }


def draw_problems(channel, draw, rng):
    """Cell-by-cell chi-square, and for every value and overall the rows whose set holds their own value."""
    codes = rng.integers(0, SIZE, DRAWS, dtype=np.int32)
    shown = draw.draw(codes, rng)
    Q = channel.matrix()
    k = len(Q)
    seen = np.bincount(codes * np.int64(k) + shown, minlength=SIZE * k).reshape(SIZE, k)
    expected = Q.T * np.bincount(codes, minlength=SIZE)[:, None]
    rare = expected < 5  # pooled per value, so that chi-square holds
    pooled = [
        ([*row[~r].tolist(), row[r].sum()], [*e[~r].tolist(), e[r].sum()])
        for row, e, r in zip(seen, expected, rare, strict=True)
    ]
    cells = [(o, e) for os, es in pooled for o, e in zip(os, es, strict=True) if e > 0]
    chi2 = sum((o - e) ** 2 / e for o, e in cells)
    freedom = len(cells) - SIZE
    problems = []
    if stats.chi2.sf(chi2, freedom) < ALPHA or stats.chi2.cdf(chi2, freedom) < ALPHA:
        problems.append(f"chi2/df {chi2 / freedom:.3f}")
    own = (Q * channel.members).sum(axis=0)  # Pr[set holds x | x]
    hit = np.bincount(codes, weights=channel.members[shown, codes], minlength=SIZE).astype(int)
    rows = np.bincount(codes, minlength=SIZE)
    p = [stats.binomtest(int(h), int(n), float(a)).pvalue for h, n, a in zip(hit, rows, own, strict=True)]
    problems += [f"value {x}" for x in range(SIZE) if p[x] < ALPHA / SIZE]
    mean, spread = rows @ own, np.sqrt(rows @ (own * (1 - own)))
    if abs(hit.sum() - mean) > stats.norm.isf(ALPHA / 2) * spread:
        problems.append("hits")
    return problems


@pytest.mark.parametrize("name", CHANNELS)
def test_draws_fit_the_channel(name):
    """False alarms: 3e-9 each. Catches a keep probability 5 % off in all rows, or one value's rows 30 % off."""
    channel = channel_named(name)
    assert draw_problems(channel, sampler(channel), np.random.default_rng(SEED)) == []


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("fault", ["30 % less noise", "30 % more noise", "last value untouched", "keep 10 % off"])
def test_wrong_draws_are_found(name, fault):
    channel = channel_named(name)
    assert draw_problems(channel, mutants(sampler(channel))[fault], np.random.default_rng(SEED))


def test_singletons_draw_as_uniform_does():
    """w = 1: value kept with p, else uniform, by a two-sample test of all 2,500 cells against a plain simulation."""
    channel = best_list(SIZE, 1).channel(GAMMA)
    rng = np.random.default_rng(SEED)
    codes = rng.integers(0, SIZE, DRAWS, dtype=np.int32)
    sets = np.array([held[0] for held in channel.sets()])
    kept = rng.random(DRAWS) < float((GAMMA - 1) / (SIZE - 1 + GAMMA))
    plain = np.where(kept, codes, rng.integers(0, SIZE, DRAWS))
    ours = sets[sampler(channel).draw(codes, rng)]
    table = np.array([np.bincount(codes * SIZE + shown, minlength=SIZE**2) for shown in (ours, plain)])
    assert stats.chi2_contingency(table, correction=False).pvalue > ALPHA


# --- whole releases ----------------------------------------------------------------------------------------------

SHARES = 0.93 ** np.arange(SIZE) / (0.93 ** np.arange(SIZE)).sum()
QUESTIONS = np.vstack(
    [
        np.eye(SIZE)[0],  # the most frequent value
        np.eye(SIZE)[25],
        np.eye(SIZE)[SIZE - 1],
        np.isin(np.arange(SIZE), [2, 17, 30, 44]),
        (np.arange(SIZE) >= 10) & (np.arange(SIZE) < 25),
        np.arange(SIZE) * 1000.0,  # SUM
    ]
)
COUNTING = np.array([True, True, True, True, True, False])


def ends(value, unbiased, floor, rows, cumulants):
    """Score set for counts of less than 1,000 rows, else estimate and standard error."""
    half = Z * np.sqrt(np.maximum(unbiased, floor))
    low, high = value - half, value + half
    if rows < 1000:
        # (f^ - f)^2 <= z^2 (n v0 + (v1 - v0) f): a quadratic in f
        slope, constant = cumulants.v1 - cumulants.v0, rows * cumulants.v0
        middle = value[:, COUNTING] + Z**2 * slope / 2
        root = np.sqrt(np.maximum(middle**2 - value[:, COUNTING] ** 2 + Z**2 * constant, 0))
        low[:, COUNTING], high[:, COUNTING] = middle - root, middle + root
    return low, high


def release_problems(channel, draw, rows, rng):
    """(problems, coverage of each question) over RELEASES releases of one table, read with the stated channel."""
    answers = set_answers(channel)
    counts = np.floor(SHARES * rows).astype(int)
    counts[0] += rows - counts.sum()
    codes = np.repeat(np.arange(SIZE, dtype=np.int32), counts)
    k = len(answers.matrix)
    published = np.array([np.bincount(draw.draw(codes, rng), minlength=k) for _ in range(RELEASES)])
    truth, spread = QUESTIONS @ counts, answers.variance(QUESTIONS)
    formula = spread @ counts
    value = published @ answers.weights(QUESTIONS).T
    unbiased = published @ answers.weights(spread).T
    low, high = ends(value, unbiased, rows * spread.min(axis=1), rows, count_cumulants(answers, QUESTIONS[COUNTING]))
    covered = ((low <= truth) & (truth <= high)).mean(axis=0)
    problems = []
    for q in range(len(QUESTIONS)):
        if abs(value[:, q].mean() - truth[q]) > 4 * np.sqrt(formula[q] / RELEASES):
            problems.append(f"question {q}: mean {value[:, q].mean():.1f} for {truth[q]:.1f}")
        if not 0.8 <= value[:, q].var(ddof=1) / formula[q] <= 1.2:
            problems.append(f"question {q}: variance {value[:, q].var(ddof=1) / formula[q]:.3f}")
        if abs(unbiased[:, q].mean() / formula[q] - 1) > 0.1:
            problems.append(f"question {q}: variance estimate {unbiased[:, q].mean() / formula[q]:.3f}")
        if not 0.92 <= covered[q] <= 0.98:
            problems.append(f"question {q}: coverage {covered[q]:.3f}")
    return problems, covered


@pytest.mark.parametrize("name", CHANNELS)
def test_releases(name):
    channel = channel_named(name)
    rng = np.random.default_rng(SEED)
    everything, problems = [], []
    for rows in (58, 307, 3_037, 32_185):
        found, covered = release_problems(channel, sampler(channel), rows, rng)
        problems += [f"{rows} rows, {problem}" for problem in found]
        everything.append(covered)
    assert problems == []
    assert 0.94 <= np.mean(everything) <= 0.96


@pytest.mark.parametrize("fault", ["30 % less noise", "30 % more noise", "last value untouched", "keep 10 % off"])
@pytest.mark.parametrize("name", CHANNELS)
def test_wrong_releases_are_found(name, fault):
    channel = channel_named(name)
    draw = mutants(sampler(channel))[fault]
    assert release_problems(channel, draw, 32_185, np.random.default_rng(SEED))[0]
