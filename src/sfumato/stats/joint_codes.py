"""Several columns of codes as one: distinct rows, and the number of every row among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOM = 1 << 62  # joint numbers stay below it, so that they never wrap around


def joint_ranks(columns: Sequence[NDArray[Any]], rows: int) -> tuple[NDArray[np.int64], int]:
    """(a number for every row, how many numbers there can be): equal rows, equal numbers; lexicographic order kept.

    The mixed-radix number of the codes; where that would not fit 62 bits, the numbers so far are replaced by ranks.
    """
    joint, size = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        width = int(column.max(initial=0)) + 1
        if size * width >= ROOM:
            distinct, joint = np.unique(joint, return_inverse=True)
            joint, size = joint.reshape(-1).astype(np.int64), max(1, len(distinct))
        joint, size = joint * width + column, size * width
    return joint, size


def sum_by_group(values: NDArray[Any], group: Any, groups: int | tuple[int, ...]) -> NDArray[Any]:
    """Sums of the values (or rows of values) of every group: int64 for whole numbers, exact for Python's, else float64.

    `group` says for each value the number of its group; or a tuple of numbers, where groups are a table of that shape.
    """
    size = (groups,) if isinstance(groups, int) else groups
    dtype = {"b": np.int64, "i": np.int64, "u": np.int64, "O": object}.get(values.dtype.kind, np.float64)
    found = np.zeros((*size, *values.shape[1:]), dtype=dtype)
    np.add.at(found, group, values)
    return found


def distinct_rows(columns: Sequence[NDArray[Any]], rows: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """(distinct rows in lexicographic order, number of the distinct row of every row)."""
    if not columns:
        return np.zeros((min(rows, 1), 0), dtype=np.int8), np.zeros(rows, dtype=np.intp)
    _, first, inverse = np.unique(joint_ranks(columns, rows)[0], return_index=True, return_inverse=True)
    return np.stack([column[first] for column in columns], axis=1), inverse.reshape(-1)


def distinct_cells(codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """The same for a matrix of codes; a matrix without columns has one distinct row."""
    if codes.shape[1] == 0:
        return np.zeros((1, 0), dtype=np.int64), np.zeros(len(codes), dtype=np.intp)
    found, place = distinct_rows(list(codes.T), len(codes))
    return found.astype(np.int64), place
