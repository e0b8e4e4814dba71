"""A release as a reader holds it: what it states, its method and plan, and an engine over its rows."""

from __future__ import annotations

import hashlib
import os
import shutil
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from ..engines.codes import (
    Coder,
    list_columns,
    set_coder,
    weight_columns,
    weights_table,
)
from ..engines.contract import Engine, Reader
from ..engines.directory import LOCAL, engine_named
from ..errors import ReleaseError
from ..methods import REGISTRY, AnyMethod
from ..model.public import Domain, Evidence, Published
from ..model.types import INTEGER, ColumnType
from .bundle import check_contents, check_digests, read_manifest
from .digests_first import Opening, begun
from .file_states import STATEMENT, FileStates
from .hostile import check_numbers, stated_by_a_stranger
from .manifest import Manifest
from .side_table import SIDE, SideTable
from .stated_columns import check_stated
from .whole_counts import WholeCounts
from .zipped import is_zip, unpacked

BESIDE = 1  # threads that compare digests: others open the release and count its rows meanwhile
WEIGHTS = "weights.parquet"
CLASSES = ("quasi", "sensitive")  # roles of the columns that classes are made of and show


def open_folder(
    folder: Path, *, check: bool = True, engine: Engine | None = None, scratch: Path | None = None
) -> OpenedRelease:
    """The release in a folder; `check`: the digests of its files are those that it states.

    `scratch` is a temporary folder that goes when nobody holds the release any more.
    """
    return begin_folder(folder, check=check, engine=engine, scratch=scratch).checked()


def open_path(path: str | Path, *, check: bool = True, engine: Engine | None = None) -> OpenedRelease:
    """The same of a folder or a zip archive."""
    return begin_path(path, check=check, engine=engine).checked()


def begin_path(path: str | Path, *, check: bool = True, engine: Engine | None = None) -> Opening[OpenedRelease]:
    """The same while its digests are being compared."""
    place = unpacked(Path(path)) if is_zip(Path(path)) else None
    return begin_folder(place or Path(path), check=check, engine=engine, scratch=place)


def begin_folder(
    folder: Path, *, check: bool = True, engine: Engine | None = None, scratch: Path | None = None
) -> Opening[OpenedRelease]:
    """The release in a folder while its digests are being compared."""
    folder = folder.absolute()  # the same wherever the process goes
    stated = FileStates.of(folder, [STATEMENT])
    manifest = read_manifest(folder)
    files = stated.beside(manifest)  # before a digest is asked for: a file that changes from here on is told
    compared = begun(partial(check_digests, folder, manifest, threads=BESIDE)) if check else None
    found = Opening(manifest, compared, files=files).then(partial(_opened, folder, engine, scratch, files))
    if engine is None or engine.name == LOCAL:  # the session of another engine does not outlive a fork
        found.again = partial(begin_folder, folder, check=check, engine=engine)
    return found


def begin_written(folder: Path, manifest: Manifest, *, scratch: Path | None = None) -> Opening[OpenedRelease]:
    """The release that this process wrote to a folder a moment ago."""
    folder = folder.absolute()
    files = FileStates.of(folder, [STATEMENT]).beside(manifest)
    found = Opening(OpenedRelease(folder, manifest, scratch=scratch, files=files), files=files)
    found.again = partial(begin_folder, folder)
    return found


def _opened(
    folder: Path, engine: Engine | None, scratch: Path | None, files: FileStates, manifest: Manifest
) -> OpenedRelease:
    schemas = check_contents(folder, manifest)
    release = OpenedRelease(folder, manifest, engine=engine, scratch=scratch, files=files)
    check_stated(schemas, release.file_columns())
    return release


def _remove(scratch: Path, owner: int) -> None:
    if owner == os.getpid():  # not in a child that was forked off
        shutil.rmtree(scratch, ignore_errors=True)


class OpenedRelease:
    """An open release: everything that is the same for all questions."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        *,
        scratch: Path | None = None,
        engine: Engine | None = None,
        files: FileStates | None = None,
    ) -> None:
        self.path, self.manifest, self.states = folder, manifest, files
        if scratch is not None:  # a temporary folder that lives as long as this object
            weakref.finalize(self, _remove, scratch, os.getpid())
        self.method = _method(manifest)
        self.plan = _plan(self.method, manifest)
        self.domains = manifest.domains()
        self.columns = tuple(column.noun() for column in manifest.columns)
        self.types = {column.name: column.type for column in self.columns}
        self.reader: Reader = (engine or engine_named()).read([folder / name for name in manifest.data_files])
        with stated_by_a_stranger(ReleaseError, "release.json states a domain that does not fit its columns"):
            changed = [name for domain in self.domains for name in domain.columns]
            self._arrow = self.reader.arrow_types({name: self.types[name] for name in changed}) if changed else {}
            released = self.method.released_domains(self.plan, self.domains)
            self.listed = self.method.listed(self.plan, self.domains)
            self.coders = tuple(
                set_coder(sets) if sets is not None else Coder(d, self._arrow_types(d) if d is base else {})
                for d, base, sets in zip(released, self.domains, self.listed, strict=True)
            )
        # the number of a set says the sub-table
        self.part = None if any(sets is not None for sets in self.listed) else self.method.part
        self._evidence: Evidence | None = None
        classes = [c.name for c in self.columns if c.role in CLASSES] if self.method.classes else []
        self.counts = WholeCounts(self.reader, self.coders, classes, manifest.rows)

    def unchanged(self) -> None:
        """Nothing; VerificationError where a file is no longer the one that was opened."""
        if self.states is not None:
            self.states.check()

    def _arrow_types(self, domain: Domain) -> dict[str, pa.DataType]:
        return {name: self._arrow[name] for name in domain.columns}

    def file_columns(self) -> dict[str, dict[str, ColumnType]]:
        """Columns of every file with the types of their cells, as release.json states them and the method adds them."""
        units = {name: self.types[name] for domain in self.domains for name in domain.columns}
        away = set(units) if self.method.withheld else set()
        rows = {c.name: c.released_type or c.type for c in self.columns if c.name not in away}
        found = {str(name): rows for name in self.manifest.data_files}
        if self.method.withheld:
            with stated_by_a_stranger(ReleaseError, "release.json states parameters that do not fit its columns"):
                beside = self.method.beside(self.plan, self.domains)
            part = {} if self.method.part is None else {self.method.part: INTEGER}
            found[SIDE] = part | dict(units if beside is None else beside)
        for domain, sets in zip(self.domains, self.listed, strict=True):
            if sets is not None and WEIGHTS in self.manifest.files:
                found[WEIGHTS] = weight_columns(sets, {name: self.types[name] for name in domain.columns})
        return found

    def set_lists(self) -> dict[str, tuple[str, pa.ListArray]]:
        """List column of data.parquet -> (column that numbers its sets, values of every set), as the plan has them."""
        return {
            name: (sets.column, lists)
            for domain, sets in zip(self.domains, self.listed, strict=True)
            if sets is not None
            for name, lists in list_columns(sets, Coder(domain, self._arrow_types(domain))).items()
        }

    def set_weights(self) -> pa.Table | None:
        """weights.parquet as the plan gives it; None where cells show no sets."""
        found = self.method.weights(self.plan, self.domains)
        if found is None:
            return None
        u = next(u for u, sets in enumerate(self.listed) if sets is not None)
        return weights_table(found, self.coders[u], Coder(self.domains[u], self._arrow_types(self.domains[u])))

    @property
    def evidence(self) -> Evidence:
        """What a reader knows besides the rows a question touches; built on first use."""
        if self._evidence is None:
            self._evidence = Evidence(
                rows=self.manifest.rows,
                domains=self.domains,
                totals=partial(self.counts.totals, part=self.part),
                side=self._side(),
                digest=self._digest(),
            )
        return self._evidence

    @property
    def published(self) -> Published:
        """What whoever checks the release looks at: the sub-tables that rows name, also where their sets say them."""
        evidence = replace(self.evidence, totals=partial(self.counts.totals, part=self.method.part))
        counted = self.counts.distinct_cells
        return Published(rows=self.manifest.rows, columns=self.columns, evidence=evidence, counted=counted)

    def _digest(self) -> str:
        """That of data.parquet, or of the digests of its parts."""
        digests = [self.manifest.files[name].sha256 for name in self.manifest.data_files]
        return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()

    def _side(self) -> Mapping[str, Any]:
        """Columns of sensitive.parquet; a unit's columns come as codes under "unit0", "unit1" ..."""
        if SIDE not in self.manifest.files:
            return {}
        return SideTable(self.path / SIDE, self.coders, self.domains, self.method.part, self.manifest.rows).read()


def _method(manifest: Manifest) -> AnyMethod:
    if manifest.method not in REGISTRY:
        raise ReleaseError(f'the release was made by "{manifest.method}", which this version of sfumato does not know')
    return REGISTRY[manifest.method]


def _plan(method: AnyMethod, manifest: Manifest) -> Any:
    check_numbers(manifest.parameters)
    with stated_by_a_stranger(ReleaseError, "release.json states parameters that no plan has"):
        try:
            return plan_form(method).validate_python(manifest.parameters)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(p) for p in first["loc"])
            raise ReleaseError(f"release.json is not valid at parameters.{place[:200]}: {first['msg'][:200]}") from None


@cache
def plan_form(method: AnyMethod) -> TypeAdapter[Any]:
    """How the method's plans are written to `parameters` and read from there; made once, as that takes 5 ms."""
    return TypeAdapter(method.plan_type)
