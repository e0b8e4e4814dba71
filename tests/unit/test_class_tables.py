"""Classes of a node: counts added up from finer tables are those from the cells, and most are not from the cells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sfumato.methods.l_diversity import plan
from sfumato.methods.l_diversity.plan import CellCounts, ClassTables, Hierarchy, Ints, class_of, intervals, suppress

HIERARCHIES = (intervals("a", range(40), (5, 10)), intervals("b", range(30), (10,)), suppress("c", range(3)))
NODES = list(itertools.product(range(4), range(3), range(2)))


def cells() -> tuple[Ints, Ints]:
    rng = np.random.default_rng(4)
    codes = np.unique(np.column_stack([rng.integers(0, n, 3_000) for n in (40, 30, 3)]), axis=0)
    return codes, rng.poisson(0.4, (len(codes), 6))


@pytest.mark.parametrize("room", [0, plan.MOST_KEPT])
def test_tables_are_those_of_the_cells_whatever_was_asked_before(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MOST_KEPT", room)
    codes, counts = cells()
    tables = ClassTables(CellCounts.of_table(codes, counts), HIERARCHIES)
    for i in np.random.default_rng(5).permutation(len(NODES)).tolist() * 2:
        where, n = class_of(codes, HIERARCHIES, NODES[i])
        expected = np.zeros((n, 6), dtype=np.int64)
        np.add.at(expected, where, counts)
        classes = tables.classes(NODES[i])
        np.testing.assert_array_equal(tables.counted(classes), expected)
        assert classes.smallest() == expected.sum(axis=1)[expected.any(axis=1)].min()


def test_a_node_above_a_small_table_does_not_look_at_the_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []

    def counting(codes: Ints, *arguments: object) -> tuple[Ints, int]:
        looked_at.append(len(codes))
        return class_of(codes, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "class_of", counting)
    codes, counts = cells()
    tables = ClassTables(CellCounts.of_table(codes, counts), HIERARCHIES)
    for node in ((1, 1, 1), (2, 1, 1), (3, 2, 1)):
        tables.counted(tables.classes(node))
    assert looked_at == [len(codes), 8 * 3, 4 * 3]


def test_the_class_around_a_cell_is_told_at_every_node_at_once() -> None:
    codes, counts = cells()
    tops = (*HIERARCHIES[:2], suppress("c", range(3)))
    half = intervals("b", range(30), (15,))
    split = Hierarchy(column="b", levels=half.levels[:-1], labels=half.labels[:-1])  # several classes at the top
    for hierarchies in (tops, (tops[0], split, tops[2])):
        for cell in (0, len(codes) // 2, len(codes) - 1):
            found = CellCounts.of_table(codes, counts).around(codes[cell], hierarchies)
            assert found.shape == (*(len(h.levels) for h in hierarchies), 6)
            for node in itertools.product(*(range(n) for n in found.shape[:-1])):
                where, _ = class_of(codes, hierarchies, node)
                np.testing.assert_array_equal(found[node], counts[where == where[cell]].sum(axis=0))
