"""Orders, choices and printed digits are the same on every processor: last bits decide nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.answering import explain
from sfumato.answering.estimate import without_last_bits
from sfumato.methods.shared.set_lists import BlockSearch
from sfumato.stats.ties import as_printed, first_least, settled, to_digits


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
    lines = {tuple(explain._by_set(apart(weights, seed), listed, opened, 0)) for seed in range(10)}
    assert len(lines) == 1
    numbers = [int(line.split(":")[0].split()[-1]) for line in next(iter(lines)) if "s_set" in line]
    assert numbers[:4] == sorted(numbers[:4])
    assert numbers[4:] == sorted(numbers[4:])


def test_numbers_that_cancel_are_compared_by_the_largest() -> None:
    numbers = np.array([1e4, -3e-12, 2e-12, np.nan, np.inf, 1e4 + 1e-9])
    assert to_digits(numbers, 12)[[0, 1, 2, 5]].tolist() == [1e4, 0.0, 0.0, 1e4]
    assert to_digits(np.array([1e4, 1e4 + 1e-3]), 12).tolist() == [1e4, 1e4 + 1e-3]
    assert to_digits(np.zeros(2), 12).tolist() == [0.0, 0.0]


def test_estimates_that_are_equal_keep_the_order_of_rows() -> None:
    """Fails where ORDER BY and HAVING see the last bits; keys and missing numbers stay as they are."""
    table = pa.table({"k0": [0.1 + 0.2, 0.3], "a0": [100 + 1e-12, 100.0], "a0_se": [None, 1.0], "a1": [2, 3]})
    compared = without_last_bits(table)
    assert compared["a0"].to_pylist() == [100.0, 100.0]
    assert compared["a0_se"].to_pylist() == [None, 1.0]
    assert compared.select(["k0", "a1"]) == table.select(["k0", "a1"])
    people = pa.table({"s": ["b", "a", "c", "d"] * 500, "k": ["x", "y"] * 1000})
    spec = sf.UniformPerturbation(rho1="1/3", rho2="1/2")
    release = sf.publish(people, roles=sf.Roles(sensitive="s", quasi="k"), method=spec, seed=1)
    tied = "SELECT k, 0 * COUNT(*) AS n FROM release WHERE s = 'a' GROUP BY k ORDER BY n DESC"
    assert release.sql(tied).table["k"].to_pylist() == ["x", "y"]


def test_lists_of_sets_do_not_hang_on_last_bits() -> None:
    """Swaps that are alike by symmetry: sizes whose lists differed between processors."""
    for size, width, count in ((12, 5, 4), (15, 5, 4), (20, 3, 4), (130, 2, 4)):
        search, found = BlockSearch(size), set()
        exact = search.times
        for seed in range(3):
            search.times = apart(exact, seed)
            found.add(search.spread(width, count))
        assert len(found) == 1
