"""How well a release gives back one two-way table: distances from the true one, and the association that is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SfumatoError
from ..model.public import Floats
from ..sql.scalar import quoted
from ..stats.association import chi_square_distance, euclidean_distance, kl_distance, uncertainty_coefficient
from .original import Key, Original
from .workload import Asks

MOST_VALUES = 100
MIX = 0.01  # share of a uniform table mixed in before Kullback-Leibler: estimates have empty cells


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reference:
    """The true table of the sensitive value by the column it goes with most."""

    column: str
    sensitive: tuple[str, ...]
    rows: tuple[Key, ...]
    columns: tuple[Key, ...]
    true_counts: Floats  # (values of the column, sensitive values)

    @classmethod
    def strongest(cls, truth: Original, sensitive: Sequence[str], sizes: Mapping[str, int]) -> Reference | None:
        """The column of at most MOST_VALUES values with the largest uncertainty coefficient; None if there is none."""
        best: tuple[float, Reference] | None = None
        for column in (c for c, size in sizes.items() if 1 < size <= MOST_VALUES):
            cells = truth.counts([column, *sensitive])
            rows = tuple(dict.fromkeys(key[:1] for key in cells))
            columns = tuple(dict.fromkeys(key[1:] for key in cells))
            table = np.zeros((len(rows), len(columns)))
            row = {key: i for i, key in enumerate(rows)}
            column_of = {key: j for j, key in enumerate(columns)}
            for key, count in cells.items():
                table[row[key[:1]], column_of[key[1:]]] = count
            kept = uncertainty_coefficient(table)
            if best is None or kept > best[0]:
                found = cls(column=column, sensitive=tuple(sensitive), rows=rows, columns=columns, true_counts=table)
                best = (kept, found)
        return best[1] if best else None

    def describe(self) -> dict[str, Any]:
        """Which table, and the true association."""
        return {"column": self.column, "association": uncertainty_coefficient(self.true_counts)}


def reconstruction(reference: Reference, release: Asks, estimator: str | None = None) -> dict[str, float] | None:
    """Distances and association of the estimated table; None where the method gives no estimate of it."""
    names = ", ".join(quoted(c) for c in (reference.column, *reference.sensitive))
    try:
        answer = release.sql(f"SELECT {names}, COUNT(*) AS n FROM release GROUP BY {names}", estimator=estimator).table
    except SfumatoError:
        return None
    row = {key: i for i, key in enumerate(reference.rows)}
    column = {key: j for j, key in enumerate(reference.columns)}
    estimated = np.zeros_like(reference.true_counts)
    keys = zip(*[answer[c].to_pylist() for c in (reference.column, *reference.sensitive)], strict=True)
    for key, value in zip(keys, answer["n"].to_numpy(), strict=True):
        if key[:1] in row and key[1:] in column:
            estimated[row[key[:1]], column[key[1:]]] = value
    if not np.isfinite(estimated).all() or estimated.sum() <= 0:
        return None
    true = reference.true_counts
    return {
        "kl": kl_distance(true, estimated, mix=MIX),
        "chi_square": chi_square_distance(true, estimated),
        "euclid": euclidean_distance(true, estimated),
        "association": uncertainty_coefficient(estimated),
        "association_true": uncertainty_coefficient(true),
    }
