"""Estimates from decoy releases, exact on expected counts, and the paper's reconstruction beside them."""

import numpy as np
import pytest
from benchmarks import decoy_counts

from sfumato.laws import decoy_estimate as de
from sfumato.laws.decoy_channel import closed_form_channel
from sfumato.laws.decoy_estimate import iterate, rate, two_state

SHARES = np.exp(-0.06 * np.arange(30))
COUNTS = np.floor(SHARES / SHARES.sum() * 50_000).astype(np.int64)
INSIDE = np.round(COUNTS * np.linspace(0.05, 0.6, 30))  # the condition leans to rare values


@pytest.fixture(scope="module")
def channel():
    return closed_form_channel(np.arange(30), COUNTS, 5)


def expected(channel, inside):
    """Published counts in expectation: M^T x."""
    return channel.matrix.forward(np.eye(30)).T @ inside


def test_expected_counts_give_the_truth(channel):
    found = decoy_counts.calibrated_counts(channel, expected(channel, INSIDE))
    assert found.value == pytest.approx(INSIDE)
    assert (found.variance > 0).all()


def test_variance_in_expectation(channel):
    """E V_s = sum_u x_u (sum_j M_uj B_sj^2 - [u = s]), the variance of independent rows."""
    M = channel.matrix.forward(np.eye(30))
    B = np.linalg.inv(M.T)
    exact = (M @ (B**2).T).T @ INSIDE - INSIDE
    assert decoy_counts.counts(channel, expected(channel, INSIDE)).variance == pytest.approx(exact)


def test_everything_and_nothing(channel):
    whole = decoy_counts.calibrated_counts(channel, channel.counts)
    assert whole.value == pytest.approx(COUNTS)
    assert whole.variance == pytest.approx(COUNTS * 0.8)
    none = decoy_counts.calibrated_counts(channel, np.zeros(30))
    assert none.value == pytest.approx(0)
    assert none.variance == pytest.approx(0)


def test_calibration_weighs_by_variance():
    """docs/explanation/splu.md, section 5.2, with V_P = 1, V_rest = 3, total 100 of variance 4: w = 1/4."""
    one = np.ones(1)
    inside = de.Estimates(value=10 * one, variance=one)
    whole = de.Whole(value=90 * one, variance=4 * one, total=100 * one, total_variance=4 * one)
    found = de.calibrate(inside, one, whole)
    assert found.value == pytest.approx(10 + 0.25 * 10)
    assert found.variance == pytest.approx(0.75**2 * 1 + 0.25**2 * (3 + 4))


def test_two_columns_are_the_kronecker_form():
    first = closed_form_channel(np.arange(6), np.array([900, 800, 700, 600, 500, 500]), 3)
    second = closed_form_channel(np.arange(4), np.array([1200, 1000, 1000, 800]), 2)
    M1, M2 = first.matrix.forward(np.eye(6)), second.matrix.forward(np.eye(4))
    X = np.random.default_rng(1).integers(10, 99, (6, 4)).astype(float)
    Y = M1.T @ X @ M2
    found = decoy_counts.joint_counts(first, second, Y)
    B = np.linalg.inv(np.kron(M1, M2).T)
    assert found.value == pytest.approx(X)
    assert found.variance.ravel() == pytest.approx((B**2) @ Y.ravel() - X.ravel())
    coefficients = np.zeros((6, 4))
    coefficients[2, 1] = coefficients[3, 0] = 1
    weights = de.DecoyWeights((first, second)).of(coefficients)
    assert weights.ravel() == pytest.approx(B.T @ coefficients.ravel())
    assert (weights * Y).sum() == pytest.approx(X[2, 1] + X[3, 0])


class TestPaperReconstruction:
    """docs/explanation/splu.md, section 8: expected counts, size 5, f / N = 0.05, P everything."""

    Y = np.array([0, 0, 95_000, 5_000.0])

    def test_paper_stops_early_and_converges_to_a_bias(self):
        stopped, converged = iterate(self.Y, (5,), "paper"), iterate(self.Y, (5,), "paper", stop=1e-12)
        assert stopped.states[3] / 5000 - 1 == pytest.approx(-0.083, abs=1e-3)
        assert converged.states[3] / 5000 - 1 == pytest.approx(-0.136, abs=1e-3)

    @pytest.mark.parametrize(("size", "share", "bias"), [(5, 0.001, -0.166), (10, 0.001, -0.090), (10, 0.05, -0.050)])
    def test_bias_of_the_papers_rate(self, size, share, bias):
        """docs/explanation/splu.md, section 8."""
        f = share * 100_000
        found = iterate(np.array([0, 0, 100_000 - f, f]), (size,), "paper", stop=1e-12)
        assert found.states[3] / f - 1 == pytest.approx(bias, abs=6e-4)

    def test_corrected_has_none(self):
        assert iterate(self.Y, (5,), "corrected").states[3] == pytest.approx(5000, rel=1e-6)

    def test_corrected_limit_is_the_closed_form(self):
        truth = np.array([70_000.0, 8_000, 20_000, 2_000])
        a = rate(10_000, 100_000, 5, "corrected")
        step = np.kron(np.eye(2), [[1 - a, a], [0.8, 0.2]])
        y = truth @ step
        assert iterate(y, (5,), "corrected", stop=1e-12).states == pytest.approx(truth, rel=1e-6)
        value, variance = two_state(10_000, y[3], 22_000, 100_000, 5)
        assert value == pytest.approx(2_000)
        assert variance > 0

    def test_two_columns(self):
        truth = np.arange(1, 9) * 1000.0
        f1, f2 = truth[[2, 3, 6, 7]].sum(), truth[[1, 3, 5, 7]].sum()
        a1, a2 = (rate(f, truth.sum(), size, "corrected") for f, size in ((f1, 3), (f2, 2)))
        step = np.kron(np.kron(np.eye(2), [[1 - a1, a1], [2 / 3, 1 / 3]]), [[1 - a2, a2], [0.5, 0.5]])
        y = truth @ step
        assert y.sum() == pytest.approx(truth.sum())
        found = iterate(y, (3, 2), "corrected", rounds=200)
        assert found.states.sum() == pytest.approx(truth.sum())

    def test_an_empty_state_stays_empty(self):
        found = iterate(np.array([50.0, 0, 30, 20]), (5,), "corrected", rounds=1000)
        assert found.states[1] == 0
        assert found.rounds <= 1000

    def test_questions_side_by_side(self):
        together = iterate(np.stack([self.Y, [50.0, 10, 30, 20]]), (5,), "paper")
        for k, y in enumerate((self.Y, np.array([50.0, 10, 30, 20]))):
            alone = iterate(y, (5,), "paper")
            assert together.states[k] == pytest.approx(alone.states)
            assert together.rounds[k] == alone.rounds
