"""Repeated releases read by the channels of their sub-tables, and by wrong ones, which must be rejected.

False-alarm probability: ALPHA for each method, shared among the values. Every cell of every method's channel is looked
at by tests/contract/test_contract.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from constants import ALPHA
from contract.examples import COUNTS
from contract.test_contract import planned, released
from sfumato.laws.keep_or_redraw import SubTables

RELEASES = 40


@pytest.mark.parametrize("name", ["uniform", "small-domain"])
def test_a_wrong_sub_table_is_rejected(name: str) -> None:
    """Estimates by the sub-tables' own channels cover the truth; read as one table, or one place off, they do not."""
    right, wrong = [], []
    for r in range(RELEASES):
        _, _, plan, _ = planned(name, 8_000 + r)
        channels: SubTables = plan.law.tables
        truth, out = released(name, 8_000 + r)
        part = out[0].extra.get("sub_table", np.zeros(len(truth[0]), dtype=np.int64))
        seen = np.zeros((len(channels), len(COUNTS)))
        np.add.at(seen, (part, out[0].codes[0]), 1)
        right.append(_estimate(channels, seen, right=True))
        wrong.append(_estimate(channels, seen, right=False))
    limit = t.isf(ALPHA / (2 * len(COUNTS)), RELEASES - 1)

    def far(estimates: list[np.ndarray]) -> np.ndarray:
        found = np.array(estimates)
        error = np.maximum(found.std(axis=0, ddof=1), 1e-9) / np.sqrt(RELEASES)
        return np.abs(found.mean(axis=0) - COUNTS) / error

    assert (far(right) < limit).all()
    assert (far(wrong) > limit).any()


def _estimate(channels: SubTables, seen: np.ndarray, *, right: bool) -> np.ndarray:
    """Totals by (o - q n) / p inside every sub-table; wrong: values one place off, or sub-tables read as one."""
    total = np.zeros(seen.shape[1])
    every = np.arange(seen.shape[1])
    for i in range(len(channels)):
        values, p, q = channels.domain(i), channels.p[i], channels.q[i]
        if not right and len(channels) > 1:  # as if the sub-table held all values, with the same gamma
            gamma = (p + q) / q
            values, q = every, 1 / (len(every) - 1 + gamma)
            p = (gamma - 1) * q
        place = values if right or len(channels) > 1 else np.roll(values, 1)
        total[place] += (seen[i, values] - q * seen[i].sum()) / p
    return total
