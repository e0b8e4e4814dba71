"""Whether an anatomy release can be what it says: groups of different values, as many values as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...errors import VerificationError
from ...model.public import Published
from ..shared.published_checks import one_unit

if TYPE_CHECKING:
    from .method import AnatomyPlan

AT_ONCE = 1 << 18  # rows of sensitive.parquet

Integers = NDArray[np.integer]
Counts = NDArray[np.int64]


def check_release(plan: AnatomyPlan, published: Published) -> None:
    """Every group holds at least l values, each once, and as many values as rows; there are rows / l groups."""
    one_unit(published)
    side = published.evidence.side
    if set(side) != {"group_id", "unit0"}:
        raise VerificationError("sensitive.parquet holds other columns than the group and the sensitive ones")
    group, code = np.asarray(side["group_id"]), np.asarray(side["unit0"])
    if len(group) and not 0 <= int(group.min()) <= int(group.max()) < plan.groups:
        raise VerificationError("sensitive.parquet names a group that release.json does not count")
    values, held, ordered, repeated = _looked_at(group, code, plan.groups, len(published.evidence.domains[0]))
    if (values < plan.l).any():
        raise VerificationError(f"{int((values < plan.l).sum())} groups hold fewer than {plan.l} values")
    if not ordered:
        raise VerificationError("sensitive.parquet is not in the order of groups and values, which tells nothing")
    if repeated:
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
    if not held.all() and not (plan.suppressed or published.evidence.domains[0].declared):
        raise VerificationError("the domain was taken from the data, and lists a value that no group has")


def _looked_at(
    group: Integers, code: Integers, groups: int, domain: int
) -> tuple[Counts, NDArray[np.bool_], bool, bool]:
    """(values of every group, which values occur, whether rows are in order of groups and values, whether one repeats).

    Some rows at a time, so that little is at hand twice: in this order they are of few groups.
    """
    values, held, ordered, repeated = np.zeros(groups, dtype=np.int64), np.zeros(domain, dtype=np.bool_), True, False
    for first in range(0, len(group), AT_ONCE):
        g, c = group[first : first + AT_ONCE + 1], code[first : first + AT_ONCE + 1]  # the next row for its neighbour
        least = int(g.min())
        found = np.bincount(g[:AT_ONCE] - least)
        values[least : least + len(found)] += found
        held |= np.bincount(c, minlength=domain) > 0
        same = g[1:] == g[:-1]
        ordered = ordered and not (g[1:] < g[:-1]).any() and not (same & (c[1:] < c[:-1])).any()
        repeated = repeated or bool((same & (c[1:] == c[:-1])).any())  # in this order equal ones are neighbours
    return values, held, ordered, repeated
