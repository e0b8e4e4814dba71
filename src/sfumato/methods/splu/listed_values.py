"""What a channel rebuilt from the published histogram adds to the variance of a question about several values.

The vector form of `rare_values.py`; derivation: docs/explanation/intervals.md section 5.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .decoy_channel import DecoyChannel
from .decoy_covariance import slope

Floats = NDArray[np.float64]


def rebuilt(channel: DecoyChannel, h: Floats, w: Floats, shown: Floats, all_rows: float) -> Floats:
    """- 2 j'S_P w + j'S j - a'(S - T) a for every condition, with `a` taken along h.

    `h` and its weights `w` are vectors over the values; columns of `shown` are the published sums inside a condition.
    S_P w = y w - M'(x^ h) and S = diag f' - M' diag(f') M, so that no table of values by values is built.
    """
    e, f, matrix = 1.0 / channel.size, channel.published[:, None], channel.matrix
    estimate = matrix.estimate(shown)
    j = slope(w[:, None] * shown, h[:, None] * estimate, w[:, None] * estimate, f, all_rows, e)
    # u'S_P w = sum u y w - sum (M u) x^ h
    through, along = matrix.forward(j), matrix.forward(h)
    cross = (j * shown * w[:, None]).sum(axis=0) - (through * estimate * h[:, None]).sum(axis=0)
    own = (j**2 * f).sum(axis=0) - (through**2 * f).sum(axis=0)
    # a = alpha h with alpha = h'(S_P w - S j) / h'S h
    inside = (shown * (w * h)[:, None]).sum(axis=0) - (estimate * (h * along)[:, None]).sum(axis=0)
    between = (f * h[:, None] * j).sum(axis=0) - (f * along[:, None] * through).sum(axis=0)
    published = f[:, 0]
    rows = float(published @ h**2 - published @ along**2)
    draws = float(published @ (h**2 - h * along))
    alpha = (inside - between) / rows if rows > 0 else np.zeros_like(inside)
    return np.asarray(-2.0 * cross + own - alpha**2 * (rows - draws))
