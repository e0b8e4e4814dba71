"""Finished workload channels checked in fractions alone: every cell, the stated variance, and a proof of the gap.

Nothing here comes from the search but its list and whole-number weights. Any multipliers give a valid lower bound
(docs/explanation/set-channels.md, section 7); ours are fitted to the list's own sets, and the bound is exact from
there. The other bound that a search may stop at, that of section 3, is computed anew from its formula.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sfumato.laws.set_channel import set_answers
from sfumato.methods.shared import workloads as matrices
from sfumato.methods.shared.workloads import Design, optimise

Table = list[list[Fraction]]
GRAMS = {
    "ranges": matrices.ranges,
    "prefixes": matrices.prefixes,
    "sum": lambda size: matrices.weighted_sum(np.arange(size) - (size - 1) / 2),
}
CASES = [
    (8, Fraction(12, 5), "ranges"),
    (8, Fraction(12, 5), "sum"),
    (7, Fraction(12, 5), "prefixes"),
    (6, Fraction(11, 10), "ranges"),
    (5, Fraction(100), "prefixes"),
    (3, Fraction(2), "sum"),
    (2, Fraction(2), "ranges"),
]


def times(first: Table, second: Table) -> Table:
    columns = list(zip(*second, strict=True))
    return [
        [sum((a * b for a, b in zip(row, column, strict=True)), Fraction(0)) for column in columns] for row in first
    ]


def inverse(table: Table) -> Table:
    """By elimination, exactly."""
    size = len(table)
    rows = [[*row, *(Fraction(int(i == j)) for j in range(size))] for i, row in enumerate(table)]
    for i in range(size):
        pivot = next(r for r in range(i, size) if rows[r][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [cell / rows[i][i] for cell in rows[i]]
        for r in range(size):
            if r != i and rows[r][i]:
                rows[r] = [a - rows[r][i] * b for a, b in zip(rows[r], rows[i], strict=True)]
    return [row[size:] for row in rows]


def centred(gram: Table) -> Table:
    size = len(gram)
    mean = [sum(row, Fraction(0)) / size for row in gram]
    whole = sum(mean, Fraction(0)) / size
    return [[gram[x][y] - mean[x] - mean[y] + whole for y in range(size)] for x in range(size)]


def trace(table: Table) -> Fraction:
    return sum((table[x][x] for x in range(len(table))), Fraction(0))


def proved(gram: Table, gamma: Fraction, made: Design) -> tuple[Fraction, Fraction]:
    """(total variance of the channel at its gamma, a lower bound on that of every channel), flat prior."""
    size, channel = len(gram), made.channel
    whole = channel.total + (gamma - 1) * channel.coverage
    levels = [[gamma if held else Fraction(1) for held in row] for row in channel.members.tolist()]
    M = [[Fraction(0)] * size for _ in range(size)]
    for u, n in zip(levels, channel.weights.tolist(), strict=True):
        factor = Fraction(n) / whole * size / sum(u)
        for x, y in product(range(size), repeat=2):
            M[x][y] += factor * u[x] * u[y]
    G = centred(gram)
    back = inverse(M)
    f, once = trace(times(back, G)), trace(G) / size
    Y = times(times(back, G), back)

    def worth(u: list[Fraction]) -> Fraction:
        return sum((u[x] * sum(Y[x][y] * u[y] for y in range(size)) for x in range(size)), Fraction(0)) * size / sum(u)

    A = np.array([[float(level) for level in u] for u in levels])
    root = np.sqrt(channel.weights / channel.total)
    fitted, *_ = np.linalg.lstsq(A * root[:, None], np.array([float(worth(u)) for u in levels]) * root, rcond=None)
    lam = [Fraction(number) for number in fitted.tolist()]
    delta = max(
        (worth(u) - sum(a * b for a, b in zip(lam, u, strict=True))) * size / sum(u)
        for u in (
            [gamma if held else Fraction(1) for held in held_or_not]
            for held_or_not in product((False, True), repeat=size)
            if 0 < sum(held_or_not) < size
        )
    )
    return f - once, f * f / (sum(lam, Fraction(0)) + delta) - once


def least_of_all(gram: Table, gamma: Fraction) -> float:
    """(s_1 + s_2 + ...)^2 / tau_m - (s_1^2 + s_2^2 + ...), where no eigenvalue would pass 1; else nothing, 0."""
    size = len(gram)
    tau = max((gamma - 1) ** 2 * w * (size - w) / (size + (gamma - 1) * w) ** 2 for w in range(1, size))
    square = np.linalg.eigvalsh(np.array([[float(cell / size) for cell in row] for row in centred(gram)]))
    s = np.sqrt(square.clip(0))
    if float(tau) * s.max() > s.sum():
        return 0.0
    return float(s.sum() ** 2 / float(tau) - (s**2).sum())


@pytest.mark.parametrize(("size", "gamma", "kind"), CASES)
def test_the_gap_is_proved_in_fractions(size: int, gamma: Fraction, kind: str) -> None:
    gram = matrices.mixture([GRAMS[kind](size)], [1.0], gamma, 0.05)
    made = optimise(gram, gamma)
    exact = [[Fraction(number) for number in row] for row in gram.tolist()]
    variance, least = proved(exact, gamma, made)
    assert made.certified
    assert float(variance) == pytest.approx(made.variance, rel=1e-6)
    assert set_answers(made.channel).total_variance(gram) == pytest.approx(made.variance, rel=1e-6)
    bound = max(float(least), least_of_all(exact, gamma))
    assert bound <= float(variance) * (1 + 1e-9)
    assert bound >= float(variance) * (1 - 0.01)  # as near to the best as the search promises
    assert made.variance * (1 - made.gap) <= float(variance) * (1 + 1e-9)


@pytest.mark.parametrize(("size", "gamma", "kind"), CASES)
def test_gamma_holds_exactly_in_every_cell(size: int, gamma: Fraction, kind: str) -> None:
    channel = optimise(matrices.mixture([GRAMS[kind](size)], [1.0], gamma, 0.05), gamma).channel
    cells = [[channel.probability(z, x) for x in range(size)] for z in range(len(channel.members))]
    assert [sum(column) for column in zip(*cells, strict=True)] == [1] * size
    for held, row in zip(channel.members.tolist(), cells, strict=True):
        inside = {p for p, own in zip(row, held, strict=True) if own}
        outside = {p for p, own in zip(row, held, strict=True) if not own}
        assert len(inside) == len(outside) == 1
        assert 1 < inside.pop() / outside.pop() == channel.gamma_run <= gamma
