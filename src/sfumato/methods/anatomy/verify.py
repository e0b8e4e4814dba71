"""Whether an anatomy release can be what it says: groups of different values, as many values as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...errors import VerificationError
from ...model.public import Published
from ..shared.published_checks import one_unit

if TYPE_CHECKING:
    from .method import AnatomyPlan


def check_release(plan: AnatomyPlan, published: Published) -> None:
    """Every group holds at least l values, each once, and as many values as rows; there are rows / l groups."""
    one_unit(published)
    side = published.evidence.side
    if set(side) != {"group_id", "unit0"}:
        raise VerificationError("sensitive.parquet holds other columns than the group and the sensitive ones")
    group, code = np.asarray(side["group_id"], dtype=np.int64), np.asarray(side["unit0"], dtype=np.int64)
    if len(group) and not 0 <= int(group.min()) <= int(group.max()) < plan.groups:
        raise VerificationError("sensitive.parquet names a group that release.json does not count")
    values = np.bincount(group, minlength=plan.groups)
    if (values < plan.l).any():
        raise VerificationError(f"{int((values < plan.l).sum())} groups hold fewer than {plan.l} values")
    cells = group * len(published.evidence.domains[0]) + code
    if (cells[1:] < cells[:-1]).any():
        raise VerificationError("sensitive.parquet is not in the order of groups and values, which tells nothing")
    if (cells[1:] == cells[:-1]).any():  # in this order equal ones are neighbours
        raise VerificationError("a group holds a value twice")
    numbers, rows = published.group_sizes()
    members = np.zeros(plan.groups, dtype=np.int64)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < plan.groups:
        raise VerificationError("a row names a group that release.json does not count")
    members[numbers] = rows
    if not np.array_equal(members, values):
        raise VerificationError("a group has another number of rows than of values")
    if plan.groups != published.rows // plan.l:
        raise VerificationError(f"{published.rows} rows make {published.rows // plan.l} groups of {plan.l}, not these")
    held = np.bincount(code, minlength=len(published.evidence.domains[0])) > 0
    if not held.all() and not (plan.suppressed or published.evidence.domains[0].declared):
        raise VerificationError("the domain was taken from the data, and lists a value that no group has")
