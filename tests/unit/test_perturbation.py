"""Estimates from keep-or-redraw channels: exact on expected counts, variances and covariances by enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array

from sfumato.laws.keep_or_redraw import SubTables, estimate
from sfumato.model.public import Asked, Evidence, Observed
from sfumato.stats.intervals import count_cumulants, tail_interval

VALUES = 6
TABLES = SubTables(
    start=np.array([0, 4, 7, 13]),
    values=np.array([0, 1, 2, 3, 1, 4, 5, 0, 1, 2, 3, 4, 5], dtype=np.int32),
    p=np.array([0.3, 0.6, 0.1]),
    q=np.array([0.7 / 4, 0.4 / 3, 0.9 / 6]),
)


def channel(i):
    """C[x, y] over the sub-table's own values."""
    m = len(TABLES.domain(i))
    return TABLES.p[i] * np.eye(m) + TABLES.q[i]


def world(seed):
    """True counts (stratum, sub-table) -> counts over the sub-table's values."""
    rng = np.random.default_rng(seed)
    return {(t, i): rng.integers(0, 500, len(TABLES.domain(i))) for t in range(3) for i in range(len(TABLES))}


def ask(true, published, coefficients, pairs=(), *, binary=True, z=1.96):
    """`estimate` on the published counts of every (stratum, sub-table)."""
    rows = [(t, i, v, n) for (t, i), c in published.items() for v, n in zip(TABLES.domain(i), c, strict=True)]
    stratum, part, value, count = (np.array(column) for column in zip(*rows, strict=True))
    observed = Observed(
        stratum=stratum, part=part, value=value, moments=count[:, None].astype(float),
        key=np.array([0, 0, 1]), pattern=np.zeros(3, dtype=np.intp), keys=2,
    )  # fmt: skip
    asked = Asked(
        units=(0,), classes=(np.arange(VALUES, dtype=np.int32),), coefficients=(csr_array(coefficients),),
        measure=np.zeros(len(coefficients), dtype=np.intp), products=np.zeros((1, 1), dtype=np.intp),
        pairs=np.array(pairs, dtype=np.intp).reshape(-1, 2), binary=binary, z=z,
    )  # fmt: skip
    places = [(i, k, v) for i in range(3) for k, v in enumerate(TABLES.domain(i))]
    whole = np.array([(i, v, sum(true[t, i][k] for t in range(3))) for i, k, v in places])
    counted = (whole[:, 0], whole[:, 1:2].astype(np.int32), whole[:, 2])
    evidence = Evidence(rows=1, domains=(), totals=lambda units: counted, side={})
    return estimate(TABLES, evidence, observed, asked)


def totals(true, h):
    """sum of h over the true records, by output row."""
    out = np.zeros(2)
    for (t, i), counts in true.items():
        out[t // 2] += counts @ h[TABLES.domain(i)]
    return out


@given(
    st.integers(0, 10**6),
    st.lists(st.lists(st.integers(-3, 3), min_size=VALUES, max_size=VALUES), min_size=1, max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_expected_counts_give_back_the_truth(seed, rows):
    """No sampling: estimate(true @ C) is the true total for any coefficients."""
    true, H = world(seed), np.array(rows, dtype=float)
    found = ask(true, {k: c @ channel(k[1]) for k, c in true.items()}, H, binary=False)
    for f, h in enumerate(H):
        assert found.value[:, f] == pytest.approx(totals(true, h), rel=1e-9, abs=1e-6)


def exact_covariance(true, h1, h2):
    """Cov of the two estimates: weights w(y) = (h(y) - b) / p are drawn from each record's row of the channel."""
    out = np.zeros(2)
    for (t, i), counts in true.items():
        own1, own2, c, p, q = h1[TABLES.domain(i)], h2[TABLES.domain(i)], channel(i), TABLES.p[i], TABLES.q[i]
        w1, w2 = (own1 - q * own1.sum()) / p, (own2 - q * own2.sum()) / p
        out[t // 2] += counts @ (c @ (w1 * w2) - (c @ w1) * (c @ w2))
    return out


@pytest.mark.parametrize("binary", [True, False])
def test_variance_and_covariance_on_expected_counts(binary):
    true = world(7)
    H = np.array([[1, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 1], [1, 1, 1, 1, 0, 0]], dtype=float) * (1 if binary else 2.5)
    pairs = [(0, 1), (0, 2), (1, 2)]
    found = ask(true, {k: c @ channel(k[1]) for k, c in true.items()}, H, pairs, binary=binary)
    for f in range(3):
        assert found.variance[:, f] == pytest.approx(exact_covariance(true, H[f], H[f]), rel=1e-9)
    for k, (a, b) in enumerate(pairs):
        assert found.covariance[:, k] == pytest.approx(exact_covariance(true, H[a], H[b]), rel=1e-9)


def test_sub_tables_without_the_value_contribute_nothing():
    true = world(1)
    lonely = {k: c if k[1] != 1 else c * 1000 for k, c in true.items()}
    h = np.array([[1.0, 0, 0, 0, 0, 0]])  # sub-table 1 holds 1, 4, 5
    first, second = (ask(w, w, h) for w in (true, lonely))
    assert np.array_equal(first.value, second.value)
    assert np.array_equal(first.variance, second.variance)


def test_all_values_of_a_sub_table_count_exactly():
    true = world(2)
    found = ask(true, true, np.ones((1, VALUES)))
    assert found.value[:, 0] == pytest.approx(totals(true, np.ones(VALUES)))
    assert found.variance[:, 0] == pytest.approx([0, 0])


@pytest.mark.parametrize(
    ("p", "q", "n", "clipped", "inverted"),
    [(0.086, 0.054, 100, 0.910, 0.937), (0.086, 0.054, 300, 0.931, 0.938), (0.086, 0.054, 1000, 0.941, 0.943),
     (0.029, 0.019, 100, 0.917, 0.955), (0.029, 0.019, 300, 0.904, 0.931), (0.029, 0.019, 1000, 0.930, 0.938)],
)  # fmt: skip
def test_least_exact_coverage_of_two_intervals(p, q, n, clipped, inverted):
    """docs/explanation/uniform.md, section 6: every outcome enumerated, the least over f = 0 .. n/2, one sub-table.

    Answers use the inverted test for every count; the clipped normal interval stands beside it for comparison.
    """
    z, o = stats.norm.ppf(0.975), np.arange(n + 1)
    value = (o - q * n) / p
    v, k = count_cumulants(float(n), p, q)
    half = z * np.sqrt(v(np.clip(value, 0, n)))
    intervals = {"clipped": (value - half, value + half), "inverted": tail_interval(value, v, k, 0.05, 0.0, float(n))}
    least = {"clipped": 1.0, "inverted": 1.0}
    for f in range(n // 2 + 1):
        own, others = (stats.binom.pmf(np.arange(k + 1), k, r) for k, r in ((f, p + q), (n - f, q)))
        chance = np.convolve(own, others)
        for name, (low, high) in intervals.items():
            covers = (np.maximum(low, 0) <= f) & (np.minimum(high, n) >= f)
            least[name] = min(least[name], float(chance[covers].sum()))
    assert least["clipped"] == pytest.approx(clipped, abs=0.0005)
    assert least["inverted"] == pytest.approx(inverted, abs=0.0005)
