"""A table looked at before anything is decided: columns, suggested roles, and how far the others give a value away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from ..engines import engine_named
from ..engines.contract import Engine, Table
from ..errors import DataError, SpecError
from ..model.names import Ratio, exact
from ..model.private import Described, Needs
from ..model.types import ColumnType, Kind
from ..publishing.custodian import CELL_LIMIT, FEW_ROWS, check_named, near_unique, uniqueness
from ..reports.documents import render_look

EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAt:
    """One column. `examples` only where values were asked for."""

    name: str
    type: str
    distinct: int
    missing: int
    near_unique: bool
    suggested: str
    why: str
    examples: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """What a reader who knows the quasi-identifiers can do before anything is published."""

    quasi: tuple[str, ...]
    cells: int
    unique_rows: int  # alone in their cell
    rows_in_small_cells: int  # of fewer than five rows
    rho1: str | None = None
    sharpened_rows: int | None = None  # rows in whose cell a value of at most rho1 of the table has more than rho1
    sharpened_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Look:
    """What `sfumato look` shows; for the custodian, it holds true counts."""

    rows: int
    columns: tuple[LookedAt, ...]
    sensitive: tuple[str, ...]
    linkage: Linkage | None
    notes: tuple[str, ...] = ()  # what reading the table brought up

    def __repr__(self) -> str:
        return f"<look at {self.rows:,} rows, {len(self.columns)} columns>"

    def __str__(self) -> str:
        return render_look(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The document of `sfumato look --json`."""
        columns = [{k: v for k, v in asdict(c).items() if v is not None} for c in self.columns]
        document: dict[str, Any] = {"rows": self.rows, "columns": columns}
        if self.linkage is not None:
            document["linkage"] = {k: v for k, v in asdict(self.linkage).items() if v is not None}
        return document

    def reasons(self) -> dict[str, str]:
        """Why a column got its role, where there is more to say than that others may know it."""
        said = {*self.sensitive, *(self.linkage.quasi if self.linkage else ())}
        return {c.name: c.why for c in self.columns if c.name not in said and c.why != USUAL}

    def roles(self) -> dict[str, Any]:
        """The suggested roles as a roles file has them; those that were said stay as they are."""
        quasi = self.linkage.quasi if self.linkage else ()
        found: dict[str, Any] = {"sensitive": list(self.sensitive), "quasi": list(quasi), "drop": []}
        for column in self.columns:
            if column.name in {*self.sensitive, *quasi}:
                continue
            if column.suggested == "person" and "person" not in found:
                found["person"] = column.name
            else:
                found["drop" if column.suggested == "person" else column.suggested].append(column.name)
        return found


def look(
    source: Any,
    *,
    quasi: Sequence[str] = (),
    sensitive: Sequence[str] | str = (),
    rho1: Ratio | None = None,
    show_values: bool = False,
    engine: Engine | None = None,
) -> Look:
    """Types, different values, gaps and a suggested role of every column; with quasi-identifiers, what they tell.

    With a sensitive column and rho1 also the share of the rows whose other columns give a value more than rho1.
    Values are shown only with `show_values`.
    """
    named = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    if rho1 is not None and not (named and quasi):
        raise SpecError("rho1 is compared with shares of sensitive values in cells; name --sa and --qi", field="rho1")
    limit = None if rho1 is None else exact(rho1, "rho1")
    if limit is not None and not 0 < limit < 1:
        raise SpecError(f"rho1 must lie between 0 and 1, got {limit}; give a fraction such as 1/13", field="rho1")
    both = [name for name in named if name in quasi]
    if both:
        raise SpecError(f'column "{both[0]}" has two roles, sensitive and quasi; give it one', field="quasi")
    table = (engine or engine_named()).open(source)
    check_named([*named, *quasi], table.columns)
    seen = table.describe(list(table.columns), examples=EXAMPLES if show_values else 0)
    columns = []
    for name, kind in table.columns.items():
        role, why = suggested_role(name, kind, seen[name])
        filled = seen[name].filled
        columns.append(
            LookedAt(
                name=name,
                type=str(kind),
                distinct=filled.distinct,
                missing=seen[name].rows - filled.rows,
                near_unique=near_unique(filled),
                suggested="sensitive" if name in named else "quasi" if name in quasi else role,
                why="as you say" if name in {*named, *quasi} else why,
                examples=seen[name].examples if show_values else None,
            )
        )
    rows = next((s.rows for s in seen.values()), 0)
    if not rows:
        raise DataError("the table has no rows")
    found = linkage(table, tuple(quasi), named, limit) if quasi else None
    return Look(rows=rows, columns=tuple(columns), sensitive=named, linkage=found, notes=table.notes)


def linkage(table: Table, quasi: tuple[str, ...], sensitive: tuple[str, ...], rho1: Fraction | None) -> Linkage:
    """How many rows the quasi-identifiers single out, and how far they sharpen a sensitive value."""
    domains = []
    if sensitive:
        needs = Needs(units=(sensitive,), joints=((0,),), changed=(False,))
        domains = list(table.profile(needs, {}, null_as_value=True).domains)
    joint = table.cells(quasi, domains, {}, limit=CELL_LIMIT)
    if joint is None:
        raise DataError(f"more than {CELL_LIMIT:,} combinations of these columns occur; name fewer of them (--qi)")
    found = uniqueness(joint, rho1)
    sharpened = found.sharpened_rows
    return Linkage(
        quasi=quasi,
        cells=found.cells,
        unique_rows=found.unique_rows,
        rows_in_small_cells=found.rows_below_5,
        rho1=None if rho1 is None else str(rho1),
        sharpened_rows=sharpened,
        sharpened_share=None if sharpened is None else sharpened / found.rows,
    )


# A role for a column from what it is called and what its cells look like: a suggestion, never a decision.


TEXT_LENGTH = 40  # characters from which a cell is a text rather than a label
_WORD = r"(?:^|[^a-z])(?:{})(?:[^a-z]|$)"
_IDENTIFIER = re.compile(
    _WORD.format(
        "id|ids|nr|no|nbr|key|uuid|guid|ssn|nhs|mrn|name|surname|firstname|lastname|e?mail|phone|mobile|tel|fax|address|"
        "street|iban|account|passport|licen[cs]e|ip|url|patient|customer|client|member|person|user|record"
    )
)
_PERSON = re.compile(_WORD.format("id|nr|no|nbr|key|uuid|guid|ssn|nhs|mrn|patient|customer|client|member|person|user"))
_BIRTH = re.compile(r"birth|(?:^|[^a-z])(?:dob|born|geboren|naissance|nacimiento)")
USUAL = "others may know it about a person"
DATES = {Kind.DATE, Kind.TIMESTAMP}


def suggested_role(name: str, kind: ColumnType, seen: Described) -> tuple[str, str]:
    """(role, why): drop, person or quasi. Which column is sensitive, only its owner knows."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    filled, called = seen.filled, _IDENTIFIER.search(plain) is not None
    if filled.distinct == 0:
        return "drop", "no row holds a value"
    if filled.distinct == 1 and filled.rows == seen.rows:
        return "drop", "constant: the same value in every row"
    if _BIRTH.search(plain):
        return (
            "quasi",
            "date of birth: well known and nearly unique with two other columns; publish the year, or drop it",
        )
    if near_unique(filled) and kind.kind is not Kind.REAL:
        return "drop", "near-unique: nearly every row has a value of its own" + (
            ", and named like it" if called else ""
        )
    if near_unique(filled):
        return "drop", "near-unique numbers: they tell rows apart; publish ranges, or drop them"
    if kind.kind is Kind.TEXT and (seen.length >= TEXT_LENGTH or seen.sentences > 0.5):
        return "drop", "free text: sentences may say anything about anybody"
    if _PERSON.search(plain) and filled.distinct > 20 and filled.distinct * 100 > filled.rows:
        return "person", "named like an identifier, and values repeat: people with several rows?"
    if called and filled.distinct > 20 and filled.distinct * 100 > filled.rows:
        return "drop", "named like an identifier"
    if kind.kind in DATES:
        return "quasi", "a date: others may know it; publish the month or the year"
    if filled.distinct * 10 > filled.rows > FEW_ROWS:
        return "quasi", "many different values: with others it singles people out; publish ranges, or drop it"
    return "quasi", USUAL
