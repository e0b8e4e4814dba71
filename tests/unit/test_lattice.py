"""Hierarchies and the l-diversity lattice, against exhaustive search."""

from __future__ import annotations

import csv
import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adult_table import ESGRO, adult, coded, data_folder
from sfumato.errors import PlanError, SpecError
from sfumato.methods.l_diversity import (
    KINDS,
    CellCounts,
    class_of,
    diverse,
    from_rows,
    intervals,
    prefixes,
    search_lattice,
    suppress,
)

FILES = {"age": "age", "education": "education", "marital_status": "marital-status", "race": "race", "sex": "sex",
         "native_country": "native-country", "income": "salary-class", "workclass": "workclass"}  # fmt: skip


def cell_counts(codes, table):
    """Cells with a row each of a table of counts by sensitive value."""
    cell, value = np.nonzero(table)
    return CellCounts.of_entries(codes, cell, value, table[cell, value], table.shape[1])


def adult_problem(columns):
    codes, sizes, domains = coded(adult(), columns)
    cells, where = np.unique(codes[:, :-1], axis=0, return_inverse=True)
    counts = np.zeros((len(cells), sizes[-1]), dtype=np.int64)
    np.add.at(counts, (where.reshape(-1), codes[:, -1]), 1)
    hierarchies = []
    for name, domain in zip(columns[:-1], domains, strict=False):
        with (data_folder() / "hierarchies" / f"adult_hierarchy_{FILES[name]}.csv").open() as file:
            hierarchies.append(from_rows(name, domain, list(csv.reader(file, delimiter=";"))))
    return cells, counts, hierarchies


def exhaustive(codes, counts, hierarchies, l, kind, suppression):
    """The least loss over all nodes, each judged by its definition."""
    rows = counts.sum()
    best = np.inf
    for node in itertools.product(*[range(h.height + 1) for h in hierarchies]):
        groups: dict[tuple[int, ...], np.ndarray] = {}
        loss = bits = 0.0
        for code, count in zip(codes, counts, strict=True):
            key = tuple(int(h.levels[x][c]) for h, x, c in zip(hierarchies, node, code, strict=True))
            groups[key] = groups.get(key, 0) + count
            for j, (h, x) in enumerate(zip(hierarchies, node, strict=True)):
                same = counts[codes[:, j] == code[j]].sum()
                together = counts[h.levels[x][codes[:, j]] == h.levels[x][code[j]]].sum()
                loss += count.sum() * np.log(together / same) / rows  # nats lost about this row's value
                bits += count.sum() * np.log(rows / same) / rows
        loss = loss / bits if bits > 0 else 0.0
        bad = 0
        for group in groups.values():
            n, share = group.sum(), group[group > 0] / group.sum()
            good = {
                "frequency": l * int(group.max()) <= int(n),
                "entropy": -(share * np.log(share)).sum() >= np.log(float(l)) - 1e-12,
                "distinct": len(share) >= l,
            }[kind]
            bad += 0 if good else n
        if bad <= int(suppression * rows) and bad < rows:
            best = min(best, loss * (1 - bad / rows) + bad / rows)
    return best


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(KINDS), st.sampled_from([2, 3]), st.sampled_from(["0", "1/20", "1/4"])
)
def test_search_equals_exhaustive_search(seed, kind, l, suppression) -> None:
    rng = np.random.default_rng(seed)
    hierarchies = [
        intervals("a", list(range(8)), [2, 4]),
        prefixes("b", ["xx", "xy", "yx", "yy"], [1]),
        suppress("c", ["p", "q"]),
    ]
    codes = np.array(list(itertools.product(range(8), range(4), range(2))))[rng.random(64) < 0.5]
    counts = rng.integers(0, 4, (len(codes), 4)) * (rng.random((len(codes), 4)) < 0.7)
    codes, counts = codes[counts.sum(1) > 0], counts[counts.sum(1) > 0]
    if not len(codes):
        return
    expected = exhaustive(codes, counts, hierarchies, l, kind, Fraction(suppression))
    if np.isinf(expected):
        with pytest.raises(PlanError):
            search_lattice(
                cell_counts(codes, counts),
                hierarchies,
                l=Fraction(l),
                kind=kind,
                suppression=Fraction(suppression),
            )
        return
    found = search_lattice(
        cell_counts(codes, counts), hierarchies, l=Fraction(l), kind=kind, suppression=Fraction(suppression)
    )
    assert found.loss == pytest.approx(expected, abs=1e-12)


def test_kinds_at_their_limits() -> None:
    table = np.array([[2, 2, 2], [3, 2, 1], [6, 0, 0], [1, 1, 0]])
    assert diverse(table, l=Fraction(3), kind="frequency").tolist() == [True, False, False, False]
    assert diverse(table, l=Fraction(2), kind="frequency").tolist() == [True, True, False, True]
    assert diverse(table, l=Fraction(3), kind="entropy").tolist() == [True, False, False, False]
    assert diverse(table, l=Fraction(3), kind="distinct").tolist() == [True, True, False, False]
    assert diverse(table, l=Fraction(3, 2), kind="frequency").tolist() == [True, True, False, True]


@pytest.mark.slow
def test_adult_with_eight_quasi_identifiers() -> None:
    columns = (
        "age",
        "education",
        "marital_status",
        "native_country",
        "race",
        "income",
        "sex",
        "workclass",
        "occupation",
    )
    cells, counts, hierarchies = adult_problem(columns)
    assert len(cells) == 12_458
    for kind, suppression in [("frequency", "0"), ("entropy", "1/50"), ("distinct", "0")]:
        found = search_lattice(
            cell_counts(cells, counts), hierarchies, l=Fraction(3), kind=kind, suppression=Fraction(suppression)
        )
        where, n = class_of(cells, hierarchies, found.levels)
        table = np.zeros((n, counts.shape[1]), dtype=np.int64)
        np.add.at(table, where, counts)
        good = diverse(table, l=Fraction(3), kind=kind)
        assert table[~good].sum() == found.suppressed <= Fraction(suppression) * 30_162
        assert found.nodes == 4320


def test_full_suppression_pattern_of_the_paper() -> None:
    """Some attributes fully suppressed, others untouched, on ESGRO with entropy l-diversity."""
    cells, counts, hierarchies = adult_problem(ESGRO)
    found = [
        search_lattice(cell_counts(cells, counts), hierarchies, l=Fraction(l), kind="entropy").levels
        for l in range(2, 8)
    ]
    tops = tuple(h.height for h in hierarchies)
    assert all(any(x == t for x, t in zip(levels, tops, strict=True)) for levels in found)
    assert all(any(x == 0 for x in levels) for levels in found)


def test_refusal_names_the_largest_l() -> None:
    codes, counts = np.array([[0], [1]]), np.array([[3, 1], [2, 2]])
    with pytest.raises(PlanError, match=r"largest l is 1\.6") as refusal:
        search_lattice(cell_counts(codes, counts), [suppress("a", ["x", "y"])], l=Fraction(2))
    assert refusal.value.limit == pytest.approx(1.6)


def test_hierarchy_builders() -> None:
    h = intervals("age", [17, 19, 20, 44, 90], [5, 20])
    assert h.labels[1] == ("[15, 20)", "[20, 25)", "[40, 45)", "[90, 95)")
    assert h.labels[2] == ("[0, 20)", "[20, 40)", "[40, 60)", "[80, 100)")
    assert h.labels[3] == ("*",)
    p = prefixes("zip", ["1234", "1299", "2000"], [2, 1])
    assert p.labels[1] == ("12*", "20*")
    assert p.class_sizes(1).tolist() == [2, 1]


def test_bad_hierarchies() -> None:
    rows = [["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"]]
    assert from_rows("q", ["a", "c"], rows).labels == (("a", "c"), ("x", "y"), ("*",))
    with pytest.raises(SpecError, match="lacks 1 of the 2 values"):
        from_rows("q", ["a", "z"], rows)
    with pytest.raises(SpecError, match="same number"):
        from_rows("q", ["a"], [["a", "*"], ["b"]])
    with pytest.raises(SpecError, match="twice"):
        from_rows("q", ["a"], [["a", "*"], ["a", "*"]])
    with pytest.raises(SpecError, match="nested"):
        from_rows("q", ["a", "b"], [["a", "x", "1"], ["b", "x", "2"]])
    with pytest.raises(SpecError, match="multiple"):
        intervals("q", [1, 2], [5, 12])
    with pytest.raises(SpecError, match="fall"):
        prefixes("q", ["a"], [1, 2])


def test_with_suppression_a_coarser_node_can_be_worse() -> None:
    """Ten rows of one value are left out at level 0; merged with the others they would spoil all twelve."""
    codes, counts = np.array([[0], [1]]), np.array([[1, 1], [10, 0]])
    found = search_lattice(
        cell_counts(codes, counts), [suppress("a", ["x", "y"])], l=Fraction(2), suppression=Fraction(10, 12)
    )
    assert (found.levels, found.suppressed, found.classes) == ((0,), 10, 1)
