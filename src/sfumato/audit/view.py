"""A release as an attacker holds it: rows in codes, the law of records, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..engines.codes import factorise
from ..errors import SpecError
from ..model.public import Codes, Floats, Integers, Likelihood, Scalar
from ..release.files import readable
from ..release.opened import OpenedRelease
from ..stats.joint_codes import joint_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A column as published. `true` codes are positions in `values`; `place[true]` is the published code.

    `keep` is below 1 where the column was randomised: the published code is the true one with that chance.
    """

    name: str
    role: str
    codes: Integers  # of every row, as published
    size: int  # number of published codes
    values: tuple[Scalar, ...]
    place: Integers | None = None  # None: published as it is
    keep: float = 1.0


@dataclass(kw_only=True)
class ReleaseView:
    """The rows of a release in codes; `values` is the domain of the sensitive unit that attacks guess."""

    release: OpenedRelease
    columns: tuple[str, ...]  # of the sensitive unit
    values: tuple[tuple[Scalar, ...], ...]
    shown: Codes  # of every row; 0 where values are withheld
    part: Integers  # of every row; 0 where nothing is split
    law: Likelihood
    features: tuple[Feature, ...]
    not_looked_at: tuple[str, ...]  # columns whose values cannot be told exactly: bytes, NaN ..
    true_shown: bool  # rows show true values (classes)
    memo: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return len(self.part)

    @property
    def quasi(self) -> tuple[Feature, ...]:
        """Columns that a reader may know about people."""
        return tuple(f for f in self.features if f.role == "quasi")

    @property
    def untouched(self) -> tuple[Feature, ...]:
        """Columns that are published as they are."""
        return tuple(f for f in self.features if f.place is None and f.keep >= 1)

    @cached_property
    def prior(self) -> Floats:
        """The histogram of the sensitive unit, estimated from the release."""
        total: Floats = np.maximum(self.law.counts.sum(axis=0), 0.0)
        return total / total.sum()

    def likelihood(self, rows: Integers) -> Floats:
        """(rows, values): chance that a record of every value lies where the row lies and shows what it shows."""
        held = self.law.counts.sum(axis=0)
        lies = np.divide(self.law.counts, held, out=np.zeros_like(self.law.counts), where=held > 0)
        return lies[self.part[rows]] * self.law.chance(self.part[rows], self.shown[rows])

    def candidates(self, cells: Integers) -> list[tuple[Integers, Floats]]:
        """For each target's quasi-identifiers: rows that may be hers, and how well they fit."""
        sure = [j for j, f in enumerate(self.quasi) if f.keep >= 1]
        noisy = [j for j, f in enumerate(self.quasi) if f.keep < 1]
        there = [_published(self.quasi[j], cells[:, j]) for j in sure]
        stacked = [np.concatenate([self.quasi[j].codes, code]) for j, code in zip(sure, there, strict=True)]
        joint, _ = joint_ranks([column - column.min(initial=0) for column in stacked], self.rows + len(cells))
        order = np.argsort(joint[: self.rows], kind="stable")
        ranked = joint[: self.rows][order]
        low, high = (np.searchsorted(ranked, joint[self.rows :], side=side) for side in ("left", "right"))
        found = []
        for t, cell in enumerate(cells):
            rows = order[low[t] : high[t]]
            weight = np.ones(len(rows))
            for j in noisy:
                f = self.quasi[j]
                other = (1 - f.keep) / max(f.size - 1, 1)
                weight *= np.where(f.codes[rows] == cell[j], f.keep, other)
            found.append((rows, weight))
        return found


def _published(feature: Feature, true: Integers) -> Integers:
    if feature.place is None:
        return true
    return np.where(true < 0, -1, feature.place[np.maximum(true, 0)])


def look(release: OpenedRelease) -> ReleaseView:
    """The release as an attacker sees it. Of several sensitive units she looks at the first."""
    own = release.law
    with readable("data.parquet"):
        table = pa.concat_tables(pq.read_table(release.path / name) for name in release.manifest.data_files)
    role = {column.name: column.role for column in release.columns}
    wanted = tuple(c.name for c in release.columns if c.role == "sensitive")
    unit = next((u for u, d in enumerate(release.domains) if set(d.columns) <= set(wanted)), None)
    part = table[own.part].to_numpy().astype(np.int64) if own.part else np.zeros(table.num_rows, dtype=np.int64)
    shown: Codes = np.zeros(table.num_rows, dtype=np.int32)
    columns: tuple[str, ...]
    values: tuple[tuple[Scalar, ...], ...]
    if unit is None:  # rows show true values
        shown, distinct = factorise(table[wanted[0]])
        columns, values = (wanted[0],), tuple((v,) for v in distinct.to_pylist())
        counts = np.bincount(shown, minlength=len(values)).astype(float)[None, :]
        law: Likelihood | None = Likelihood(
            counts=counts, chance=lambda _, seen: np.eye(counts.shape[1])[seen], exact=True
        )
    else:
        domain = release.domains[unit]
        columns, values = domain.columns, domain.values
        law = own.likelihood(release.evidence, unit)
        if not own.withheld:
            coder = release.coders[unit]  # of the numbers of sets, where those are shown
            shown = coder.encode([table[n] for n in coder.domain.columns])
    if law is None:
        raise SpecError(
            f"{release.manifest.method} does not say how its records are randomised; it cannot be audited",
            field="method",
        )
    published = [name for name in table.column_names if role[name] in {"quasi", "insensitive"}]
    told = [name for name in published if _exact(table[name])]
    features = tuple(_feature(release, name, table, role[name]) for name in told)
    return ReleaseView(
        release=release,
        columns=tuple(columns),
        values=values,
        shown=shown,
        part=part,
        law=law,
        features=features,
        not_looked_at=tuple(name for name in published if name not in told),
        true_shown=unit is None,
    )


def _exact(column: pa.ChunkedArray) -> bool:
    """Whether values can be compared with the table's: no bytes, no nanoseconds, no NaN, no dates beyond calendars."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_floating(kind):
        return bool(pc.all(pc.is_finite(column)).as_py() is not False)
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        try:
            pc.min_max(column).as_py()
        except (ValueError, OverflowError):
            return False
    return not (_is_bytes(kind) or (pa.types.is_timestamp(kind) and kind.unit == "ns"))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _feature(release: OpenedRelease, name: str, table: Any, role: str) -> Feature:
    unit = next((u for u, d in enumerate(release.domains) if d.columns == (name,)), None)
    if unit is None:
        found, distinct = factorise(table[name])
        own = tuple(distinct.to_pylist())
        return Feature(name=name, role=role, codes=found.astype(np.int64), size=len(own), values=own)
    domain = release.domains[unit]
    codes = release.coders[unit].encode([table[name]]).astype(np.int64)
    values = tuple(v[0] for v in domain.values)
    released = release.law.released_domains(release.domains)[unit]
    thetas = release.law.axes()
    if thetas is not None:
        keep = thetas[unit] + (1 - thetas[unit]) / len(domain)
        return Feature(name=name, role=role, codes=codes, size=len(domain), values=values, keep=keep)
    member = release.law.generalised(unit)
    if member is None:  # changed in a way that is not told: any published value fits any true one
        return Feature(name=name, role=role, codes=codes, size=len(domain), values=values, keep=1 / len(domain))
    place = np.asarray(member, dtype=np.int64)
    return Feature(name=name, role=role, codes=codes, size=len(released), values=values, place=place)
