"""Intervals for a ratio whose denominator is uncertain too: Fieller's set, answered whatever the denominator is.

The set of all R for which A - R B is no farther from 0 than z of its own standard errors,

    { R : (A - R B)^2 <= z^2 (Var A - 2 R Cov + R^2 Var B) },

keeps its level however near to zero the denominator lies, because nothing is selected by looking at it. The price: it
is unbounded where the denominator may be zero, and then only its part among the possible ratios is told. Why no rule
can do better: docs/explanation/intervals.md section 6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.stats.tail_inversion import cut

Floats = NDArray[np.float64]

AGREE = 1e-9  # a covariance nearer than this to the largest possible one is not believed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ratios:
    """Ends of the intervals; where not `bounded` the denominator may be zero and there is no estimate to trust."""

    low: Floats
    high: Floats
    bounded: NDArray[np.bool_]


def fieller(
    top: Floats,
    bottom: Floats,
    top_variance: Floats,
    covariance: Floats,
    bottom_variance: Floats,
    z: float,
    least: Floats | float,
    most: Floats | float,
) -> Ratios:
    """Fieller's set for top / bottom inside [least, most], element by element.

    A bounded set is cut so that it is never a point. Of an unbounded one the hull of its possible part is given, the
    whole range if no ratio in it agrees with the estimates.
    """
    given = (top, bottom, top_variance, covariance, bottom_variance, least, most)
    A, B, VA, C, VB, least, most = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in given))
    # Estimated moments may contradict each other; then the errors are taken as independent. Errors that are opposed, as
    # those of two parts of a known total are, make the ratio less certain and are believed.
    beyond = C**2 >= (1.0 - AGREE) * VA * VB
    C = np.where(beyond, np.where(C * A * B < 0, np.sign(C) * np.sqrt(VA * VB), 0.0), C)
    # qa R^2 - 2 qb R + qc <= 0
    qa, qb, qc = B**2 - z**2 * VB, A * B - z**2 * C, A**2 - z**2 * VA
    root = np.sqrt(np.maximum(qb**2 - qa * qc, 0.0))
    real = qb**2 > qa * qc
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        one, other = (qb - root) / qa, (qb + root) / qa
        line = qc / (2.0 * qb)  # the only root where qa = 0
    first, second = np.minimum(one, other), np.maximum(one, other)
    bounded = (qa > 0) & (B > 0)
    low, high = cut(np.where(bounded, first, 0.0), np.where(bounded, second, 0.0), least, most)
    # qa < 0: everything outside (first, second). qa = 0: what lies on one side of `line`.
    flat = qa == 0
    lower_end = np.where(flat, np.where(qb < 0, line, -np.inf), first)  # the set reaches from -inf to here ...
    upper_end = np.where(flat, np.where(qb > 0, line, np.inf), second)  # ... and from here to inf
    everything = (qa > 0) | ~(real | flat) | (flat & (qb == 0))
    from_low = np.where((least <= lower_end) | everything, least, np.maximum(upper_end, least))
    to_high = np.where((most >= upper_end) | everything, most, np.minimum(lower_end, most))
    empty = (from_low > most) | (to_high < least) | (from_low >= to_high)  # or the set only touches the range
    from_low, to_high = np.where(empty, least, from_low), np.where(empty, most, to_high)
    return Ratios(low=np.where(bounded, low, from_low), high=np.where(bounded, high, to_high), bounded=bounded)
