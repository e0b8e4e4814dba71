"""Questions that a publisher declares beforehand, as numbers for the values of the domain that will be changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlglot
from sqlglot.errors import SqlglotError

from ..engines.contract import Reader
from ..engines.statements import DIALECT
from ..errors import SfumatoError, SpecError
from ..model.public import Domain, Floats
from ..sql.nodes import FALSE, TRUE, Query, Schema
from ..sql.parse import parse
from .domains import check_literals, look_at_domains
from .functionals import coefficients, functionals, layout
from .subject import Subject, nothing_randomised

LINEAR = ("sum", "ratio")


def declared_questions(text: str, schema: Schema, domain: Domain, reader: Reader) -> Floats:
    """(questions, values): h of every linear question; a ratio counts as its numerator and its denominator.

    Conditions on other columns choose rows, not values, and are taken as met; where that leaves nothing to ask (an OR
    that another column decides), as not met. SpecError names what cannot be used.
    """
    subject = nothing_randomised(method="", schema=schema, domains=(domain,), reader=reader, rows=0)
    rows = [row for statement in _statements(text) for row in _coefficients(statement, subject)]
    told = [row for row in rows if np.ptp(row) > 0]  # the others are answered exactly by every release
    if not told:
        raise SpecError("the workload asks nothing about the sensitive column", field="workload")
    return np.array(told)


def _statements(text: str) -> list[str]:
    try:
        found = [part.sql(dialect=DIALECT) for part in sqlglot.parse(text, dialect=DIALECT) if part is not None]
    except SqlglotError:
        raise SpecError(
            "the workload cannot be read as SQL; give one SELECT for each question", field="workload"
        ) from None
    return found


def _coefficients(statement: str, subject: Subject) -> list[Floats]:
    try:
        query = parse(statement, subject.schema)
        check_literals(query, subject)
        views = look_at_domains(query, subject).views
    except SfumatoError as error:
        raise SpecError(f'"{statement}" cannot be declared: {error.args[0]}', field="workload") from None
    odd = next((a for a in query.aggregates if a.kind not in LINEAR), None)
    if odd is not None:
        raise SpecError(f'"{statement}" cannot be declared: {odd.text} is not a sum over rows', field="workload")
    if not query.units():
        return []
    place = layout(query.units(), views, lumpable=False)
    for leaf in (TRUE, FALSE):
        met = np.full((1, len(query.leaves)), leaf, dtype=np.int8)
        rows = [row for keys in query.sets for row in _rows(query, keys, place, met)]
        if any(np.ptp(row) > 0 for row in rows):
            break
    return rows


def _rows(query: Query, keys: tuple[int, ...], place: Any, met: Any) -> list[Floats]:
    wanted = [f for aggregate in query.aggregates for side in functionals(aggregate) for f in side]
    (matrix,), _ = coefficients(query, wanted, keys, place, met)
    return list(matrix.toarray())
