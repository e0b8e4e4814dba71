"""Answers from all shifts of a few blocks: by Fourier transforms they are those of the matrix, number by number."""

from __future__ import annotations

from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import SpecError
from sfumato.laws import set_channel as module
from sfumato.laws.set_channel import SetChannel, channel_of_blocks, channel_of_sets, set_answers

GAMMA = Fraction(9)


def blocks(size: int, number: int) -> list[list[int]]:
    rng = np.random.default_rng(size)
    return [sorted(rng.choice(size, size // 5 + b, replace=False).tolist()) for b in range(number)]


@pytest.mark.parametrize(("size", "number"), [(201, 1), (202, 1), (210, 3)])
def test_the_answers_of_the_matrix(size: int, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd and even domains, one block and several of different sizes; both forms, number by number."""
    channel = channel_of_blocks(size, GAMMA, blocks(size, number))
    assert channel.cyclic
    found = set_answers(channel)
    monkeypatch.setattr(module, "CYCLIC_FROM", size + 1)
    by_matrix = set_answers(channel)
    for name in (field.name for field in fields(found)):
        one, other = getattr(found, name), getattr(by_matrix, name)
        np.testing.assert_allclose(one, other, atol=1e-11 * np.abs(other).max())
    np.testing.assert_allclose(found.unit_weights.T @ found.matrix, np.eye(size), atol=1e-10)


def test_what_is_no_list_of_shifts() -> None:
    cyclic = channel_of_blocks(7, GAMMA, [[0, 1, 3], [0, 2]])
    order = np.arange(14)
    order[[0, 1]] = 1, 0
    others: list[SetChannel] = [
        replace(cyclic, members=cyclic.members[order]),  # the same sets in another order
        replace(cyclic, weights=np.repeat([1, 2], 7)),
        channel_of_sets(4, GAMMA, [(0, 1), (2, 3), (0, 2), (1, 3), (0, 3), (1, 2)]),  # not so many sets for each value
        channel_of_sets(4, GAMMA, [(0, 1), (2, 3), (0, 2), (1, 3)]),
    ]
    assert cyclic.cyclic
    assert [channel.cyclic for channel in others] == [False] * 4


def test_shifts_that_cannot_tell_values_apart() -> None:
    """Every other value: a set and its shifts see nothing but odd and even."""
    with pytest.raises(SpecError, match="twice"):
        channel_of_blocks(300, GAMMA, [list(range(0, 300, 2))])
    set_answers(channel_of_blocks(300, GAMMA, [[0, 1, 150]]))
    with pytest.raises(SpecError, match="tell all values apart"):
        set_answers(channel_of_blocks(300, GAMMA, [[0, 1]]))  # the alternating sum of the values is lost
