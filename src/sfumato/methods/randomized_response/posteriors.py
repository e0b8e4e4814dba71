"""What three readers of a randomised release get, to be read beside `paper_risk`.

Each is a probability to name a person's sensitive value. The shares f of a group remain learnable from any release
whose estimates are consistent: that is a result of the release, not a failure of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...stats.kronecker import Floats, apply_maps
from .disclosure import View, channels_of


def baseline(v: View) -> float:
    """max_u pi_u: how often a reader without the release is right who names the most frequent value for everyone."""
    return float(v.shares.sum(axis=0).max())


def linking_posterior(v: View, thetas: Sequence[float]) -> Floats:
    """The mix of S a reader gets who weights the released rows by Pr(QI~ | QI of the target), per observed QI cell.

    Expectation over releases, S undone by its own inverse: keep = 1 gives f, keep = 1/d the marginal of S. Needs the
    grid.
    """
    if v.grid is None:
        raise ValueError("the linking posterior needs a grid of quasi-identifier cells")
    maps = channels_of(v.moving, thetas, v.sizes)
    s_axes = v.shares.shape[1:]
    flat = v.shares.reshape(len(v.shares), -1)
    out = np.empty_like(flat)
    den = np.asarray(apply_maps(maps, apply_maps(maps, v.grid))[tuple(v.place.T)])
    for u in range(flat.shape[1]):
        part = np.zeros_like(v.grid)
        np.add.at(part, tuple(v.place.T), flat[:, u])
        out[:, u] = apply_maps(maps, apply_maps(maps, part))[tuple(v.place.T)] / den
    return out.reshape(-1, *s_axes)


def record_posterior(v: View, thetas: Sequence[float]) -> float:
    """max Pr(S = u | S~ = w, QI) = f_u p_wu / sum_x f_x p_wx: a reader who located the released record."""
    if len(v.sensitive) != 1:
        raise ValueError("the record posterior is defined for one sensitive column")
    (s,) = v.sensitive
    d, theta, f = v.sizes[s], thetas[s], v.conditional
    if theta == 1.0:
        return 1.0
    q = (1.0 - theta) / d
    seen = theta * f + q  # Pr(S~ = w | QI)
    same = (theta + q) * f / seen  # u = w
    order = np.partition(f, f.shape[1] - 2, axis=1) if d > 1 else f
    best_other = np.where(f == order[:, -1:], order[:, -2:-1], order[:, -1:])
    other = q * best_other / seen  # the likeliest u other than w
    return float(max(same.max(), other.max()))
