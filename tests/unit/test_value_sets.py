"""The vector form of a rebuilt channel's variance, against tables of values by values."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.laws.decoy_channel import rebuild_channel
from sfumato.laws.decoy_estimate import rebuilt

PUBLISHED = np.array([900, 700, 600, 500, 400, 300, 200])


@pytest.mark.parametrize("chosen", [[0], [1, 4], [0, 2, 3, 6]])
def test_terms_written_out(chosen):
    channel = rebuild_channel(PUBLISHED, 3, seed=1)
    h = np.zeros(7)
    h[chosen] = 1
    f, N, e = PUBLISHED.astype(float), float(PUBLISHED.sum()), 1 / 3
    shown = np.array([[0.3, 0.6, 0.2, 0.5, 0.4, 0.5, 0.1], [0.9, 0.9, 0.1, 0.1, 0.9, 0.1, 0.2]]).T * f[:, None]
    M = channel.matrix.forward(np.eye(7))
    w = np.linalg.solve(M, h)
    found = rebuilt(channel, h, w, shown, N)
    S, T = np.diag(f) - M.T * f @ M, np.diag(f) @ (np.eye(7) - M)
    for column, y in enumerate(shown.T):
        x = np.linalg.solve(M.T, y)
        S_P = np.diag(y) - M.T * x @ M
        j = w * (y - x * e) / f + x * (h - w * e) / (N - f)
        alpha = h @ (S_P @ w - S @ j) / (h @ S @ h)
        expected = -2 * j @ S_P @ w + j @ S @ j - alpha**2 * h @ (S - T) @ h
        assert found[column] == pytest.approx(expected, rel=1e-8)


def test_all_rows_leave_the_noise_of_the_total():
    """P = everything: the plain variance and these terms add up to that of the total, nearly, in product form."""
    channel = rebuild_channel(np.arange(360, 480, 2), 12, seed=1)
    f = channel.published
    h = (np.arange(60) % 13 == 5).astype(float)
    w = channel.matrix.weights(h)
    plain = float(f @ w**2 - f @ h)
    found = plain + float(rebuilt(channel, h, w, f[:, None], float(f.sum()))[0])
    assert found == pytest.approx(float(channel.total_variance(h)), abs=0.02 * plain)
