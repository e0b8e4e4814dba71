"""The SPLU paper's own reconstruction, for comparison: one average rate a for all other values. Biased.

A record without s publishes s at a rate that depends on its true value; these formulas use the average. When P leans
to some values the answer is off and its interval does not know it (measured coverage down to 0.15; errata S4-S6, S10).
States are the bits (P, s_1 .. s_w), P the highest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Variant = Literal["paper", "corrected"]

PAPER_STOP = 0.01
CORRECTED_STOP = 1e-6
LEAST_CELL = 1e-3  # records; smaller cells may decay for ever and do not delay the stop
ROUNDS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Estimated records per state, and the rounds it took."""

    states: Floats
    rounds: int


def rate(total: float, rows: float, size: int, variant: Variant) -> float:
    """a: the chance that a record without s publishes s; the paper's f / N forgets that the record lacks s.

    Corrected: (size - 1) f / (size (N - f)), so that f / size + (N - f) a = f.
    """
    return total / rows if variant == "paper" else (size - 1) * total / (size * (rows - total))


def two_state(published: float, inside: float, rows_inside: float, rows: float, size: int) -> tuple[float, float]:
    """The closed form for one value and its variance: est = (y3 - a n_P) / (1/size - a) (splu.md section 6)."""
    a = rate(published, rows, size, "corrected")
    value = (inside - a * rows_inside) / (1 / size - a)
    x3 = min(max(value, 0.0), rows_inside, published)
    x1, x2 = published - x3, rows_inside - x3
    x0 = rows - rows_inside - x1
    c = x2 * (size - 1) * rows / (size * (rows - published) ** 2)
    keep, enter = (1 / size) * (1 - 1 / size), a * (1 - a)
    v3, v1 = x3 * keep + x2 * enter, x1 * keep + x0 * enter
    return value, ((1 - c) ** 2 * v3 + c**2 * v1) / (1 / size - a) ** 2


def iterate(
    observed: Floats, sizes: tuple[int, ...], variant: Variant, *, stop: float | None = None, rounds: int = ROUNDS
) -> Reconstruction:
    """Iterative Bayesian reconstruction, [SPLU, eq. 13], from x = y; the rates are rebuilt from x each round.

    `observed[i]` counts the published rows in state i. A state that starts at 0 stays 0. `paper` stops at 1 % relative
    change of every state, `corrected` at 1e-6 of those above 0.001 records.
    """
    limit = stop if stop is not None else (PAPER_STOP if variant == "paper" else CORRECTED_STOP)
    y = np.asarray(observed, np.float64)
    x, rows, columns = y.copy(), float(y.sum()), len(sizes)
    bits = [(np.arange(len(y)) >> (columns - 1 - j)) & 1 == 1 for j in range(columns)]
    for done in range(1, rounds + 1):
        steps = [_transition(rate(float(x[bit].sum()), rows, size, variant), size)
                 for bit, size in zip(bits, sizes, strict=True)]  # fmt: skip
        M: Floats = np.eye(2)
        for step in steps:
            M = np.asarray(np.kron(M, step), np.float64)
        reached = x @ M
        new = x * (M @ np.divide(y, reached, out=np.zeros_like(y), where=reached > 0))
        watched = x > (LEAST_CELL if variant == "corrected" else 0)
        change = np.abs(new - x)[watched] / x[watched]
        x = new
        if not len(change) or change.max() <= limit:
            return Reconstruction(states=x, rounds=done)
    return Reconstruction(states=x, rounds=rounds)


def _transition(a: float, size: int) -> Floats:
    """Rows: without s, with s; columns: published other, published s."""
    return np.array([[1 - a, a], [1 - 1 / size, 1 / size]])
