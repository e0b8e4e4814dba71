"""A release as a reader holds it: what it states, the law of its rows, and an engine over them."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from ..engines import engine_named
from ..engines import scratch as scratch_folders
from ..engines.codes import Coder, arrow_type, factorise, part_numbers, set_coder, sets_columns, sets_table
from ..engines.contract import Engine, Reader
from ..engines.statements import COUNT
from ..errors import EngineError, ReleaseError, SfumatoError
from ..laws import law_of
from ..methods import REGISTRY, AnyMethod
from ..model.public import Codes, Evidence, Integers, Published
from ..model.types import INTEGER, ColumnType
from .files import (
    MANIFEST,
    PACKAGE,
    SETS,
    SIDE,
    FileStates,
    check_contents,
    check_digests,
    check_stated,
    check_states,
    file_states,
    read_manifest,
    read_side,
    stated_digests,
    unpack,
)
from .manifest import Manifest

LARGEST = 2**53  # of a whole number in parameters; numbers beyond it would not survive JSON readers either
_SENSELESS = (ArithmeticError, LookupError, MemoryError, TypeError, ValueError, pa.ArrowException)
UNANSWERABLE = "the answer cannot be computed from what the release states; `sfumato verify` tells whether it is whole"
Counted = tuple[Integers, Codes, Integers]


def open_path(path: str | Path, *, check: bool = True, engine: Engine | None = None) -> OpenedRelease:
    """The release in a folder or a zip archive; the arguments are those of `open_folder`."""
    if Path(path).suffix.lower() != ".zip" or not os.path.isfile(path):  # noqa: PTH113 - of any name, without errors
        return open_folder(Path(path), check=check, engine=engine)
    place = unpack(Path(path))
    try:
        return open_folder(place, check=check, engine=engine, scratch=place)
    except BaseException:
        scratch_folders.remove(place)
        raise


def open_folder(
    folder: Path, *, check: bool = True, engine: Engine | None = None, scratch: Path | None = None
) -> OpenedRelease:
    """The release in a folder; `check`: the digests of its files must be those that it states.

    `scratch` is a temporary folder that goes when nobody holds the release any more.
    """
    folder = folder.absolute()  # the same wherever the process goes
    states = dict(file_states([folder / MANIFEST]))  # before it is read: a file that changes from here on is told
    manifest = read_manifest(folder)
    states |= file_states(folder / name for name in (PACKAGE, *stated_digests(manifest)))
    if check:
        check_digests(folder, manifest)
    schemas = check_contents(folder, manifest)
    release = OpenedRelease(folder, manifest, engine=engine, scratch=scratch, states=states)
    check_stated(schemas, release.file_columns())
    release.check_unchanged()
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
        states: FileStates | None = None,
    ) -> None:
        """`states` are those of its files before they were read; None: nobody looks whether they change."""
        self.path, self.manifest, self.states, self._process = folder, manifest, states, os.getpid()
        if scratch is not None:  # a temporary folder that lives as long as this object
            weakref.finalize(self, _remove, scratch, os.getpid())
        check_numbers([manifest.law, manifest.parameters])
        with _valid("law"):
            self.law = law_of(manifest.law)
        self.method, self.plan = REGISTRY.get(manifest.method), None  # None: it is not installed
        if self.method is not None:
            with _valid("parameters"):
                self.plan = plan_form(self.method).validate_python(manifest.parameters | {"law": self.law})
        self.domains = manifest.domains()
        self.columns = tuple(column.noun() for column in manifest.columns)
        self.types = {column.name: column.type for column in self.columns}
        self.arrow_types = {name: arrow_type(kind) for name, kind in self.types.items()}
        self.reader: Reader = (engine or engine_named()).read([folder / name for name in manifest.data_files])
        with stated_by_a_stranger(ReleaseError, "release.json states a domain that does not fit its columns"):
            released = self.law.released_domains(self.domains)
            self.listed = self.law.listed(self.domains)
            self.coders = tuple(
                set_coder(sets) if sets is not None else Coder(d, self.arrow_types if d is base else {})
                for d, base, sets in zip(released, self.domains, self.listed, strict=True)
            )
        # the number of a set says the sub-table
        self.part = None if any(sets is not None for sets in self.listed) else self.law.part
        self._evidence: Evidence | None = None
        self.counts = WholeCounts(self.reader, self.coders, manifest.rows)

    def check_unchanged(self) -> None:
        """Raise VerificationError where a file is no longer the one that was opened; called around each question.

        EngineError in a process that was forked off: the database has threads that exist in the other one only.
        """
        if self._process != os.getpid():
            raise EngineError(
                "the release was opened before this process was forked off; open it in the process that asks"
            )
        if self.states is not None:
            check_states(self.states)

    def file_columns(self) -> dict[str, dict[str, ColumnType]]:
        """Columns of every file with the types of their cells, as release.json states them and the law adds them."""
        units = {name: self.types[name] for domain in self.domains for name in domain.columns}
        shown = zip(self.domains, self.listed, strict=True)
        by_set = {name for domain, sets in shown if sets is not None for name in domain.columns}
        away = set(units) if self.law.withheld else by_set
        rows = {c.name: c.released_type or c.type for c in self.columns if c.name not in away}
        found = {str(name): rows for name in self.manifest.data_files}
        if self.law.withheld:
            with stated_by_a_stranger(ReleaseError, "release.json states parameters that do not fit its columns"):
                beside = self.law.beside(self.domains)
            part = {} if self.law.part is None else {self.law.part: INTEGER}
            found[SIDE] = part | dict(units if beside is None else beside)
        for domain, sets in zip(self.domains, self.listed, strict=True):
            if sets is not None:
                found[SETS] = sets_columns(sets, {name: self.types[name] for name in domain.columns})
        return found

    def sets_table(self) -> pa.Table | None:
        """sets.parquet as the law gives it; None where rows show no sets."""
        found = self.law.weights()
        if found is None:
            return None
        u = next(u for u, sets in enumerate(self.listed) if sets is not None)
        return sets_table(found, self.coders[u], Coder(self.domains[u], self.arrow_types))

    @property
    def evidence(self) -> Evidence:
        """What a reader knows besides the rows a question touches; built on first use."""
        if self._evidence is None:
            side: Mapping[str, Any] = {}
            if SIDE in self.manifest.files:
                side = read_side(self.path / SIDE, self.coders, self.law.part, self.manifest.rows)
            self._evidence = Evidence(
                rows=self.manifest.rows,
                domains=self.domains,
                totals=partial(self.counts.totals, part=self.part),
                side=side,
            )
        return self._evidence

    @property
    def published(self) -> Published:
        """What whoever checks the release looks at: the sub-tables that rows name, also where their sets say them."""
        evidence = replace(self.evidence, totals=partial(self.counts.totals, part=self.law.part))
        counted = self.counts.distinct_cells
        return Published(rows=self.manifest.rows, columns=self.columns, evidence=evidence, counted=counted)


@contextmanager
def _valid(where: str) -> Iterator[None]:
    """While the block reads a part of release.json: ReleaseError where it states what no release does."""
    with stated_by_a_stranger(ReleaseError, f"release.json states a {where} that no plan has"):
        try:
            yield
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(p) for p in (where, *first["loc"]))
            raise ReleaseError(f"release.json is not valid at {place[:200]}: {first['msg'][:200]}") from None


@cache
def plan_form(method: AnyMethod) -> TypeAdapter[Any]:
    """How the method's plans are read from release.json; made once, as that takes 5 ms."""
    return TypeAdapter(method.plan_type)


def parameters_of(method: AnyMethod, plan: Any) -> dict[str, Any]:
    """What release.json states of a plan beside its law."""
    found: dict[str, Any] = plan_form(method).dump_python(plan, mode="json", exclude={"law"})
    return found


@dataclass(frozen=True, slots=True, eq=False)
class WholeCounts:
    """Rows of a whole release by its published cells.

    It knows the reader, not the release, which is then closed as soon as nobody holds it.
    """

    reader: Reader
    coders: Sequence[Coder]
    rows: int
    _totals: dict[tuple[tuple[int, ...], str | None], Counted] = field(default_factory=dict)

    def distinct_cells(self, columns: tuple[str, ...]) -> tuple[Integers, Integers]:
        """(codes of the distinct published cells over some columns, rows of each)."""
        seen = self.reader.count(columns)
        codes = np.column_stack([factorise(seen[c])[0] for c in columns]).astype(np.int64)
        return codes, seen[COUNT].to_numpy().astype(np.int64)

    def totals(self, units: tuple[int, ...], part: str | None) -> Counted:
        """(part, codes, count) of the whole release over some units, counted once."""
        if (units, part) not in self._totals:
            coders = [self.coders[u] for u in units]
            names = [name for coder in coders for name in coder.domain.columns]
            found = self.reader.count([*names, *([part] if part else [])])
            codes = [coder.encode([found[n] for n in coder.domain.columns]) for coder in coders]
            parts = part_numbers(found[part], self.rows) if part else np.zeros(found.num_rows, dtype=np.int64)
            stacked = np.stack(codes, axis=1) if codes else np.zeros((found.num_rows, 0), dtype=np.int32)
            self._totals[units, part] = parts, stacked, found[COUNT].to_numpy()
        return self._totals[units, part]


# --- what a stranger may state that no release of ours does -----------------------------------------------------------


def check_numbers(parameters: Any) -> None:
    """Refuse parameters with whole numbers that no table could give rise to."""
    pending = [parameters]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            pending += node.values()
        elif isinstance(node, list | tuple):
            pending += node
        elif isinstance(node, int) and abs(node) > LARGEST:
            raise ReleaseError("release.json states a parameter that is too large for any table")


@contextmanager
def stated_by_a_stranger(kind: type[ReleaseError], what: str) -> Iterator[None]:
    """While the block works with what a release states, arithmetic that fails is the release's fault, not ours."""
    try:
        yield
    except SfumatoError:
        raise
    except _SENSELESS as error:
        raise kind(f"{what} ({type(error).__name__})") from error
