"""Trees: shapes, builders, and refusals that name the offending node or value."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from block_worlds import random_tree
from sfumato.errors import SpecError
from sfumato.laws.block_tree import (
    balanced,
    check_numeric_domain,
    equal_width,
    from_blocks,
    from_nested,
    from_rows,
    spans,
)


def test_balanced_binary_of_five_puts_the_larger_part_first() -> None:
    tree = balanced(5)
    assert tree.blocks() == ((0, 5), (0, 3), (3, 5), (0, 2), (2, 3), (3, 4), (4, 5), (0, 1), (1, 2))
    assert tree.parent.tolist() == [-1, 0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("arity", [2, 3, 4, 7])
@pytest.mark.parametrize("leaves", [1, 2, 3, 9, 89, 512])
def test_balanced_children_partition_and_differ_by_at_most_one(leaves: int, arity: int) -> None:
    tree = balanced(leaves, arity=arity)
    for node in np.flatnonzero(tree.children):
        part = tree.child_slice(int(node))
        sizes = (tree.stop - tree.start)[part]
        assert len(sizes) == min(arity, tree.stop[node] - tree.start[node])
        assert sizes.max() - sizes.min() <= 1
        assert (np.diff(sizes) <= 0).all()
        assert tree.start[part][0] == tree.start[node]
        assert tree.stop[part][-1] == tree.stop[node]
        assert (tree.stop[part][:-1] == tree.start[part][1:]).all()
    assert (tree.stop - tree.start)[tree.children == 0].tolist() == [1] * leaves
    assert tree.start[tree.leaf_nodes].tolist() == list(range(leaves))


def test_equal_width_cuts_the_interval_not_the_positions() -> None:
    tree = equal_width([0, 1, 2, 3, 100])
    assert tree.blocks()[:3] == ((0, 5), (0, 4), (4, 5))
    assert (0, 2) in tree.blocks()
    assert tree.leaves == 5


def test_equal_width_ends_for_values_very_close_together() -> None:
    assert equal_width([0.0, 5e-324, 1e300]).leaves == 3


def test_nested_lists_give_the_domain_in_depth_first_order_and_collapse_chains() -> None:
    domain, tree = from_nested([["flu", "cold", "pneu"], [["ulcer", "gastritis"]]])
    assert domain == ("flu", "cold", "pneu", "ulcer", "gastritis")
    assert tree.blocks() == ((0, 5), (0, 3), (3, 5), *((i, i + 1) for i in range(5)))


@pytest.mark.parametrize("nested", [[], "flat", [["a"], []]])
def test_nested_refuses_empty_lists(nested: object) -> None:
    with pytest.raises(SpecError, match="list"):
        from_nested(nested)


def test_nested_refuses_a_repeated_value_by_name() -> None:
    with pytest.raises(SpecError, match="'flu' twice"):
        from_nested([["flu", "cold"], ["flu"]])


ROWS = [
    ("flu", "resp", "*"),
    ("ulcer", "dig", "*"),
    ("cold", "resp", "*"),
    ("pneu", "resp", "*"),
    ("gastritis", "dig", "*"),
]


def test_rows_group_scattered_siblings_and_keep_their_labels() -> None:
    domain, tree = from_rows(ROWS)
    assert domain == ("flu", "cold", "pneu", "ulcer", "gastritis")
    assert tree.blocks()[:3] == ((0, 5), (0, 3), (3, 5))
    assert tree.labels is not None
    assert tree.labels[:3] == ("*", "resp", "dig")


def test_rows_with_several_top_labels_get_a_root() -> None:
    _, tree = from_rows([row[:2] for row in ROWS])
    assert tree.blocks()[:3] == ((0, 5), (0, 3), (3, 5))


def test_numeric_rows_are_sorted_and_their_labels_must_be_runs() -> None:
    rows = [("10", "10-19", "*"), ("2", "0-9", "*"), ("1", "0-9", "*")]
    domain, tree = from_rows(rows, parse=int)
    assert domain == (1, 2, 10)
    assert tree.blocks()[:3] == ((0, 3), (0, 2), (2, 3))
    with pytest.raises(SpecError, match="'even' does not cover consecutive values"):
        from_rows([("1", "odd", "*"), ("2", "even", "*"), ("3", "odd", "*"), ("4", "even", "*")][1:], parse=int)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "no rows"),
        ([("a", "x", "*"), ("b", "*")], "'b' has 2 columns"),
        ([("a", "x", "*"), ("a", "y", "*")], "'a' twice"),
        ([("a", "x", "north", "*"), ("b", "x", "south", "*")], "'x' .*'north'.*'a'.*'south'.*'b'"),
    ],
)
def test_rows_refuse_with_the_offending_value(rows: list[tuple[str, ...]], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        from_rows(rows)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([(0, 4), (0, 2), (1, 4)], r"\(1, 4\) overlaps \(0, 2\)"),
        ([(0, 4), (0, 2)], r"children of hierarchy block \(0, 4\) do not partition"),
        ([(0, 4)], r"\(0, 4\) do not partition"),
        ([(0, 2), (0, 1), (1, 2), (2, 3)], r"\(2, 3\) lies outside"),
        ([(1, 2)], "position 0"),
        ([(0, 0)], "empty"),
    ],
)
def test_blocks_that_are_no_tree_are_refused_with_the_block(blocks: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        from_blocks(blocks)


def test_blocks_rebuild_random_trees() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        tree = random_tree(rng, int(rng.integers(1, 20)), 4)
        again = from_blocks(reversed(tree.blocks()))
        assert again.blocks() == tree.blocks()
        assert again.parent.tolist() == tree.parent.tolist()


@pytest.mark.parametrize("values", [[], [1, 1], [2, 1], [1.0, float("nan")], [float("inf")]])
def test_bad_numeric_domains_are_refused(values: list[float]) -> None:
    with pytest.raises(SpecError, match="domain"):
        check_numeric_domain(values)


def test_categorical_spans_count_leaves_less_one() -> None:
    tree = balanced(4)
    assert spans(tree, None).tolist() == [3, 1, 1, 0, 0, 0, 0]
    assert spans(tree, [30, 40, 50, 60]).tolist() == [30, 10, 10, 0, 0, 0, 0]


@pytest.mark.slow
@pytest.mark.skipif("SFUMATO_DATA" not in os.environ, reason="SFUMATO_DATA is not set")
def test_every_stored_arx_hierarchy_loads() -> None:
    for path in sorted((Path(os.environ["SFUMATO_DATA"]) / "hierarchies").glob("*.csv")):
        with path.open(newline="") as handle:
            domain, tree = from_rows(csv.reader(handle, delimiter=";"))
        assert tree.leaves == len(domain) > 1
