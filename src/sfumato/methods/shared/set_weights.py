"""The best weights for a given list of sets: a convex programme, solved by a barrier method with Newton steps.

    minimise tr(M^-1 G),  M = sum_Z c_Z u_Z u_Z' / (u_Z.pi),   over c >= 0 with sum_Z c_Z u_Z = 1

docs/explanation/set-channels.md, section 7, has why this is the whole problem. Every iterate satisfies the equations:
moving c by dc moves M by at most max |dc / c| M, so f and the barrier -sum log c go together and Newton's method needs
few steps.

Questions that look the same from both ends of the domain have a best channel that does, too. Then a set and its mirror
image share a weight, M falls into an even and an odd half, and the work is an eighth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg as sl

from .set_channel import Floats, Members

STEPS = 60  # of one solution; about fifteen are used
SHRINK = 0.15  # the barrier's weight from one centre to the next
CENTRED = 1.0  # Newton decrement, squared, at which a centre is near enough


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighing:
    """Weights, multipliers and what pricing needs; `value` = tr(M^-1 G)."""

    c: Floats  # (k,)
    lam: Floats  # (m,)
    Y: Floats  # M^-1 G M^-1
    value: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Point:
    """Weights with the value there and M^-1, half by half."""

    c: Floats
    value: float
    inverses: tuple[Floats, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightProgramme:
    """The programme for fixed questions, centred, and prior; `mirrored` where both look the same from either end."""

    gram: Floats
    prior: Floats
    excess: float  # gamma - 1
    mirrored: bool

    def solve(self, members: Members, c: Floats, gap: float, tolerance: float) -> Weighing:
        """The best weights of these sets from a feasible positive start, to within `tolerance` of the value.

        `gap`: how far from the best the start may be, relative; the barrier starts there.
        """
        halves = self.halves()
        u = 1 + self.excess * members
        p = u @ self.prior
        parts = tuple(u @ basis for basis in halves)
        grams = tuple(basis.T @ self.gram @ basis for basis in halves)
        point = _value(parts, grams, p, c)
        last = tolerance * point.value / len(c)
        mu = max(gap * point.value / len(c), last)
        for _ in range(STEPS):
            dc, lam, decrement = _newton(parts, grams, p, point, mu)
            if decrement < CENTRED:
                if mu <= last:
                    break
                mu = max(SHRINK * mu, last)
                continue
            point = _search(parts, grams, p, point, dc, mu, decrement)
        Y = sum(
            (
                basis @ (inv @ gram @ inv) @ basis.T
                for basis, inv, gram in zip(halves, point.inverses, grams, strict=True)
            ),
            np.zeros_like(self.gram),
        )
        return Weighing(c=point.c, lam=halves[0] @ lam, Y=Y, value=point.value)

    def halves(self) -> tuple[Floats, ...]:
        """Orthonormal bases: everything, or what mirroring keeps and what it turns round."""
        size = len(self.prior)
        one = np.eye(size)
        if not self.mirrored:
            return (one,)
        left = one[:, : size // 2]
        even, odd = (left + left[::-1]) / np.sqrt(2), (left - left[::-1]) / np.sqrt(2)
        return (np.column_stack([even, one[:, size // 2 : size - size // 2]]), odd)


def shares(members: Members, mirrored: bool) -> Floats:
    """(k, m): how much of each set's weight covers each value; a mirrored set shares its weight with its image."""
    return (members + members[:, ::-1].astype(np.float64)) / 2 if mirrored else members.astype(np.float64)


def feasible(covering: Floats, c: Floats, excess: float, singles: int) -> Floats:
    """Weights near `c` with sum of c u = 1 exactly: the singletons that lead the list fill what values lack.

    `covering` from `shares`; singleton x stands at position x, and with mirroring also for its image.
    """
    coverage = c @ covering
    lack = coverage.max() - coverage
    x = np.arange(singles)
    filled = c.copy()
    filled[:singles] += lack[:singles] / covering[x, x]
    return filled / (filled.sum() + excess * coverage.max())


def _value(parts: tuple[Floats, ...], grams: tuple[Floats, ...], p: Floats, c: Floats) -> _Point:
    value, inverses = 0.0, []
    for part, gram in zip(parts, grams, strict=True):
        inverse = np.linalg.inv((part * (c / p)[:, None]).T @ part)
        inverse = (inverse + inverse.T) / 2
        value += float((inverse * gram).sum())
        inverses.append(inverse)
    return _Point(c=c, value=value, inverses=tuple(inverses))


def _newton(
    parts: tuple[Floats, ...], grams: tuple[Floats, ...], p: Floats, at: _Point, mu: float
) -> tuple[Floats, Floats, float]:
    """(step, multipliers, decrement squared) for f / mu - sum log c on sum c u = 1."""
    # gradient -u'Yu / (u.pi), Hessian 2 (u'M^-1 v)(u'Y v) / ((u.pi)(v.pi)), here in the unknown dc / c: the barrier's
    # own part of the Hessian is then the identity
    c, k = at.c, len(at.c)
    hessian, slope = np.zeros((k, k)), np.ones(k)
    for part, gram, inverse in zip(parts, grams, at.inverses, strict=True):
        scaled = part * (c / p)[:, None]
        Y = inverse @ gram @ inverse
        shown = part @ Y
        slope += np.einsum("zx,zx->z", shown, scaled) / mu
        hessian += (scaled @ (inverse * (2 / mu)) @ scaled.T) * (shown @ part.T)
    hessian[np.diag_indices_from(hessian)] += 1.0
    factor = sl.cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
    rows = parts[0] * c[:, None]
    solved = sl.cho_solve(factor, np.column_stack([rows, slope]), check_finite=False)
    lam: Floats = np.linalg.solve(rows.T @ solved[:, :-1], rows.T @ solved[:, -1]).astype(np.float64, copy=False)
    relative = solved[:, -1] - solved[:, :-1] @ lam
    return c * relative, lam * mu, float(relative @ (slope - rows @ lam))


def _search(
    parts: tuple[Floats, ...], grams: tuple[Floats, ...], p: Floats, at: _Point, dc: Floats, mu: float, decrement: float
) -> _Point:
    """The point along the step that lowers f / mu - sum log c enough."""
    length = min(1.0, 0.95 / max(float((-dc / at.c).max()), 1e-300))
    while True:
        new = _value(parts, grams, p, at.c + length * dc)
        change = (new.value - at.value) / mu - float(np.log(new.c / at.c).sum())
        if change <= -0.1 * length * decrement or length < 1e-6:
            return new
        length /= 2
