"""Disclosure risk against the literal sums, the paper's example, and brute-force posteriors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from adult_table import EMGRW, adult, cells_of
from sfumato.methods.randomized_response.risk import (
    RiskCells,
    epsilon,
    infimum,
    linking_posterior,
    max_risk,
    paper_risk,
    quasi_reconstruction,
    reconstruction,
    reconstruction_bound,
    record_posterior,
    round_up,
    view,
    views,
)
from sfumato.stats.kronecker import channel, theta_of_keep


def cells_from(tensor) -> RiskCells:
    where = np.argwhere(tensor > 0)
    return RiskCells(codes=where, true_counts=tensor[tuple(where.T)].astype(np.int64), sizes=tensor.shape)


def dense(theta, d):
    return np.eye(d) if theta == 1 else channel(theta, d).dense()


def literal_risk(pi, thetas):
    """Equations 6 to 8 with their loops; pi has S last."""
    sizes = pi.shape
    P = [dense(t, d) for t, d in zip(thetas, sizes, strict=True)]
    quasi = list(itertools.product(*[range(d) for d in sizes[:-1]]))
    pi_q = {a: pi[a].sum() for a in quasi}

    def prob(b, a):
        return math.prod(P[i][b[i], a[i]] for i in range(len(a)))

    out = np.zeros_like(pi)
    for a in quasi:
        if pi_q[a] == 0:
            continue
        eta = sum(pi_q[a] * prob(b, a) ** 2 / sum(pi_q[g] * prob(b, g) for g in quasi) for b in quasi if prob(b, a) > 0)
        for u in range(sizes[-1]):
            if pi[a][u] == 0:
                continue
            rho = sum(
                P[-1][v, u] ** 2 * pi[a][u] / sum(P[-1][v, w] * pi[a][w] for w in range(sizes[-1]))
                for v in range(sizes[-1])
                if P[-1][v, u] > 0
            )
            out[a][u] = pi[a][u] / pi_q[a] * eta * rho
    return out


@pytest.mark.parametrize("thetas", [(0.4, 0.6, 0.5), (1.0, 0.6, 1.0), (1.0, 1.0, 0.3), (0.2, 1.0, 0.9)])
def test_risk_equals_the_literal_sums(thetas) -> None:
    counts = np.random.default_rng(3).integers(0, 5, size=(2, 3, 3))
    counts[0, 1] = 0  # an empty QI cell
    v = view(cells_from(counts), quasi=[0, 1], sensitive=[2], randomised=[t < 1 for t in thetas])
    expected = literal_risk(counts / counts.sum(), thetas)
    np.testing.assert_allclose(paper_risk(v, thetas), expected[tuple(v.quasi_codes.T)], rtol=1e-12)


def test_the_papers_example() -> None:
    """pi_10 = .12, pi_1+ = .28: .4286 untouched, .1837 at p_s = 1/3, .12 at p_G = 1/2, .0514 at both."""
    cells = cells_from(np.array([[30, 22, 20], [12, 10, 6]]))
    for randomised, limit in [
        ((False, False), 0.4286),
        ((False, True), 0.1837),
        ((True, False), 0.12),
        ((True, True), 0.0514),
    ]:
        v = view(cells, quasi=[0], sensitive=[1], randomised=randomised)
        risk = paper_risk(v, [0.0 if r else 1.0 for r in randomised])
        assert risk[1, 0] == pytest.approx(limit, abs=5e-5)


def test_infima_are_the_closed_forms() -> None:
    """S: max f^2; QI: max pi_{QI,S}; BOTH: max pi_{QI,S}^2 / pi_QI."""
    counts = np.random.default_rng(5).integers(0, 9, size=(3, 2, 4))
    pi = counts / counts.sum()
    f = np.divide(pi, pi.sum(-1, keepdims=True), out=np.zeros_like(pi), where=pi.sum(-1, keepdims=True) > 0)
    for randomised, closed in [
        ((False, False, True), (f**2).max()),
        ((True, True, False), pi.max()),
        ((True, True, True), (pi * f).max()),
    ]:
        v = views(cells_from(counts), quasi=[0, 1], sensitive=[2], randomised=randomised)
        assert infimum(v, randomised) == pytest.approx(closed, rel=1e-12)


def test_risk_never_falls_when_a_keep_rises() -> None:
    rng = np.random.default_rng(8)
    counts = rng.integers(0, 6, size=(3, 4, 3))
    v = view(cells_from(counts), quasi=[0, 1], sensitive=[2], randomised=[True] * 3)
    for _ in range(100):
        low = rng.uniform(0, 1, 3)
        high = low + (1 - low) * rng.uniform(0, 1, 3) * (rng.random(3) < 0.5)
        assert (paper_risk(v, high) - paper_risk(v, low)).min() > -1e-12


def test_gradient_of_the_reconstruction_is_its_slope() -> None:
    rng = np.random.default_rng(2)
    pi, thetas, h = rng.dirichlet(np.ones(24)).reshape(2, 3, 4), [0.3, 0.6, 0.8], 1e-6
    _, slopes = reconstruction(pi, [0, 1, 2], thetas, pi.shape, gradient=True)
    for i in range(3):
        up, down = list(thetas), list(thetas)
        up[i] += h
        down[i] -= h
        difference = (
            reconstruction(pi, [0, 1, 2], up, pi.shape)[0] - reconstruction(pi, [0, 1, 2], down, pi.shape)[0]
        ) / (2 * h)
        np.testing.assert_allclose(slopes[i], difference, atol=1e-8)


def test_bound_is_an_upper_bound_and_reaches_both_ends() -> None:
    rng = np.random.default_rng(4)
    counts = rng.integers(0, 6, size=(3, 4, 2))
    v = view(cells_from(counts), quasi=[0, 1], sensitive=[2], randomised=[True] * 3)
    for _ in range(50):
        thetas = [*rng.uniform(0.01, 0.99, 2), 1.0]
        log_odds = sum(epsilon(t, d) for t, d in zip(thetas[:2], (3, 4), strict=True))
        assert (reconstruction_bound(v.quasi_shares, log_odds) - quasi_reconstruction(v, thetas)).min() > -1e-12
    np.testing.assert_allclose(reconstruction_bound(v.quasi_shares, 0.0), v.quasi_shares)
    assert reconstruction_bound(v.quasi_shares, math.inf).min() == 1.0


def test_too_many_cells_use_the_bound() -> None:
    counts = np.random.default_rng(6).integers(0, 4, size=(4, 5, 3))
    thetas = [0.5, 0.4, 1.0]
    arguments = {"quasi": [0, 1], "sensitive": [2], "randomised": [True, True, False]}
    exact = view(cells_from(counts), **arguments)
    coarse = view(cells_from(counts), **arguments, cell_limit=10)
    assert coarse.grid is None
    assert (paper_risk(coarse, thetas) - paper_risk(exact, thetas)).min() > -1e-12


def test_several_sensitive_columns_each_with_the_others_known_and_jointly() -> None:
    counts = np.random.default_rng(9).integers(0, 5, size=(3, 2, 3))
    thetas = (0.5, 0.6, 0.7)
    vs = views(cells_from(counts), quasi=[0], sensitive=[1, 2], randomised=[True] * 3)
    assert [v.sensitive for v in vs] == [(1,), (2,), (1, 2)]
    pi = counts / counts.sum()
    one = literal_risk(pi, thetas)  # S = column 2, QI = 0 and 1
    assert paper_risk(vs[1], thetas).max() == pytest.approx(one.max(), rel=1e-12)
    other = literal_risk(pi.transpose(0, 2, 1), (0.5, 0.7, 0.6))
    assert paper_risk(vs[0], thetas).max() == pytest.approx(other.max(), rel=1e-12)
    # jointly: S is the pair, its channel the Kronecker product
    K = np.kron(dense(0.6, 2), dense(0.7, 3))
    flat = pi.reshape(3, 6)
    rho = np.array(
        [[sum(K[v, u] ** 2 * flat[a, u] / (K[v] @ flat[a]) for v in range(6)) for u in range(6)] for a in range(3)]
    )
    pi_q = flat.sum(1)
    Q = dense(0.5, 3)
    eta = np.array([sum(pi_q[a] * Q[b, a] ** 2 / (Q[b] @ pi_q) for b in range(3)) for a in range(3)])
    expected = flat / pi_q[:, None] * eta[:, None] * rho
    np.testing.assert_allclose(paper_risk(vs[2], thetas).reshape(3, 6), expected, rtol=1e-12)
    assert max_risk(vs, thetas) == pytest.approx(max(one.max(), other.max(), expected.max()), rel=1e-8)


def test_linking_posterior_runs_from_the_cell_to_the_marginal() -> None:
    counts = np.random.default_rng(7).integers(1, 9, size=(3, 2, 4))
    v = view(cells_from(counts), quasi=[0, 1], sensitive=[2], randomised=[True, True, False])
    np.testing.assert_allclose(linking_posterior(v, [1.0, 1.0, 1.0]), v.conditional, rtol=1e-12)
    marginal = counts.sum((0, 1)) / counts.sum()
    np.testing.assert_allclose(linking_posterior(v, [0.0, 0.0, 1.0]), np.tile(marginal, (6, 1)), rtol=1e-12)


def test_record_posterior_is_the_largest_of_all() -> None:
    rng = np.random.default_rng(11)
    counts = rng.integers(0, 9, size=(4, 5))
    counts[:, 0] += 1
    v = view(cells_from(counts), quasi=[0], sensitive=[1], randomised=[False, True])
    for theta in (0.05, 0.3, 0.9):
        P = dense(theta, 5)
        f = counts / counts.sum(1, keepdims=True)
        brute = max(f[a, u] * P[w, u] / (P[w] @ f[a]) for a in range(4) for u in range(5) for w in range(5))
        assert record_posterior(v, [1.0, theta]) == pytest.approx(brute, rel=1e-12)
    assert record_posterior(v, [1.0, 1.0]) == 1.0


def test_epsilon_rounds_up() -> None:
    theta = theta_of_keep(0.65, 7)
    exact = math.log(0.65 / (0.35 / 6))
    assert epsilon(theta, 7) == pytest.approx(exact, rel=1e-12)
    assert exact <= round_up(epsilon(theta, 7)) < exact + 1.01e-4
    assert epsilon(1.0, 7) == math.inf == round_up(math.inf)
    assert epsilon(1.0, 1) == 0.0


def test_adult_facts() -> None:
    """Homogeneous cells, infima, and the reader the paper's measure leaves out (l = 5)."""
    cells = cells_of(adult(), EMGRW)
    assert cells.rows == 30_162
    make = {"quasi": [0, 1, 2, 3], "sensitive": [4]}
    v = view(cells, **make, randomised=[True] * 5)
    assert len(v.shares) == 603
    assert (v.conditional.max(1) == 1).sum() == 283
    for scope, low in [((0, 0, 0, 0, 1), 1.0), ((1, 1, 1, 1, 0), 0.0872), ((1, 1, 1, 1, 1), 0.0619)]:
        randomised = [bool(s) for s in scope]
        assert infimum(views(cells, **make, randomised=randomised), randomised) == pytest.approx(low, abs=5e-5)
    published = [theta_of_keep(p, d) for p, d in zip((0.314, 0.615, 0.873, 0.938, 1), cells.sizes, strict=True)]
    linked = linking_posterior(v, published)
    assert v.shares[linked > 0.2].sum() == pytest.approx(0.739, abs=5e-4)
    assert linked.max() == pytest.approx(0.83, abs=5e-3)
    assert (v.shares * linked).sum() == pytest.approx(0.57, abs=5e-3)
    assert v.shares.sum(axis=0).max() == pytest.approx(0.739, abs=5e-4)  # the baseline


def test_published_parameters_have_the_stated_risk_on_the_training_rows_only() -> None:
    """All eight vectors of docs/explanation/randomized-response.md, section 8."""
    published = {
        "qi": [
            (0.824, 0.872, 0.920, 0.941),
            (0.548, 0.812, 0.898, 0.985),
            (0.382, 0.736, 0.918, 0.961),
            (0.314, 0.615, 0.873, 0.938),
        ],
        "both": [
            (0.824, 0.872, 0.920, 0.941, 1),
            (0.573, 0.821, 0.913, 0.973, 0.955),
            (0.428, 0.780, 0.926, 0.953, 0.871),
            (0.353, 0.688, 0.902, 0.953, 0.813),
        ],
    }
    expected = {
        (True, "qi"): (0.5001, 0.3335, 0.2503, 0.2000),
        (True, "both"): (0.5001, 0.3333, 0.2501, 0.1999),
        (False, "qi"): (0.5024, 0.3459, 0.2560, 0.2005),
        (False, "both"): (0.5024, 0.3459, 0.2631, 0.2023),
    }
    for (training, scope), risks in expected.items():
        cells = cells_of(adult(training), EMGRW)
        v = view(cells, quasi=[0, 1, 2, 3], sensitive=[4], randomised=[True] * 5)
        for keep, risk in zip(published[scope], risks, strict=True):
            thetas = [theta_of_keep(p, d) for p, d in zip((*keep, 1.0)[:5], cells.sizes, strict=True)]
            assert paper_risk(v, thetas).max() == pytest.approx(risk, abs=5.001e-5)
