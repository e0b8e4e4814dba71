"""A plan as a function from a batch of the source to a batch of the release."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..engines.codes import Coder, set_coder, set_id_type, sets_table
from ..engines.contract import Table
from ..engines.profiling import ROWS
from ..methods.contract import Planned
from ..model.private import Batch, Deal, Needs, Profile
from ..model.public import Column, Integers, Roles, Scalar
from ..model.types import INTEGER, TEXT, ColumnType
from ..stats.joint_codes import sum_by_group
from ..stats.shuffling import Splitter, changed_between_passes, hand_out
from .randomness import Secret

PARTITION_BITS = 32  # of a batch's number: batches of one partition


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Share:
    """How often the values of every unit occur in a partition, and what is dealt to it. Private."""

    counts: tuple[Integers, ...]
    deals: tuple[Deal, ...]


class Applier:
    """Batches of the source in, batches of the release out, one after the other.

    What is published of a batch depends on the plan, the batch, its number and its share of what is dealt exactly.
    """

    def __init__(
        self,
        *,
        table: Table,
        roles: Roles,
        needs: Needs,
        profile: Profile,
        planned: Planned[Any],
        secret: Secret,
    ) -> None:
        self._planned, self._secret = planned, secret
        types = table.arrow_types()
        self._in = [Coder(domain, types) for domain in profile.domains]
        stated = planned.work.domains or profile.domains
        self._base = [
            coder if coder.domain is domain else Coder(domain, types)
            for coder, domain in zip(self._in, stated, strict=True)
        ]
        law = planned.law
        released, self._listed = law.released_domains(stated), law.listed(stated)
        self._out = [
            set_coder(sets) if sets is not None else own if own.domain is new else Coder(new, {})
            for own, new, sets in zip(self._base, released, self._listed, strict=True)
        ]
        self._first = 0  # number of the first batch
        self.units = [domain.columns for domain in profile.domains]
        self._splitters = [Splitter(deal, secret.stream(f"shuffle {k}")) for k, deal in enumerate(planned.work.deals)]
        self.bytes_held = sum(array.nbytes for array in planned.work.side.values())
        self.bytes_held += sum(deal.labels.nbytes for deal in planned.work.deals)
        self.bytes_held += sum(splitter.bytes_held for splitter in self._splitters)
        self._left = _marginals(needs, profile)
        shown = {*roles.sensitive, *roles.quasi, *roles.insensitive}
        self.reads = [name for name in table.columns if name in shown]
        self._changed = {name: u for u, unit in enumerate(needs.units) if needs.changed[u] for name in unit}
        withheld = set(self._changed) if law.withheld else set()
        self.base = tuple(d for d, c in zip(stated, needs.changed, strict=True) if c)
        self.columns = self._describe(roles, table)
        fields: dict[str, pa.DataType] = {}
        for name in (n for n in self.reads if n not in withheld):
            sets = self._listed[self._changed[name]] if name in self._changed else None
            coder = self._out[self._changed[name]] if name in self._changed else None
            if sets is not None and coder is not None:  # rows show the number of a set in place of its columns
                fields[sets.column] = coder.types[sets.column]
            else:
                fields[name] = pa.dictionary(coder.index, coder.types[name]) if coder else types[name]
        self.schema = pa.schema(fields | ({law.part: pa.int32()} if law.part else {}))
        self.dictionaries = {
            name: column
            for coder in self._out
            for name, column in coder.columns.items()
            if name in self.schema.names and pa.types.is_dictionary(self.schema.field(name).type)
        }

    def _describe(self, roles: Roles, table: Table) -> tuple[Column, ...]:
        role_of = {name: role for role, names in roles.by_role().items() for name in names}
        columns = []
        for name in self.reads:
            domain: tuple[Scalar, ...] | None = None
            kind: ColumnType | None = None
            if name in self._changed:
                u = self._changed[name]
                own, new = self._base[u], self._out[u]
                domain = tuple(own.values_of(name))
                kind = None if own is new or self._listed[u] is not None else TEXT
            columns.append(
                Column(name=name, role=role_of[name], type=table.columns[name], domain=domain, released_type=kind)
            )
        columns += [
            Column(name=sets.column, role="set", type=set_id_type(sets)) for sets in self._listed if sets is not None
        ]
        if self._planned.law.part:
            columns.append(Column(name=self._planned.law.part, role="group", type=INTEGER))
        return tuple(columns)

    def apply(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as it is published."""
        number += self._first
        codes = tuple(coder.encode([batch.column(n) for n in coder.domain.columns]) for coder in self._in)
        here = [np.bincount(unit, minlength=len(left)) for unit, left in zip(codes, self._left, strict=True)]
        self._left = [left - found for left, found in zip(self._left, here, strict=True)]
        dealing = self._secret.stream("deal", number)
        labels = tuple(hand_out(deal, codes[deal.unit], dealing) for deal in self._dealt(number, here))
        released = self._planned.law.apply(
            self._planned.work,
            Batch(rows=batch.num_rows, codes=codes, labels=labels),
            self._secret.stream("apply", number),
        )
        new: dict[str, Any] = dict(released.extra)
        for coder, out, sets in zip(self._out, released.codes, self._listed, strict=True):
            if out is not None:
                shown = coder.decode(out) if sets is None else [out.astype(coder.types[sets.column].to_pandas_dtype())]
                new |= dict(zip(coder.domain.columns, shown, strict=True))
        arrays = [new[f.name] if f.name in new else batch.column(f.name) for f in self.schema]
        arrays = [
            a if isinstance(a, pa.Array) else pa.array(a, type=f.type) for a, f in zip(arrays, self.schema, strict=True)
        ]
        result = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return result if released.stay is None else result.filter(pa.array(released.stay))

    def _dealt(self, number: int, here: Sequence[Integers]) -> list[Deal]:
        """The share of rows that hold the values of every unit so often."""
        splitting = self._secret.stream("split", number)
        return [
            splitter.split(here[deal.unit], splitting)
            for splitter, deal in zip(self._splitters, self._planned.work.deals, strict=True)
        ]

    def share(self, number: int, here: Sequence[pa.Table]) -> Share:
        """What a partition gets of what is dealt exactly, and the counts it must find; in the partitions' order."""
        counts = []
        for coder, left, table in zip(self._in, self._left, here, strict=True):
            codes = coder.encode([table[name] for name in coder.domain.columns])
            counts.append(sum_by_group(table[ROWS].to_numpy(), codes, len(left)))
        self._left = [left - found for left, found in zip(self._left, counts, strict=True)]
        return Share(counts=tuple(counts), deals=tuple(self._dealt(number, counts)))

    def away(self) -> Applier:
        """A copy for other processes, without what is dealt to others and the table's counts."""
        twin, work = copy.copy(self), self._planned.work
        twin._splitters, twin._left = [], []
        twin._planned = replace(self._planned, work=replace(work, deals=(), side={}, notes=()))
        return twin

    def partition(self, number: int, share: Share) -> Applier:
        """The applier of one partition: a table of its own, with streams that no other partition has."""
        twin = copy.copy(self)
        twin._left = [found.copy() for found in share.counts]
        twin._planned = replace(self._planned, work=replace(self._planned.work, deals=share.deals))
        twin._splitters = [
            Splitter(deal, self._secret.stream(f"shuffle {k}", number + 1)) for k, deal in enumerate(share.deals)
        ]
        twin._first = (number + 1) << PARTITION_BITS  # the numbers below are those of whole partitions
        return twin

    def close(self) -> None:
        """Every label must have gone out and every counted value been seen, or the table changed between the passes."""
        for splitter in self._splitters:
            splitter.close()
        if any(left.any() for left in self._left):
            raise changed_between_passes()

    def sets_table(self) -> pa.Table | None:
        """sets.parquet; None where rows show no sets."""
        found = self._planned.law.weights()
        if found is None:
            return None
        u = next(u for u, sets in enumerate(self._listed) if sets is not None)
        return sets_table(found, self._out[u], self._in[u])

    def side_table(self) -> pa.Table:
        """Columns of sensitive.parquet: "unit0", "unit1" ... are codes and leave as the unit's own columns."""
        columns: dict[str, Any] = {}
        for name, array in self._planned.work.side.items():
            if name.startswith("unit") and name[4:].isdigit():
                coder = self._out[int(name[4:])]
                columns |= dict(zip(coder.domain.columns, coder.decode(array), strict=True))
            else:
                columns[name] = pa.array(array)
        return pa.table(columns)


def _marginals(needs: Needs, profile: Profile) -> list[Integers]:
    """True counts of the values of every unit, as the first pass saw them."""
    counts = []
    for u, domain in enumerate(profile.domains):
        joint = next(j for j, units in enumerate(needs.joints) if u in units)
        histogram, at = profile.histograms[joint], needs.joints[joint].index(u)
        found = sum_by_group(histogram.true_counts, histogram.codes[:, at], len(domain))
        counts.append(found)
    return counts
