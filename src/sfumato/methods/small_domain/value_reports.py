"""One value published in every row: what each sub-table's channel does, beside `set_reports`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ...laws.functionals import (
    Cells,
    CodedUnit,
    Functionals,
    IndependentRows,
    SetListWeights,
    entries,
    pushed,
    pushed_functionals,
    redraw_weights,
    tensor,
    together,
)
from ...laws.keep_or_redraw import SubTables, estimate
from ...model.private import Profile
from ...model.public import Asked, Codes, Domain, Evidence, Floats, Integers, Observed
from ..contract import Foresight


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartWeights(SetListWeights):
    """B with a state for every (sub-table, value in it); a value has no weight where a sub-table does not hold it.

    Its records are then in other sub-tables: dealing them out at random adds no error, because all are counted.
    """

    state: NDArray[np.intp] = field(init=False)  # [sub-table, value], -1 where there is none

    def __post_init__(self) -> None:
        SetListWeights.__post_init__(self)
        start = self._start()
        state = np.full((len(self.blocks), self.values), -1, dtype=np.intp)
        for i, (held, _) in enumerate(self.blocks):
            state[i, held] = np.arange(start[i], start[i + 1])
        object.__setattr__(self, "state", state)


def functionals(tables: SubTables, _: Evidence, cells: Cells, units: Sequence[CodedUnit]) -> Functionals:
    """Rows are independent given their sub-table, which is published; a state is (sub-table, value)."""
    (unit,) = units
    blocks = []
    for i in range(len(tables)):
        held, sizes = np.unique(unit.classes[tables.domain(i)], return_counts=True)
        blocks.append((held.astype(np.intp), redraw_weights(float(tables.p[i]), float(tables.q[i]), sizes)))
    weights = PartWeights(blocks=tuple(blocks), values=unit.size)
    return IndependentRows(cells, weights, weights.state[cells.part, cells.value])


def channel(tables: SubTables, share: Floats) -> Floats:
    """(values, values): each sub-table's channel, weighted by the share of a value's records that goes there."""
    made = np.zeros((share.shape[1], share.shape[1]))
    for i in range(len(tables)):
        values = tables.domain(i)
        own = tables.p[i] * np.eye(len(values)) + tables.q[i]
        made[np.ix_(values, values)] += share[i, values][:, None] * own
    return made


def foresight(tables: SubTables, share: Floats, profile: Profile, domains: tuple[Domain, ...]) -> Foresight:
    """Expected counts of every value of every sub-table."""
    true_counts = profile.true_counts().astype(float)

    def of_table(seen: Floats, i: int) -> Floats:
        inside = np.zeros(len(true_counts))
        inside[tables.domain(i)] = 1.0
        moved = seen * share[i]
        return tables.p[i] * moved + tables.q[i] * moved.sum(axis=-1, keepdims=True) * inside

    def push(observed: Observed, _: Asked) -> Observed:
        seen = tensor(observed, len(true_counts))
        return together([entries(observed, of_table(seen, i), i) for i in range(len(tables))])

    def totals(_: tuple[int, ...]) -> tuple[Integers, Codes, Floats]:
        count = np.array([of_table(true_counts, i) for i in range(len(tables))])
        part, code = np.nonzero(count)
        return part.astype(np.int64), code[:, None].astype(np.int32), count[part, code]

    answer = pushed(push, totals, partial(estimate, tables), rows=profile.rows, domains=domains)
    sums = pushed_functionals(push, totals, partial(functionals, tables), rows=profile.rows, domains=domains)
    return Foresight(lump=False, answer=answer, functionals=sums)
