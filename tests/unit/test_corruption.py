"""The reader who knows every other record: enumerated worlds against what each method states."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import sfumato as sf
from brute_readers import of_sets, shares
from reader_laws import (
    RHO1,
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
