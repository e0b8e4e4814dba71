"""Weights: for each published value and each possible true one, what a row adds to the estimate of its count.

With P(y | x) the chance that a record of value x shows y, the weights solve sum_y P(y | x') w(y, x) = 1[x' = x], so
that the sum of w over the rows is an unbiased estimate of the number of records of value x. Where rows are randomised
by themselves, the sum of w^2 - w is an unbiased estimate of its variance. [docs/export.md]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ..engines.codes import Coder
from ..model.law import Law
from ..model.names import free_name
from ..model.public import Domain, Floats, Integers
from ..release.opened import OpenedRelease

MOST_CELLS = 2_000_000
SHOWN = "shown_"  # before the name of a column as it is published
WEIGHT = "weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitWeights:
    """The weights of one unit, as a table: part or set, published columns (`shown_...`), true columns, weight.

    `errors`: rows are randomised by themselves, so that weight * (weight - 1) adds up to the variance.
    """

    columns: tuple[str, ...]
    part: str | None
    shown: tuple[str, ...]
    weight: str  # the column of weights
    table: pa.Table
    errors: bool

    @property
    def nullable(self) -> bool:
        """Whether a published value may be missing."""
        return any(self.table[name].null_count for name in self.shown)


def weights_of(release: OpenedRelease) -> tuple[UnitWeights, ...]:
    """Weights of every unit that has some; none where the method gives no law of its rows, or a very large one."""
    sets = release.set_weights()
    if sets is not None:
        return (_of_sets(release, sets),)
    found = []
    released = release.method.released_domains(release.plan, release.domains)
    for unit, (domain, shown) in enumerate(zip(release.domains, released, strict=True)):
        law = release.method.law(release.plan, release.evidence, unit) if shown == domain else None
        made = None if law is None or law.silent else _of_unit(release, domain, law)
        if made is not None:
            found.append(made)
    return tuple(found)


def _of_unit(release: OpenedRelease, domain: Domain, law: Law) -> UnitWeights | None:
    parts, values = law.counts.shape
    if parts * values > MOST_CELLS:
        return None
    part: list[Integers] = []
    shown: list[Integers] = []
    true: list[Integers] = []
    weight: list[Floats] = []
    for i in range(parts):
        chance = law.chance(np.full(values, i), np.arange(values, dtype=np.int32))  # [y, x]
        others = chance.sum(axis=0) - chance.diagonal()
        inside = np.flatnonzero(others > 0 if others.any() else chance.diagonal() > 0)  # values that the part holds
        if len(inside) ** 2 + sum(len(w) for w in weight) > MOST_CELLS:
            return None
        try:
            w = np.linalg.inv(chance[np.ix_(inside, inside)].T).astype(np.float64)  # [y, x]
        except np.linalg.LinAlgError:
            return None
        y, x = np.meshgrid(inside, inside, indexing="ij")
        part.append(np.full(y.size, i))
        shown.append(y.ravel())
        true.append(x.ravel())
        weight.append(w.ravel())
    coder = _coder(release, domain)
    columns: dict[str, pa.Array] = {}
    if release.method.part:
        columns[release.method.part] = pa.array(np.concatenate(part))
    for prefix, codes in ((SHOWN, shown), ("", true)):
        cells = coder.decode(np.concatenate(codes).astype(np.int32))
        columns |= {prefix + n: c.dictionary_decode() for n, c in zip(domain.columns, cells, strict=True)}
    named = free_name(WEIGHT, columns)
    return UnitWeights(
        columns=domain.columns,
        part=release.method.part,
        shown=tuple(SHOWN + name for name in domain.columns),
        weight=named,
        table=pa.table({**columns, named: pa.array(np.concatenate(weight))}),
        errors=release.method.independent_rows,
    )


def _of_sets(release: OpenedRelease, table: pa.Table) -> UnitWeights:
    """Where rows show sets: the weights that the release has itself, by the number of the set."""
    unit, listed = next((u, found) for u, found in enumerate(release.listed) if found is not None)
    columns = release.domains[unit].columns
    named = free_name(WEIGHT, (listed.column, *columns))
    made = pa.table([*table.columns[: 1 + len(columns)], table[WEIGHT]], names=[listed.column, *columns, named])
    return UnitWeights(columns=columns, part=listed.column, shown=(), weight=named, table=made, errors=True)


def _coder(release: OpenedRelease, domain: Domain) -> Coder:
    return Coder(domain, release.reader.arrow_types({name: release.types[name] for name in domain.columns}))
