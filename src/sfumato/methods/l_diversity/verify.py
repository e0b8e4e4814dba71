"""Whether an l-diversity release can be what it says: all quasi-identifiers make the classes, and each is diverse."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ...errors import VerificationError
from ...model.public import Floats, Integers, Published
from ...stats.joint_codes import distinct_cells, sum_by_group
from ..shared.published_checks import check_roles

if TYPE_CHECKING:
    from .method import LDiversityPlan


def check_release(plan: LDiversityPlan, published: Published) -> None:
    """Classes are made of every quasi-identifier, and each is diverse, recomputed from the published rows."""
    check_roles(published, "quasi")
    columns = tuple(level.column for level in plan.columns)
    if set(columns) != set(published.with_role("quasi")):
        raise VerificationError("the classes are not made of all quasi-identifiers")
    for level in plan.columns:
        if not 0 <= level.level <= level.height:
            raise VerificationError(f'"{level.column}" has a level that its hierarchy does not have')
    sensitive = published.with_role("sensitive")
    if len(sensitive) != 1:
        raise VerificationError("an l-diversity release has one sensitive column")
    codes, rows = published.counted((*columns, *sensitive))
    _, where = distinct_cells(codes[:, : len(columns)])
    table = sum_by_group(
        rows, (where, codes[:, -1]), (int(where.max(initial=-1)) + 1, int(codes[:, -1].max(initial=0)) + 1)
    )
    bad = int((~_diverse(table, plan.l, plan.kind)).sum())
    if bad:
        raise VerificationError(f"{bad} classes of the release are not {plan.kind} {plan.l}-diverse")


def _diverse(table: Integers, l: Fraction, kind: str) -> np.typing.NDArray[np.bool_]:
    """By definition, class by class: largest share, number of values, or entropy."""
    size = table.sum(axis=1)
    if kind == "frequency":
        return np.asarray(table.max(axis=1) * l.numerator <= size * l.denominator)
    if kind == "distinct":
        return np.asarray((table > 0).sum(axis=1) * l.denominator >= l.numerator)
    share: Floats = table / np.maximum(size, 1)[:, None]
    entropy = -np.sum(share * np.log(np.where(share > 0, share, 1.0)), axis=1)
    return np.asarray(entropy >= np.log(float(l)) - 1e-12)
