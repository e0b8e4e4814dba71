"""Estimates from published sets: what `subset-response` and `small-domain` with set reports share.

Weights and variances are those of docs/explanation/set-channels.md, section 5, sub-table by sub-table, added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...lazily import sparse as sp
from ...model.public import Asked, Estimated, Evidence, Floats, Observed
from ...stats.tail_inversion import Line, tail_interval
from .linear_functionals import Cells, CodedUnit, Functionals, IndependentRows, SetListWeights
from .set_answers import count_cumulants
from .set_sums import SetPart, add_up
from .set_tables import SetTables


@dataclass(slots=True)
class _SetSums:
    """Sums over sub-tables, (T, F); covariance (T, P). From `known` on for the intervals of counts."""

    value: Floats
    variance: Floats
    covariance: Floats
    known: Floats  # rows that count whatever their true value is: part of `value`, without error
    rows: Floats  # the others
    v0: Floats  # variance and third cumulant of the value if no row has it ...
    k0: Floats
    slope: Floats  # ... and what a row that has it adds, times the weight
    kslope: Floats
    weight: Floats  # about how many records of the whole sub-tables count: where those of the value lie
    unit: Floats  # the largest step that one row can make


def estimate(tables: SetTables, evidence: Evidence, observed: Observed, asked: Asked) -> Estimated:
    """Unbiased estimates and variances, counts with inverted tests."""
    T, F, P = observed.strata, asked.functionals, len(asked.pairs)
    sums = _SetSums(*(np.zeros((T, P if name == "covariance" else F)) for name in _SetSums.__slots__))
    part = tables.part_of(observed.value)
    pattern = observed.pattern[observed.stratum]
    # the interval of a count asks in which sub-tables a value's records lie
    whole = _whole(tables, evidence, asked) if len(tables) > 1 else None
    order = np.lexsort((part, pattern))
    group = pattern[order] * len(tables) + part[order]
    starts = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1]])) if len(group) else np.zeros(0, np.intp)
    columns = [H.tocsc() for H in asked.coefficients]
    for here in np.split(order, starts[1:]):
        if len(here):
            _add_part(sums, tables, int(part[here[0]]), here, columns[pattern[here[0]]], observed, asked, whole)
    return _collect(sums, observed, asked)


def _whole(tables: SetTables, evidence: Evidence, asked: Asked) -> Floats:
    """Rows of the whole release that show each set."""
    _, codes, count = evidence.totals(asked.units)
    return np.bincount(codes[:, 0], weights=count, minlength=int(tables.start[-1])).astype(float)


def _add_part(
    sums: _SetSums,
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
    active = np.unique(mine.indices).astype(np.intp)  # functionals that are 0 all over the sub-table add nothing
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
        [SetPart(answers=answers, values=np.arange(len(values)), moments=moments)],
        h,
        asked.measure[active],
        asked.products,
        place[asked.pairs[both]],
    )
    grid = np.ix_(strata, active)
    sums.value[grid] += found.value
    sums.variance[grid] += found.variance
    sums.covariance[np.ix_(strata, both)] += found.covariance
    _add_cumulants(sums, tables, i, h, strata, active, asked, moments[0].sum(axis=1).astype(np.float64), whole)


def _add_cumulants(
    sums: _SetSums,
    tables: SetTables,
    i: int,
    h: Floats,
    strata: NDArray[np.intp],
    active: NDArray[np.intp],
    asked: Asked,
    row_sums: Floats,
    whole: Floats | None,
) -> None:
    """What the tails of counts need of sub-table i; `row_sums` are its rows in each stratum."""
    counting = np.flatnonzero(asked.indicator[active] & (asked.measure[active] == 0))
    if not len(counting):
        return
    answers, rows = tables.answers(i), row_sums.reshape(-1, 1)
    indicator, grid = h[counting], np.ix_(strata, active[counting])
    every = indicator.all(axis=1)  # counts all rows of the sub-table, exactly
    found, weights = count_cumulants(answers, indicator), answers.weights(indicator)
    share = np.where(every, 0.0, 1.0)
    if whole is not None:
        shown = whole[tables.start[i] : tables.start[i + 1]]
        share = np.where(every, 0.0, np.clip(weights @ shown, 1, max(shown.sum(), 1)))
    sums.known[grid] += rows * every
    sums.rows[grid] += rows * ~every
    for into, amount in (
        (sums.v0, rows * np.where(every, 0.0, found.v0)),
        (sums.k0, rows * np.where(every, 0.0, found.k0)),
        (sums.slope, share * (found.v1 - found.v0)),
        (sums.kslope, share * (found.k1 - found.k0)),
        (sums.weight, share),
    ):
        into[grid] += amount
    sums.unit[grid] = np.maximum(sums.unit[grid], np.where(every, 0.0, np.ptp(weights, axis=1)))


def _collect(sums: _SetSums, observed: Observed, asked: Asked) -> Estimated:
    """Strata of one output row added up; inverted tests for counts, normal ends for sums."""

    def add(x: Floats) -> Floats:
        out = np.zeros((observed.keys, x.shape[1]))
        np.add.at(out, observed.key, x)
        return out

    rows = add(sums.rows)

    def average(x: Floats) -> Floats:
        """Of an output row whose strata have different slopes: by rows."""
        of_stratum = np.divide(x, sums.weight, out=np.zeros_like(x), where=sums.weight > 0)
        return np.divide(add(of_stratum * sums.rows), rows, out=np.zeros_like(rows), where=rows > 0)

    value, variance, known = add(sums.value), np.maximum(add(sums.variance), 0.0), add(sums.known)
    half = asked.z * np.sqrt(variance)
    low, high = value - half, value + half
    f = np.flatnonzero((asked.measure == 0) & asked.indicator)
    inverted = np.zeros(value.shape, dtype=bool)
    inverted[:, f] = True
    unit = np.zeros_like(value)
    np.maximum.at(unit, observed.key, sums.unit)
    v = Line(constant=add(sums.v0)[:, f], slope=average(sums.slope)[:, f])
    k = Line(constant=add(sums.k0)[:, f], slope=average(sums.kslope)[:, f])
    hit = unit[:, f] if asked.full else 0.0
    ends = tail_interval((value - known)[:, f], v, k, asked.alpha, 0.0, rows[:, f], hit)
    low[:, f], high[:, f] = (known[:, f] + end for end in ends)
    return Estimated(
        value=value, variance=variance, low=low, high=high, covariance=add(sums.covariance), inverted=inverted
    )


def set_functionals(tables: SetTables, _: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
    """Rows are independent, given their sub-table where there are several; a state is a published set."""
    (unit,) = units
    blocks = []
    for i, values in enumerate(tables.values):
        held, place = np.unique(unit.classes[values], return_inverse=True)
        inside = np.zeros((len(values), len(held)))
        inside[np.arange(len(values)), place] = 1.0
        blocks.append((held.astype(np.intp), tables.answers(i).unit_weights @ inside))
    return IndependentRows(cells, SetListWeights(blocks=tuple(blocks), values=unit.size))
