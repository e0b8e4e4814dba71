"""Records split into groups in which no value stands out (docs/explanation/small-domain.md, 3.1 and 3.2).

A histogram is theta-balanced when its largest count is at most its total over theta. Taking the same number of
records from each of the theta most frequent values, again and again, keeps the rest balanced and gives groups
with theta equally frequent values. Groups are short lists of values: no table of groups times values is built.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Which values a group of records holds, and how many records of each. Private: the counts are true counts."""

    values: Codes  # ascending, distinct
    true_counts: Counts  # of the same length, all positive

    @property
    def size(self) -> int:
        """How many records the group holds."""
        return int(self.true_counts.sum())


def group_of(values: Codes, true_counts: Counts) -> Group:
    """The group with these counts: values sorted, repeated values added up, empty ones left out."""
    distinct, position = np.unique(values, return_inverse=True)
    total = np.bincount(position, weights=true_counts, minlength=distinct.size).astype(np.int64)
    return Group(values=distinct[total > 0], true_counts=total[total > 0])


def join(groups: Sequence[Group]) -> Group:
    """All records of several groups as one."""
    if len(groups) == 1:
        return groups[0]
    return group_of(np.concatenate([g.values for g in groups]), np.concatenate([g.true_counts for g in groups]))


def balance(true_counts: Counts, theta: int) -> list[Group]:
    """The records as groups of `theta` equally frequent values; at most one last group is not flat.

    `true_counts` must be theta-balanced. Each step takes h records from each of the theta most frequent values
    (ties: lowest code), h as large as the rest stays balanced; h = 0 takes everything left, which is fewer than
    theta^2 records. Time O(t theta log m) for t groups.
    """
    remaining = int(true_counts.sum())
    if theta < 1 or remaining < theta * int(true_counts.max(initial=0)):
        raise ValueError(f"the counts are not {theta}-balanced")
    return list(_steps(true_counts, theta, remaining))


def _steps(true_counts: Counts, theta: int, remaining: int) -> Iterator[Group]:
    heap = [(-int(count), value) for value, count in enumerate(true_counts.tolist()) if count]
    heapq.heapify(heap)
    while remaining:
        top = [heapq.heappop(heap) for _ in range(theta)]
        first, last, following = -top[0][0], -top[-1][0], -heap[0][0] if heap else 0
        exhausts = remaining - theta * max(first - last, following) >= theta * last  # and the rest stays balanced
        h = last if exhausts else remaining // theta - following
        if h == 0:
            rest = top + heap
            yield group_of(np.array([v for _, v in rest]), np.array([-c for c, _ in rest]))
            return
        yield Group(values=np.sort(np.array([v for _, v in top])), true_counts=np.full(theta, h, dtype=np.int64))
        for count, value in top:
            if -count > h:
                heapq.heappush(heap, (count + h, value))
        remaining -= theta * h


def hand_out(groups: Sequence[Group], true_counts: Counts, *, split: bool = False) -> list[Group]:
    """The groups with further records shared out in proportion to their sizes, most frequent value first.

    `true_counts` are those of values that no group holds yet (the unprotected ones). Filling group after group
    gives each group few of them. Quotas round down; the last group takes what rounding leaves. With `split`, a
    group is cut where the value handed out changes, so that each part gets one of them only.
    """
    total = int(true_counts.sum())
    if total == 0:
        return list(groups)
    sizes = [g.size for g in groups]
    base = sum(sizes)
    quotas = [size * total // base for size in sizes]
    quotas[-1] += total - sum(quotas)
    order = np.argsort(-true_counts, kind="stable")
    order = order[true_counts[order] > 0]
    ends = np.cumsum(true_counts[order])
    filled, start = [], 0
    for group, quota in zip(groups, quotas, strict=True):
        if quota == 0:
            filled.append(group)
            continue
        stop = start + quota
        near = slice(int(np.searchsorted(ends, start, side="right")), int(np.searchsorted(ends, stop, side="left")) + 1)
        until = np.minimum(ends[near], stop) - start  # the quota is used up to here after each value
        share = np.diff(until, prepend=0)
        if split:
            parts = zip(_cut(group, until, quota), order[near], share, strict=True)
            filled += [join([part, Group(values=np.array([v]), true_counts=np.array([c]))]) for part, v, c in parts]
        else:
            filled.append(join([group, group_of(order[near], share)]))
        start = stop
    return filled


def _cut(group: Group, until: Counts, quota: int) -> Iterator[Group]:
    """The group in parts proportional to the steps of `until`, which ends at `quota`."""
    steps = np.diff(group.true_counts[:, None] * until[None, :] // quota, axis=1, prepend=0)
    return (group_of(group.values, column) for column in steps.T)
