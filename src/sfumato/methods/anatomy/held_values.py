"""The groups of a release: which values each holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import ReleaseError
from ...model.public import Codes, Evidence, Floats
from ...model.side_columns import part_sizes, runs_of
from .values_together import pairs_and_counts, usual_of

FEW_LARGER = 1_000  # groups with more values than others
BLOCK = 1 << 16  # groups that are looked at together: numpy makes wide copies of them, which stay near


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """Group g holds the values `members[:, g]`; short groups are filled up with `values`, which is no value's code."""

    members: NDArray[np.integer]  # (largest size, groups), one contiguous row per place, in as few bytes as it takes
    sizes: NDArray[np.integer]  # in few bytes, perhaps
    values: int

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def _counted(self) -> tuple[Floats, Floats]:
        return pairs_and_counts(self.members, self.sizes, inverse_sizes(self), self.values)

    @property
    def together(self) -> Floats:
        """(values, values): the sum of 1 / |g| over the groups with both values; on the diagonal, with one."""
        return self._counted[0]

    @cached_property
    def true_counts(self) -> Floats:
        """How many groups hold each value: every value is published, so that these are its records."""
        # with fewer groups than values pairs are not counted, which would be the square of the values
        return self._counted[1] if len(self) >= self.values else self.by_value()

    @cached_property
    def usual(self) -> tuple[int, NDArray[np.intp]]:
        """(size of nearly all groups, the other ones)."""
        size = usual_of(self.sizes)
        return size, np.flatnonzero(self.sizes != size)

    def total(self, w: Floats, groups: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """Sum of w over the values of each group; a group that is asked for many times is looked at once."""
        if not isinstance(groups, slice) and len(groups) > len(self):
            return self.total(w)[groups]
        padded, some = np.append(w, 0.0), self.members[:, groups]
        result = np.zeros(some.shape[1])
        for first in range(0, len(result), BLOCK):
            block = result[first : first + BLOCK]
            for row in some[:, first : first + BLOCK]:
                block += padded[row]
        return result

    def mean(self, w: Floats, groups: NDArray[np.int64] | slice = slice(None)) -> Floats:
        """Average of w over the values of each group."""
        return self.total(w, groups) / self.sizes[groups]

    def by_value(self, weight: Floats | None = None) -> Floats:
        """For each value, the sum of the weights of the groups that hold it; None: each has weight 1."""
        result = np.zeros(self.values + 1)
        for first in range(0, len(self), BLOCK):
            block = slice(first, first + BLOCK)
            mine = None if weight is None else weight[block]
            for row in self.members:
                result += np.bincount(row[block], weights=mine, minlength=self.values + 1)
        return result[:-1]

    def by_row_and_value(
        self, row: NDArray[np.integer], rows: int, group: NDArray[np.integer], weight: Floats
    ) -> Floats:
        """(rows, values): the sum of the weights of entries of a row whose group holds a value."""
        if rows == 1 and 2 * len(group) > len(self):  # all groups are gone through rather than looked up
            by_group = np.bincount(group, weights=weight, minlength=len(self))
            return self.by_value(np.asarray(by_group, dtype=np.float64))[None]
        size = self.values + 1
        found = np.zeros(rows * size)
        step = max(BLOCK, len(found))  # each block adds as many numbers as there are
        for first in range(0, len(group), step):
            at = slice(first, first + step)
            start, mine = row[at].astype(np.intp) * size, group[at]
            for member in self.members:
                found += np.bincount(start + member[mine], weights=weight[at], minlength=len(found))
        return found.reshape(rows, size)[:, :-1]


def groups_of(group: NDArray[np.integer], codes: Codes, values: int) -> Groups:
    """The groups of sensitive.parquet, whose rows are sorted by group."""
    return groups_of_sizes(runs_of(group).sizes(), codes, values)


def released_groups(evidence: Evidence, l: int) -> Groups:
    """The groups of a release, laid out once; ReleaseError where they are not the ones that l and the rows make.

    There are rows // l of them, of at least l values each. So none has 2 l: what is worked out over pairs of places
    would take the square of a larger one.
    """
    if "groups" not in evidence.memo:
        sizes, values = part_sizes(evidence.side, "group_id"), len(evidence.domains[0])
        whole = len(sizes) == evidence.rows // l and int(sizes.sum()) == evidence.rows
        if not whole or int(sizes.min(initial=l)) < l:
            raise ReleaseError(
                f"sensitive.parquet has other groups than {evidence.rows} rows make with l = {l}; it is damaged"
            )
        evidence.memo["groups"] = groups_of_sizes(sizes, evidence.side["unit0"], values)
    found = evidence.memo["groups"]
    assert isinstance(found, Groups)
    return found


def groups_of_sizes(sizes: NDArray[np.integer], codes: Codes, values: int) -> Groups:
    """The groups of so many values each, which follow each other in `codes`."""
    width, least = int(sizes.max(initial=0)), int(sizes.min()) if len(sizes) else len(codes)
    members = np.full((width, len(sizes)), values, dtype=np.min_scalar_type(values))
    more = np.flatnonzero(sizes > least)
    beyond = sizes[more].astype(np.int64) - least
    start = least * more + np.cumsum(beyond) - beyond
    if least and len(more) <= FEW_LARGER:  # groups are rows of `least` values between those that have more
        begins, ends = np.append(0, start + least + beyond), np.append(start + least, len(codes))
        first = 0
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            rows = codes[begin:end].reshape(-1, least)
            members[:least, first : first + len(rows)] = rows.T
            first += len(rows)
    else:
        extra = np.repeat(least * (more + 1), beyond) + np.arange(int(beyond.sum()))
        members[:least] = np.delete(codes, extra).reshape(len(sizes), least).T
    for j in range(least, width):
        there = np.flatnonzero(beyond > j - least)
        members[j, more[there]] = codes[start[there] + j]
    return Groups(members=members, sizes=sizes, values=values)


def inverse_sizes(groups: Groups) -> Floats:
    """1 / |g| by |g|."""
    return 1 / np.maximum(np.arange(len(groups.members) + 1), 1)


def small(numbers: NDArray[np.number]) -> NDArray[np.unsignedinteger]:
    """Whole numbers from 0 on, in as few bytes as hold them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
