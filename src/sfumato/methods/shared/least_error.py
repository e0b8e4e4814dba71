"""The least error that amplification gamma allows: no channel and no unbiased weights do better.

Statement and proof: docs/explanation/set-channels.md, section 3.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from .set_lists import best_width, least_variance

Floats = NDArray[np.float64]


def reach(gamma: Fraction) -> Fraction:
    """tau = (gamma - 1)^2 / (4 gamma): what a channel of amplification gamma can show of a record, for any prior."""
    return (gamma - 1) ** 2 / (4 * gamma)


def flat_reach(size: int, gamma: Fraction) -> Fraction:
    """tau_m = max over w of (gamma - 1)^2 w (m - w) / (m + (gamma - 1) w)^2: the sharper number for a flat prior."""
    w = best_width(size, gamma)  # the same w makes the variance least
    return (gamma - 1) ** 2 * w * (size - w) / (size + (gamma - 1) * w) ** 2


def least_histogram(size: int, gamma: Fraction) -> Fraction:
    """The least total variance per record of all m counts, flat prior, exactly: all best subsets reach it."""
    return Fraction((size - 1) ** 2, size) / flat_reach(size, gamma) - Fraction(size - 1, size)


def least_total(gram: Floats, gamma: Fraction, prior: Floats | None = None) -> float:
    """A bound from below on the total variance per record of the questions W, G = W'W, over all channels.

    Mean over true values by `prior` (flat where None). 0 where the bound says nothing.
    """
    size = len(gram)
    pi = np.full(size, 1 / size) if prior is None else prior
    tau = float(flat_reach(size, gamma) if _flat(pi) else reach(gamma))
    return spread_bound(singular_values(gram, pi), tau)


def singular_values(gram: Floats, prior: Floats) -> Floats:
    """s: the singular values of W diag(pi)^1/2 (I - r r'), r = sqrt(pi), largest first; m - 1 of them."""
    r = np.sqrt(prior)
    inner = r[:, None] * gram * r
    inner = inner - np.outer(r, r @ inner)
    inner = inner - np.outer(inner @ r, r)
    found = np.linalg.eigvalsh((inner + inner.T) / 2)[::-1][: len(prior) - 1]
    return np.sqrt(np.maximum(found, 0.0))


def spread_bound(s: Floats, tau: float) -> float:
    """The least of sum s^2 / lam - s^2 over 0 < lam <= 1 with sum of lam at most tau; `s` descending.

    Without the cap lam is proportional to s: (sum s)^2 / tau - sum s^2. Where one would pass 1 it stays at 1 and adds
    nothing; the rest of tau spreads over the others.
    """
    s = s[s > s[0] * 1e-12] if len(s) and s[0] > 0 else s[:0]
    for capped in range(len(s)):
        rest, left = s[capped:], tau - capped
        if left > 0 and left * rest[0] <= rest.sum():  # lam of the largest = left * s / sum
            return float(rest.sum() ** 2 / left - (rest**2).sum())
    return 0.0


def times_least(total: float, least: float) -> float:
    """Standard error of a release over that of the bound: 1 is the best possible; infinite where the bound is 0."""
    return float(np.sqrt(total / least)) if least > 0 else float("inf")


def least_partition(rho1: Fraction, rho2: Fraction, cap: Fraction, *, rows_per_person: int = 1) -> Fraction:
    """The least total variance per record for any partition into sub-tables that strict `small-domain` may choose.

    In a sub-table of m protected values the most frequent holds at least 1/m of the records, so its gamma, to the power
    of the rows of a person, is at most rho2 (m - 1) / (1 - rho2); and at most `cap`, the root of gamma(rho1, rho2), at
    which all sub-tables run where a person has several rows. Beyond ceil(1 / rho1) values gamma stays at the cap and
    the variance only grows: the least is found among 2..ceil(1 / rho1).
    """
    largest = max(2, -int(-1 / rho1 // 1))
    own = ((m, rho2 * (m - 1) / (1 - rho2)) for m in range(2, largest + 1))
    if rows_per_person > 1:
        return min(least_variance(m, cap) for m, gamma in own if gamma >= cap**rows_per_person)
    return min(least_variance(m, min(cap, gamma)) for m, gamma in own if gamma > 1)


def least_sized_partition(
    rho1: Fraction,
    rho2: Fraction,
    cap: Fraction,
    *,
    values: int,
    rows: int,
    min_size: int,
    rows_per_person: int = 1,
) -> Fraction:
    """The same where all of `values` occur and sub-tables hold at least `min_size` of the `rows` records.

    U(m) = (m - 2 + 1/m) / tau - 1 + 1/m is convex, at most V(m) and rising where it is above 0, and sum n_i m_i >=
    min_size * values, so that there sum n_i U(m_i) >= n U(min_size * values / n) (docs/explanation/set-channels.md, 6).
    """
    least = least_partition(rho1, rho2, cap, rows_per_person=rows_per_person)
    mean = Fraction(min(min_size, rows) * values, rows)
    if mean <= 1:
        return least
    return max(least, (mean - 2 + 1 / mean) / reach(cap) - 1 + 1 / mean)


def _flat(prior: Floats) -> bool:
    return bool(np.ptp(prior) <= 1e-12 * prior.max())
