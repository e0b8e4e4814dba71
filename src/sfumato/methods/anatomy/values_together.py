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
MOST_WORK = 300_000_000  # numbers touched to sum them


def pairs_of(members: NDArray[np.integer], weight: Floats, values: int) -> Floats:
    """[u, s]: the sum of the weights of the groups with u and s; [u, u] those with u.

    The values of a group `members[:, g]` differ; a short group is filled up with `values`, which is no code.
    """
    width = values + 1
    found = np.zeros(width**2)
    for first, second in combinations(members, 2):
        found += np.bincount(first * np.intp(width) + second, weights=weight, minlength=width**2)
    square = found.reshape(width, width)[:-1, :-1]
    square = square + square.T
    square[np.diag_indices(values)] = _single(members, weight, values)
    return square


def triples_of(members: NDArray[np.integer], weight: Floats, values: int) -> Floats:
    """[u, s, t]: the sum of the weights of the groups with u, s and t, which may be the same."""
    width = values + 1
    found = np.zeros(width**3)
    for first, second, third in combinations(members, 3):
        found += np.bincount((first * np.intp(width) + second) * width + third, weights=weight, minlength=width**3)
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


def _single(members: NDArray[np.integer], weight: Floats, values: int) -> Floats:
    found = np.zeros(values + 1)
    for row in members:
        found += np.bincount(row, weights=weight, minlength=values + 1)
    return found[:-1]
