"""How often values share a group: sums over groups of 1/|g| and 1/|g|^2, by pair and by triple of values.

All that is known of the random assignment is in these: the mean of a weight over the groups that hold u is linear in
the pairs, a product of two weights is linear in the triples. docs/explanation/anatomy.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations
from math import comb

import numpy as np
from numpy.typing import NDArray

from ...model.array_counts import count_up, joint_numbers
from ...model.public import Floats

MOST_VALUES = 128  # triples are V^3 numbers
FIRST = 101  # groups that tell of which kind most of them are; they are in no order
LARGE = 16  # values of a group, from which on pairs and triples of its places may be too many to go through
TOGETHER = 1 << 22  # cells of a table of groups and values
MOST_CELLS = 200_000  # of a table over three places: it stays near while groups are counted
MOST_WORK = 300_000_000  # numbers touched to sum them
MANY_GROUPS = 1 << 19  # of more, publishing made copies: different ones are looked at once


def pairs_of(members: NDArray[np.integer], kind: NDArray[np.integer], weight: Floats, values: int) -> Floats:
    """[u, s]: the sum of the weights of the groups with u and s; [u, u] those with u. Group g has `weight[kind[g]]`.

    The values of a group `members[:, g]` differ; a short group is filled up with `values`, which is no code.
    """
    return pairs_and_counts(members, kind, weight, values)[0]


def pairs_and_counts(
    members: NDArray[np.integer], kind: NDArray[np.integer], weight: Floats, values: int
) -> tuple[Floats, Floats]:
    """(the same, how many groups hold each value), from one look at the groups."""
    places, groups = members.shape
    if places >= LARGE and places**2 * (values**2 + groups) > groups * values**2:
        return _pairs_by_product(members, kind, weight, values)
    return _pairs(_PlaceTables(members, kind, weight, values), len(members), values)


def _pairs_by_product(
    members: NDArray[np.integer], kind: NDArray[np.integer], weight: Floats, values: int
) -> tuple[Floats, Floats]:
    """The same, by a product of matrices: large groups have more pairs of places than there are groups."""
    square, held = np.zeros((values, values)), np.zeros(values)
    for there, mine in _tabled(members, weight[kind], values):
        square += there.T @ (there * mine[:, None])
        held += there.sum(axis=0)
    return square, held


def _tabled(members: NDArray[np.integer], weight: Floats, values: int) -> Iterator[tuple[Floats, Floats]]:
    """(groups, values) with 1 where a group holds a value, and the weights of the groups; some groups at a time."""
    step = max(1, TOGETHER // (values + 1))
    for first in range(0, members.shape[1], step):
        some = members[:, first : first + step]
        there = np.zeros((some.shape[1], values + 1))
        there[np.arange(some.shape[1]), some] = 1.0
        yield there[:, :-1], weight[first : first + step]


def _pairs(tables: _PlaceTables, size: int, values: int) -> tuple[Floats, Floats]:
    width = values + 1
    square, single, held = np.zeros((width, width)), np.zeros(width), np.zeros(width)
    pairs, places = set(combinations(range(size), 2)), set(range(size))
    for chosen in _threes(tables.full) if width**3 <= MOST_CELLS else []:
        both = [(of.sum(axis=0), of.sum(axis=1), of.sum(axis=2)) for of in tables.counted_of(chosen)]
        for lost, pair in enumerate(((chosen[1], chosen[2]), (chosen[0], chosen[2]), (chosen[0], chosen[1]))):
            square += both[1][lost]
            pairs.remove(pair)
        for place, (table, axis) in zip(chosen, ((2, 1), (2, 0), (1, 0)), strict=True):
            if place in places:
                held += both[0][table].sum(axis=axis)
                single += both[1][table].sum(axis=axis)
                places.remove(place)
    for pair in sorted(pairs):
        square += tables.of(pair)
    for place in sorted(places):
        counted, weighted = tables.counted_of((place,))
        single += weighted
        held += counted
    square = (square + square.T)[:-1, :-1]
    square[np.diag_indices(values)] = single[:-1]
    return square, held[:-1]


def _threes(places: Sequence[int]) -> list[tuple[int, int, int]]:
    """Triples of places, no pair of places in two of them: the table of one tells three pairs at once."""
    taken: set[tuple[int, int]] = set()
    found = []
    for a, b, c in combinations(places, 3):
        mine = {(a, b), (a, c), (b, c)}
        if not taken & mine:
            taken |= mine
            found.append((a, b, c))
    return found


class _PlaceTables:
    """Sums of the weights of groups by the values that they have in some places.

    Nearly all groups are of one kind: they are counted, and what others weigh more or less is added. Places that few
    groups fill are looked at in these only. A group that is there `times` over counts as often.
    """

    def __init__(
        self,
        members: NDArray[np.integer],
        kind: NDArray[np.integer],
        weight: Floats,
        values: int,
        times: NDArray[np.integer] | None = None,
    ) -> None:
        self._members, self._width, self._times = members, values + 1, times
        common = usual_of(kind)
        self._common = float(weight[common]) if len(kind) else 0.0
        self._other = np.flatnonzero(kind != common)
        self._more = weight[kind[self._other]] - self._common
        if times is not None:
            self._more = self._more * times[self._other]
        self._filled = [_filled(place, values) for place in members]
        self.full = [j for j, there in enumerate(self._filled) if isinstance(there, slice)]  # looked at in all groups

    def of(self, chosen: tuple[int, ...]) -> Floats:
        """The table over some places, in their order; `values` stands where a group has no value in a place.

        Where groups that fill the last place are few, others are left out: they have no value there.
        """
        return self.counted_of(chosen)[1]

    def counted_of(self, chosen: tuple[int, ...]) -> tuple[NDArray[np.integer | np.floating], Floats]:
        """(how many groups, the sum of their weights)."""
        width, there = self._width, self._filled[chosen[-1]]
        size = width ** len(chosen)
        counted = self._counted(chosen, there)
        found = self._common * counted
        if len(self._other):
            joint = _joint(self._members, chosen, self._other, width)
            found = found + np.bincount(joint, weights=self._more, minlength=size)
        shape = (width,) * len(chosen)
        return counted.reshape(shape), np.asarray(found, dtype=np.float64).reshape(shape)

    def _counted(self, chosen: tuple[int, ...], there: NDArray[np.intp] | slice) -> NDArray[np.integer | np.floating]:
        """How many of some groups have each combination of values; the wide numbers of a block stay near."""
        width, groups = self._width, self._members.shape[1]
        size = width ** len(chosen)
        if self._times is not None:
            return np.bincount(_joint(self._members, chosen, there, width), self._times[there], minlength=size)
        if not isinstance(there, slice):
            return np.bincount(_joint(self._members, chosen, there, width), minlength=size)
        found = np.zeros(size, dtype=np.int64)
        places = [self._members[j] for j in chosen]
        count_up(found, joint_numbers(places, [width] * (len(chosen) - 1), groups, size))
        return found


def usual_of(kind: NDArray[np.integer]) -> int:
    """The kind of nearly all groups."""
    some = np.sort(kind[:FIRST])
    return int(some[len(some) // 2]) if len(some) else 0


def _different(
    members: NDArray[np.integer], kind: NDArray[np.integer], values: int
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.intp] | None]:
    """(members, kind, how many there are of it) of every different group; of groups that are few as they are, None."""
    width, kinds = values + 1, int(kind.max(initial=0)) + 1
    if members.shape[1] <= MANY_GROUPS or width ** len(members) * kinds >= 1 << 63:
        return members, kind, None
    number = kind.astype(np.int64)
    for place in members[::-1]:
        number *= width
        number += place
    number.sort()
    first = np.flatnonzero(np.concatenate([[True], number[1:] != number[:-1]]))
    times, number = np.diff(first, append=len(number)), number[first]
    found = np.empty((len(members), len(first)), dtype=members.dtype)
    for place in found:
        number, place[:] = np.divmod(number, width)
    return found, number, times


def _filled(place: NDArray[np.integer], values: int) -> NDArray[np.intp] | slice:
    """The groups that have a value in a place, where they are few; all of them otherwise."""
    there = place != values
    return np.flatnonzero(there) if 2 * np.count_nonzero(there) < len(place) else slice(None)


def _joint(
    members: NDArray[np.integer], chosen: tuple[int, ...], groups: NDArray[np.intp] | slice, width: int
) -> NDArray[np.integer]:
    """One number for the values that some groups have in the chosen places."""
    small = np.min_scalar_type(width ** len(chosen))  # the fewer bytes, the faster
    number = members[chosen[0]][groups].astype(small)
    for place in chosen[1:]:
        number = number * small.type(width) + members[place][groups]
    return number


def triples_of(members: NDArray[np.integer], kind: NDArray[np.integer], weight: Floats, values: int) -> Floats:
    """[u, s, t]: the sum of the weights of the groups with u, s and t, which may be the same."""
    places, groups = members.shape
    if places >= LARGE and comb(places, 3) * (values**3 + groups) > groups * places * values**2:
        return _triples_by_product(members, weight[kind], values)
    members, kind, times = _different(members, kind, values)
    tables = _PlaceTables(members, kind, weight, values, times)
    found = np.zeros((values + 1,) * 3)
    for chosen in combinations(range(len(members)), 3):
        found += tables.of(chosen)
    ordered = found[:-1, :-1, :-1]
    cube = np.zeros_like(ordered)
    for axes in permutations(range(3)):
        cube += ordered.transpose(axes)
    (pairs, _), each = _pairs(tables, len(members), values), np.arange(values)
    for at in _diagonals(each):
        cube[at] = pairs  # u = s, u = t and s = t
    return cube


def _triples_by_product(members: NDArray[np.integer], weight: Floats, values: int) -> Floats:
    """The same, value by value, by a product of matrices over the groups that hold it."""
    cube = np.zeros((values,) * 3)
    for there, mine in _tabled(members, weight, values):
        for u in range(values):
            with_u = there[there[:, u] > 0]
            cube[u] += with_u.T @ (with_u * mine[there[:, u] > 0, None])
    return cube


def few_enough(groups: int, width: int, values: int) -> bool:
    """Whether triples are cheaper than a pass over the groups for every question."""
    return values <= MOST_VALUES and comb(width, 3) * (groups + values**3) <= MOST_WORK


def _diagonals(each: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], ...]]:
    u, s = each[:, None], each[None, :]
    yield u, u, s
    yield u, s, u
    yield s, u, u
