"""From rows to people: how many rows each may have, checked before anything is planned (docs/people.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..engines.contract import Table
from ..errors import DataError, PlanError
from ..methods import REGISTRY, AnyMethod
from ..model.people import People
from ..model.public import Roles
from .randomness import Secret


def one_person(table: Table, roles: Roles, method: AnyMethod, secret: Secret) -> tuple[Table, People]:
    """The table with no more rows of a person than the method will hold, and what is known about people.

    Refused where people have several rows and nobody said how many may stay, or the method holds one only.
    """
    found = kept_rows(table, roles, secret)
    most = found[1].rows_per_person
    if most > 1 and not method.several_rows:
        others = ", ".join(name for name, other in REGISTRY.items() if other.several_rows)
        raise PlanError(
            f"{method.name} cannot hold a person with {most} rows: two of them might meet in one group, or tell more "
            f"together than one row may; take --max-rows-per-person 1, or a method that holds several ({others})",
            limit=1,
        )
    return found


def kept_rows(table: Table, roles: Roles, secret: Secret) -> tuple[Table, People]:
    """The table with the rows that may stay, and what is known about people."""
    if roles.person is None:
        return table, People()
    found = table.people(roles.person)
    if found.missing:
        raise DataError(
            f'{found.missing:,} rows have no value in "{roles.person}", so nobody knows whose they are; fill them or '
            "drop them",
            column=roles.person,
        )
    most = roles.max_rows_per_person
    if most is None:
        if found.several:
            raise PlanError(
                f"{found.several:,} of {found.people:,} people have several rows, up to {found.most:,} each; keep one "
                "random row of each person with --max-rows-per-person 1, or K of them (more noise in every row)",
                limit=found.most,
            )
        return table, People(checked=True)
    if found.most <= most:
        return table, People(checked=True, rows_per_person=most)

    def keys(number: int, rows: int) -> NDArray[np.uint64]:
        return secret.stream("people", number).integers(0, 2**64, size=rows, dtype=np.uint64)

    named = {name for role, names in roles.by_role().items() if role != "identifying" for name in names}
    smaller = table.keeping(roles.person, most, [name for name in table.columns if name in named], keys)
    left = found.rows - smaller.people(roles.person).rows
    return smaller, People(checked=True, rows_per_person=most, rows_left_out=left)
