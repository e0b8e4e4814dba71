"""How often values share a group: sums over groups of 1/|g| and 1/|g|^2, by pair and by triple of values.

All that is known of the random assignment is in these: the mean of a weight over the groups that hold u is linear in
the pairs, a product of two weights is linear in the triples. docs/explanation/anatomy.md
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations
from math import comb

import numpy as np
from numpy.typing import NDArray

from ...model.public import Floats

MOST_VALUES = 128  # triples are V^3 numbers
FIRST = 101  # groups that tell which weight most of them have; they are in no order
MOST_WORK = 300_000_000  # numbers touched to sum them


def pairs_of(members: NDArray[np.integer], weight: Floats, values: int) -> Floats:
    """[u, s]: the sum of the weights of the groups with u and s; [u, u] those with u.

    The values of a group `members[:, g]` differ; a short group is filled up with `values`, which is no code.
    """
    width = values + 1
    found = _added_up(members, weight, values, 2)
    square = found.reshape(width, width)[:-1, :-1]
    square = square + square.T
    square[np.diag_indices(values)] = _added_up(members, weight, values, 1)[:-1]
    return square


def _added_up(members: NDArray[np.integer], weight: Floats, values: int, together: int) -> Floats:
    """The sum of the weights of the groups with some values, by their joint number, for every choice of so many places.

    Nearly all groups have one weight: they are counted, and what others have more or less is added. Places that few
    groups fill are looked at in these only.
    """
    size, some = (values + 1) ** together, np.sort(weight[:FIRST])
    common = float(some[len(some) // 2]) if len(some) else 0.0
    other = np.flatnonzero(weight != common)
    more = weight[other] - common
    found = np.zeros(size)
    filled = [_filled(place, values) for place in members]
    for chosen in combinations(range(len(members)), together):
        there = filled[chosen[-1]]
        found += common * np.bincount(_joint(members, chosen, there, values + 1), minlength=size)
        if len(other):
            found += np.bincount(_joint(members, chosen, other, values + 1), weights=more, minlength=size)
    return found


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


def triples_of(members: NDArray[np.integer], weight: Floats, values: int) -> Floats:
    """[u, s, t]: the sum of the weights of the groups with u, s and t, which may be the same."""
    width = values + 1
    found = _added_up(members, weight, values, 3)
    ordered = found.reshape(width, width, width)[:-1, :-1, :-1]
    cube = np.zeros_like(ordered)
    for axes in permutations(range(3)):
        cube += ordered.transpose(axes)
    pairs, each = pairs_of(members, weight, values), np.arange(values)
    for at in _diagonals(each):
        cube[at] = pairs  # u = s, u = t and s = t
    return cube


def few_enough(groups: int, width: int, values: int) -> bool:
    """Whether triples are cheaper than a pass over the groups for every question."""
    return values <= MOST_VALUES and comb(width, 3) * (groups + values**3) <= MOST_WORK


def _diagonals(each: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], ...]]:
    u, s = each[:, None], each[None, :]
    yield u, u, s
    yield u, s, u
    yield s, u, u
