"""The expected release: what the original table shows, pushed through a plan's channel, answered by the method itself.

Estimates and their variances are linear in what is observed (up to guards that do not act on expected counts), so the
answer of the expected release is the mean of the estimate, and its standard error the true one. Nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...model.public import Asked, Codes, Domain, Estimated, Evidence, Floats, Integers, Observed

Totals = Callable[[tuple[int, ...]], tuple[Integers, Codes, Any]]
Push = Callable[[Observed, Asked], Observed]
Estimate = Callable[[Evidence, Observed, Asked], Estimated]


def tensor(observed: Observed, V: int) -> Floats:
    """(moments, strata, joint values) of what was observed."""
    T, J = observed.strata, observed.moments.shape[1]
    flat = observed.stratum * V + observed.value
    sums = [np.bincount(flat, weights=observed.moments[:, j], minlength=T * V) for j in range(J)]
    return np.array(sums, dtype=np.float64).reshape(J, T, V)


def entries(observed: Observed, expected: Floats, part: int = 0) -> Observed:
    """The tensor as observed entries of one sub-table."""
    stratum, value = np.nonzero(expected.any(axis=0))
    return replace(
        observed,
        stratum=stratum,
        part=np.full(len(stratum), part, dtype=np.int64),
        value=value,
        moments=expected[:, stratum, value].T,
    )


def together(parts: list[Observed]) -> Observed:
    """Entries of several sub-tables as one."""
    return replace(
        parts[0],
        stratum=np.concatenate([p.stratum for p in parts]),
        part=np.concatenate([p.part for p in parts]),
        value=np.concatenate([p.value for p in parts]),
        moments=np.concatenate([p.moments for p in parts]),
    )


def pushed(
    push: Push,
    totals: Totals,
    estimate: Estimate,
    *,
    rows: int,
    domains: tuple[Domain, ...],
    side: Mapping[str, Any] | None = None,
) -> Callable[[Observed, Asked], Estimated]:
    """Answers of the expected release: observe the original, push it through the channel, estimate."""
    evidence = Evidence(rows=rows, domains=domains, totals=totals, side=side or {}, digest="0" * 64)
    return lambda observed, asked: estimate(evidence, push(observed, asked), asked)
