"""The reader who knows every other record: enumerated worlds against what each method states."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from brute_readers import of_sets, shares
from reader_laws import (
    CLAIM,
    RHO1,
    RHO2,
    SETS,
    SPECS,
    TABLES,
    TINY,
    F,
    law_of,
    near,
    prepared,
    stated,
)
from sfumato.methods import REGISTRY
from sfumato.methods.shared.readers import public_readers
from sfumato.model.public import Claim
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret


@pytest.mark.parametrize("name", ["uniform", "subset-response"])
def test_other_records_tell_nothing_about_a_randomised_one(name: str) -> None:
    """Three records, two of them known: every published table, the prior rho1 on the third."""
    found = prepared(name, *TABLES["tiny"])
    law = law_of(found, TINY)
    whole = {
        x: {(a, b, z): law["a"][a] * law["b"][b] * p for a in law["a"] for b in law["b"] for z, p in law[x].items()}
        for x in law
    }
    near(stated(found)["corruption"]["posterior"], of_sets(whole, RHO1, 1))
    assert stated(found)["corruption"]["held"] is True


def test_lists_of_sets_are_what_these_tests_are_about() -> None:
    for name in ("subset-response", SETS):
        channel = prepared(name, *TABLES["medium"]).planned.law.tables.channels[0]
        assert channel.members.sum(axis=1).min() > 1


def test_the_last_record_of_a_small_domain_release() -> None:
    """Of all values the last record may have, one alone leads to the published sub-tables."""
    table, chosen = TABLES["medium"]
    found = prepared("small-domain", table, chosen)
    values = table["disease"].to_pylist()
    method, spec = REGISTRY["small-domain"], REGISTRY["small-domain"].spec(**SPECS["small-domain"])
    names = [v[0] for v in found.profile.domains[0].values]
    possible = []
    for x in names:
        other = pa.table({"disease": [x, *values[1:]]})
        again = prepare(other, roles=sf.Roles(sensitive="disease"), method=spec, secret=Secret.from_seed(3))
        if again.planned.public == found.planned.public:
            mine = method.report(again.planned.public, again.planned.work, again.profile)["sub_tables"]
            true = method.report(found.planned.public, found.planned.work, found.profile)["sub_tables"]
            if [t["counts"] for t in mine] == [t["counts"] for t in true]:
                possible.append(x)
    assert possible == [values[0]]
    said = stated(found)["corruption"]
    assert said["held"] is False
    assert said["posterior"] == 1


def test_a_drawn_value_that_nobody_else_has() -> None:
    """Others hold a; the third may hold a or b. If b is drawn anywhere, she holds it."""
    whole = {}
    for x in "ab":
        drawn = shares(["a", "a", x])
        whole[x] = {
            (p, q, r): math.prod(drawn.get(z, F(0)) for z in (p, q, r)) for p in "ab" for q in "ab" for r in "ab"
        }
    assert of_sets(whole, RHO1, 1) == 1
    said = stated(prepared("distribution-draw", *TABLES["tiny"]))["corruption"]
    assert said["held"] is False
    assert said["posterior"] == 1


@pytest.mark.parametrize("name", ["anatomy", "l-diversity", "target-distribution", "splu"])
def test_groups_do_not_survive_corruption(name: str) -> None:
    assert stated(prepared(name, *TABLES["medium"]))["corruption"]["held"] is False


def test_a_domain_from_the_data_tells_of_a_value_that_one_record_has() -> None:
    table = pa.table({"disease": [*"aaabbbcccdddeee", "f"], "sex": list("fm") * 8})
    chosen = sf.Roles(sensitive="disease", quasi=("sex",))
    taken = prepared("uniform", table, chosen)
    assert stated(taken)["corruption"]["held"] is False
    declared = prepare(
        table,
        roles=chosen,
        method=REGISTRY["uniform"].spec(**SPECS["uniform"]),
        secret=Secret.from_seed(1),
        domains={"disease": list("abcdefg")},
    )
    assert stated(declared)["corruption"]["held"] is True


WAYS: dict[str, tuple[str, dict[str, Any]]] = {name: (name.partition(",")[0], spec) for name, spec in SPECS.items()} | {
    "randomized-response, risk": ("randomized-response", {"risk": "1/2"}),
    "randomized-response, both": ("randomized-response", {"risk": "1/2", "scope": "both"}),
    "randomized-response, rho": ("randomized-response", {"rho1": "1/4", "rho2": "1/2", "scope": "s"}),
    "small-domain, paper": ("small-domain", {"rho1": RHO1, "rho2": RHO2, "min_size": 5, "mode": "paper"}),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("claim", [None, CLAIM], ids=["own", "given"])
def test_no_bound_is_stated_where_the_domain_names_a_value_of_one_record(way: str, claim: Claim | None) -> None:
    """Whoever knows all others knows the one "z": nothing below 1 is stated, to the custodian or in the release."""
    assert {name for name, _ in WAYS.values()} == set(REGISTRY)
    name, options = WAYS[way]
    disease = [*"abcde" * 100, "z"]
    found = prepare(
        pa.table({"disease": disease, "sex": [*"ffmmm" * 100, "m"]}),
        roles=sf.Roles(sensitive="disease", quasi=("sex",)),
        method=REGISTRY[name].spec(**options),
        secret=Secret.from_seed(1),
    )
    asked = claim or found.claim()
    known = stated(found, asked)["corruption"]
    assert known["held"] is False
    assert known["posterior"] == 1
    public = public_readers(found.method, found.planned.public, found.sensitive_domains(), claim=asked)[4]
    assert not public.held
    assert public.posterior in (None, 1)


def test_columns_whose_values_all_have_several_records_tell_nothing_by_their_domains() -> None:
    """A pair of values may have one record: the domains name values of columns, not pairs."""
    table = pa.table({"one": [*"aabb", "a"], "two": [*"xyxy", "y"]})
    found = prepare(
        table,
        roles=sf.Roles(sensitive=("one", "two")),
        method=sf.RandomizedResponse(keep={"one": "0.6", "two": "0.7"}),
        secret=Secret.from_seed(1),
    )
    said = stated(found, CLAIM)["corruption"]
    assert said["posterior"] == stated(found, CLAIM)["value"]["posterior"] < 1
