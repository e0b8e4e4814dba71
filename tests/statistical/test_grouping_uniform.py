"""Uniformity of the swap sweeps. False alarm of each test: ALPHA, so 3e-9 for the file."""

from itertools import combinations, product

import numpy as np
from scipy import stats

from constants import ALPHA, SEED
from sfumato.laws.grouping import largest_buckets, random_margins


def every_table(counts: list[int], size: int) -> list[tuple[tuple[int, ...], ...]]:
    """All ordered lists of groups with these counts, by brute force."""
    sets = list(combinations(range(len(counts)), size))
    tables = product(sets, repeat=sum(counts) // size)
    return [t for t in tables if np.array_equal(np.bincount(sum(t, ()), minlength=len(counts)), counts)]


def p_value(tables: list, drawn: list) -> float:
    """Chi-square p-value for all tables being equally likely."""
    position = {table: i for i, table in enumerate(tables)}
    seen = np.bincount([position[table] for table in drawn], minlength=len(tables))
    return float(stats.chisquare(seen).pvalue)


def as_table(rows: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(sorted(row)) for row in rows.tolist())


def test_all_groupings_equally_often():
    """Catches any table 25 % off its share; the largest-bucket rule must fail."""
    counts, size, draws = [2, 2, 1, 1], 2, 3000
    tables = every_table(counts, size)
    rng = np.random.default_rng(SEED)

    def drawn(rule, **options):
        return [as_table(rule(np.array(counts), size, rng, **options).members) for _ in range(draws)]

    assert p_value(tables, drawn(random_margins)) > ALPHA
    assert p_value(tables, drawn(largest_buckets)) < ALPHA


def test_leftover_hosts_equally_often():
    """The left over record of five joins each group that lacks its value equally often."""
    rng = np.random.default_rng(SEED + 1)
    hosts = np.zeros((2, 2), int)
    for _ in range(4000):
        found = random_margins(np.array([1, 1, 1, 1, 1]), 2, rng)
        hosts[found.leftover_groups[0], int(found.leftover_values[0] > 1)] += 1
    assert stats.chisquare(hosts.sum(axis=1)).pvalue > ALPHA
    assert stats.binomtest(int(hosts[:, 0].sum()), 4000, 2 / 5).pvalue > ALPHA


def pair_counts(rows: np.ndarray, values: int) -> np.ndarray:
    """Groups that hold both values, for each pair of different values."""
    held = np.zeros((len(rows), values))
    np.put_along_axis(held, rows, 1, axis=1)
    return (held.T @ held)[np.triu_indices(values, 1)]


def test_ten_sweeps_forget_the_start():
    """Pair counts after 10 sweeps agree with those after 40; after 2 sweeps they do not.

    Two independent tables: each pair count's difference is about normal with variance at most twice its mean.
    """
    weights = 0.93 ** np.arange(40)
    counts = np.floor(weights / weights.sum() * 100_000).astype(np.int64)
    counts[-1] += -counts.sum() % 5
    rng = np.random.default_rng(SEED + 2)
    long = pair_counts(random_margins(counts, 5, rng, sweeps=40).members, 40)

    def distance(sweeps: int) -> float:
        short = pair_counts(random_margins(counts, 5, rng, sweeps=sweeps).members, 40)
        return float((((short - long) ** 2) / (short + long)).sum())

    limit = stats.chi2.isf(ALPHA, df=len(long))
    assert distance(10) < limit
    assert distance(2) > limit
