"""Errors that hang on few rows: an interval is normal, and an error whose square is that of a few rows is not.

The rule for sums in SQL, of squares: a mean, a coefficient or a correlation has an error that is the root of a sum of
squares. docs/explanation/inference.md, section 10.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..answering.totals import FEW
from ..model.public import Floats
from ..reports.text import visible


class Powers(NamedTuple):
    """Of some rows: how many, and sums of squares and of fourth powers of their numbers."""

    rows: float
    squares: float
    fourths: float


def powers(rows: Floats, numbers: Floats) -> Powers:
    """Sums over estimated rows.

    A count below 0 stands for no row; what is left is brought back to as many rows as are estimated in all.
    """
    counted = np.maximum(rows, 0.0)
    total = max(float(rows.sum()), 0.0)
    counted *= total / max(float(counted.sum()), 1e-300)
    with np.errstate(over="ignore", invalid="ignore"):
        return Powers(total, float((counted * numbers**2).sum()), float((counted * numbers**4).sum()))


def few_rows(name: str, *sums: Powers) -> tuple[str, ...]:
    """What to say of a column whose squares amount to few rows in one of the groups that `sums` are of.

    They amount to 1 / (sum g^4 / (sum g^2)^2 - 2 / n) rows, but to no more than the n there are: a normal column,
    whose sum g^4 is 3 (sum g^2)^2 / n, amounts to all of its rows.
    """
    rows, squares, fourths = (np.array(column) for column in zip(*sums, strict=True))
    with np.errstate(over="ignore"):
        told = np.isfinite(squares**2) & np.isfinite(fourths) & (squares > 0)  # else too large to be raised, or all 0
    rows, squares, fourths = rows[told], squares[told], fourths[told]
    if not (np.maximum(1 / rows, fourths / squares**2 - 2 / rows) > 1 / FEW).any():
        return ()
    return (f"{visible(name)}: the errors hang on few rows; intervals are approximate",)
