"""Orders, choices and printed digits are the same on every processor: last bits decide nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.answering import shown_weights
from sfumato.stats.ties import as_printed, first_least, settled


def apart(numbers: np.ndarray, seed: int) -> np.ndarray:
    """The numbers with their last two bits changed, as another processor might have them."""
    rng = np.random.default_rng(seed)
    return numbers * (1 + rng.integers(-2, 3, numbers.shape) * np.finfo(float).eps)


def test_numbers_print_alike_whatever_their_last_bits() -> None:
    numbers = np.array([2.64445, -1e-17, 0.0, 1 / 3, -0.68885])
    for seed in range(20):
        assert [f"{x:+.4f}" for x in as_printed(apart(numbers, seed), 4)] == [
            f"{x:+.4f}" for x in as_printed(numbers, 4)
        ]
    assert f"{as_printed(-1e-17, 4):+.4f}" == "+0.0000"


def test_the_first_of_equals_is_chosen() -> None:
    costs = np.array([[3.0, 1 / 3, 2.0], [1 / 3, 1 / 3, 5.0]])
    assert {first_least(apart(costs, seed)) for seed in range(20)} == {1}
    assert first_least(np.array([np.inf, np.inf])) == 0
    assert first_least(np.array([-2.0, -2.0 - 1e-6, -2.0])) == 1  # a real difference counts
    assert settled(0.1 + 0.2) == settled(0.3)


def test_sets_of_one_weight_are_explained_by_number() -> None:
    """Fails where the order of `--explain` is that of the weights' last bits."""
    rng = np.random.default_rng(5)
    table = pa.table({"s": rng.choice([f"v{i:02d}" for i in range(13)], 4000)})
    spec = sf.SubsetResponse(rho1="1/5", rho2="1/2")
    opened = sf.publish(table, roles=sf.Roles(sensitive="s"), method=spec, seed=1).opened
    listed = opened.listed[0]
    assert listed is not None
    weights = np.repeat([2.0, 2.6444444444444446, -0.9111111111111111], [len(listed) - 20, 10, 10])
    lines = {tuple(shown_weights._by_set(apart(weights, seed), listed, opened, 0)) for seed in range(10)}
    assert len(lines) == 1
    numbers = [int(line.split(":")[0].split()[-1]) for line in next(iter(lines)) if "s_set" in line]
    assert numbers[:4] == sorted(numbers[:4])
    assert numbers[4:] == sorted(numbers[4:])
