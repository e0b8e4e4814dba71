"""Which sets would make a channel better: the pricing step of the channel design.

With Y = M^-1 G M^-1 and multipliers lam, a set with levels u (gamma inside, 1 outside) helps exactly when
u'Yu / (u.pi) > lam.u (docs/explanation/set-channels.md, section 7). Few values: all sets are tried. More: from many
starts, the best single flip is taken until none helps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...stats.ties import NEAR, to_digits
from .set_channel import Floats, Members

ALL_SETS = 12  # up to so many values every set is tried, and the gap is certain


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prices:
    """What a set is worth at the present weights."""

    Y: Floats
    lam: Floats
    prior: Floats
    excess: float  # gamma - 1

    def worth(self, members: Members) -> Floats:
        """(u'Yu / (u.pi) - lam.u) / (u.pi) for each set: above 0 it helps; the largest of all bounds the optimum."""
        u = 1 + self.excess * members
        p = u @ self.prior
        return (np.einsum("zx,zx->z", u @ self.Y, u) / p - u @ self.lam) / p

    def climb(self, members: Members, flips: int) -> Members:
        """Each set after its best flips, one value in or out at a time, until none helps or `flips` are done."""
        sets = members.copy()
        active = np.arange(len(sets))
        u = 1 + self.excess * sets
        Yu = u @ self.Y
        square, p, cost = np.einsum("zx,zx->z", Yu, u), u @ self.prior, u @ self.lam
        held = sets.sum(axis=1)
        diagonal = np.diag(self.Y)
        for _ in range(flips):
            step = np.where(sets[active], -self.excess, self.excess)
            new_p = p[active, None] + step * self.prior
            new = (square[active, None] + step * (2 * Yu[active] + step * diagonal)) / new_p
            new = (new - cost[active, None] - step * self.lam) / new_p
            # never empty, never everything
            new[(held[active] == 1)[:, None] & sets[active]] = -np.inf
            new[(held[active] == sets.shape[1] - 1)[:, None] & ~sets[active]] = -np.inf
            x = (new >= (best := new.max(axis=1, keepdims=True)) - NEAR * np.abs(best)).argmax(axis=1)
            rows = np.arange(len(active))
            now = (square[active] / p[active] - cost[active]) / p[active]
            better = new[rows, x] > now + NEAR * np.abs(now)
            rows, x, active = rows[better], x[better], active[better]
            if not len(active):
                break
            d = step[rows, x]
            square[active] += d * (2 * Yu[active, x] + d * diagonal[x])
            p[active] += d * self.prior[x]
            cost[active] += d * self.lam[x]
            Yu[active] += d[:, None] * self.Y[x]
            held[active] += np.where(d > 0, 1, -1)
            sets[active, x] ^= True
        return sets


def every_set(size: int) -> Members:
    """All sets but the empty one and the whole domain."""
    number = np.arange(1, 2**size - 1)
    return (number[:, None] >> np.arange(size)) & 1 == 1


def distinct(members: Members) -> Members:
    """The sets, each once, in the order of first appearance."""
    _, first = np.unique(np.packbits(members, axis=1), axis=0, return_index=True)
    return members[np.sort(first)]


def square_root(matrix: Floats) -> Floats:
    """The symmetric root, which is one and the same whatever eigenvectors a processor finds for equal eigenvalues."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values = np.where(values > NEAR * values.max(), values, 0.0)
    return np.asarray((vectors * np.sqrt(values)) @ vectors.T, dtype=np.float64)


def cut_normals(covariance: Floats, count: int, gamma: float, rng: np.random.Generator) -> Members:
    """Random sets: the values where a normal vector of this covariance is largest, about 1 / (gamma + 1) of them."""
    drawn = to_digits(rng.standard_normal((count, len(covariance))) @ square_root(covariance), 9)
    # around the share that shows most of a record; a spread of thresholds gives sets of several sizes
    share = np.clip(1 / (gamma + 1) * np.exp(0.5 * rng.standard_normal(count)), 0.02, 0.98)
    order = np.argsort(-drawn, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(covariance))[None, :], axis=1)
    width = np.clip(np.rint(share * len(covariance)), 1, len(covariance) - 1)
    return ranks < width[:, None]
