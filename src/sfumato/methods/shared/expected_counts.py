"""The expected release: what the original table shows, pushed through a plan's channel, answered by the method itself.

Estimates and their variances are linear in what is observed (up to guards that do not act on expected counts), so the
answer of the expected release is the mean of the estimate, and its standard error the true one. Nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...model.public import Asked, Codes, Domain, Estimated, Evidence, Floats, Integers, Observed
from .linear_functionals import Cells, CodedUnit, Functionals

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


def pushed_functionals(
    push: Push,
    totals: Totals,
    functionals: Callable[[Evidence, Cells, Sequence[CodedUnit]], Functionals | None],
    *,
    rows: int,
    domains: tuple[Domain, ...],
) -> Callable[[Cells, Sequence[CodedUnit]], Functionals | None]:
    """Sums over the true rows as the expected release tells them: the true sums, with the covariances to expect."""
    evidence = Evidence(rows=rows, domains=domains, totals=totals, side={}, digest="0" * 64)

    def made(cells: Cells, units: Sequence[CodedUnit]) -> Functionals | None:
        G = cells.measures
        observed = Observed(
            stratum=cells.cell,
            part=cells.part,
            value=cells.value,
            moments=cells.moments.reshape(-1, G * G),
            key=np.zeros(cells.cells, dtype=np.intp),
            pattern=np.zeros(cells.cells, dtype=np.intp),
            keys=1,
        )
        asked = Asked(
            units=tuple(unit.unit for unit in units),
            classes=tuple(unit.classes for unit in units),
            coefficients=(),
            measure=np.zeros(0, dtype=np.intp),
            products=np.zeros((1, 1), dtype=np.intp),
            pairs=np.zeros((0, 2), dtype=np.intp),
            binary=False,
            z=0.0,
        )
        seen = push(observed, asked)
        expected = replace(
            cells, cell=seen.stratum, part=seen.part, value=seen.value, moments=seen.moments.reshape(-1, G, G)
        )
        return functionals(evidence, expected, units)

    return made


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
