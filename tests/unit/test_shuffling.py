"""Many lists shuffled at once: nothing lost, every order equally likely, ties of the keys included."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, permutations

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.stats import shuffling
from sfumato.stats.shuffling import shuffled, shuffled_order

from ..constants import ALPHA, SEED

LISTS = 60_000


@pytest.mark.parametrize("sizes", [[5], [0, 3, 0, 4], [1] * 2000, [300_000, 2, 700_000, 0, 1]])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_every_list_keeps_its_entries(sizes: list[int], kind: type) -> None:
    start = np.concatenate([[0], np.cumsum(sizes)])
    entries = (np.arange(start[-1], dtype=kind) * 7 % 1000 - 1).astype(kind)
    found = shuffled(entries, start, np.random.default_rng(SEED))
    assert found.dtype == entries.dtype
    for low, high in pairwise(start.tolist()):
        assert np.array_equal(np.sort(found[low:high]), np.sort(entries[low:high]))
    assert np.array_equal(found, shuffled(entries, start, np.random.default_rng(SEED)))


def test_nothing_to_shuffle() -> None:
    empty = np.empty(0, dtype=np.int32)
    assert not len(shuffled(empty, np.array([0, 0]), np.random.default_rng(SEED)))


def _statistic(found: np.typing.NDArray[np.int64]) -> float:
    """Chi-square of the orders of lists of three against equal chances, 5 degrees of freedom."""
    orders = [tuple(order) for order in permutations(range(3))]
    seen = np.array([int((found == order).all(axis=1).sum()) for order in orders])
    expected = len(found) / len(orders)
    return float(((seen - expected) ** 2 / expected).sum())


def _lists() -> np.typing.NDArray[np.int64]:
    """Lists of three, shuffled."""
    return shuffled(np.tile(np.arange(3), LISTS), 3 * np.arange(LISTS + 1), np.random.default_rng(SEED)).reshape(-1, 3)


def _rows() -> np.typing.NDArray[np.int64]:
    """The rows of every code, three, in a shuffled order; rows of a code do not lie together."""
    order = shuffled_order(np.tile(np.arange(LISTS), 3), np.random.default_rng(SEED)).reshape(-1, 3)
    assert (order % LISTS == np.arange(LISTS)[:, None]).all()
    return order // LISTS


@pytest.mark.parametrize("make", [_lists, _rows])
@pytest.mark.parametrize("bits", [32, 1])
def test_every_order_is_equally_likely(
    make: Callable[[], np.typing.NDArray[np.int64]], bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarm: ALPHA each. Of keys of one bit most are equal; without the permutation that decides the sorted order
    would come in more than a third of the lists, and a share of 0.18 instead of 1/6 would be seen."""
    monkeypatch.setattr(shuffling, "KEY", np.uint64(bits))
    assert _statistic(make()) < chi2.isf(ALPHA, 5)


@pytest.mark.parametrize("make", [_lists, _rows])
def test_the_statistic_sees_keys_that_decide_alone(
    make: Callable[[], np.typing.NDArray[np.int64]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same lists where equal keys stay in the order of their entries."""
    monkeypatch.setattr(shuffling, "KEY", np.uint64(1))
    monkeypatch.setattr(shuffling, "_untied", lambda packed, bits, rng: packed)
    assert _statistic(make()) > chi2.isf(ALPHA, 5)
