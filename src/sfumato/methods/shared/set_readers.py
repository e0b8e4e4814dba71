"""What readers of a published set end with: closed forms for one set channel, in exact fractions.

For a reader whose prior is a table's counts n_x, n in all, the set Z leaves for a value x of Z

    n_x gamma / (n + (gamma - 1) n(Z)),      n(Z) = sum of n_y over y in Z,

so that the worst set for x is the listed one that holds x and the fewest records (docs/explanation/set-channels.md, 2).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from ...model.public import Integers
from .set_channel import SetChannel


def prior_posterior(channel: SetChannel, prior: Fraction, rows: int = 1) -> Fraction:
    """The largest posterior of a value, or of any set of values, that had at most `prior`; `rows` records of a person.

    Records are drawn independently, so that the odds grow by at most gamma for each.
    """
    grown = prior * channel.gamma_run**rows
    return grown / (grown + 1 - prior)


def table_posterior(channel: SetChannel, true_counts: Integers, values: Iterable[int]) -> Fraction:
    """The largest posterior among `values` for the reader whose prior is these counts; 0 where none of them occurs."""
    total, gamma = int(true_counts.sum()), channel.gamma_run
    shown = channel.members @ true_counts  # n(Z), whole numbers
    largest = Fraction(0)
    for x in values:
        if true_counts[x]:
            fewest = int(shown[channel.members[:, x]].min())
            largest = max(largest, int(true_counts[x]) * gamma / (total + (gamma - 1) * fewest))
    return largest


def cell_posterior(channel: SetChannel, true_counts: Integers, values: Iterable[int]) -> Fraction:
    """The same over several priors, (cells, m): the reader who knows the cell of other columns that a record is in."""
    wanted = np.fromiter(values, dtype=np.int64)
    occupied = true_counts[true_counts[:, wanted].any(axis=1)]
    distinct = np.unique(occupied, axis=0)  # equal cells end alike
    return max((table_posterior(channel, row, wanted.tolist()) for row in distinct), default=Fraction(0))
