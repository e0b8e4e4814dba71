"""The expected release: what the original table shows, pushed through a plan's channel, answered by the law itself.

Estimates and their variances are linear in what is observed (up to guards that do not act on expected counts), so the
answer of the expected release is the mean of the estimate, and its standard error the true one. Nothing is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ..model.private import Profile, Work
from ..model.public import Asked, Codes, Domain, Estimated, Evidence, Floats, Integers, Observed
from .contract import Law
from .functionals import Cells, CodedUnit, Functionals

Totals = Callable[[tuple[int, ...]], tuple[Integers, Codes, Any]]
Push = Callable[[Observed, Asked], Observed]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """The answers that a plan leads to, before anything is published.

    `answer` takes what the *original* table shows and gives the mean of the estimate with its true standard error.
    `lump`: values that the question does not tell apart may be counted together before the channel acts.
    """

    lump: bool
    answer: Callable[[Observed, Asked], Estimated]
    functionals: Callable[[Cells, Sequence[CodedUnit]], Functionals | None] | None = None  # of models; None: unknown


def pushed(
    law: Law, push: Push, totals: Totals | None, profile: Profile, domains: tuple[Domain, ...], *, lump: bool
) -> Foresight:
    """The foresight of a law: observe the original, push it through the channel, estimate.

    `totals` are the expected counts of the whole release; None where the estimator does not look at them.
    """
    evidence = Evidence(rows=profile.rows, domains=domains, totals=totals or _no_totals, side={})

    def functionals(cells: Cells, units: Sequence[CodedUnit]) -> Functionals | None:
        """Sums over the true rows as the expected release tells them: the true sums, with covariances to expect."""
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
        return law.functionals(evidence, expected, units)

    def answer(observed: Observed, asked: Asked) -> Estimated:
        return law.estimate(evidence, push(observed, asked), asked)

    return Foresight(lump=lump, answer=answer, functionals=functionals)


def _no_totals(_: tuple[int, ...]) -> Any:
    raise NotImplementedError


def sent(work: Work, profile: Profile, unit: int, labels: int) -> csr_array:
    """(values, labels): the share of the records of every value of the unit that is dealt each label."""
    deal, true_counts = work.deals[unit], profile.true_counts(unit, unit)
    owner = np.repeat(np.arange(len(true_counts)), np.diff(deal.start))
    counts = np.ones(len(owner)) if deal.counts is None else deal.counts
    share = counts / np.maximum(true_counts[owner], 1)
    return csr_array((share, (owner, deal.labels)), shape=(len(true_counts), labels))
