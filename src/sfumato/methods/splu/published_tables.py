"""The published rows of a decoy release as tables over the values that occur in it, one for each pattern."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...errors import QueryError
from ...model.public import Asked, Floats, Observed
from .decoy_channel import DecoyChannel

JOINT_VALUES = 2_000_000  # combinations of values of several columns that can be told apart in one question


@dataclass(frozen=True, slots=True)
class DecoyRows:
    """The published rows of one pattern of untouched leaves: `moments[j]` is a (keys, joint values) table."""

    moments: tuple[csr_array, ...]
    rows: Floats  # (K,)
    coefficients: csr_array  # (F, joint values), over published values only
    uncertain: NDArray[np.bool_]  # (F,) coefficients differ between values; the others are plain sums of g
    unseen: NDArray[np.bool_]  # (F,) the question also asks for values that were never published

    def only(self, keys: NDArray[np.intp]) -> DecoyRows:
        """The same of some keys."""
        return replace(self, moments=tuple(table[keys] for table in self.moments), rows=self.rows[keys])


def observations(channels: tuple[DecoyChannel, ...], observed: Observed, asked: Asked) -> list[DecoyRows]:
    """What was observed, over the values that occur in the release, one entry per pattern."""
    shape = tuple(len(c.active) for c in channels)
    width = int(np.prod(shape, dtype=np.int64))
    if len(channels) > 1 and width > JOINT_VALUES:
        raise QueryError(
            f"the question combines {' x '.join(map(str, shape))} sensitive values, too many to tell apart at once",
            hint="Ask about one of the columns, or group its values.",
        )
    codes = np.unravel_index(observed.value, asked.shape)
    place = np.zeros(len(observed.value), np.int64)
    grid = np.zeros(1, np.int64)
    for channel, code, size in zip(channels, codes, asked.shape, strict=True):
        position = np.zeros(size, np.int64)
        position[channel.active] = np.arange(len(channel.active))
        place = place * len(channel.active) + position[code]
        grid = (grid[:, None] * size + channel.active[None, :]).ravel()
    seen = np.zeros(int(np.prod(asked.shape)), bool)
    seen[grid] = True
    pattern, key = observed.pattern[observed.stratum], observed.key[observed.stratum]
    found = []
    for b, H in enumerate(asked.coefficients):
        at = np.flatnonzero(pattern == b)
        tables = tuple(
            csr_array((moment, (key[at], place[at])), shape=(observed.keys, width)) for moment in observed.moments[at].T
        )
        rows = np.asarray(tables[0].sum(axis=1), dtype=np.float64)
        unseen = abs(H) @ (~seen).astype(float) > 0
        found.append(DecoyRows(tables, rows, H[:, grid], _differ(H), unseen))
    return found


def _differ(H: csr_array) -> NDArray[np.bool_]:
    """Rows whose entries are not all the same number."""
    filled, width = np.diff(H.indptr), H.shape[1]
    top, bottom = H.max(axis=1).toarray(), H.min(axis=1).toarray()
    return (filled > 0) & ((filled < width) | (top > bottom))
