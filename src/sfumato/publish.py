"""Publish a table: read -> profile -> plan -> apply -> write."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from .engines.contract import Engine, Table, bin_labels
from .engines.directory import engine_named
from .errors import DataError, SpecError
from .methods import AnyMethod, method_of
from .methods.contract import Planned
from .model.private import Needs, Profile
from .model.public import Curve, Roles, Scalar
from .publishing.applier import Applier
from .publishing.parameter_files import read_column_hierarchy
from .publishing.randomness import Secret
from .publishing.roles import check_added, check_roles
from .query import Release
from .release import bundle
from .release.manifest import FORMAT_VERSION, Manifest, Software, columns_and_units, guarantee_model
from .version import __version__

Progress = Callable[[str, int, int], None]  # (stage, rows done, rows in all)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Prepared:
    """A table, its profile and its plan, before anything is written. Private: it dies with the run."""

    table: Table
    roles: Roles
    method: AnyMethod
    needs: Needs
    profile: Profile
    planned: Planned[Any]

    def report(self, *, full: bool = False) -> dict[str, Any]:
        """What `sfumato plan` shows the custodian; may hold true counts. `full` adds what is long, by method."""
        method, plan, work = self.method, self.planned.public, self.planned.work
        return {
            "method": method.name,
            "trust": str(method.trust),
            "rows": self.profile.rows,
            "parameters": TypeAdapter(method.plan_type).dump_python(plan, mode="json"),
            "guarantee": guarantee_model(method.guarantee(plan)).model_dump(mode="json"),
            **method.report(plan, work, self.profile),
            **(method.full_report(plan, work, self.profile) if full else {}),
        }

    def curves(self) -> tuple[Curve, ...]:
        """Lines that a report draws, where the method has some."""
        return self.method.curves(self.planned.public)


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
    chosen = method_of(method)
    spec = chosen.with_files(method, read_column_hierarchy)
    table = (engine or engine_named()).open(source, delimiter=delimiter)
    roles = roles.resolve(table.columns)
    check_roles(roles, table.columns, reserved=chosen.part)
    needs = chosen.needs(spec, roles)
    declared = dict(domains or {})
    edges = chosen.edges(spec)
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
    asked = chosen.questions(spec)
    if asked is not None:
        profile = replace(profile, questions=_declared(asked, table, roles, needs, profile, engine or engine_named()))
    planned = chosen.plan(spec, profile, secret.stream("plan"))
    for sets in chosen.listed(planned.public, profile.domains):
        if sets is not None:
            check_added(roles, sets.column)
    return Prepared(table=table, roles=roles, method=chosen, needs=needs, profile=profile, planned=planned)


def _declared(text: str, table: Table, roles: Roles, needs: Needs, profile: Profile, engine: Engine) -> Any:
    """The questions of a text of SQL as numbers for the values of unit 0; no row of the table is looked at."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from .answering.declared import declared_questions
    from .sql.nodes import Schema

    names = [n for n in table.columns if n in {*roles.sensitive, *roles.quasi, *roles.insensitive}]
    schema = Schema(types={n: table.columns[n] for n in names}, units=dict.fromkeys(needs.units[0], 0))
    with tempfile.TemporaryDirectory(prefix="sfumato-questions-") as folder:
        empty = Path(folder) / "empty.parquet"
        types = table.arrow_types()
        pq.write_table(pa.schema([(n, types[n]) for n in names]).empty_table(), empty)
        return declared_questions(text, schema, profile.domains[0], engine.read(empty, 0))


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
    return Release.at(target, manifest, scratch=scratch)


def _ignore(_: str) -> None:
    """Nobody listens."""


def write(
    prepared: Prepared, folder: Path, secret: Secret, *, reproducible: bool, progress: Progress | None = None
) -> Manifest:
    """Apply the method to the rows batch by batch, write them to `folder` in random order, and describe the result."""
    method, planned, profile = prepared.method, prepared.planned, prepared.profile
    applier = Applier(
        table=prepared.table,
        roles=prepared.roles,
        method=method,
        needs=prepared.needs,
        profile=profile,
        planned=planned,
        secret=secret,
    )
    prepared.table.write(
        applier.reads,
        applier,
        applier.schema,
        lambda number, rows: secret.stream("order", number).integers(0, 2**64, size=rows, dtype=np.uint64),
        folder / "data.parquet",
        lambda done: progress("publish", done, profile.rows) if progress else None,
        applier.lists,
    )
    applier.close()
    weights = applier.weights()
    if weights is not None:
        bundle.write_weights(weights, folder / "weights.parquet")
    if planned.work.side:
        bundle.write_side(applier.side_table(), folder / "sensitive.parquet")
    columns, units = columns_and_units(applier.columns, applier.base)
    files = bundle.describe_files(folder)
    return Manifest(
        format_version=FORMAT_VERSION,
        software=Software(name="sfumato", version=__version__),
        method=method.name,
        parameters=TypeAdapter(method.plan_type).dump_python(planned.public, mode="json"),
        rows=files["data.parquet"].rows,
        columns=columns,
        units=units,
        guarantee=guarantee_model(method.guarantee(planned.public)),
        files=files,
        reproducible=reproducible,
    )
