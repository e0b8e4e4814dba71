"""The bundled table is the published one; the generator has the schema, shape and skew that it promises."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy import stats

from constants import ALPHA, SEED
from sfumato.datasets import adult, census, census_table
from sfumato.datasets.census import CHUNK, DOMAIN_SIZES, population
from sfumato.errors import SpecError


def test_adult_has_the_published_counts() -> None:
    table = adult()
    assert table.num_rows == 48_842
    assert table.drop_null().num_rows == 45_222
    assert table["income"].value_counts().to_pylist() == [
        {"values": "<=50K", "counts": 37_155},
        {"values": ">50K", "counts": 11_687},
    ]
    nulls = {name: table[name].null_count for name in table.column_names if table[name].null_count}
    assert nulls == {"workclass": 2_799, "occupation": 2_809, "native_country": 857}
    distinct = {
        name: pc.count_distinct(table[name]).as_py() for name in ("age", "education", "occupation", "race", "sex")
    }
    assert distinct == {"age": 74, "education": 16, "occupation": 14, "race": 5, "sex": 2}


def test_adult_carries_no_metadata() -> None:
    assert adult().schema.metadata is None


@pytest.mark.slow
def test_adult_equals_the_reference_copy(data_dir) -> None:
    reference = pq.read_table(data_dir / "adult.parquet").replace_schema_metadata()
    assert adult().cast(reference.schema).equals(reference)


def test_census_realises_every_domain() -> None:
    table = census_table(200_000, SEED)
    assert {name: pc.count_distinct(table[name]).as_py() for name in table.column_names} == DOMAIN_SIZES
    assert pc.min_max(table["age"]).as_py() == {"min": 17, "max": 95}
    for name in table.column_names[1:]:
        assert pc.min_max(table[name]).as_py() == {"min": 0, "max": DOMAIN_SIZES[name] - 1}


@pytest.mark.parametrize(("column", "top"), [("occupation", 0.071), ("salary", 0.062), ("country", 0.837)])
def test_census_marginals_are_skewed_as_stated(column: str, top: float) -> None:
    """Exact shares of the population, no sampling; the stated figure has its three digits."""
    codes = population()[column]
    k = np.arange(len(codes) + 1)
    weights = np.diff(np.sqrt(k / len(codes)))  # P(floor(K u^2) = k) = sqrt((k+1)/K) - sqrt(k/K)
    assert np.bincount(codes, weights).max() == pytest.approx(top, abs=0.0015)


@pytest.mark.parametrize("column", ["workclass", "education", "gender", "salary", "age"])
def test_census_columns_depend_on_occupation(column: str) -> None:
    """Chi-square against independence rejects far below ALPHA, and does not once the column is shuffled."""
    table = census_table(50_000, SEED)
    occupation, other = table["occupation"].to_numpy(), table[column].to_numpy()
    assert _independence_p(occupation, other) < ALPHA
    shuffled = np.random.default_rng(SEED).permutation(other)
    assert _independence_p(occupation, shuffled) > ALPHA


def _independence_p(x: np.ndarray, y: np.ndarray) -> float:
    joint = np.zeros((x.max() + 1, y.max() + 1))
    np.add.at(joint, (x, y), 1)
    return float(stats.chi2_contingency(joint[:, joint.sum(axis=0) >= 500]).pvalue)


def test_census_draws_follow_the_stated_law() -> None:
    """Chi-square of 2^20 draws over 100 equal stretches of u; false alarm ALPHA. A linear draw fails it."""
    from sfumato.datasets.census import KINDS, _draw_kinds

    kinds = _draw_kinds(SEED, 0)
    stretch = np.minimum(np.sqrt((kinds + 0.5) / KINDS) * 100, 99).astype(int)
    assert stats.chisquare(np.bincount(stretch, minlength=100)).pvalue > ALPHA
    linear = np.minimum(kinds / KINDS * 100, 99).astype(int)
    assert stats.chisquare(np.bincount(linear, minlength=100)).pvalue < ALPHA


def test_census_is_fixed_by_its_seed() -> None:
    assert census_table(5_000, 3).equals(census_table(5_000, 3))
    assert not census_table(5_000, 3).equals(census_table(5_000, 4))


@pytest.mark.parametrize("batch_size", [1 << 20, 65_537, 600_000])
def test_census_rows_do_not_depend_on_the_batch_size(batch_size: int) -> None:
    n = CHUNK + 1_000
    batches = list(census(n, SEED, batch_size=batch_size))
    assert [len(batch) for batch in batches[:-1]] == [batch_size] * (n // batch_size)
    assert pa.Table.from_batches(batches).combine_chunks().equals(census_table(n, SEED).combine_chunks())


def test_census_prefix_does_not_depend_on_n() -> None:
    assert census_table(1_000, SEED).equals(census_table(CHUNK + 5, SEED).slice(0, 1_000).combine_chunks())


def test_census_of_no_rows_keeps_its_schema() -> None:
    assert census_table(0).column_names == list(DOMAIN_SIZES)


@pytest.mark.parametrize("bad", [{"n": -1}, {"n": 1, "seed": -1}, {"n": 1, "batch_size": 0}])
def test_census_refuses_bad_parameters(bad: dict[str, int]) -> None:
    with pytest.raises(SpecError):
        census(**bad)


@pytest.mark.slow
def test_census_of_ten_million_rows_has_few_cells() -> None:
    table = census_table(10_000_000, SEED)
    cells = table.group_by(table.column_names, use_threads=True).aggregate([]).num_rows
    assert 150_000 < cells < 200_000
