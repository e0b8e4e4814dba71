"""The groups of a release: which values each holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.public import Codes, Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Group g holds the values `members[:, g]`; short groups are filled up with `values`, which is no value's code."""

    members: NDArray[np.integer]  # (largest size, groups), one contiguous row per place, in as few bytes as it takes
    sizes: Floats
    values: int

    def __len__(self) -> int:
        return len(self.sizes)

    def total(self, w: Floats, groups: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """Sum of w over the values of each group; a group that is asked for many times is looked at once."""
        if not isinstance(groups, slice) and len(groups) > len(self):
            return self.total(w)[groups]
        padded = np.append(w, 0.0)
        result = np.zeros(len(self.sizes[groups]))
        for row in self.members:
            result += padded[row[groups]]
        return result

    def mean(self, w: Floats, groups: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """Average of w over the values of each group."""
        return self.total(w, groups) / self.sizes[groups]

    def by_value(self, weight: Floats, groups: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """For each value, the sum of the weights of the groups that hold it."""
        result = np.zeros(self.values + 1)
        counted = len(weight) > 0 and bool((weight == weight[0]).all())  # without weights it is faster
        for row in self.members:
            found = np.bincount(row[groups], weights=None if counted else weight, minlength=self.values + 1)
            result += found * weight[0] if counted else found
        return result[:-1]


def groups_of(group: NDArray[np.integer], codes: Codes, values: int) -> Groups:
    """The groups of sensitive.parquet, whose rows are sorted by group."""
    sizes = _sizes(group)
    width, start = int(sizes.max(initial=0)), np.cumsum(sizes) - sizes
    members = np.full((width, len(sizes)), values, dtype=np.min_scalar_type(values))
    small, least = codes.astype(members.dtype), int(sizes.min(initial=width))
    for j in range(width):
        there = slice(None) if j < least else np.flatnonzero(sizes > j)
        members[j, there] = small[start[there] + j]
    return Groups(members=members, sizes=sizes.astype(float), values=values)


def _sizes(group: NDArray[np.integer]) -> NDArray[np.int64]:
    """How often each number comes; numbers in order are not copied for it."""
    if not len(group) or (group[1:] < group[:-1]).any():
        return np.bincount(group)
    first = np.concatenate([[0], np.flatnonzero(group[1:] != group[:-1]) + 1])
    sizes = np.zeros(int(group[-1]) + 1, dtype=np.int64)
    sizes[group[first]] = np.diff(first, append=len(group))
    return sizes


def small(numbers: NDArray[np.number]) -> NDArray[np.unsignedinteger]:
    """Whole numbers from 0 on, in as few bytes as hold them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
