"""Repeated releases: the randomiser's law, coverage of intervals, the trace of the covariance.

False alarms: ALPHA for each chi-square (3 of them), 7e-6 for each coverage gate of 4.5 standard errors (spec; 6 of
them), and far below 1e-6 for the rest: about 5e-5 for the file. Each test also rejects a wrong plan.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chi2

from adult_table import ESGRO, adult, coded, tensor_of
from constants import ALPHA, SEED
from dense_response import all_cells, dense_covariance, expected_squared_distance, guarded_half_width, linear_estimate
from sfumato.laws.independent_columns import randomise_codes
from sfumato.stats.intervals import normal_quantile
from sfumato.stats.kronecker import apply_maps, channel, inverse, theta_of_keep

pytestmark = pytest.mark.slow

RELEASES = 2000
GATE = 4.5 * np.sqrt(0.0475 / RELEASES)
KEEP = (0.541, 0.9, 0.922, 0.966, 1.0)  # education, income, sex, race; occupation untouched


def channel_p_value(old, new, keep, size) -> float:
    """The smallest chi-square p-value of the kept / moved-to counts over the true values, Bonferroni-corrected."""
    worst = 1.0
    for value in range(size):
        seen = np.bincount(new[old == value], minlength=size)
        expected = np.full(size, (1 - keep) / (size - 1)) * seen.sum()
        expected[value] = keep * seen.sum()
        worst = min(worst, chi2.sf(((seen - expected) ** 2 / expected).sum(), size - 1))
    return worst * size


@pytest.mark.parametrize(("keep", "size"), [(0.65, 7), (0.55, 2), (0.1, 16)])
def test_every_entry_of_the_channel(keep, size) -> None:
    """200,000 draws per value. Catches q off by 2 %; keep-else-uniform-over-all must be rejected."""
    rng = np.random.default_rng(SEED)
    old = np.repeat(np.arange(size, dtype=np.int32), 200_000)
    assert channel_p_value(old, randomise_codes(old, keep=keep, size=size, rng=rng), keep, size) > ALPHA
    everywhere = np.where(rng.random(old.size) < keep, old, rng.integers(0, size, old.size))
    assert channel_p_value(old, everywhere, keep, size) < ALPHA


def releases(columns, keep, count, rng):
    """Contingency tables of `count` independent releases of the Adult rows."""
    codes, sizes, _ = coded(adult(), columns)
    codes = np.ascontiguousarray(codes.T.astype(np.int32))
    for _ in range(count):
        new = [randomise_codes(c, keep=p, size=d, rng=rng) for c, p, d in zip(codes, keep, sizes, strict=True)]
        flat = np.ravel_multi_index(tuple(new), sizes)
        yield np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes).astype(float)


@pytest.fixture(scope="module")
def runs():
    """Estimates, variances (data set and population) of three counts, and hits of the guarded cell intervals."""
    true = tensor_of(adult(), ESGRO).astype(float)
    sizes = true.shape
    channels = [channel(theta_of_keep(p, d), d) for p, d in zip(KEEP, sizes, strict=True)]
    z = normal_quantile(0.95)
    rng = np.random.default_rng(SEED)
    picks = [np.zeros(sizes) for _ in range(3)]
    picks[0][11, :, 1] = 1  # one degree, men
    picks[1][:, 1, 0, :, 3] = 1  # well-paid women of one occupation
    picks[2][9, 0] = 1
    picks[2][:, 1, 1, 4, 7] = 1  # a disjunction
    rows = int(true.sum())
    results, hits, wald = [], np.zeros(sizes), np.zeros(sizes)
    for table in releases(ESGRO, KEEP, RELEASES, rng):
        line = []
        for a in picks:
            data, people = linear_estimate(table, channels, a), linear_estimate(table, channels, a, rows=rows)
            line.append((float(data.estimate), float(data.variance), float(people.variance), data.weight_max))
        results.append(line)
        cells = all_cells(table, channels)
        off = np.abs(cells.estimate - true)
        hits += off <= guarded_half_width(cells, z)
        wald += off <= z * np.sqrt(np.maximum(cells.variance, 0))
    truth = np.array([(true * a).sum() for a in picks])
    return true, truth, np.array(results), hits / RELEASES, wald / RELEASES


def test_coverage_of_counts(runs) -> None:
    """95 % intervals of counts over 50, guarded and plain, within 4.5 standard errors; Eq 2's are too wide."""
    _, truth, results, _, _ = runs
    z = normal_quantile(0.95)
    assert truth.min() > 50
    off = np.abs(results[..., 0] - truth)
    plain = (off <= z * np.sqrt(results[..., 1])).mean(axis=0)
    guarded = (off <= z * np.sqrt(results[..., 1] + z**2 * results[..., 3] ** 2 / 4)).mean(axis=0)
    assert np.abs(plain - 0.95).max() < GATE, plain
    assert guarded.min() > 0.95 - GATE
    population = (off <= z * np.sqrt(results[..., 2])).mean(axis=0)
    assert population.max() > 0.95 + GATE, "the population variance must be too wide for a data set"


def test_estimates_and_variances_are_unbiased(runs) -> None:
    """Means over releases within 6 standard errors (2e-9 each); the mean variance within 20 % of the simulated."""
    _, truth, results, _, _ = runs
    estimates, variances = results[..., 0], results[..., 1]
    standard_error = estimates.std(axis=0, ddof=1) / np.sqrt(RELEASES)
    assert np.abs((estimates.mean(axis=0) - truth) / standard_error).max() < 6
    spread = estimates.var(axis=0, ddof=1) / variances.mean(axis=0)  # relative sd sqrt(2/2000) = .032
    assert np.abs(spread - 1).max() < 0.2


def test_guarded_coverage_of_small_cells(runs) -> None:
    """At least .94 in every bin of true count; the plain interval fails that for empty and single cells."""
    true, _, _, hits, wald = runs
    edges = [0, 1, 2, 6, 21, 101, np.inf]
    for low, high in pairwise(edges):
        inside = (true >= low) & (true < high)
        assert hits[inside].mean() >= 0.94, (low, hits[inside].mean())
    assert wald[true == 0].mean() < 0.94
    assert wald[true == 1].mean() < 0.94


def test_trace_of_the_covariance_given_the_data() -> None:
    """Simulated trace within 5 % of the fixed-data formula, and outside 5 % of the paper's Eq 2."""
    rng = np.random.default_rng(SEED)
    rows, sizes, keep = 500, (3, 4, 2), (0.8, 0.8, 0.85)
    true = rng.multinomial(rows, rng.dirichlet(np.ones(24))).reshape(sizes)
    codes = np.repeat(np.argwhere(true > 0), true[true > 0], axis=0).astype(np.int32)
    thetas = [theta_of_keep(p, d) for p, d in zip(keep, sizes, strict=True)]
    channels = [channel(t, d) for t, d in zip(thetas, sizes, strict=True)]
    back = [inverse(m) for m in channels]
    total, repeats = 0.0, 8000
    for _ in range(repeats):
        new = [randomise_codes(codes[:, j], keep=keep[j], size=sizes[j], rng=rng) for j in range(3)]
        table = np.bincount(np.ravel_multi_index(tuple(new), sizes), minlength=24).reshape(sizes) / rows
        total += ((apply_maps(back, table) - true / rows) ** 2).sum()
    simulated = total / repeats
    fixed = expected_squared_distance(thetas, sizes, rows)
    assert fixed == pytest.approx(np.trace(dense_covariance(true / rows, channels, rows)), rel=1e-9)
    assert abs(simulated / fixed - 1) < 0.05
    equation_2 = np.trace(dense_covariance(true / rows, channels, rows, population=True))
    assert abs(simulated / equation_2 - 1) > 0.05
