"""Publish a table: read -> profile -> plan -> apply -> write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .engines import engine_for, engine_named, scratch
from .engines.contract import Engine, Table
from .engines.source import paths_of
from .errors import DataError, PlanError, SpecError
from .laws import law_document
from .methods import AnyMethod, method_of
from .methods.contract import Planned
from .methods.shared import readers
from .model.coarsening import bin_labels
from .model.private import Known, Needs, Profile
from .model.public import Claim, Curve, Domain, People, Roles, Scalar, Unprotected
from .publishing import custodian
from .publishing.applier import Applier
from .publishing.custodian import check_added, kept_rows, read_column_hierarchy, settled_roles
from .publishing.randomness import Secret
from .release import bundle, verify
from .release.manifest import (
    FORMAT_VERSION,
    PARTS,
    FileModel,
    GuaranteeModel,
    Manifest,
    PeopleModel,
    Software,
    columns_and_units,
    guarantee_model,
    recoded_models,
    unprotected_model,
)
from .release.opened import open_folder, parameters_of
from .release.verify import verified_lines
from .version import __version__

if TYPE_CHECKING:
    from .query import Release

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
    people: People

    @property
    def guarantee(self) -> GuaranteeModel:
        """What the release will promise."""
        method, plan, uncovered = self.method, self.planned.public, self.unprotected()
        rows = self.claim().rows_per_person
        return guarantee_model(
            method.guarantee(plan),
            self.people,
            readers.public_readers(method, plan, self.sensitive_domains(), rows_per_person=rows),
            None if uncovered is None else uncovered[0],
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the custodian should know while publishing."""
        unchecked = "one row per person is assumed, not checked; name the column that tells people apart with --person"
        return (*self.table.notes, *self.planned.work.notes, *(() if self.people.checked else (unchecked,)))

    def claim(self) -> Claim:
        """What the plan claims to hold; its rows of a person are None where nobody said, and one is assumed."""
        rows = self.people.rows_per_person if self.people.checked else None
        return replace(self.method.claim(self.planned.public), rows_per_person=rows)

    def sensitive_domains(self) -> tuple[Domain, ...]:
        """Domains of the sensitive columns that a release states."""
        units = zip(self.profile.domains, self.needs.changed, strict=True)
        return tuple(d for d, changed in units if changed and set(d.columns) <= set(self.roles.sensitive))

    def unprotected(self) -> tuple[Unprotected, Fraction] | None:
        """The values that the claim does not cover, and the share of the rows that hold one; None without a prior."""
        claim = self.claim()
        if claim.rho1 is None or claim.rho2 is None:
            return None
        table, roles, needs, work = self.table, self.roles, self.needs, self.planned.work
        known = custodian.known(table, roles, needs, self.profile, work, claim, linking=False)
        return custodian.unprotected(known, roles, needs)

    def readers(self, claim: Claim, known: Known | None = None) -> dict[str, Any]:
        """The readers, what is not covered, and what the quasi-identifiers give away by themselves; as JSON."""
        method, plan, work = self.method, self.planned.public, self.planned.work
        known = known or custodian.known(self.table, self.roles, self.needs, self.profile, work, claim)
        left, share = custodian.unprotected(known, self.roles, self.needs)
        others = custodian.others(known)
        reached = None if others is None else readers.known_readers(method, plan, claim, others)[2].posterior
        cells = custodian.uniqueness(known.joint, claim.rho1).document() if known.linkable else None
        return {
            "readers": [reader.document() for reader in readers.known_readers(method, plan, claim, known)],
            "unprotected": unprotected_model(left).model_dump(mode="json")
            | {"share": float(share), "posterior": reached},
            "quasi_identifiers": cells,
        }

    def report(self, *, full: bool = False) -> dict[str, Any]:
        """What `sfumato plan` shows the custodian; may hold true counts. `full` adds what is long, by method."""
        method, plan, work = self.method, self.planned.public, self.planned.work
        return {
            "method": method.name,
            "trust": str(method.trust),
            "rows": self.profile.rows,
            "parameters": parameters_of(method, plan),
            "law": law_document(plan.law),
            "people": asdict(self.people),
            "guarantee": self.guarantee.model_dump(mode="json", exclude_none=True),
            **method.report(plan, work, self.profile, full=full),
            **self.readers(self.claim()),
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
    progress: Progress | None = None,
) -> Prepared:
    """Read, profile and plan. Nothing is written."""
    chosen = method_of(method)
    given = chosen.inputs(method, read_column_hierarchy)
    table = (engine or engine_for(source)).open(source)
    roles = settled_roles(roles, table)
    table, people = kept_rows(table, roles, secret, chosen)
    needs = chosen.needs(given.spec, roles)
    declared = dict(domains or {})
    missing: list[Scalar] = [None] if null_as_value else []
    changed = {c for unit, moved in zip(needs.units, needs.changed, strict=True) if moved for c in unit}
    declared = {r.column: [*r.labels, *missing] for r in table.recoded if r.edges and r.column in changed} | declared
    if given.edges:
        table = table.binned(given.edges)
        declared |= {name: [*bin_labels(cuts), *missing] for name, cuts in given.edges.items()}
    unknown = [name for name in declared if name not in {c for unit in needs.units for c in unit}]
    if unknown:
        raise SpecError(f'a domain is declared for "{unknown[0]}", which the method does not change', field="domain")
    profile = table.profile(needs, declared, null_as_value=null_as_value)
    if not profile.rows:
        raise DataError("the table has no rows")
    profile = replace(profile, rows_per_person=people.rows_per_person, watch=progress)
    if given.questions is not None:
        profile = replace(profile, questions=_declared(given.questions, table, roles, needs, profile))
    planned = chosen.plan(given.spec, profile, secret.stream("plan"))
    check_added(roles, planned.law, planned.work.domains or profile.domains)
    return Prepared(
        table=table, roles=roles, method=chosen, needs=needs, profile=profile, planned=planned, people=people
    )


def _declared(text: str, table: Table, roles: Roles, needs: Needs, profile: Profile) -> Any:
    """The questions of a text of SQL as numbers for the values of unit 0; no row of the table is looked at."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from .answering.explain import declared_questions
    from .sql.nodes import Schema

    names = [n for n in table.columns if n in {*roles.sensitive, *roles.quasi, *roles.insensitive}]
    schema = Schema(types={n: table.columns[n] for n in names}, units=dict.fromkeys(needs.units[0], 0))
    with scratch.folder("questions") as folder:
        empty = folder / "empty.parquet"
        types = table.arrow_types()
        pq.write_table(pa.schema([(n, types[n]) for n in names]).empty_table(), empty)
        return declared_questions(text, schema, profile.domains[0], engine_named().read([empty]))


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
    force: bool = False,
    accept_unprotected: bool = False,
    sign: str | Path | None = None,
    progress: Progress | None = None,
    notify: Callable[[str], None] | None = None,
) -> Release:
    """A release of the table, in the folder `out` (or a temporary one: `release.save(path)` keeps it).

    `accept_unprotected` allows a release whose guarantee does not cover the values of more than half of the rows.
    `sign` is a file with an Ed25519 private key in PEM; the release then carries a signature.
    """
    place = scratch.new_folder("release") if out is None else None
    target = place / "release" if place else str(out)
    try:
        into_folder(
            source,
            target,
            roles=roles,
            method=method,
            seed=seed,
            engine=engine,
            domains=domains,
            null_as_value=null_as_value,
            force=force,
            accept_unprotected=accept_unprotected,
            sign=sign,
            progress=progress,
            notify=notify,
        )
    except BaseException:
        if place:
            scratch.remove(place)
        raise
    from .query import Release  # what reads SQL is loaded by whoever asks

    return Release(open_folder(Path(target), check=False, scratch=place))  # it was read back before it took its place


def into_folder(
    source: Any,
    out: str | Path,
    *,
    roles: Roles,
    method: Any,
    seed: int | None,
    force: bool,
    accept_unprotected: bool,
    sign: str | Path | None,
    progress: Progress | None,
    notify: Callable[[str], None] | None,
    **reading: Any,
) -> Manifest:
    """What the release in the new folder `out` states; the arguments are those of `publish`."""
    if "://" in str(out):
        raise SpecError(
            "a release is written to a folder, not to an address; copy it there, release.json last", field="out"
        )
    key = None if sign is None else verify.read_private(sign)
    secret = Secret.from_seed(seed)
    with bundle.writing(Path(out), force=force, apart_from=paths_of(source)) as folder:
        prepared = prepare(source, roles=roles, method=method, secret=secret, progress=progress, **reading)
        if not accept_unprotected:
            check_covered(prepared)
        manifest = write(prepared, folder, secret, reproducible=seed is not None, progress=progress)
        notes = prepared.notes
        del prepared  # what the plan holds is not needed to read the release back
        manifest = bundle.finish(folder, manifest)
        if key is not None:
            verify.sign(folder, key)
        # A release that cannot be opened and verified is not published.
        tuple(verified_lines(open_folder(folder, check=False), test=True))
    if notify is not None:
        for note in notes:
            notify(note)
    return manifest


def check_covered(prepared: Prepared) -> None:
    """Raise PlanError where the guarantee covers less than half of the rows."""
    found = prepared.unprotected()
    if found is not None and found[1] > custodian.MOST_UNPROTECTED:
        left, share = found
        raise PlanError(
            f"{float(share):.1%} of the rows hold a sensitive value that the guarantee does not cover "
            f"(more frequent than rho1 = {prepared.claim().rho1}: {len(left.values)} of the values); raise rho1, take "
            "another method, or say --accept-unprotected",
            limit=share,
        )


def write(
    prepared: Prepared,
    folder: Path,
    secret: Secret,
    *,
    reproducible: bool,
    progress: Progress | None = None,
) -> Manifest:
    """What the release in `folder` states, whose rows are written in random order."""
    applier = Applier(
        table=prepared.table,
        roles=prepared.roles,
        needs=prepared.needs,
        profile=prepared.profile,
        planned=prepared.planned,
        secret=secret,
    )
    prepared.table.write(
        applier.reads,
        applier,
        applier.schema,
        lambda number, rows: secret.stream("order", number).integers(0, 2**64, size=rows, dtype=np.uint64),
        folder / "data.parquet",
        lambda done: progress("publish", done, prepared.profile.rows) if progress else None,
    )
    applier.close()
    if (sets := applier.sets_table()) is not None:
        bundle.write_beside(sets, folder / "sets.parquet")
    if prepared.planned.work.side:
        bundle.write_beside(applier.side_table(), folder / "sensitive.parquet")
    return described(prepared, applier, bundle.describe_files(folder), reproducible=reproducible)


def described(prepared: Prepared, applier: Applier, files: dict[str, FileModel], *, reproducible: bool) -> Manifest:
    """What a release with these files states."""
    method = prepared.method
    columns, units = columns_and_units(applier.columns, applier.base, prepared.table.labels)
    return Manifest(
        format_version=FORMAT_VERSION,
        software=Software(name="sfumato", version=__version__),
        method=method.name,
        parameters=parameters_of(method, prepared.planned.public),
        law=law_document(prepared.planned.law),
        rows=sum(file.rows for name, file in files.items() if name.startswith(PARTS)),
        people=PeopleModel(**asdict(prepared.people)),
        columns=columns,
        units=units,
        guarantee=prepared.guarantee,
        files=files,
        recoded=recoded_models(prepared.table.recoded, columns),
        reproducible=reproducible,
    )
