"""Errors that hang on few rows: an interval is normal, and an error whose square is that of a few rows is not.

The rule for sums in SQL, of squares: a mean, a coefficient or a correlation has an error that is the root of a sum of
squares. docs/explanation/inference.md, section 10.
"""

from __future__ import annotations

import numpy as np

from ..answering.few_rows import FEW, amount_of
from ..model.public import Floats
from ..reports.text import visible


def powers(rows: Floats, numbers: Floats) -> tuple[float, float]:
    """Sums of squares and of fourth powers over estimated rows.

    A count below 0 stands for no row; what is left is brought back to as many rows as are estimated in all.
    """
    counted = np.maximum(rows, 0.0)
    counted *= max(float(rows.sum()), 0.0) / max(float(counted.sum()), 1e-300)
    with np.errstate(over="ignore", invalid="ignore"):
        return float((counted * numbers**2).sum()), float((counted * numbers**4).sum())


def few_rows(name: str, *sums: tuple[float, float]) -> tuple[str, ...]:
    """What to say of a column whose squares amount to few rows, (sum g^2)^2 / sum g^4; `sums` of both, by group."""
    squares, fourths = (np.array(column) for column in zip(*sums, strict=True))
    with np.errstate(over="ignore"):
        told = np.isfinite(squares**2) & np.isfinite(fourths)  # else the numbers are too large to be raised
    if not (amount_of(squares[told], fourths[told]) < FEW).any():
        return ()
    return (f"{visible(name)}: the errors hang on few rows; intervals are approximate",)
