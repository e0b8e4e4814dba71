"""Whether an anatomy release can be what it says: groups of different values, as many values as rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...errors import VerificationError
from ...model.public import Integers, Published
from ..shared.published_checks import one_unit

if TYPE_CHECKING:
    from .method import AnatomyPlan


PIECE = 1 << 18  # values that are looked at together: numpy makes wide copies of them, which stay near


def check_release(plan: AnatomyPlan, published: Published) -> None:
    """Every group holds at least l values, each once, and as many values as rows; there are rows / l groups."""
    one_unit(published)
    if plan.groups != published.rows // plan.l:  # before anything is laid out by their number
        raise VerificationError(f"{published.rows} rows make {published.rows // plan.l} groups of {plan.l}, not these")
    with ThreadPoolExecutor(max_workers=1) as beside:  # rows are counted while values are looked at
        sizes = beside.submit(published.group_sizes)
        values = _values_of_groups(plan, published)
        numbers, rows = sizes.result()
    members = np.zeros(plan.groups, dtype=np.int64)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < plan.groups:
        raise VerificationError("a row names a group that release.json does not count")
    members[numbers] = rows
    if not np.array_equal(members, values):
        raise VerificationError("a group has another number of rows than of values")


def _values_of_groups(plan: AnatomyPlan, published: Published) -> Integers:
    """How many values each group holds; VerificationError where they are too few, not in order, or twice there."""
    side, domain = published.evidence.side, published.evidence.domains[0]
    if set(side) != {"group_id", "unit0"}:
        raise VerificationError("sensitive.parquet holds other columns than the group and the sensitive ones")
    group, code = side["group_id"], side["unit0"]
    if len(group) and not 0 <= int(group.min()) <= int(group.max()) < plan.groups:
        raise VerificationError("sensitive.parquet names a group that release.json does not count")
    values = _counted(group, plan.groups)
    if (values < plan.l).any():
        raise VerificationError(f"{int((values < plan.l).sum())} groups hold fewer than {plan.l} values")
    steps = [_least_step(group[piece], code[piece]) for piece in _pieces(len(group), overlap=1)]
    if min(steps, default=1) < 0:
        raise VerificationError("sensitive.parquet is not in the order of groups and values, which tells nothing")
    if min(steps, default=1) == 0:  # in this order equal ones are neighbours
        raise VerificationError("a group holds a value twice")
    held = _counted(code, len(domain)) > 0
    if not held.all() and not (plan.suppressed or domain.declared):
        raise VerificationError("the domain was taken from the data, and lists a value that no group has")
    return values


def _pieces(length: int, overlap: int = 0) -> list[slice]:
    return [slice(max(0, first - overlap), first + PIECE) for first in range(0, length, PIECE)]


def _counted(numbers: NDArray[np.integer], size: int) -> Integers:
    """How often each number below `size` occurs."""
    found = np.zeros(size, dtype=np.int64)
    for piece in _pieces(len(numbers)):
        least = int(numbers[piece].min())
        counts = np.bincount(numbers[piece] - least)
        found[least : least + len(counts)] += counts
    return found


def _least_step(group: NDArray[np.integer], code: NDArray[np.integer]) -> int:
    """Below 0 where a pair of group and code is smaller than the one before it, 0 where one is equal."""
    cells = group.astype(np.int64) * (int(code.max()) + 1) + code
    return int(np.diff(cells).min(initial=1))
