"""Estimates from published sets: what `subset-response` and `small-domain` with set reports share.

Weights and variances are those of docs/explanation/set-channels.md, section 5, sub-table by sub-table, added up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ...model.public import Asked, Estimated, Evidence, Floats, Observed
from ...stats.intervals import score_interval
from .set_answers import count_cumulants
from .set_sums import Part, add_up
from .set_tables import SetTables

SMALL = 1000  # below this many rows the score interval is used


@dataclass(slots=True)
class _Sums:
    """Sums over sub-tables, (T, F); covariance (T, P). The last six are for score intervals of counts."""

    value: Floats
    variance: Floats
    covariance: Floats
    v0: Floats  # variance if no row held a value inside the predicate
    known: Floats  # rows that count whatever their true value is: part of `value`, without error
    rows: Floats  # the others
    slope: Floats  # by how much the variance grows with the count, times `weight`
    weight: Floats


def estimate(tables: SetTables, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
    """Unbiased estimates and variances; a score interval for counts among few rows, else the normal one."""
    T, F, P = observed.strata, asked.functionals, len(asked.pairs)
    sums = _Sums(*(np.zeros((T, P if name == "covariance" else F)) for name in _Sums.__slots__))
    part = tables.part_of(observed.value)
    pattern = observed.pattern[observed.stratum]
    rows = np.bincount(observed.stratum, weights=observed.moments[:, 0], minlength=T)
    few = bool((np.bincount(observed.key, weights=rows, minlength=observed.keys) < SMALL).any())
    # with several sub-tables only the rows of those that hold a value asked for count as few or many
    whole = _whole(tables, evidence, asked) if few or len(tables) > 1 else None
    order = np.lexsort((part, pattern))
    group = pattern[order] * len(tables) + part[order]
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]])) if len(group) else np.zeros(0, np.intp)
    columns = [H.tocsc() for H in asked.coefficients]
    for here in np.split(order, starts[1:]):
        if len(here):
            _add_part(sums, tables, int(part[here[0]]), here, columns[pattern[here[0]]], observed, asked, whole)
    return _collect(sums, observed, asked, scored=whole is not None)


def _whole(tables: SetTables, evidence: Evidence, asked: Asked) -> Floats:
    """Rows of the whole release that show each set."""
    _, codes, count = evidence.totals(asked.units)
    return np.bincount(codes[:, 0], weights=count, minlength=int(tables.start[-1])).astype(float)


def _add_part(
    sums: _Sums,
    tables: SetTables,
    i: int,
    here: NDArray[np.intp],
    H: sp.csc_array,
    observed: Observed,
    asked: Asked,
    whole: Floats | None,
) -> None:
    """The observed entries `here`, all of sub-table i and one pattern, added to the sums of their strata."""
    answers, values = tables.answers(i), tables.values[i]
    mine = H[:, values]
    active = np.unique(mine.indices)  # functionals that are 0 all over the sub-table add nothing
    if not len(active):
        return
    h = mine.tocsr()[active].toarray()
    strata, row = np.unique(observed.stratum[here], return_inverse=True)
    at, shape = (row, observed.value[here] - tables.start[i]), (len(strata), len(answers.matrix))
    moments = tuple(
        sp.csr_array((observed.moments[here, j], at), shape=shape) for j in range(observed.moments.shape[1])
    )
    place = np.full(asked.functionals, -1)
    place[active] = np.arange(len(active))
    both = np.flatnonzero((place[asked.pairs] >= 0).all(axis=1))
    found = add_up(
        [Part(answers=answers, values=np.arange(len(values)), moments=moments)],
        h,
        asked.measure[active],
        asked.products,
        place[asked.pairs[both]],
    )
    grid = np.ix_(strata, active)
    sums.value[grid] += found.value
    sums.variance[grid] += found.variance
    sums.covariance[np.ix_(strata, both)] += found.covariance
    if whole is None:
        return
    counting = np.flatnonzero(asked.indicator[active] & (asked.measure[active] == 0))
    rows = np.asarray(moments[0].sum(axis=1)).reshape(-1, 1)
    indicator, grid = h[counting], np.ix_(strata, active[counting])
    every = indicator.all(axis=1)  # counts all rows of the sub-table, exactly
    sums.known[grid] += rows * every
    sums.rows[grid] += rows * ~every
    cumulants = count_cumulants(answers, indicator)
    shown = whole[tables.start[i] : tables.start[i + 1]]
    share = np.where(every, 0.0, np.clip(answers.weights(indicator) @ shown, 1, max(shown.sum(), 1)))
    sums.v0[grid] += rows * np.where(every, 0.0, cumulants.v0)
    sums.slope[grid] += share * (cumulants.v1 - cumulants.v0)
    sums.weight[grid] += share


def _collect(sums: _Sums, observed: Observed, asked: Asked, *, scored: bool) -> Estimated:
    """Strata of one output row added up, and the interval rule."""

    def add(x: Floats) -> Floats:
        out = np.zeros((observed.keys, x.shape[1]))
        np.add.at(out, observed.key, x)
        return out

    value, variance = add(sums.value), np.maximum(add(sums.variance), 0.0)
    half = asked.z * np.sqrt(variance)
    low, high = value - half, value + half
    covariance = add(sums.covariance)
    if not scored:
        return Estimated(value=value, variance=variance, low=low, high=high, covariance=covariance)
    # The slope of an output row whose strata have different ones is their average by rows.
    slope_t = np.divide(sums.slope, sums.weight, out=np.zeros_like(sums.slope), where=sums.weight > 0)
    rows, known = add(sums.rows), add(sums.known)
    slope = np.divide(add(slope_t * sums.rows), rows, out=np.zeros_like(rows), where=rows > 0)
    counting = np.broadcast_to((asked.measure == 0) & asked.indicator, value.shape)
    counting = counting & (rows < SMALL)
    score_low, score_high = score_interval(value - known, add(sums.v0), slope, asked.z)
    low, high = np.where(counting, known + score_low, low), np.where(counting, known + score_high, high)
    return Estimated(value=value, variance=variance, low=low, high=high, covariance=covariance)
