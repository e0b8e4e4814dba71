"""Regressions as questions of a workload: `FIT [family] outcome ~ terms [WHERE condition];`, a number a coefficient."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..answering.subject import nothing_randomised
from ..engines.contract import Reader
from ..errors import SpecError
from ..model.types import ColumnType
from ..sql.nodes import Schema

if TYPE_CHECKING:
    from ..analysis.fit import Fit

STATEMENT = re.compile(r"^[ \t]*FIT\s+(?P<body>[^;]+?)\s*(?:;|\Z)", re.IGNORECASE | re.MULTILINE)
CONDITION = re.compile(r"\sWHERE\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FitQuestion:
    """A model to fit; `where` is an SQL condition."""

    family: str
    formula: str
    where: str | None


def split_fits(text: str) -> tuple[str, tuple[FitQuestion, ...]]:
    """(the text without its FIT statements, the models that they ask for)."""
    statements = list(STATEMENT.finditer(text))
    if not statements:
        return text, ()
    from ..analysis.families import FAMILIES  # models take a quarter of a second to load

    found = []
    for statement in statements:
        formula, *where = CONDITION.split(statement["body"], maxsplit=1)
        first, _, rest = formula.strip().partition(" ")
        family = first.lower() if first.lower() in FAMILIES else "gaussian"
        formula = rest.strip() if first.lower() in FAMILIES else formula.strip()
        if "~" not in formula:
            raise SpecError("FIT takes outcome ~ terms", field="workload")
        found.append(FitQuestion(family=family, formula=" ".join(formula.split()), where=where[0] if where else None))
    return STATEMENT.sub("", text), tuple(found)


def true_fit(asked: FitQuestion, reader: Reader, types: dict[str, ColumnType], rows: int) -> Fit:
    """The fit of the original rows. Private: it reads them."""
    from ..analysis.regression import fit

    schema = Schema(types=types, units={})
    subject = nothing_randomised(method="original", schema=schema, domains=(), reader=reader, rows=rows)
    return fit(subject, asked.formula, family=asked.family, where=asked.where)
