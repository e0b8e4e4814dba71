"""What is exported: the published rows, the values that leave by group, weights, and a few lines about them.

Weights say, for each published value and each possible true one, what a row adds to the estimate of its count. With
P(y | x) the chance that a record of value x shows y, they solve sum_y P(y | x') w(y, x) = 1[x' = x], so that the sum
of w over the rows is an unbiased estimate of the number of records of value x. Where rows are randomised by
themselves, the sum of w^2 - w is an unbiased estimate of its variance. [docs/export.md]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.batches import read_rows
from ..engines.codes import Coder
from ..model.names import free_name
from ..model.public import Domain, Floats, Integers, Likelihood
from ..release.opened import OpenedRelease

BATCH = 65_536
ROW = "row_id"
WARNING = "values are randomised or regrouped: counting them as they are gives wrong numbers"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything that a target may hold. `rows` gives the published rows with their number, batch by batch."""

    release: OpenedRelease
    weights: tuple[UnitWeights, ...]

    @property
    def schema(self) -> pa.Schema:
        """Columns of the published rows, their number first."""
        columns = pq.read_schema(self.release.path / self.release.manifest.data_files[0])
        return pa.schema([pa.field(free_name(ROW, columns.names), pa.int64()), *columns])

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The published rows, numbered from 1."""
        done, schema = 0, self.schema
        for batch in read_rows([self.release.path / name for name in self.release.manifest.data_files], BATCH):
            number = pa.array(range(done + 1, done + batch.num_rows + 1), pa.int64())
            yield pa.RecordBatch.from_arrays([number, *batch.columns], schema=schema)
            done += batch.num_rows

    @property
    def side(self) -> pa.Table | None:
        """Values that leave by group."""
        if "sensitive.parquet" not in self.release.manifest.files:
            return None
        return pq.read_table(self.release.path / "sensitive.parquet")

    @property
    def about(self) -> dict[str, str]:
        """What whoever opens the target should know first."""
        manifest = self.release.manifest
        changed = ", ".join(name for unit in manifest.units for name in unit.columns)
        return {
            "warning": f"{changed}: {WARNING}",
            "method": manifest.method,
            "guarantee": manifest.guarantee.statement,
            "trust": str(manifest.guarantee.trust),
            "rows": str(manifest.rows),
            "release": manifest.files[manifest.data_files[0]].sha256,
            **({} if self.weights else {"weights": "this method has none; ask the release with sfumato query"}),
        }


def contents_of(release: OpenedRelease) -> Contents:
    """Everything that may be exported of a release."""
    return Contents(release=release, weights=weights_of(release))


def flat(batch: pa.RecordBatch | pa.Table, *, texts: bool = False) -> Any:
    """The batch with dictionaries as their values; with `texts`, bytes as their digits."""
    columns, fields = [], []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        plain = column.cast(field.type.value_type) if pa.types.is_dictionary(field.type) else column
        if texts and pa.types.is_binary(plain.type):
            plain = pa.array([None if v is None else v.hex() for v in plain.to_pylist()], pa.string())
        columns.append(plain)
        fields.append(pa.field(field.name, plain.type))
    return type(batch).from_arrays(columns, schema=pa.schema(fields))


def weights_of(release: OpenedRelease) -> tuple[UnitWeights, ...]:
    """Weights of every unit that has some; none where the method gives no law of its rows, or a very large one."""
    sets = release.sets_table()
    if sets is not None:
        return (_of_sets(release, sets),)
    found = []
    released = release.law.released_domains(release.domains)
    for unit, (domain, shown) in enumerate(zip(release.domains, released, strict=True)):
        law = release.law.likelihood(release.evidence, unit) if shown == domain else None
        made = None if law is None or law.silent else _of_unit(release, domain, law)
        if made is not None:
            found.append(made)
    return tuple(found)


def _of_unit(release: OpenedRelease, domain: Domain, law: Likelihood) -> UnitWeights | None:
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
    coder = Coder(domain, release.arrow_types)
    columns: dict[str, pa.Array] = {}
    if release.law.part:
        columns[release.law.part] = pa.array(np.concatenate(part))
    for prefix, codes in ((SHOWN, shown), ("", true)):
        cells = coder.decode(np.concatenate(codes).astype(np.int32))
        columns |= {prefix + n: c.dictionary_decode() for n, c in zip(domain.columns, cells, strict=True)}
    named = free_name(WEIGHT, columns)
    return UnitWeights(
        columns=domain.columns,
        part=release.law.part,
        shown=tuple(SHOWN + name for name in domain.columns),
        weight=named,
        table=pa.table({**columns, named: pa.array(np.concatenate(weight))}),
        errors=release.law.independent_rows,
    )


def _of_sets(release: OpenedRelease, table: pa.Table) -> UnitWeights:
    """Where rows show sets: the weights that the release has itself, by the number of the set."""
    unit, listed = next((u, found) for u, found in enumerate(release.listed) if found is not None)
    columns = release.domains[unit].columns
    named = free_name(WEIGHT, (listed.column, *columns))
    made = pa.table([*table.columns[: 1 + len(columns)], table[WEIGHT]], names=[listed.column, *columns, named])
    return UnitWeights(columns=columns, part=listed.column, shown=(), weight=named, table=made, errors=True)
