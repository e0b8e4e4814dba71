"""Repeated decoy releases on counts: published totals, bias and coverage of the calibrated estimate.

False alarm: ALPHA for each assertion that holds (8e-9 for the file); the wrong plans must be caught.
The condition P leans to rare values (share inside P from 2 % to 95 %), where the average rate is badly wrong.
"""

import numpy as np
import pytest
from benchmarks import decoy_counts
from scipy import stats

from constants import ALPHA, SEED
from sfumato.laws.decoy_channel import DecoyChannel, rebuild_channel, replay_channel
from sfumato.laws.decoy_estimate import two_state
from sfumato.laws.grouping import random_margins
from sfumato.methods.splu import draw_slots

pytestmark = pytest.mark.slow

VALUES, ROWS, RELEASES, Z = 40, 60_000, 250, 1.959963984540054
SHARES = 0.93 ** np.arange(VALUES)
TRUE = np.floor(SHARES / SHARES.sum() * ROWS).astype(np.int64)
INSIDE = np.round(TRUE * np.linspace(0.02, 0.95, VALUES)).astype(np.int64)
LIMIT = stats.norm.isf(ALPHA / 2 / VALUES)


def release(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Published counts of all rows and of those inside P, for one release."""
    slots = draw_slots(random_margins(TRUE, size, rng), rng)
    table = slots.table()
    inside = sum(rng.multivariate_hypergeometric(row, n) for row, n in zip(table, INSIDE, strict=True))
    return slots.published_counts(), np.asarray(inside, float)


@pytest.fixture(scope="module", params=[5, 8])
def releases(request):
    rng = np.random.default_rng(SEED + request.param)
    return request.param, [release(rng, request.param) for _ in range(RELEASES)]


def bias(values: np.ndarray) -> float:
    """The largest mean error over the values, in its standard errors."""
    error = values - INSIDE
    return float(np.abs(error.mean(axis=0) / (error.std(axis=0, ddof=1) / np.sqrt(len(values)))).max())


def estimates(size: int, drawn: list, believed: int) -> tuple[np.ndarray, np.ndarray]:
    channels: list[DecoyChannel] = [rebuild_channel(published, believed, seed=1) for published, _ in drawn]
    found = [decoy_counts.calibrated_counts(c, y[c.active]) for c, (_, y) in zip(channels, drawn, strict=True)]
    return np.array([f.value for f in found]), np.array([f.variance for f in found])


def test_totals_have_the_binomial_mean_and_variance(releases):
    size, drawn = releases
    published = np.array([p for p, _ in drawn])
    z = (published - TRUE) / np.sqrt(TRUE * (1 - 1 / size))
    assert np.abs(z.mean(axis=0)).max() * np.sqrt(RELEASES) < LIMIT
    # z^2 summed over a value's releases is about chi-square; the published counts of a release are weakly dependent.
    low, high = stats.chi2.isf([1 - ALPHA / VALUES, ALPHA / VALUES], RELEASES)
    spread = (z**2).sum(axis=0)
    assert ((spread > low) & (spread < high)).all()
    wrong = ((published - TRUE) ** 2 / TRUE).sum() / ((VALUES - 1) * RELEASES)
    assert wrong < 1 - 0.5 / size  # plain Poisson noise would give 1


def test_calibrated_estimate_is_unbiased_and_covers(releases):
    size, drawn = releases
    value, variance = estimates(size, drawn, believed=size)
    assert bias(value) < LIMIT
    covered = (np.abs(value - INSIDE) <= Z * np.sqrt(variance)).mean(axis=1)
    margin = stats.norm.isf(ALPHA / 2) * covered.std(ddof=1) / np.sqrt(RELEASES)
    assert 0.93 - margin < covered.mean() < 0.975 + margin
    assert margin < 0.04


def test_a_wrong_channel_is_caught(releases):
    size, drawn = releases
    value, _ = estimates(size, drawn, believed=size - 1)
    assert bias(value) > LIMIT


def test_the_average_rate_is_caught(releases):
    """The two-state formula is biased for a condition that leans to some values."""
    size, drawn = releases
    value = np.array([two_state(p, y, y.sum(), p.sum(), size)[0] for p, y in drawn])
    assert bias(value) > LIMIT


def test_small_tables_answer_by_replay():
    """2,000 rows in 500 groups: the replayed channel is unbiased and covers; ALPHA for each of the two assertions."""
    true = np.array([420, 330, 260, 220, 180, 150, 120, 100, 80, 70, 40, 31])
    inside = np.round(true * np.linspace(0.1, 0.8, 12)).astype(np.int64)
    rng, values, covered = np.random.default_rng(SEED), [], []
    for _ in range(150):
        slots = draw_slots(random_margins(true, 4, rng), rng)
        y = sum(rng.multivariate_hypergeometric(row, n) for row, n in zip(slots.table(), inside, strict=True))
        channel = replay_channel(np.arange(12), slots.published_counts(), 4, np.random.default_rng(1), replays=30)
        found = decoy_counts.calibrated_counts(channel, np.asarray(y, float))
        values.append(found.value - inside)
        covered.append((np.abs(values[-1]) <= Z * np.sqrt(found.variance)).mean())
    error = np.array(values)
    assert np.abs(error.mean(axis=0) / error.std(axis=0, ddof=1)).max() * np.sqrt(150) < stats.norm.isf(ALPHA / 24)
    margin = stats.norm.isf(ALPHA / 2) * np.std(covered, ddof=1) / np.sqrt(150)
    assert 0.92 - margin < np.mean(covered) < 0.98 + margin
