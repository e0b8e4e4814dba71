"""Sub-tables that draw together: every row by the channel of its own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy import stats

from sfumato.laws.set_channel import SetTables, channel_of_blocks

VALUES = [[0, 2, 5, 7, 11], [1, 2, 3], [3, 5, 6, 8, 11]]  # two of one channel, one of another between them
ROWS = 60_000


def tables() -> SetTables:
    five, three = (channel_of_blocks(m, Fraction(3), [(0, 1)]) for m in (5, 3))
    return SetTables([np.array(v, dtype=np.int32) for v in VALUES], [five, three, five])


def test_every_row_goes_through_the_channel_of_its_own_sub_table() -> None:
    """Counts of all sets for every value of every sub-table: chi-square. False alarms: 1e-6 in all."""
    found, rng = tables(), np.random.default_rng(3)
    part = rng.integers(0, 3, ROWS)
    codes = np.array([rng.choice(VALUES[i]) for i in part], dtype=np.int32)
    shown = found.draw(codes, part, rng)
    assert shown.dtype == np.int32
    assert (found.part_of(shown) == part).all()
    chi2 = freedom = 0
    for i, values in enumerate(VALUES):
        law = found.channels[i].matrix()
        for place, value in enumerate(values):
            rows = (part == i) & (codes == value)
            seen = np.bincount(shown[rows] - found.start[i], minlength=len(law))
            expected = rows.sum() * law[:, place]
            chi2 += ((seen - expected) ** 2 / expected).sum()
            freedom += len(law) - 1
    assert chi2 < stats.chi2.isf(1e-6, freedom)
