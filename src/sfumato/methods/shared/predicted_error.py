"""Standard errors that a plan's answers will have, before anything is published."""

from __future__ import annotations

import numpy as np

from ...model.public import Floats, Integers
from .perturbation import SubTables


def standard_errors(tables: SubTables, true_counts: Integers, values: int) -> Floats:
    """The standard error of the estimated total of every value, by code; 0 for values that occur nowhere.

    `true_counts[k]` are the records of value `tables.values[k]` in the sub-table it is listed for.
    Var = sum_i [ f_i (p+q)(1-p-q) + (n_i - f_i) q (1-q) ] / p^2 over the sub-tables that hold the value.
    """
    width = np.diff(tables.start)
    p, q = np.repeat(tables.p, width), np.repeat(tables.q, width)
    n = np.repeat(np.add.reduceat(true_counts, tables.start[:-1]), width)
    variance = (true_counts * (p + q) * (1 - p - q) + (n - true_counts) * q * (1 - q)) / p**2
    return np.sqrt(np.bincount(tables.values, weights=variance, minlength=values))
