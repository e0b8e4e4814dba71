"""Standard errors that a plan's answers will have, before anything is published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.stats.partitioning import Partition

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedError:
    """Standard errors of the estimated totals, by code of the declared domain; 0 for values that do not occur."""

    total: Floats

    def conditioned(self, share: float) -> Floats:
        """Standard errors of each value's count among a `share` of the rows that leaves the proportions alone.

        Every term of the variance is proportional to the rows asked about, so the root of the share comes out.
        """
        return self.total * np.sqrt(share)


def predict_error(plan: Partition) -> PredictedError:
    """The standard error of every value's estimated total under `plan`.

    Var = sum over sub-tables with the value of [f (p+q)(1-p-q) + (n-f) q (1-q)] / p^2   [pp.md, section 7]
    """
    variance = np.zeros(plan.protected.size)
    for table in plan.sub_tables:
        p, q = (float(x) for x in table.keep_probabilities)
        f, n = table.true_counts, table.size
        variance[table.values] += (f * (p + q) * (1 - p - q) + (n - f) * q * (1 - q)) / p**2
    return PredictedError(total=np.sqrt(variance))
