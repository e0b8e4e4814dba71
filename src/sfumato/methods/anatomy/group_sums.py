"""What was observed, added up: by the values of the groups, by true value, and group by group for certain bounds.

Observed entries say how many rows of a stratum lie in a group; several may say so of one group. Or they are cells, and
how these lie in the groups is known (`group_cells.py`). What needs no group is added up once by stratum: an output row,
and each grouping set of a CUBE, is a sum of strata. Bounds need the rows of an output row in each group, but only in
groups that hold a value that is asked for. docs/explanation/anatomy.md
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...model.part_cells import PartCells, PartCounts
from ...model.public import Asked, Floats, Observed
from ...stats.joint_codes import distinct_numbers
from .group_cells import SeenCells, held_by, shares_by_cell
from .group_counts import SeenCounts
from .held_values import Groups, small

MOST_SHARES = 20_000_000  # numbers kept by stratum and value; beyond, they are added up by output row
MOST_SELECTED = 8  # selections of entries that are kept

Kinds = list[list[tuple[int, NDArray[np.bool_]]]]
Sums = Callable[[NDArray[np.bool_], int], Floats]


def kinds(h: Floats) -> Kinds:
    """For each functional, the patterns that share nonzero coefficients: (one of them, which patterns).

    A question with many conditions has many patterns and, for one functional, few different coefficients.
    """
    if len(h) == 1:
        every = np.ones(1, dtype=bool)
        return [[(0, every)] if row.any() else [] for row in h[0]]
    found: Kinds = []
    for f in range(h.shape[1]):
        rows, first, kind = np.unique(h[:, f], axis=0, return_index=True, return_inverse=True)
        kind = kind.reshape(-1)
        found.append([(int(first[k]), kind == k) for k in range(len(rows)) if rows[k].any()])
    return found


class Entries:
    """Sums over observed entries by the values of their groups."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        # looked up ten million times in no order: small enough to stay near
        self.sizes = small(groups.sizes)
        self._last: Seen | SeenCounts | None = None
        self._by_cell: weakref.WeakKeyDictionary[PartCells, Floats] = weakref.WeakKeyDictionary()

    def seen(self, observed: Observed) -> Seen | SeenCounts:
        """What is kept of these entries, for as long as they are: the grouping sets of a question share them."""
        last = self._last
        if last is None or not last.are_of(observed):
            last = self._last = self._new(observed)
            weakref.finalize(observed.moments, self._forget, weakref.ref(last))
        return last

    def _new(self, observed: Observed) -> Seen | SeenCounts:
        inside, cell = observed.inside, observed.cell
        if isinstance(inside, PartCounts):
            return SeenCounts(self.groups, inside)
        if inside is None or cell is None:
            return SeenEntries(self, observed)
        if inside not in self._by_cell:
            self._by_cell[inside] = shares_by_cell(self.groups, inside)
        return SeenCells(self.groups, self._by_cell[inside], inside, cell, observed)

    def _forget(self, kept: weakref.ref[Seen | SeenCounts]) -> None:
        if self._last is kept():
            self._last = None

    def shares(self, observed: Observed, column: int) -> Floats:
        """(T, values): every entry's moment in equal parts to the values of its group, by stratum."""
        shared = observed.moments[:, column] / self.sizes[observed.part]
        return self.groups.by_row_and_value(observed.stratum, observed.strata, observed.part, shared)


class Seen(Protocol):
    """Sums over the entries of one question; what is the same for all of its grouping sets is kept."""

    def are_of(self, observed: Observed) -> bool:
        """Whether these are the entries."""

    def shares(self, observed: Observed, column: int) -> Floats:
        """(T, values): every entry's moment in equal parts to the values of its group, by stratum."""

    def ends(self, observed: Observed, patterns: NDArray[np.bool_], h: Floats) -> tuple[Floats, Floats]:
        """(K,), (K,): least and most rows of some patterns that have a value that is asked for, by output row."""

    def ends_by_value(self, observed: Observed, patterns: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """(K, values), (K, values): the same for each value by itself."""


class SeenEntries:
    """The same where entries say in which group they are."""

    def __init__(self, entries: Entries, observed: Observed) -> None:
        self._entries, self._of = entries, tuple(weakref.ref(array) for array in _arrays(observed))
        self._shares: dict[int, Floats] = {}
        self._selected: dict[tuple[bytes, bytes], tuple[NDArray[Any], NDArray[np.intp]]] = {}

    def are_of(self, observed: Observed) -> bool:
        """Whether these are the entries."""
        return all(kept() is array for kept, array in zip(self._of, _arrays(observed), strict=True))

    def shares(self, observed: Observed, column: int) -> Floats:
        """(T, values): every entry's moment in equal parts to the values of its group, by stratum."""
        if column not in self._shares:
            self._shares[column] = self._entries.shares(observed, column)
        return self._shares[column]

    def ends(self, observed: Observed, patterns: NDArray[np.bool_], h: Floats) -> tuple[Floats, Floats]:
        """Sums over groups of max(0, c(P) + c(A) - |g|) and min(c(P), c(A)); a group without A adds nothing."""
        key, part, rows, held = self._in_groups(observed, patterns, h)
        inside = held[part].astype(np.int32)  # bytes would not hold the sums below
        room = np.maximum(0.0, rows + inside - self._entries.sizes[part])
        return (
            np.bincount(key, weights=room, minlength=observed.keys).astype(np.float64),
            np.bincount(key, weights=np.minimum(rows, inside), minlength=observed.keys).astype(np.float64),
        )

    def ends_by_value(self, observed: Observed, patterns: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """A is one value s, so that c(A) = 1[s in g]: sums of 1[c(P) = |g|] and 1[c(P) > 0] over groups with s."""
        groups = self._entries.groups
        key, part, rows, _ = self._in_groups(observed, patterns, np.ones(groups.values))
        room = np.maximum(0.0, 1.0 + rows - self._entries.sizes[part])
        least = groups.by_row_and_value(key, observed.keys, part, room)
        return least, groups.by_row_and_value(key, observed.keys, part, np.minimum(rows, 1.0))

    def _in_groups(
        self, observed: Observed, patterns: NDArray[np.bool_], h: Floats
    ) -> tuple[NDArray[np.integer], NDArray[np.integer], Floats, NDArray[Any]]:
        """(output row, group, rows) of every pair of the two with rows of some patterns, each pair once, where the
        group holds a value that is asked for; and how many such values every group holds."""
        held, at = self._holding(observed, patterns, h)
        count = len(self._entries.groups)
        rows = observed.moments[at, 0]
        pair = observed.key[observed.stratum[at]] * np.int64(count) + observed.part[at]
        if (pair[1:] > pair[:-1]).all():
            pass
        elif (rows == 1).all():  # entries are rows: how often a pair comes is how many it has
            pair.sort()
            first = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
            rows, pair = np.diff(first, append=len(pair)).astype(np.float64), pair[first]
        else:
            pair, place = distinct_numbers(pair)
            rows = np.bincount(place, weights=rows, minlength=len(pair)).astype(np.float64)
        key = pair // count
        return key, pair - key * count, rows, held

    def _holding(
        self, observed: Observed, patterns: NDArray[np.bool_], h: Floats
    ) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """(values of every group that are asked for, entries of some patterns whose group holds one)."""
        strata = patterns[observed.pattern]
        name = (strata.tobytes(), h.tobytes())
        if name not in self._selected:
            held = held_by(self._entries.groups, h)
            there = (held > 0)[observed.part]
            if not strata.all():
                there &= strata[observed.stratum]
            if len(self._selected) >= MOST_SELECTED:
                self._selected = {}
            self._selected[name] = held, np.flatnonzero(there)
        return self._selected[name]


def _arrays(observed: Observed) -> tuple[NDArray[Any], ...]:
    return observed.stratum, observed.part, observed.moments


class _Channel(Protocol):
    """What GroupSums asks of M."""

    true_counts: NDArray[np.int64]

    def back(self, a: Floats) -> Floats: ...


class GroupSums:
    """Sums of a moment per output row over some patterns: by the values of the groups, and by true value, estimated."""

    def __init__(self, entries: Entries, channel: _Channel, observed: Observed) -> None:
        self.entries, self.observed, self._channel = entries, observed, channel
        self.seen = entries.seen(observed)
        self._shares: dict[tuple[bytes, int], Floats] = {}
        self._kept: dict[tuple[bytes, int], Floats] = {}

    def shares(self, patterns: NDArray[np.bool_], column: int) -> Floats:
        """(K, values): every entry's moment in equal parts to the values of its group."""
        name = (patterns.tobytes(), int(column))
        if name not in self._shares:
            seen, values = self.observed, self.entries.groups.values
            strata = np.flatnonzero(patterns[seen.pattern])
            if seen.strata * values <= MOST_SHARES or seen.inside is not None:
                mine = self.seen.shares(seen, column)[strata]
                place = seen.key[strata][:, None] * values + np.arange(values)
                flat = np.bincount(place.ravel(), weights=mine.ravel(), minlength=seen.keys * values)
                self._shares[name] = flat.reshape(seen.keys, values).astype(np.float64)
            else:
                at = np.flatnonzero(patterns[seen.pattern][seen.stratum])
                key, part = seen.key[seen.stratum[at]], seen.part[at]
                shared = seen.moments[at, column] / self.entries.sizes[part]
                self._shares[name] = self.entries.groups.by_row_and_value(key, seen.keys, part, shared)
        return self._shares[name]

    def __call__(self, patterns: NDArray[np.bool_], column: int) -> Floats:
        """(K, values): x^ cut to [0, F_u] for counts."""
        name = (patterns.tobytes(), int(column))
        if name not in self._kept:
            x = self._channel.back(self.shares(patterns, column))
            most = self._channel.true_counts
            # all records of a value, or none: no error left
            near = np.where(most - x < 1e-9 * most, most, np.where(x < 1e-9 * most, 0.0, x))
            self._kept[name] = x if column else near
        return self._kept[name]


def bounds(sums: GroupSums, asked: Asked, h: Floats, alike: Kinds) -> tuple[Floats, Floats]:
    """[ sum max(0, c_g(P) + c_g(A) - |g|), sum min(c_g(P), c_g(A)) ] for counts; no bound for other functionals."""
    observed, groups = sums.observed, sums.entries.groups
    shape = (observed.keys, asked.functionals)
    low, high = np.zeros(shape), np.zeros(shape)
    counting = (asked.measure == 0) & asked.indicator
    low[:, ~counting], high[:, ~counting] = -np.inf, np.inf
    places: dict[bytes, tuple[NDArray[np.bool_], list[tuple[int, int]]]] = {}  # functionals by the patterns they ask
    for f in np.flatnonzero(counting).tolist():
        for b, where in alike[f]:
            places.setdefault(where.tobytes(), (where, []))[1].append((f, b))
    for where, asking in places.values():
        single = [(f, b) for f, b in asking if h[b, f].sum() == 1]
        together = len(single) > len(groups.members)  # one pass for all of them, by value
        if together:
            least, most = sums.seen.ends_by_value(observed, where)
            for f, b in single:
                low[:, f] += least[:, h[b, f].argmax()]
                high[:, f] += most[:, h[b, f].argmax()]
        for f, b in set(asking).difference(single) if together else asking:
            fewest, all_there = sums.seen.ends(observed, where, h[b, f])
            low[:, f] += fewest
            high[:, f] += all_there
    return low, high
