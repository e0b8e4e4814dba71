"""Every method and reader: the stated posterior is the one that brute force finds (tests/brute_readers.py)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from brute_readers import by_prior, channel, of_sets, repeated, shares, together
from reader_laws import (
    CLAIM,
    RHO1,
    RHO2,
    SETS,
    TABLES,
    TINY,
    F,
    cells,
    covered,
    law_of,
    near,
    prepared,
    stated,
)
from sfumato.choosing.setting import choose_rho1, spec_of
from sfumato.errors import SfumatoError, SpecError
from sfumato.methods import REGISTRY
from sfumato.model.private import Facts
from sfumato.model.public import Claim
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret

CHANNELS = ("subset-response", "uniform", "randomized-response", "distribution-draw", "small-domain", SETS, "anatomy")


@pytest.mark.parametrize("size", list(TABLES))
@pytest.mark.parametrize("name", CHANNELS)
def test_histogram_and_linking_of_laws(name: str, size: str) -> None:
    table, chosen = TABLES[size]
    found, values = prepared(name, table, chosen), table["disease"].to_pylist()
    said, law = stated(found), law_of(found, values)
    looked = covered(values)
    assert looked
    near(said["histogram"]["posterior"], by_prior(law, shares(values), looked))
    worst = max(by_prior(law, shares(cell), [v for v in looked if v in cell]) for cell in cells(table, chosen))
    near(said["linking"]["posterior"], worst)
    for reader in ("histogram", "linking"):
        assert said[reader]["held"] == (said[reader]["posterior"] <= RHO2)


@pytest.mark.parametrize("name", ["subset-response", "uniform", "randomized-response", "distribution-draw"])
def test_value_set_and_person_of_channels(name: str) -> None:
    found = prepared(name, *TABLES["tiny"])
    law = law_of(found, TINY)
    said = stated(found)
    near(said["value"]["posterior"], of_sets(law, RHO1, 1))
    near(said["set"]["posterior"], of_sets(law, RHO1))
    near(said["person"]["posterior"], of_sets(law, RHO1, 1))
    assert said["person"]["rows"] == 1
    assert "one row" in said["person"]["why"]
    twice = stated(found, replace(CLAIM, rows_per_person=2))["person"]
    near(twice["posterior"], of_sets(repeated(law, 2), RHO1, 1))
    assert twice["rows"] == 2
    assert "one row" not in twice["why"]


@pytest.mark.parametrize("name", ["small-domain", SETS, "anatomy"])
def test_published_parts_make_some_prior_certain(name: str) -> None:
    found = prepared(name, *TABLES["tiny"])
    assert of_sets(law_of(found, TINY), RHO1, 1) == 1
    said = stated(found)
    for reader in ("value", "set", "person"):
        assert said[reader]["posterior"] == 1
        assert said[reader]["held"] is False


@pytest.mark.parametrize("name", ["small-domain", SETS])
def test_one_sub_table_is_a_channel(name: str) -> None:
    found = prepared(name, *TABLES["tiny"], min_size=24)
    assert len(found.planned.law.domains) == 1
    near(stated(found)["value"]["posterior"], of_sets(law_of(found, TINY), RHO1, 1))


def test_classes_by_loops() -> None:
    for kind in ("frequency", "distinct"):
        table, chosen = TABLES["medium"]
        found = prepared("l-diversity", table, chosen, kind=kind, l=4 if kind == "frequency" else 3)
        label = {
            level.column: {
                value[0]: level.member[code]
                for code, value in enumerate(
                    next(d for d in found.profile.domains if d.columns[0] == level.column).values
                )
            }
            for level in found.planned.law.columns
        }
        classes: dict[Any, list[Any]] = {}
        for row in table.to_pylist():
            classes.setdefault(tuple(label[c][row[c]] for c in label), []).append(row["disease"])
        looked = covered(table["disease"].to_pylist())
        worst = max(share for rows in classes.values() for v, share in shares(rows).items() if v in looked)
        said = stated(found)
        near(said["histogram"]["posterior"], worst)
        near(said["linking"]["posterior"], worst)


@pytest.mark.parametrize("size", list(TABLES))
def test_blocks_by_loops(size: str) -> None:
    table, chosen = TABLES[size]
    found = prepared("target-distribution", table, chosen)
    law, side, values = found.planned.law, found.planned.work.side, table["disease"].to_pylist()
    names = [v[0] for v in found.profile.domains[0].values]
    groups: dict[int, list[tuple[list[Any], int]]] = {}
    for g, node, count in zip(*(side[c].tolist() for c in ("group_id", "block", "count")), strict=True):
        start, stop = law.blocks[node]
        groups.setdefault(g, []).append(([names[law.order[leaf]] for leaf in range(start, stop)], count))

    def reached(blocks: list[tuple[list[Any], int]], prior: dict[Any, Fraction], x: Any) -> Fraction:
        able = [(block, count) for block, count in blocks if sum(prior.get(v, 0) for v in block)]
        size = sum(count for _, count in able)
        return sum(
            (F(count, size) * prior[x] / sum(prior.get(v, F(0)) for v in block) for block, count in able if x in block),
            F(0),
        )

    looked = covered(values)
    prior = shares(values)
    said = stated(found)
    near(said["histogram"]["posterior"], max(reached(b, prior, x) for b in groups.values() for x in looked))
    sexes = sorted(set(table["sex"].to_pylist()))
    rows: dict[Any, list[Any]] = {}
    for row in table.to_pylist():
        rows.setdefault(tuple(row[c] for c in chosen.quasi), []).append(row)
    worst = max(
        reached(groups[sexes.index(cell[0]["sex"])], shares(r["disease"] for r in cell), x)
        for cell in rows.values()
        for x in {r["disease"] for r in cell} & set(looked)
    )
    near(said["linking"]["posterior"], worst)


def test_decoys_by_all_groupings() -> None:
    """Six records, groups of two with different values: all groupings of the labelled records, all draws."""
    values = ["a", "a", "b", "b", "c", "d"]
    counts: dict[tuple[str, str], Fraction] = {}
    groupings = {
        frozenset(frozenset(order[i : i + 2]) for i in (0, 2, 4))
        for order in permutations(range(6))
        if all(values[order[i]] != values[order[i + 1]] for i in (0, 2, 4))
    }
    for grouping in groupings:
        for group in grouping:
            for record in group:
                for shown in group:
                    key = values[record], values[shown]
                    counts[key] = counts.get(key, F(0)) + F(1, 2 * len(groupings))
    law = {x: {z: counts.get((x, z), F(0)) / values.count(x) for z in "abcd"} for x in "abcd"}
    assert all(sum(row.values()) == 1 for row in law.values())
    table = pa.table({"disease": values})
    found = prepared("splu", table, sf.Roles(sensitive="disease"), gamma=2)
    said = stated(found, Claim(rho1=F(1, 3), rho2=F(1, 2)))
    near(said["histogram"]["posterior"], by_prior(law, shares(values), "abcd"))
    assert said["histogram"]["held"] is True
    reached = of_sets(law, F(1, 3), 1)
    assert reached > F(1, 2)  # of c: its record alone shows it often
    assert said["value"]["held"] in (False, None)
    strong = stated(found, Claim(rho1=F(1, 3), rho2=F(6, 10)))
    assert strong["value"]["held"] is False
    assert reached > F(6, 10)


def test_two_columns_are_told_apart_together() -> None:
    """Both columns are randomised by themselves; the pair is what is looked at."""
    table = pa.table({"a": list("xxyyzxzy") * 3, "b": list("pqpqppqq") * 3, "c": list("ffffmmmm") * 3})
    chosen = sf.Roles(sensitive=("a", "b"), quasi=("c",))
    found = prepared("randomized-response", table, chosen, keep={"a": "0.6", "b": "0.7"})
    law = together(channel("xyz", F(3, 5), F(1, 5)), channel("pq", F(7, 10), F(3, 10)))
    pairs = list(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True))
    claim = Claim(rho1=F(1, 4), rho2=F(1, 2))
    said = stated(found, claim)
    looked = covered(pairs, F(1, 4))
    near(said["histogram"]["posterior"], by_prior(law, shares(pairs), looked))
    near(said["value"]["posterior"], of_sets(law, F(1, 4), 1))
    by_cell = [[p for p, c in zip(pairs, table["c"].to_pylist(), strict=True) if c == which] for which in "fm"]
    near(
        said["linking"]["posterior"],
        max(by_prior(law, shares(cell), [v for v in looked if v in cell]) for cell in by_cell),
    )


def test_limited_channels_hold_the_pair() -> None:
    rng = np.random.default_rng(2)
    table = pa.table(
        {"a": rng.choice(list("wxyz"), 400), "b": rng.choice(list("pqr"), 400), "c": rng.choice(list("fm"), 400)}
    )
    chosen = sf.Roles(sensitive=("a", "b"), quasi=("c",))
    method = REGISTRY["randomized-response"].spec(rho1="1/8", rho2="1/3", scope="s")
    found = prepare(table, roles=chosen, method=method, secret=Secret.from_seed(1))
    keep = [F(str(p)) for p in found.planned.law.keep]
    law = together(channel("wxyz", keep[0], (1 - keep[0]) / 3), channel("pqr", keep[1], (1 - keep[1]) / 2))
    reached = of_sets(law, F(1, 8), 1)
    assert F(1, 3) * F(9, 10) < reached <= F(1, 3)
    near(stated(found, found.claim())["value"]["posterior"], reached)
    assert stated(found, found.claim())["set"]["held"] is True


@pytest.mark.slow
@settings(max_examples=12)
@given(
    counts=st.lists(st.integers(1, 40), min_size=3, max_size=9),
    tau=st.sampled_from([F(1, 2), F(1, 3), F(3, 10), F(2, 5), F(1, 4), F(1, 6)]),
    seed=st.integers(0, 1000),
)
def test_nothing_above_the_bound_is_called_equal(counts: list[int], tau: Fraction, seed: int) -> None:
    """Any table, every method at the bound: brute force finds no posterior above it where the reader is held."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    table = pa.table({"disease": [f"d{v}" for v in codes], "sex": rng.choice(["f", "m"], len(codes))})
    facts = Facts(rows=len(codes), true_counts=tuple(counts), sizes={"sex": 2}, integers=frozenset())
    chosen = sf.Roles(sensitive="disease", quasi=("sex",))
    try:
        rho1 = choose_rho1(facts, tau)
    except SpecError:
        return
    looked = [f"d{v}" for v, c in enumerate(counts) if F(c, len(codes)) <= rho1]
    for name in (n for n in CHANNELS if n in REGISTRY):
        for candidate in REGISTRY[name].at_bound(facts, tau, rho1):
            try:
                found = prepare(table, roles=chosen, method=spec_of(candidate), secret=Secret.from_seed(seed))
            except SfumatoError:
                continue
            said = stated(found, Claim(rho1=rho1, rho2=tau))["histogram"]
            values = table["disease"].to_pylist()
            true = by_prior(law_of(found, values), shares(values), looked)
            near(said["posterior"], true)
            assert said["held"] == (true <= tau), name
            if name != "distribution-draw" and not candidate.variant:
                assert said["held"], f"{name} was set to the bound and does not hold it"
