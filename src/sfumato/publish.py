"""Publish a table: read -> profile -> plan -> apply -> write."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from .engines.base import Engine, Table, bin_labels
from .engines.codes import Coder
from .engines.hierarchies import with_hierarchies
from .engines.local import LocalEngine
from .errors import DataError, SpecError
from .mechanisms import mechanism_of
from .mechanisms.base import Mechanism, Planned
from .model.private import Batch, Needs, Profile
from .model.public import Column, Curve, Integers, Roles, Scalar
from .query import Release
from .randomness import Secret
from .release import bundle
from .release.manifest import FORMAT_VERSION, Manifest, Software, columns_and_units, guarantee_model
from .stats.allocation import Dealer, changed_between_passes
from .version import __version__

INTERNAL = "__"  # what our own columns begin with, such as the key by which rows are put in random order
Progress = Callable[[str, int, int], None]  # (stage, rows done, rows in all)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Prepared:
    """A table, its profile and its plan, before anything is written. Private: it dies with the run."""

    table: Table
    roles: Roles
    mechanism: Mechanism
    needs: Needs
    profile: Profile
    planned: Planned

    def report(self, *, full: bool = False) -> dict[str, Any]:
        """What `sfumato plan` shows the custodian; may hold true counts. `full` adds what is long, by method."""
        public = self.planned.public
        more = getattr(self.mechanism, "full_report", None) if full else None
        guarantee = guarantee_model(self.mechanism.guarantee(public)).model_dump(mode="json")
        return {
            "method": self.mechanism.NAME,
            "trust": str(self.mechanism.TRUST),
            "rows": self.profile.rows,
            "parameters": TypeAdapter(self.mechanism.Plan).dump_python(public, mode="json"),
            "guarantee": guarantee,
            **self.mechanism.report(public, self.planned.work, self.profile),
            **(more(public, self.planned.work, self.profile) if more else {}),
        }

    def curves(self) -> tuple[Curve, ...]:
        """Lines that a report draws, where the mechanism has some."""
        draw = getattr(self.mechanism, "curves", None)
        return () if draw is None else tuple(draw(self.planned.public))


def prepare(
    source: Any,
    *,
    roles: Roles,
    method: Any,
    secret: Secret,
    engine: Engine | None = None,
    domains: Mapping[str, Sequence[Scalar]] | None = None,
    null_as_value: bool = False,
    delimiter: str | None = None,
) -> Prepared:
    """Read, profile and plan. Nothing is written."""
    method = with_hierarchies(method)
    mechanism = mechanism_of(method)
    chosen: Engine = engine or LocalEngine()
    table = chosen.open(source, delimiter=delimiter)
    roles = roles.resolve(table.columns)
    check_roles(roles, table.columns, reserved=mechanism.PART)
    declared = dict(domains or {})
    needs = mechanism.needs(method, roles)
    edges = method.edges() if hasattr(method, "edges") else {}
    if edges:
        table = table.binned(edges)
        missing: list[Scalar] = [None] if null_as_value else []
        declared |= {name: [*bin_labels(cuts), *missing] for name, cuts in edges.items()}
    unknown = [name for name in declared if name not in {c for unit in needs.units for c in unit}]
    if unknown:
        raise SpecError(f'a domain is declared for "{unknown[0]}", which the method does not change', field="domain")
    profile = table.profile(needs, declared, null_as_value=null_as_value)
    if not profile.rows:
        raise DataError("the table has no rows")
    planned = mechanism.plan(method, profile, secret.stream("plan"))
    return Prepared(table=table, roles=roles, mechanism=mechanism, needs=needs, profile=profile, planned=planned)


def publish(
    source: Any,
    out: str | Path | None = None,
    *,
    roles: Roles,
    method: Any,
    seed: int | None = None,
    engine: Engine | None = None,
    domains: Mapping[str, Sequence[Scalar]] | None = None,
    null_as_value: bool = False,
    delimiter: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
    notify: Callable[[str], None] | None = None,
) -> Release:
    """A release of the table, in the folder `out` (or a temporary one: `release.save(path)` keeps it)."""
    secret = Secret.fresh() if seed is None else Secret.from_seed(seed)
    scratch = Path(tempfile.mkdtemp(prefix="sfumato-release-")) if out is None else None
    target = scratch / "release" if scratch else Path(str(out))
    try:
        with bundle.writing(target, force=force) as folder:
            prepared = prepare(
                source,
                roles=roles,
                method=method,
                secret=secret,
                engine=engine,
                domains=domains,
                null_as_value=null_as_value,
                delimiter=delimiter,
            )
            for note in prepared.planned.work.notes:
                (notify or _ignore)(note)
            manifest = write(prepared, folder, secret, reproducible=seed is not None, progress=progress)
            bundle.finish(folder, manifest)
    except BaseException:
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)
        raise
    return Release(target, manifest, scratch=scratch)


def _ignore(_: str) -> None:
    """Nobody listens."""


def write(
    prepared: Prepared, folder: Path, secret: Secret, *, reproducible: bool, progress: Progress | None = None
) -> Manifest:
    """Stream the rows through the mechanism into `folder`, in random order, and describe the result."""
    mechanism, planned, profile = prepared.mechanism, prepared.planned, prepared.profile
    applier = Applier(prepared, secret)
    prepared.table.write(
        applier.reads,
        applier,
        applier.schema,
        lambda number, rows: secret.stream("order", number).integers(0, 2**64, size=rows, dtype=np.uint64),
        folder / "data.parquet",
        lambda done: progress("publish", done, profile.rows) if progress else None,
    )
    applier.close()
    if planned.work.side:
        applier.write_side(folder / "sensitive.parquet")
    columns, units = columns_and_units(applier.columns, applier.base)
    files = bundle.describe_files(folder)
    return Manifest(
        format_version=FORMAT_VERSION,
        software=Software(name="sfumato", version=__version__),
        method=mechanism.NAME,
        parameters=TypeAdapter(mechanism.Plan).dump_python(planned.public, mode="json"),
        rows=files["data.parquet"].rows,
        columns=columns,
        units=units,
        guarantee=guarantee_model(mechanism.guarantee(planned.public)),
        files=files,
        reproducible=reproducible,
    )


class Applier:
    """The mechanism as a function from a batch of the source to a batch of the release."""

    def __init__(self, prepared: Prepared, secret: Secret) -> None:
        self._mechanism, self._planned, self._secret = prepared.mechanism, prepared.planned, secret
        self._needs, roles, table = prepared.needs, prepared.roles, prepared.table
        types = table.arrow_types()
        self._in = [Coder(domain, types) for domain in prepared.profile.domains]
        released = prepared.mechanism.released_domains(prepared.planned.public, prepared.profile.domains)
        same = [a is b for a, b in zip(released, prepared.profile.domains, strict=True)]
        self._out = [c if s else Coder(d, {}) for c, d, s in zip(self._in, released, same, strict=True)]
        self._dealers = [
            Dealer(deal, secret.stream(f"shuffle {k}")) for k, deal in enumerate(prepared.planned.work.deals)
        ]
        self._left = _marginals(prepared.needs, prepared.profile)
        published = [*roles.sensitive, *roles.quasi, *roles.insensitive]
        self.reads = [name for name in table.columns if name in published]
        changed = {name: u for u, unit in enumerate(self._needs.units) if self._needs.changed[u] for name in unit}
        withheld = set(changed) if prepared.mechanism.WITHHELD else set()
        self._changed = changed
        self.base = tuple(d for d, c in zip(prepared.profile.domains, self._needs.changed, strict=True) if c)
        self.columns = self._describe(roles, table)
        self._names = [name for name in self.reads if name not in withheld]
        fields = []
        for name in self._names:
            coder = self._out[changed[name]] if name in changed else None
            fields.append(pa.field(name, pa.dictionary(pa.int32(), coder.types[name]) if coder else types[name]))
        part = prepared.mechanism.PART
        self.schema = pa.schema([*fields, *([pa.field(part, pa.int32())] if part else [])])

    def _describe(self, roles: Roles, table: Table) -> tuple[Column, ...]:
        role_of = {name: role for role, names in roles.by_role().items() for name in names}
        columns = []
        for name in self.reads:
            domain, kind = None, None
            if name in self._changed:
                u = self._changed[name]
                own, new = self._in[u], self._out[u]
                domain = tuple(own.values_of(name))
                kind = None if own is new else "VARCHAR"
            columns.append(
                Column(name=name, role=role_of[name], type=table.columns[name], domain=domain, released_type=kind)
            )
        if self._mechanism.PART:
            columns.append(Column(name=self._mechanism.PART, role="group", type="INTEGER"))
        return tuple(columns)

    def __call__(self, number: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch as it is published; randomness depends on the secret and the batch's number only."""
        codes = tuple(coder.encode([batch.column(n) for n in coder.domain.columns]) for coder in self._in)
        for left, unit in zip(self._left, codes, strict=True):
            np.subtract(left, np.bincount(unit, minlength=len(left)), out=left)
        dealing = self._secret.stream("deal", number)
        labels = tuple(
            dealer.deal(codes[deal.unit], dealing)
            for dealer, deal in zip(self._dealers, self._planned.work.deals, strict=True)
        )
        released = self._mechanism.apply(
            self._planned.public,
            self._planned.work,
            Batch(rows=batch.num_rows, codes=codes, labels=labels),
            self._secret.stream("apply", number),
        )
        new: dict[str, Any] = dict(released.extra)
        for coder, out in zip(self._out, released.codes, strict=True):
            if out is not None:
                new |= dict(zip(coder.domain.columns, coder.decode(out), strict=True))
        arrays = [new[f.name] if f.name in new else batch.column(f.name) for f in self.schema]
        arrays = [
            a if isinstance(a, pa.Array) else pa.array(a, type=f.type) for a, f in zip(arrays, self.schema, strict=True)
        ]
        result = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        return result if released.stay is None else result.filter(pa.array(released.stay))

    def close(self) -> None:
        """Every label must have gone out and every counted value been seen, or the table changed between the passes."""
        for dealer in self._dealers:
            dealer.close()
        if any(left.any() for left in self._left):
            raise changed_between_passes()

    def write_side(self, path: Path) -> None:
        """sensitive.parquet: "unit0", "unit1" ... are codes and leave as the unit's own columns."""
        import pyarrow.parquet as pq

        columns: dict[str, Any] = {}
        for name, array in self._planned.work.side.items():
            if name.startswith("unit") and name[4:].isdigit():
                coder = self._out[int(name[4:])]
                columns |= dict(zip(coder.domain.columns, coder.decode(array.astype(np.int32)), strict=True))
            else:
                columns[name] = pa.array(array)
        table = pa.table(columns)
        coded = [f.name for f in table.schema if pa.types.is_dictionary(f.type)]
        plain = pa.schema(
            [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
        )
        packed = {f.name: "DELTA_BINARY_PACKED" for f in plain if f.name not in coded and pa.types.is_integer(f.type)}
        pq.write_table(
            table.cast(plain), path, use_dictionary=coded, column_encoding=packed or None, store_schema=False
        )


def _marginals(needs: Needs, profile: Profile) -> list[Integers]:
    """True counts of the values of every unit, as the first pass saw them."""
    counts = []
    for u, domain in enumerate(profile.domains):
        joint = next(j for j, units in enumerate(needs.joints) if u in units)
        histogram, at = profile.histograms[joint], needs.joints[joint].index(u)
        found = np.zeros(len(domain), dtype=np.int64)
        np.add.at(found, histogram.codes[:, at], histogram.true_counts)
        counts.append(found)
    return counts


def check_roles(roles: Roles, columns: Mapping[str, str], *, reserved: str | None = None) -> None:
    """Every column has one role and every role a column that exists."""
    given = {name for names in roles.by_role().values() for name in names}
    missing = [name for name in given if name not in columns]
    if missing:
        import difflib

        close = difflib.get_close_matches(missing[0], columns, n=1)
        hint = f'; did you mean "{close[0]}"?' if close else f"; columns: {', '.join(columns)}"
        raise SpecError(f'there is no column "{missing[0]}"{hint}', field=missing[0])
    free = [name for name in columns if name not in given]
    if free:
        more = f" (and {len(free) - 1} more)" if len(free) > 1 else ""
        raise SpecError(
            f'column "{free[0]}" has no role{more}; add --qi {",".join(free)} (or --keep, --drop), '
            "or --rest quasi|keep|drop for all the others",
            field=free[0],
        )
    folded: dict[str, str] = {}
    for name in columns:
        if name.lower() in folded:
            raise DataError(
                f'columns "{folded[name.lower()]}" and "{name}" differ in case only; rename one', column=name
            )
        folded[name.lower()] = name
    published = [*roles.sensitive, *roles.quasi, *roles.insensitive]
    internal = [name for name in published if name.startswith(INTERNAL)]
    if internal:
        message = f'names that begin with "{INTERNAL}" are taken; rename column "{internal[0]}" or drop it'
        raise DataError(message, column=internal[0])
    if reserved and reserved.lower() in {name.lower() for name in published}:
        raise SpecError(
            f'the method adds a column "{reserved}", which the table already has; rename or drop it', field=reserved
        )
