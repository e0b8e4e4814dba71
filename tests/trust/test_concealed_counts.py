"""An attack on small-domain's stated gammas: which largest counts of a sub-table are possible, given what is published?

The reader inverts the planner's own formula over every count that the size and the number of values allow.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.methods.small_domain.plan import CELL, Costs, Partition, concealed, partition

RHOS = ((Fraction(1, 5), Fraction(1, 3)), (Fraction(1, 13), Fraction(1, 6)), (Fraction(1, 10), Fraction(1, 2)))


def costs_of(rows: int, pair: tuple[Fraction, Fraction], *, strict: bool, conceal: bool) -> Costs:
    return Costs(rho1=pair[0], rho2=pair[1], rows=rows, min_size=200, strict=strict, conceal=conceal)


def possible(size: int, values: int, gamma: Fraction, costs: Costs) -> list[int]:
    """Largest counts that lead to this gamma; the most frequent of m values has n / m records or more."""
    least = -(-size // values)
    counts = np.arange(least, size)
    top = concealed(np.full(len(counts), size), np.full(len(counts), values), counts) if costs.conceal else counts
    return [int(c) for c, t in zip(counts, top, strict=True) if costs.gamma(size, int(t)) == gamma]


def plans(*, strict: bool, conceal: bool) -> list[tuple[Partition, Costs]]:
    """Plans of flat and of skewed histograms in which every value is protected."""
    found = []
    rng = np.random.default_rng(3)
    for pair in RHOS:
        for counts in (
            np.full(26, 400),
            np.full(30, 97),
            rng.integers(150, 400, 40),
            (600 / (1 + 0.2 * np.arange(40))).astype(np.int64) + 60,
        ):
            costs = costs_of(int(counts.sum()), pair, strict=strict, conceal=conceal)
            found.append((partition(counts.astype(np.int64), costs), costs))
    return found


@pytest.mark.parametrize("strict", [True, False])
def test_size_and_gamma_leave_several_counts_open(strict: bool) -> None:
    for plan, costs in plans(strict=strict, conceal=True):
        for table in plan.sub_tables:
            if not plan.protected[table.values].all():
                continue
            open_ = possible(table.size, table.values.size, table.gamma, costs)
            assert int(table.true_counts.max()) in open_, "the attack knows the planner's formula"
            assert len(open_) >= CELL[0]


def test_the_attack_succeeds_without_concealment() -> None:
    """The mutant: gamma of the true largest count pins it in some plans."""
    pinned = [
        table
        for strict in (True, False)
        for plan, costs in plans(strict=strict, conceal=False)
        for table in plan.sub_tables
        if plan.protected[table.values].all() and len(possible(table.size, table.values.size, table.gamma, costs)) == 1
    ]
    assert pinned


def test_three_digits_tell_no_more_than_the_cell() -> None:
    """All counts of a cell give one gamma; two digits of it would cost a flat sub-table of 13 values 7 % of error."""
    costs = costs_of(91_039, RHOS[1], strict=True, conceal=True)
    for size, values in ((91_039, 13), (3_445, 13), (1_782, 20), (260, 13)):
        counts = np.arange(-(-size // values), 2 * size // values)
        cells = concealed(np.full(len(counts), size), np.full(len(counts), values), counts)
        gammas = [costs.gamma(size, int(last)) for last in cells]
        for cell in np.unique(cells):
            held = {g for g, of in zip(gammas, cells, strict=True) if of == cell}
            assert len(held) == 1
        fast = costs.gammas(np.full(len(counts), size), cells)
        assert [None if np.isnan(g) else Fraction(str(g)) for g in fast] == gammas
    assert costs.gamma(91_039, 7_012) == Fraction(239, 100)
