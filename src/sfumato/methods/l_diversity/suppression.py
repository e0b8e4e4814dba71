"""Which rows of a batch stay, when cells of classes that are not diverse are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Keeper:
    """Which cells stay, for rows of codes of any batch: prefixes of the cells numbered column by column."""

    steps: tuple[Integers, ...]  # per column after the first: sorted keys prefix * size + code
    sizes: tuple[int, ...]
    stay: NDArray[np.bool_]  # per number of the whole cell

    @classmethod
    def of(cls, cells: Integers, where: Integers, good: NDArray[Any]) -> Keeper:
        """From the distinct cells, their classes and which classes are diverse."""
        sizes = tuple(int(c.max()) + 1 for c in cells.T)
        number, steps = cells[:, 0], []
        for column, size in zip(cells.T[1:], sizes[1:], strict=True):
            keys = np.unique(number * size + column)
            steps.append(keys)
            number = np.searchsorted(keys, number * size + column)
        stay = np.zeros(int(number.max()) + 1, dtype=bool)
        stay[number] = good[where]
        return cls(steps=tuple(steps), sizes=sizes, stay=stay)

    def __call__(self, codes: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
        """Which rows stay; a cell that was not counted when planning does not."""
        number = codes[0].astype(np.int64)
        known = number < self.sizes[0]
        for keys, size, column in zip(self.steps, self.sizes[1:], codes[1:], strict=True):
            key = number * size + column
            number = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
            known &= (keys[number] == key) & (column < size)
        return np.asarray(known & self.stay[np.minimum(number, len(self.stay) - 1)])
