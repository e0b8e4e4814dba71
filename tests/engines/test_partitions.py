"""A table cut into partitions that are worked on elsewhere: the same law, in any order, again and again."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2, hypergeom

import sfumato as sf
from constants import ALPHA
from sfumato.engines.batches import exactly
from sfumato.engines.profiling import ROWS
from sfumato.engines.spark.tasks import bucket
from sfumato.errors import DataError
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build
from sfumato.publish import Prepared, prepare
from sfumato.publishing.applier import Applier
from sfumato.publishing.randomness import Secret
from tables import COUNTS, MARK, people

ROLES = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], identifying=[f"{MARK}_name"])
CUTS = (0, 300, 301, 900, sum(COUNTS))  # four partitions of a table that is sorted by disease


def prepared(name: str, seed: int = 1) -> Prepared:
    method = build(name, REGISTRY[name].example.options)
    return prepare(people(by_disease=True), roles=ROLES, method=method, secret=Secret.from_seed(seed))


def partitions(made: Applier, cuts: Sequence[int] = CUTS) -> list[pa.Table]:
    table = people(by_disease=True).select(made.reads)
    return [table.slice(a, b - a) for a, b in pairwise(cuts)]


def shares(made: Applier, parts: Sequence[pa.Table]) -> list[Any]:
    """In their order, on counts alone."""
    return [made.share(number, [_counts(part, unit) for unit in made.units]) for number, part in enumerate(parts)]


def _counts(part: pa.Table, unit: Sequence[str]) -> pa.Table:
    found = part.group_by(list(unit)).aggregate([([], "count_all")])
    return found.rename_columns([*unit, ROWS])


def worked(away: bytes, number: int, share: bytes, part: pa.Table, rows: int = 77) -> pa.Table:
    """What a process elsewhere makes of a partition."""
    transform = pickle.loads(away).partition(number, pickle.loads(share))
    batches = [transform.apply(k, batch) for k, batch in enumerate(exactly(iter(part.to_batches()), rows))]
    transform.close()
    return pa.Table.from_batches(batches)


def applier_of(found: Prepared, secret: Secret) -> Applier:
    """The plan as it is applied to the rows."""
    parts = {name: getattr(found, name) for name in ("table", "roles", "needs", "profile", "planned")}
    return Applier(**parts, secret=secret)


@pytest.mark.parametrize("name", REGISTRY)
def test_partitions_in_any_order_and_again_give_the_same_rows(name: str) -> None:
    made = applier_of(prepared(name), Secret.from_seed(2))
    parts = partitions(made)
    dealt = [pickle.dumps(share) for share in shares(made, parts)]
    made.close()
    away = pickle.dumps(made.away())
    first = [worked(away, k, dealt[k], parts[k]) for k in range(len(parts))]
    again = [worked(away, k, dealt[k], parts[k]) for k in reversed(range(len(parts)))][::-1]
    assert first == again
    assert pa.concat_tables(first).num_rows == sum(len(part) for part in parts) or name == "l-diversity"


@pytest.mark.parametrize("name", ["small-domain", "anatomy"])
def test_a_thousand_partitions_of_a_row_or_none(name: str) -> None:
    made = applier_of(prepared(name), Secret.from_seed(2))
    cuts = (*range(500), *range(499, 999), sum(COUNTS))  # one is empty, the last holds what is left
    parts = partitions(made, cuts)
    dealt = [pickle.dumps(share) for share in shares(made, parts)]
    made.close()
    away = pickle.dumps(made.away())
    found = [worked(away, k, dealt[k], parts[k]) for k in (0, 1, 700, len(parts) - 1)]
    assert len(parts) == 1000
    assert [part.num_rows for part in found] == [1, 1, 1, sum(COUNTS) - 998]


def test_what_is_sent_holds_no_counts_of_the_table() -> None:
    made = applier_of(prepared("anatomy"), Secret.from_seed(2))
    away = made.away()
    assert not away._left
    assert not away._splitters
    assert not away._planned.work.deals
    assert not away._planned.work.side


@pytest.mark.parametrize("name", ["uniform", "small-domain", "anatomy"])
def test_a_partition_that_changed_is_refused(name: str) -> None:
    made = applier_of(prepared(name), Secret.from_seed(2))
    parts = partitions(made)
    dealt = [pickle.dumps(share) for share in shares(made, parts)]
    away = pickle.dumps(made.away())
    with pytest.raises(DataError, match="changed"):
        worked(away, 0, dealt[0], parts[0].slice(1))
    with pytest.raises(DataError, match="changed"):
        worked(away, 0, dealt[0], parts[1])


def sent(found: Prepared, seed: int) -> int:
    """Records of the first value in the first partition that go to its first sub-table."""
    made = applier_of(found, Secret.from_seed(seed))
    first = shares(made, partitions(made, (0, 100, 700, sum(COUNTS))))[0]
    (deal,) = first.deals
    assert deal.counts is not None
    return int(deal.counts[int(deal.start[0])])


@pytest.mark.slow
def test_shares_of_partitions_are_hypergeometric() -> None:
    """Of one value's records 100 lie in the first partition; how many go to a sub-table is hypergeometric.

    A chi-squared test over 600 secrets, false alarm ALPHA. Shares without chance, or drawn with replacement, fail it.
    """
    found = prepared("small-domain")
    (deal,) = found.planned.work.deals
    urn = deal.counts[int(deal.start[0]) : int(deal.start[1])]
    assert len(urn) > 1, "a value that goes to several sub-tables"
    law = hypergeom(int(urn.sum()), int(urn[0]), 100)

    def surprise(seen: np.ndarray) -> float:
        edges = [int(law.ppf(q)) for q in (0.1, 0.25, 0.5, 0.75, 0.9)]
        chances = np.diff([0.0, *law.cdf(edges), 1.0])
        counts = np.bincount(np.searchsorted(edges, seen), minlength=len(chances))
        keep = chances > 0
        expected = chances[keep] * len(seen)
        return float(chi2.sf(((counts[keep] - expected) ** 2 / expected).sum(), keep.sum() - 1))

    assert surprise(np.array([sent(found, seed) for seed in range(600)])) > ALPHA
    assert surprise(np.full(600, round(law.mean()))) < ALPHA
    p = urn[0] / urn.sum()
    assert surprise(np.random.default_rng(1).binomial(100, p, 600)) < ALPHA, "drawn with replacement"


def test_parts_are_equal_ranges_of_the_keys() -> None:
    keys = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64)
    assert bucket(keys, 2).tolist() == [0, 0, 1, 1]
    assert bucket(keys, 1).tolist() == [0, 0, 0, 0]
    many = Secret.from_seed(1).stream("order").integers(0, 2**64, size=10_000, dtype=np.uint64)
    assert np.all(np.diff(bucket(np.sort(many), 7)) >= 0)
    assert set(bucket(many, 7)) == set(range(7))
