"""A role for a column from what it is called and what its cells look like: a suggestion, never a decision."""

from __future__ import annotations

import re

from ..model.private import Described
from ..model.types import ColumnType, Kind
from ..publishing.roles import FEW_ROWS, near_unique

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
