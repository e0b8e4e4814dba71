"""Sums over true rows and their covariance, against enumeration of every outcome on tiny tables. No sampling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from sfumato.laws import functionals
from sfumato.laws.decoy_channel import DecoyChannel, FullMatrix
from sfumato.laws.decoy_estimate import decoy_functionals
from sfumato.laws.functionals import (
    Cells,
    CodedUnit,
    Functionals,
    Functions,
    IndependentRows,
    KroneckerWeights,
    Weights,
    WeightTable,
    inverse_of,
    redraw_weights,
)
from sfumato.laws.groups import GroupedValues, GroupFunctionals, assignment_covariance, groups_of
from sfumato.laws.keep_or_redraw import PartWeights

CELL = np.array([0, 0, 1, 1])
MEASURE = np.array([1.0, 2.5, -1.0, 0.5])
RNG = np.random.default_rng(3)


def cells_of(cell: np.ndarray, part: np.ndarray, value: np.ndarray, g: np.ndarray) -> Cells:
    both = np.stack([np.ones(len(g)), g], axis=1)
    return Cells(
        cell=np.asarray(cell),
        part=np.asarray(part, dtype=np.int64),
        value=np.asarray(value),
        moments=both[:, :, None] * both[:, None, :],
        cells=2,
        rows=len(g),
    )


def keep_channel(theta: float, size: int) -> np.ndarray:
    return theta * np.eye(size) + (1 - theta) / size


def outcomes(channel: np.ndarray, truth: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """(probability, published states) of every outcome; channel[v, k]."""
    for states in itertools.product(range(channel.shape[1]), repeat=len(truth)):
        yield float(np.prod(channel[truth, list(states)])), np.array(states)


def moments_of(results: list[tuple[float, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean of the values, their covariance, mean of the estimated covariance) over outcomes."""
    chance = np.array([r[0] for r in results])
    assert chance.sum() == pytest.approx(1)
    values, stated = np.array([r[1] for r in results]), np.array([r[2] for r in results])
    mean = chance @ values
    return mean, ((values - mean) * chance[:, None]).T @ (values - mean), np.einsum("r,rfg->fg", chance, stated)


def true_sum(planes: tuple[np.ndarray, ...], truth: np.ndarray) -> np.ndarray:
    gs = (np.ones(len(truth)), MEASURE)
    return sum(g @ p[CELL, :, truth] for g, p in zip(gs, planes, strict=False))


THREE_SETS = np.array([[0.4, 0.4, 0.1, 0.1], [0.4, 0.1, 0.4, 0.1], [0.1, 0.2, 0.3, 0.4]])  # 3 values, 4 states
TWO_BY_TWO = np.kron(keep_channel(0.5, 2), keep_channel(0.7, 2))

INDEPENDENT: dict[str, tuple[np.ndarray, Weights]] = {
    "one column": (
        keep_channel(0.4, 3),
        KroneckerWeights(axes=(redraw_weights(0.4, 0.2, np.ones(3)),), shape=(3,)),
    ),
    "two columns": (
        TWO_BY_TWO,
        KroneckerWeights(
            axes=(redraw_weights(0.5, 0.25, np.ones(2)), redraw_weights(0.7, 0.15, np.ones(2))), shape=(2, 2)
        ),
    ),
    "one of two columns": (
        np.kron(np.eye(2), keep_channel(0.7, 2)),
        KroneckerWeights(axes=(None, redraw_weights(0.7, 0.15, np.ones(2))), shape=(2, 2)),
    ),
    "more states than values": (THREE_SETS, WeightTable(matrix=inverse_of(THREE_SETS))),
}


@pytest.mark.parametrize("kind", INDEPENDENT)
def test_value_and_covariance_are_unbiased(kind: str) -> None:
    channel, weights = INDEPENDENT[kind]
    V = channel.shape[0]
    assert (weights.values, weights.states) == channel.shape
    truth = np.array([0, V - 1, 1, 1])
    planes = RNG.normal(size=(2, 2, 3, V))
    functions = Functions.of(*planes)
    results = []
    for chance, states in outcomes(channel, truth):
        found = IndependentRows(cells_of(CELL, np.zeros(4), states, MEASURE), weights)
        results.append((chance, found.value(functions), found.covariance(functions, "table")))
    mean, covariance, stated = moments_of(results)
    np.testing.assert_allclose(mean, true_sum(tuple(planes), truth), atol=1e-12)
    np.testing.assert_allclose(stated, covariance, atol=1e-11)


@pytest.mark.parametrize("truth", [(0, 0, 0, 0), (0, 2, 1, 1), (1, 1, 2, 2)])
def test_the_variance_moves_with_the_estimate_by_the_slope(truth: tuple[int, ...]) -> None:
    """A value or not: what is left of the variance after the slope knows nothing of the estimate, over all outcomes."""
    channel, weights = INDEPENDENT["one column"]
    functions = Functions.of(np.broadcast_to([1.0, 0.0, 0.0], (2, 1, 3)))
    seen = []
    for chance, states in outcomes(channel, np.array(truth)):
        found = IndependentRows(cells_of(CELL, np.zeros(4), states, MEASURE), weights)
        T, V = found.value(functions)[0], found.covariance(functions, "table")[0, 0]
        seen.append((chance, T, V, found.variance_slopes(functions, "table")[0]))
    chance, T, V, slopes = np.array(seen).T
    own, other = weights.forward(np.array([1.0, 0.0, 0.0]))[:2]
    told = slopes != 0  # where all rows show the value, or none does, there is nothing to regress on
    np.testing.assert_allclose(slopes[told], own + other - 1, atol=1e-10)
    covariance = chance @ ((T - chance @ T) * V)
    assert covariance / (chance @ (T - chance @ T) ** 2) == pytest.approx(own + other - 1, abs=1e-10)


def test_the_slope_of_a_population_is_that_of_its_skewness() -> None:
    """Sum of third over sum of second powers, around the mean, of untouched rows."""
    values = np.array([0, 1, 1, 1, 1, 2, 2, 0, 0, 1])
    cells = cells_of(np.zeros(10, dtype=int), np.zeros(10), values, np.ones(10))
    x = np.array([1.0, 2.0, 7.0])
    found = IndependentRows(cells, KroneckerWeights(axes=(None,), shape=(3,)))
    away = x[values] - x[values].mean()
    for moved in (0.0, 3.0, x[values].mean()):
        slope = found.variance_slopes(Functions.of((x - moved).reshape(1, 1, 3)), "population")
        assert slope[0] == pytest.approx((away**3).sum() / (away**2).sum(), rel=1e-12)


def test_counts_are_unbiased_for_every_product_of_measures() -> None:
    channel, weights = INDEPENDENT["one column"]
    truth = np.array([0, 2, 1, 1])
    mean = np.zeros((2, 3))
    for chance, states in outcomes(channel, truth):
        mean += chance * IndependentRows(cells_of(CELL, np.zeros(4), states, MEASURE), weights).counts(1, 1)
    expected = np.zeros((2, 3))
    np.add.at(expected, (CELL, truth), MEASURE**2)
    np.testing.assert_allclose(mean, expected, atol=1e-12)


def test_sub_tables_are_unbiased_given_who_is_where() -> None:
    held = (np.array([0, 1]), np.array([1, 2]))
    thetas = (0.5, 0.3)
    weights = PartWeights(
        blocks=tuple((h, redraw_weights(t, (1 - t) / 2, np.ones(2))) for h, t in zip(held, thetas, strict=True)),
        values=3,
    )
    part, truth = np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2])
    planes = RNG.normal(size=(2, 2, 3, 3))
    functions, results = Functions.of(*planes), []
    for picks in itertools.product(range(2), repeat=4):
        published = np.array([held[i][k] for i, k in zip(part, picks, strict=True)])
        chance = np.prod(
            [keep_channel(thetas[i], 2)[list(held[i]).index(t), k] for i, t, k in zip(part, truth, picks, strict=True)]
        )
        cells = cells_of(CELL, part, published, MEASURE)
        found = IndependentRows(cells, weights, weights.state[cells.part, cells.value])
        results.append((float(chance), found.value(functions), found.covariance(functions, "table")))
    mean, covariance, stated = moments_of(results)
    np.testing.assert_allclose(mean, true_sum(tuple(planes), truth), atol=1e-12)
    np.testing.assert_allclose(stated, covariance, atol=1e-11)


def test_the_populations_covariance_is_that_of_rows_drawn_at_random() -> None:
    """Rows drawn independently: the expected estimate is (n - 1) / n of the variance, as for any sample variance."""
    channel, weights = INDEPENDENT["one column"]
    chance_of = np.array([[0.2, 0.1, 0.15], [0.25, 0.05, 0.25]])  # (cell, value)
    h = RNG.normal(size=(2, 2, 3))
    functions, results, n = Functions.of(h), [], 2
    for rows in itertools.product(itertools.product(range(2), range(3)), repeat=n):
        cell, truth = np.array(rows).T
        drawn = float(np.prod(chance_of[cell, truth]))
        for chance, states in outcomes(channel, truth):
            cells = Cells(
                cell=cell, part=np.zeros(n, np.int64), value=states, moments=np.ones((n, 1, 1)), cells=2, rows=n
            )
            found = IndependentRows(cells, weights)
            results.append((drawn * chance, found.value(functions), found.covariance(functions, "population")))
    _, covariance, stated = moments_of(results)
    np.testing.assert_allclose(stated * n / (n - 1), covariance, atol=1e-11)


def test_lumped_classes_give_the_same_sums() -> None:
    """Values that functions do not tell apart may be counted together: same value, same covariance."""
    classes = np.array([0, 1, 1, 2, 0])
    sizes = np.bincount(classes)
    value = RNG.integers(0, 5, 40)
    cell, g = RNG.integers(0, 2, 40), RNG.normal(size=40)
    h = RNG.normal(size=(2, 3, 3))
    full = IndependentRows(
        cells_of(cell, np.zeros(40), value, g), WeightTable(matrix=redraw_weights(0.3, 0.14, np.ones(5)))
    )
    lumped = IndependentRows(
        cells_of(cell, np.zeros(40), classes[value], g), WeightTable(matrix=redraw_weights(0.3, 0.14, sizes))
    )
    wide, narrow = Functions.of(h[:, :, classes]), Functions.of(h)
    np.testing.assert_allclose(full.value(wide), lumped.value(narrow), atol=1e-12)
    np.testing.assert_allclose(full.covariance(wide, "table"), lumped.covariance(narrow, "table"), atol=1e-11)


def test_runs_of_cells_do_not_change_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Breaking: an offset in the runs would drop or double cells."""
    _, weights = INDEPENDENT["one column"]
    cells = cells_of(RNG.integers(0, 2, 50), np.zeros(50), RNG.integers(0, 3, 50), RNG.normal(size=50))
    functions = Functions.of(*RNG.normal(size=(2, 2, 4, 3)))
    whole = IndependentRows(cells, weights)
    expected = whole.value(functions), whole.covariance(functions, "table")
    monkeypatch.setattr(functionals, "CHUNK", 1)
    parts = IndependentRows(cells, weights)
    np.testing.assert_allclose(parts.value(functions), expected[0])
    np.testing.assert_allclose(parts.covariance(functions, "table"), expected[1])


# --- values published by group --------------------------------------------------------------------------------------

GROUPS = ((0, 1), (0, 2), (1, 2), (0, 1, 2))
RECORDS = {0: [0, 1, 0], 1: [0, 0, 1], 2: [1, 0, 1]}  # value -> cell of each of its records


def grouped() -> GroupedValues:
    number = np.repeat(np.arange(len(GROUPS)), [len(held) for held in GROUPS])
    return GroupedValues(groups_of(number, np.concatenate(GROUPS).astype(np.int32), 3))


def assignments() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(cell, group, measure) of the records under every assignment; the measure belongs to the record."""
    where = {v: [g for g, held in enumerate(GROUPS) if v in held] for v in RECORDS}
    cell = np.array([c for v in RECORDS for c in RECORDS[v]])
    measure = np.linspace(-1, 2, len(cell))
    for picks in itertools.product(*(itertools.permutations(where[v]) for v in RECORDS)):
        yield cell, np.array([g for pick in picks for g in pick]), measure


def test_groups_are_unbiased_and_their_covariance_is_exact_over_all_assignments() -> None:
    groups = grouped()
    assert groups.identified
    planes = RNG.normal(size=(2, 2, 3, 3))
    functions = Functions.of(*planes)
    values = []
    for cell, group, measure in assignments():
        found = GroupFunctionals(cells_of(cell, group, np.zeros(len(cell), int), measure), groups)
        values.append(found.value(functions))
    values = np.array(values)
    truth = np.repeat(list(RECORDS), [len(r) for r in RECORDS.values()])
    true_counts = {}
    for a, b in ((0, 0), (0, 1), (1, 1)):
        table = np.zeros((2, 3))
        np.add.at(table, (cell, truth), measure ** (a + b))
        true_counts[a, b] = table
    expected = planes[0][cell, :, truth].sum(axis=0) + measure @ planes[1][cell, :, truth]
    np.testing.assert_allclose(values.mean(axis=0), expected, atol=1e-12)
    exact = assignment_covariance(groups, lambda a, b: true_counts[min(a, b), max(a, b)], functions, 2)
    np.testing.assert_allclose(exact, np.cov(values.T, bias=True), atol=1e-11)


# --- decoys ---------------------------------------------------------------------------------------


PUBLISHED = np.array([40.0, 30.0, 20.0, 10.0])
TOGETHER = np.array([[20, 10, 6, 4], [10, 14, 4, 2], [6, 4, 8, 2], [4, 2, 2, 2.0]])


def decoy_channel() -> DecoyChannel:
    """A channel whose fixed point is the published histogram, as every rebuilt one is."""
    M = TOGETHER / PUBLISHED[:, None]
    return DecoyChannel(
        active=np.arange(4),
        size=2,
        counts=PUBLISHED,
        published=PUBLISHED,
        condition=1.0,
        identifiable=np.ones(4, dtype=bool),
        matrix=FullMatrix(matrix=M, inverse=np.linalg.inv(M)),
    )


def decoys() -> tuple[Functionals, Cells, np.ndarray, np.ndarray]:
    value = np.repeat(np.arange(4), PUBLISHED.astype(int))
    cell = RNG.permutation(np.repeat([0, 1], 50))
    cells = cells_of(cell, np.zeros(100), value, RNG.normal(size=100))
    unit = CodedUnit(unit=0, classes=np.arange(4, dtype=np.int32))
    found = decoy_functionals((decoy_channel(),), cells, (unit,), 100)
    return found, cells, TOGETHER / PUBLISHED[:, None], PUBLISHED


def two_decoy_columns() -> tuple[Functionals, Functionals, Cells]:
    """(functionals of two columns, those of the first alone over the same rows)."""
    first = np.repeat(np.arange(4), PUBLISHED.astype(int))
    second = RNG.permutation(first)
    cell, measure = RNG.permutation(np.repeat([0, 1], 50)), RNG.normal(size=100)
    units = [CodedUnit(unit=u, classes=np.arange(4, dtype=np.int32)) for u in (0, 1)]
    channel, none = decoy_channel(), np.zeros(100)
    both = cells_of(cell, none, first * 4 + second, measure)
    alone = decoy_functionals((channel,), cells_of(cell, none, first, measure), units[:1], 100)
    return decoy_functionals((channel, channel), both, units, 100), alone, both


def test_a_sum_that_reads_one_of_two_decoy_columns_is_that_of_the_column_alone() -> None:
    both, alone, _ = two_decoy_columns()
    h = RNG.normal(size=(2, 2, 3, 4))  # measures, cells, functions, values of the first column
    joint = np.repeat(h, 4, axis=-1)
    np.testing.assert_allclose(both.value(Functions.of(*joint)), alone.value(Functions.of(*h)), atol=1e-9)
    for target in ("table", "population"):
        np.testing.assert_allclose(
            both.covariance(Functions.of(*joint), target), alone.covariance(Functions.of(*h), target), atol=1e-7
        )


def test_a_difference_of_two_columns_over_all_rows_has_the_variance_of_both_totals() -> None:
    """h = a(s) - b(t): rows taken as independent would state many times as much."""
    both, _, cells = two_decoy_columns()
    a, b = RNG.normal(size=(2, 4))
    h = np.broadcast_to((a[:, None] - b[None, :]).ravel(), (2, 1, 16))
    T = np.diag(PUBLISHED) - TOGETHER
    stated = both.covariance(Functions.of(h), "table")[0, 0]
    assert stated == pytest.approx(a @ T @ a + b @ T @ b)
    inverse = np.linalg.inv(TOGETHER / PUBLISHED[:, None])
    rows = IndependentRows(cells, KroneckerWeights(axes=(inverse, inverse), shape=(4, 4)))
    assert rows.covariance(Functions.of(h), "table")[0, 0] > 2 * stated


def test_decoy_counts_add_up_to_the_published_totals() -> None:
    found, _, _, published = decoys()
    np.testing.assert_allclose(found.counts().sum(axis=0), published, atol=1e-9)


def test_a_question_about_all_rows_has_the_variance_of_the_totals() -> None:
    """h that does not read the cell: Var = sum f (h^2 - h M h), which is f (1 - 1/gamma) for one value."""
    found, _, channel, published = decoys()
    h = RNG.normal(size=(3, 4))
    expected = h @ (published[:, None] * (np.eye(4) - channel)) @ h.T
    stated = found.covariance(Functions.of(np.broadcast_to(h, (2, 3, 4))), "table")
    np.testing.assert_allclose(stated, (expected + expected.T) / 2, atol=1e-8)


def test_knowing_the_totals_lowers_the_variance_of_independent_rows() -> None:
    found, cells, channel, _ = decoys()
    h = np.zeros((2, 1, 4))
    h[0, 0, 0] = 1
    rows = IndependentRows(cells, WeightTable(matrix=np.linalg.inv(channel)))
    mine, plain = (f.covariance(Functions.of(h), "table")[0, 0] for f in (found, rows))
    assert 0 < mine < plain


def test_the_population_adds_the_sampling_of_rows() -> None:
    found, cells, _, _ = decoys()
    h = RNG.normal(size=(2, 2, 4))
    more = found.covariance(Functions.of(h), "population") - found.covariance(Functions.of(h), "table")
    N = found.counts()
    total = np.einsum("cv,cfv->f", N, h)
    np.testing.assert_allclose(more, np.einsum("cv,cfv,cgv->fg", N, h, h) - np.outer(total, total) / cells.rows)
