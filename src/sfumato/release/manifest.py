"""release.json: what a release states about itself, validated strictly because it may come from a stranger."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_serializer

from ..errors import ReleaseError, SpecError
from ..model.coarsening import Recoding
from ..model.names import LONGEST_NAME, exact
from ..model.public import (
    Column,
    Domain,
    Guarantee,
    Labels,
    People,
    ReaderBound,
    RowsPerPerson,
    Scalar,
    Trust,
    Unprotected,
)
from ..model.types import ColumnType, Kind, type_named

FORMAT_VERSION = 2
MAX_MANIFEST = 8_000_000  # bytes of release.json; whoever reads a stranger's stops here
PARTS = "data"  # folder of the part files
ASSUMED = People()  # one row each, unchecked
FILES = ("data.parquet", "sensitive.parquet", "sets.parquet")
MOST_LABEL = 1000
JsonScalar = str | bool | int | float | None
Name = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME)]
FileName = Annotated[
    str,
    StringConstraints(pattern=r"^(data\.parquet|sensitive\.parquet|sets\.parquet|data/part-[0-9a-f]{16}\.parquet)$"),
]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # with the manifest, all at once


class LabelModel(_Strict):
    """What a code stands for."""

    value: JsonScalar
    label: Annotated[str, StringConstraints(max_length=1000)]


class RecodingModel(_Strict):
    """How a column was made coarser before anything else was done."""

    column: Name
    edges: list[float] | None = None
    step: str | None = None
    period: str | None = None
    top: str | None = None

    def noun(self) -> Recoding:
        """As the rest of the package knows it; ReleaseError where it says nothing that can be."""
        try:
            return Recoding(
                column=self.column,
                edges=tuple(self.edges or ()),
                step=None if self.step is None else exact(self.step, "round"),
                period=self.period,
                top=None if self.top is None else exact(self.top, "top-code"),
            )
        except SpecError:
            raise ReleaseError(f'release.json says that "{self.column}" was recoded in a way there is not') from None


class ColumnModel(_Strict):
    """A column: its role, DuckDB's type of the original values, and the domain where the method changes it."""

    name: Name
    role: Literal["sensitive", "quasi", "insensitive", "group", "set"]
    type: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_ ]*(\(\d+(,\s?\d+)?\))?$", max_length=60)]
    domain: list[JsonScalar] | None = None
    released_type: str | None = None
    title: Annotated[str, StringConstraints(max_length=1000)] | None = None  # as a statistics package has it
    labels: list[LabelModel] | None = None

    def noun(self) -> Column:
        """The column as the rest of the package knows it; ReleaseError for a type that no release has."""
        return Column(
            name=self.name,
            role=self.role,
            type=type_named(self.type),
            domain=None if self.domain is None else tuple(decode(type_named(self.type), v) for v in self.domain),
            released_type=None if self.released_type is None else type_named(self.released_type),
        )


class UnitModel(_Strict):
    """Columns that are randomised together; `cells` index their domains where only some combinations are possible."""

    columns: list[Name]
    declared: bool
    cells: list[list[int]] | None = None


class ReaderModel(_Strict):
    """How far one reader of docs/explanation/readers.md gets; null: the release alone does not decide it."""

    reader: Literal["value", "set", "histogram", "linking", "corruption", "person"]
    held: bool | None
    posterior: Annotated[float, Field(ge=0, le=1)] | None
    why: Annotated[str, StringConstraints(max_length=1000)]
    rows: Annotated[int, Field(ge=1)] | None = None

    @model_serializer
    def said(self) -> dict[str, Any]:
        """As JSON, nulls included."""
        return ReaderBound(**dict(self)).document()


class UnprotectedModel(_Strict):
    """Sensitive values that the guarantee does not cover, and the share of the rows that hold one, rounded up."""

    values: list[JsonScalar | list[JsonScalar]]
    share: Annotated[float, Field(ge=0, le=1)]


class GuaranteeModel(_Strict):
    """What is promised, to whom, and what is not."""

    model: str
    parameters: dict[str, Any]
    statement: str
    assumptions: list[str]
    not_covered: list[str]
    trust: Trust
    readers: list[ReaderModel] | None = None  # not in releases of sfumato 0.1
    unprotected: UnprotectedModel | None = None  # where the guarantee names a prior


class PeopleModel(_Strict):
    """How many rows of the release one person may have; `checked` false: one is assumed."""

    checked: bool
    rows_per_person: RowsPerPerson
    rows_left_out: Annotated[int, Field(ge=0)]


class FileModel(_Strict):
    """Digest and size of a file of the bundle."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    rows: Annotated[int, Field(ge=0)]


class DocumentModel(_Strict):
    """Digest of a file for people."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Software(_Strict):
    """What wrote the release."""

    name: str
    version: str


class Manifest(_Strict):
    """The whole of release.json."""

    format: Literal["sfumato-release"] = "sfumato-release"
    format_version: int
    software: Software
    method: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z-]*$")]
    parameters: dict[str, Any]  # the method's own
    law: dict[str, Any]  # its name, and its parameters
    rows: Annotated[int, Field(ge=0)]
    people: PeopleModel
    columns: list[ColumnModel]
    units: list[UnitModel]
    guarantee: GuaranteeModel
    files: Annotated[dict[FileName, FileModel], Field(json_schema_extra={"additionalProperties": False})]
    recoded: list[RecodingModel] | None = None
    documents: dict[Literal["README.md"], DocumentModel] | None = None  # not in releases of sfumato 0.1
    reproducible: bool

    @field_validator("format_version")
    @classmethod
    def known(cls, version: int) -> int:
        """The version; of any other nothing else is looked at."""
        if version != FORMAT_VERSION:
            raise ReleaseError(
                f"this release has format {version}, this sfumato reads format {FORMAT_VERSION}; "
                "use the version of sfumato that wrote it, or publish the table again"
            )
        return version

    def recodings(self) -> tuple[Recoding, ...]:
        """Columns that were made coarser, in the order in which it was done."""
        return tuple(model.noun() for model in self.recoded or ())

    @property
    def data_files(self) -> tuple[str, ...]:
        """The files that hold the published rows, in one order: data.parquet, or the parts in the folder data."""
        return tuple(sorted(name for name in self.files if name.startswith(PARTS)))

    def domains(self) -> tuple[Domain, ...]:
        """The domain of every unit, values in their own types."""
        columns = {c.name: c for c in self.columns}
        result = []
        for unit in self.units:
            try:
                kinds = {n: type_named(columns[n].type) for n in unit.columns}
                parts = [[decode(kinds[n], v) for v in columns[n].domain or ()] for n in unit.columns]
                values: tuple[tuple[Scalar, ...], ...]
                if unit.cells is None:
                    values = tuple((v,) for v in parts[0])
                else:
                    if any(k < 0 for cell in unit.cells for k in cell):
                        raise IndexError
                    values = tuple(tuple(parts[j][k] for j, k in enumerate(cell)) for cell in unit.cells)
            except (KeyError, IndexError, ValueError, TypeError, InvalidOperation):
                raise ReleaseError("release.json states a domain that does not fit its columns") from None
            if any(len(v) != len(unit.columns) for v in values) or len(set(values)) != len(values):
                raise ReleaseError("release.json states a domain with repeated or incomplete values")
            result.append(Domain(columns=tuple(unit.columns), values=values, declared=unit.declared))
        return tuple(result)


def encode(value: Scalar) -> JsonScalar:
    """A domain value as JSON; `decode` with the column's type gives it back."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def decode(kind: ColumnType, value: JsonScalar) -> Scalar:
    """The value that JSON stands for in a column of this type."""
    if not isinstance(value, str):
        return value
    match kind.kind:
        case Kind.DATE:
            return datetime.date.fromisoformat(value)
        case Kind.TIMESTAMP:
            return datetime.datetime.fromisoformat(value)
        case Kind.TIME:
            return datetime.time.fromisoformat(value)
        case Kind.DECIMAL:
            return Decimal(value)
    return value


def columns_and_units(
    columns: tuple[Column, ...], domains: tuple[Domain, ...], labels: Mapping[str, Labels] | None = None
) -> tuple[list[ColumnModel], list[UnitModel]]:
    """The two tables of release.json that describe columns and the units randomised together."""
    units = []
    for domain in domains:
        cells = None
        if len(domain.columns) > 1:
            place = []
            for name in domain.columns:
                column = next(c for c in columns if c.name == name)
                place.append({v: k for k, v in enumerate(column.domain or ())})
            cells = [[place[j][v] for j, v in enumerate(value)] for value in domain.values]
        units.append(UnitModel(columns=list(domain.columns), declared=domain.declared, cells=cells))
    models = [
        ColumnModel(
            name=c.name,
            role=c.role,
            type=str(c.type),
            domain=None if c.domain is None else [encode(v) for v in c.domain],
            released_type=None if c.released_type is None else str(c.released_type),
            **_labelled(c, (labels or {}).get(c.name)),
        )
        for c in columns
    ]
    return models, units


def _labelled(column: Column, labels: Labels | None) -> dict[str, Any]:
    """Title and labels of a column; codes that were replaced by wider ones have none."""
    if labels is None:
        return {}
    values = () if column.released_type is not None else labels.values
    found = [LabelModel(value=encode(value), label=text[:MOST_LABEL]) for value, text in values]
    return {"title": None if labels.title is None else labels.title[:MOST_LABEL], "labels": found or None}


def recoded_models(recoded: tuple[Recoding, ...], columns: list[ColumnModel]) -> list[RecodingModel] | None:
    """What release.json says about columns that were made coarser; those that are not published are left out."""
    names = {column.name for column in columns}
    found = [
        RecodingModel(
            column=r.column,
            edges=list(r.edges) or None,
            step=None if r.step is None else str(r.step),
            period=r.period,
            top=None if r.top is None else str(r.top),
        )
        for r in recoded
        if r.column in names
    ]
    return found or None


def guarantee_model(
    guarantee: Guarantee,
    people: People = ASSUMED,
    readers: tuple[ReaderBound, ...] | None = None,
    unprotected: Unprotected | None = None,
) -> GuaranteeModel:
    """The guarantee as it stands in release.json: what is known about people and rows is among its assumptions."""
    parameters, loss = dict(guarantee.parameters), guarantee.parameters.get("epsilon_total")
    if people.rows_per_person > 1 and isinstance(loss, int | float):
        # epsilons of independent rows add; losses round up
        parameters["epsilon_person"] = math.ceil(people.rows_per_person * loss * 1e6) / 1e6
    return GuaranteeModel(
        model=guarantee.model,
        parameters=parameters,
        statement=guarantee.statement,
        assumptions=[*guarantee.assumptions, people.assumption],
        not_covered=list(guarantee.not_covered),
        trust=guarantee.trust,
        readers=None if readers is None else [ReaderModel(**asdict(reader)) for reader in readers],
        unprotected=None if unprotected is None else unprotected_model(unprotected),
    )


def unprotected_model(found: Unprotected) -> UnprotectedModel:
    """Single values as they are, compound ones as lists."""
    values = [[encode(v) for v in value] for value in found.values]
    return UnprotectedModel(values=[v[0] if len(v) == 1 else v for v in values], share=found.share)


def parse_manifest(text: bytes) -> Manifest:
    """The manifest, or a ReleaseError that says what is wrong with it."""
    try:
        return Manifest.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(p) for p in first["loc"]) or "the document"
        raise ReleaseError(f"release.json is not valid at {place[:200]}: {first['msg'][:200]}") from None
