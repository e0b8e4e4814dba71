"""Generalisation hierarchies: for every level, the class of every value of a declared domain.

Level 0 is the value itself; each further level is coarser; classes are nested (two values together stay together).
ARX-style rows hold a value and then one label per level. Builders make the usual ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SpecError
from ...model.public import Domain

MISSING = "(missing)"

Ints = NDArray[np.int64]
ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hierarchy:
    """levels[h][code] is the class of a value at level h; labels[h][class] its name."""

    column: str
    levels: tuple[Ints, ...]
    labels: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for h in range(1, len(self.levels)):
            below, above = self.levels[h - 1], self.levels[h]
            first = np.full(int(below.max()) + 1, -1, dtype=np.int64)
            first[below[::-1]] = above[::-1]
            if not np.array_equal(first[below], above):
                raise SpecError(
                    f"hierarchy of {self.column!r}: level {h} splits a class of level {h - 1}; levels must be nested",
                    field="hierarchies",
                )

    @property
    def height(self) -> int:
        return len(self.levels) - 1

    def class_sizes(self, level: int) -> Ints:
        """The number of domain values in each class of a level."""
        return np.bincount(self.levels[level], minlength=len(self.labels[level]))


def _build(column: str, label_rows: Sequence[Sequence[str]]) -> Hierarchy:
    """label_rows[h][code]: the label of every value at every level; classes are numbered in domain order."""
    levels, labels = [], []
    for row in label_rows:
        order = {label: i for i, label in enumerate(dict.fromkeys(row))}
        levels.append(np.array([order[label] for label in row], dtype=np.int64))
        labels.append(tuple(order))
    return Hierarchy(column=column, levels=tuple(levels), labels=tuple(labels))


def from_rows(column: str, domain: Sequence[object], rows: Sequence[Sequence[str]]) -> Hierarchy:
    """The hierarchy of a domain from parsed ARX-style rows: value, label at level 1, ..., label at the last level."""
    widths = {len(row) for row in rows}
    if len(widths) != 1 or min(widths) < 1:
        raise SpecError(
            f"hierarchy of {column!r}: every row needs the same number of levels, found {sorted(widths)}",
            field="hierarchies",
        )
    by_value = {row[0]: row for row in rows}
    if len(by_value) != len(rows):
        raise SpecError(f"hierarchy of {column!r} lists a value twice", field="hierarchies")
    missing = sum(str(value) not in by_value for value in domain)
    if missing:
        raise SpecError(
            f"hierarchy of {column!r} lacks {missing} of the {len(domain)} values of the domain; add a row for each",
            field="hierarchies",
        )
    chosen = [by_value[str(value)] for value in domain]
    return _build(column, [[row[h] for row in chosen] for h in range(widths.pop())])


def suppress(column: str, domain: Sequence[object]) -> Hierarchy:
    """Two levels: the value, or nothing."""
    return _build(column, [[str(v) for v in domain], [ANY] * len(domain)])


def prefixes(column: str, domain: Sequence[object], lengths: Sequence[int]) -> Hierarchy:
    """Keep the first characters only: one level per length, longest first, then nothing."""
    if list(lengths) != sorted(set(lengths), reverse=True) or any(n < 1 for n in lengths):
        raise SpecError(
            f"prefix lengths of {column!r} must fall and stay above 0, got {list(lengths)}", field="hierarchies"
        )
    values = [str(v) for v in domain]
    cut = [[v if len(v) <= n else v[:n] + ANY for v in values] for n in lengths]
    return _build(column, [values, *cut, [ANY] * len(values)])


def intervals(column: str, domain: Sequence[float], widths: Sequence[int], *, origin: int = 0) -> Hierarchy:
    """Half-open intervals [a, a + width) counted from `origin`: one level per width, each a multiple of the last."""
    if any(w < 1 for w in widths) or any(b % a or b == a for a, b in pairwise(widths)):
        raise SpecError(
            f"interval widths of {column!r} must grow, each a multiple of the one before, got {list(widths)}",
            field="hierarchies",
        )
    values = np.asarray(domain, dtype=np.float64)
    rows = [[str(v) for v in domain]]
    for width in widths:
        low = (np.floor((values - origin) / width) * width + origin).astype(np.int64)
        rows.append([f"[{a}, {a + width})" for a in low])
    return _build(column, [*rows, [ANY] * len(values)])


def hierarchy_of(domain: Domain, what: Any) -> Hierarchy:
    """The hierarchy a person means for a column; missing values are a class of their own below the top."""
    column = domain.columns[0]
    values = [v[0] for v in domain.values]
    if what is None or what == "suppress":
        return suppress(column, [MISSING if v is None else v for v in values])
    if isinstance(what, str):
        name, _, numbers = what.partition(":")
        try:
            steps = [int(n) for n in numbers.split("/")]
        except ValueError:
            steps = []
        if name == "prefix" and steps:
            return prefixes(column, [MISSING if v is None else v for v in values], steps)
        if name == "interval" and steps:
            numeric = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
            if len(numeric) < len(values):
                raise SpecError(f'intervals need numbers; "{column}" has other values', field="hierarchies")
            return intervals(column, numeric, steps)
        raise SpecError(
            f'hierarchy of "{column}" must be interval:5/10, prefix:3/1, suppress or a table, got "{what}"',
            field="hierarchies",
        )
    rows = [[str(cell) for cell in row] for row in what]
    if None in values and rows:
        rows.append([MISSING, *[MISSING] * (len(rows[0]) - 2), *rows[0][-1:]])
    return from_rows(column, [MISSING if v is None else v for v in values], rows)
