"""The best weights for a given list of sets: a convex programme, solved by a barrier method with Newton steps.

    minimise tr(M^-1 G),  M = sum_Z c_Z u_Z u_Z' / (u_Z.pi),   over c >= 0 with sum_Z c_Z u_Z = 1

docs/explanation/set-channels.md, section 7, has why this is the whole problem. Every iterate satisfies the equations:
moving c by dc moves M by at most max |dc / c| M, so f and the barrier -sum log c go together and Newton's method needs
few steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl

from .set_channel import Floats, Members

STEPS = 60  # of one solution; about fifteen are used
SHRINK = 0.15  # the barrier's weight from one centre to the next
CENTRED = 0.3  # Newton decrement, squared, at which a centre is near enough


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighing:
    """Weights, multipliers and what pricing needs; `value` = tr(M^-1 G)."""

    c: Floats  # (k,)
    lam: Floats  # (m,)
    Y: Floats  # M^-1 G M^-1
    value: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeightProgramme:
    """The programme for fixed questions and prior. `gram` should be centred."""

    gram: Floats
    prior: Floats
    excess: float  # gamma - 1

    def solve(self, members: Members, c: Floats, gap: float, tolerance: float) -> Weighing:
        """The best weights of these sets from a feasible positive start, to within `tolerance` of the value.

        `gap`: how far from the best the start may be, relative; the barrier starts there.
        """
        u = 1 + self.excess * members
        p = u @ self.prior
        scaled = u / p[:, None]
        value, inverse = self._value(u, p, c)
        mu = max(gap, tolerance) * value / len(c)
        last = tolerance * value / len(c)
        for _ in range(STEPS):
            Y = inverse @ self.gram @ inverse
            gradient = -np.einsum("zx,zx->z", scaled @ Y, u)
            dc, lam, decrement = self._newton(u, scaled, c, inverse, Y, gradient, mu)
            if decrement < CENTRED:
                if mu <= last:
                    break
                mu = max(SHRINK * mu, last)
                dc, lam, decrement = self._newton(u, scaled, c, inverse, Y, gradient, mu)
            c, value, inverse = self._search(u, p, c, dc, value, mu, decrement)
        return Weighing(c=c, lam=lam, Y=inverse @ self.gram @ inverse, value=value)

    def _value(self, u: Floats, p: Floats, c: Floats) -> tuple[float, Floats]:
        inverse = np.linalg.inv((u * (c / p)[:, None]).T @ u)
        inverse = (inverse + inverse.T) / 2
        return float((inverse * self.gram).sum()), inverse

    def _newton(
        self, u: Floats, scaled: Floats, c: Floats, inverse: Floats, Y: Floats, gradient: Floats, mu: float
    ) -> tuple[Floats, Floats, float]:
        """(step, multipliers, decrement squared) for f / mu - sum log c on sum c u = 1."""
        # H = 2 (u'M^-1 v)(u'Y v) / ((u.pi)(v.pi)); in the unknown dc / c, so that the barrier's part is the identity
        left = scaled * c[:, None]
        hessian = (left @ inverse @ left.T) * (u @ Y @ u.T)
        hessian *= 2 / mu
        hessian[np.diag_indices_from(hessian)] += 1.0
        factor = sl.cho_factor(hessian, lower=True, overwrite_a=True, check_finite=False)
        slope = 1 - c * gradient / mu
        rows = u * c[:, None]
        solved = sl.cho_solve(factor, np.column_stack([rows, slope]), check_finite=False)
        lam = np.linalg.solve(rows.T @ solved[:, :-1], rows.T @ solved[:, -1])
        relative = solved[:, -1] - solved[:, :-1] @ lam
        return c * relative, lam * mu, float(relative @ (slope - rows @ lam))

    def _search(
        self, u: Floats, p: Floats, c: Floats, dc: Floats, value: float, mu: float, decrement: float
    ) -> tuple[Floats, float, Floats]:
        """The point along the step that lowers f / mu - sum log c enough, with its value and M^-1."""
        length = min(1.0, 0.95 / max(float((-dc / c).max()), 1e-300))
        while True:
            new = c + length * dc
            found, inverse = self._value(u, p, new)
            change = (found - value) / mu - float(np.log(new / c).sum())
            if change <= -0.1 * length * decrement or length < 1e-6:
                return new, found, inverse
            length /= 2


def feasible(members: Members, c: Floats, excess: float) -> Floats:
    """Weights near `c` with sum of c u = 1 exactly: singletons, which must lead the list, fill what values lack."""
    size = members.shape[1]
    coverage = c @ members
    filled = c.copy()
    filled[:size] += coverage.max() - coverage
    return filled / (filled.sum() + excess * coverage.max())
