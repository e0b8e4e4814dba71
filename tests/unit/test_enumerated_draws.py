"""The law of what is drawn, counted over every outcome of every random number: equal fractions, no tolerance."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import permutations, product
from math import factorial
from typing import Any

import numpy as np
import pytest

from sfumato.laws.set_channel import (
    AliasTables,
    JoinedSamplers,
    SetChannel,
    channel_of_blocks,
    channel_of_sets,
    sampler,
)
from sfumato.stats import shuffling
from sfumato.stats.shuffling import shuffled, shuffled_order

UNIT, BIG = 1 << 32, 1 << 40
CHANNELS = {
    "one set a value": channel_of_blocks(3, Fraction(5, 2), [(0,)]),  # a column of one, which is written twice
    "pairs": channel_of_blocks(5, Fraction(3), [(0, 1)]),
    "two lengths": channel_of_blocks(4, Fraction(7, 3), [(0, 1), (0, 1, 2)]),
    "weighed": channel_of_sets(4, Fraction(12, 5), [(0, 1), (2, 3), (0,), (1,), (2,), (3,)], [3, 2, 1, 1, 2, 2]),
    "one set or two": channel_of_sets(3, Fraction(12, 5), [(0, 1), (2,), (0,), (1,)], [2, 5, 3, 3]),
    "one set a value, weighed": channel_of_sets(3, Fraction(4), [(0, 1), (2,)], [3, 3]),
    "heavy": channel_of_sets(3, Fraction(2), [(0, 1), (1, 2), (0,), (2,)], [BIG, 7, 7, BIG]),
    "always kept but for a unit": channel_of_blocks(2, Fraction(BIG), [(0,)]),
    "never kept": channel_of_blocks(3, 1 + Fraction(1, BIG), [(0, 1)]),
}
TOGETHER = {
    "all": list(CHANNELS),
    "none shares a column": ["pairs", "one set a value", "two lengths"],
    "columns of one": ["one set a value", "always kept but for a unit"],
    "alone": ["weighed"],
}


class Told(np.random.Generator):
    """Draws what it is told; the bounds of each draw must be what the test says they are."""

    def __init__(self, draws: Iterable[tuple[Any, Any]]) -> None:
        super().__init__(np.random.PCG64(1))
        self.left = deque(draws)

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: Any = False
    ) -> Any:
        bounds, drawn = self.left.popleft()
        assert (low, endpoint) == (0, False)
        assert (np.broadcast_to(high, np.shape(drawn)) == bounds).all()
        assert size in (None, len(drawn))
        assert int(np.max(bounds, initial=1)) - 1 <= np.iinfo(dtype).max
        return np.asarray(drawn).astype(dtype)

    def permutation(self, x: Any, axis: int = 0) -> Any:
        bounds, drawn = self.left.popleft()
        assert x == bounds
        return np.asarray(drawn)


def _outcomes(table: AliasTables, at: int, *, twice: bool) -> list[tuple[int, int, Fraction]]:
    """(column, level, chance) of table `at`: every level, or of a tall column the last ones before it goes over."""
    columns = table.width * (1 + twice)
    cuts = table.cut.reshape(-1, table.width)[at].tolist()
    found = []
    for column in range(columns):
        cut = cuts[column // (1 + twice)]
        edges = [cut - 1, table.total - 1] if table.total > 50 else range(table.total)
        for before, level in zip([-1, *edges], edges, strict=False):
            found.append((column, level, Fraction(level - before, columns * table.total)))
    assert sum(chance for *_, chance in found) == 1
    return [outcome for outcome in found if outcome[2]]


@pytest.mark.parametrize("group", TOGETHER)
def test_channels_that_draw_together_draw_the_stated_law(group: str) -> None:
    """Rows of all channels side by side, a row for every outcome of the branch that it takes, at the edge of keep."""
    channels = [CHANNELS[name] for name in TOGETHER[group]]
    samplers = [sampler(channel) for channel in channels]
    rows: list[tuple[int, int, int, int, int, int, int, Fraction]] = []
    for kind, own in enumerate(samplers):
        keep = Fraction(own.keep_units, UNIT)
        for value in range(own.size):
            branches = [(own.holding, value, own.keep_units - 1, keep)] if own.keep_units else []
            for tables, at, edge, branch in (*branches, (own.everything, 0, own.keep_units, 1 - keep)):
                for column, level, chance in _outcomes(tables, at, twice=tables.width == 1):
                    rows.append((kind, value, edge, column, max(tables.width, 2), level, tables.total, branch * chance))
    *told, chances = zip(*rows, strict=True)
    kind, value, edge, column, columns, level, total = (np.array(numbers) for numbers in told)
    draws: list[tuple[Any, Any]] = [(UNIT, edge), (columns, column)]
    if not all(tables.plain for own in samplers for tables in (own.holding, own.everything)):
        draws.append((total, level))
    rng, joined = Told(draws), JoinedSamplers(samplers)
    first = np.concatenate([[0], joined.every[:-1] + 1])  # the tables of a channel: one a value, then that of all sets
    shown = joined.draw(first[kind] + value, joined.every[kind], joined.keep[kind], rng)
    assert not rng.left
    law = Counter[tuple[int, int, int]]()
    for k, x, z, chance in zip(kind.tolist(), value.tolist(), shown.tolist(), chances, strict=True):
        law[k, x, z] += chance  # type: ignore[assignment]
    assert {cell: chance for cell, chance in law.items() if chance} == _stated(channels)


def _stated(channels: Iterable[SetChannel]) -> dict[tuple[int, int, int], Fraction]:
    return {
        (k, x, z): channel.probability(z, x)
        for k, channel in enumerate(channels)
        for x in range(channel.size)
        for z in range(len(channel.weights))
    }


def _tied(keys: Iterable[tuple[int, int]]) -> int:
    """How many entries share list and key with another."""
    return sum(n for n in Counter(keys).values() if n > 1)


CODES = np.array([1, 0, 1, 1, 0])


def _rows(rng: np.random.Generator) -> list[int]:
    return shuffled_order(CODES, rng).tolist()


def _lists(rng: np.random.Generator) -> list[int]:
    return shuffled(np.array([1, 4, 0, 2, 3]), np.array([0, 2, 5]), rng).tolist()


@pytest.mark.parametrize(("make", "lists"), [(_rows, CODES.tolist()), (_lists, [0, 0, 1, 1, 1])])
@pytest.mark.parametrize("bits", [0, 1])
def test_every_order_has_the_same_chance(
    make: Callable[[np.random.Generator], list[int]], lists: list[int], bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All keys of few bits, and all permutations that decide between equal ones: 2! 3! orders, each as often."""
    monkeypatch.setattr(shuffling, "KEY", np.uint64(bits))
    chances = Counter[tuple[int, ...]]()
    for keys in product(range(1 << bits), repeat=5):
        ties = _tied(zip(lists, keys, strict=True))
        for decides in permutations(range(ties)) if ties else [()]:
            rng = Told([(1 << bits, keys), *([(ties, decides)] if ties else [])])
            chances[tuple(make(rng))] += Fraction(1, (1 << bits) ** 5 * factorial(ties))  # type: ignore[assignment]
            assert not rng.left
    assert len(chances) == 12
    assert set(chances.values()) == {Fraction(1, 12)}
