"""The mechanism on arrays: hand-out, channel, public half, refusals and the custodian's report."""

import json
from fractions import Fraction as F

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from constants import SEED
from dealing import Dealer
from sfumato.errors import PlanError, SpecError
from sfumato.laws import law_document, law_of
from sfumato.methods.small_domain import METHOD as small_domain
from sfumato.methods.small_domain.method import SmallDomain, SmallDomainPlan
from sfumato.model.private import Batch, Histogram, Profile
from sfumato.model.public import Domain, Roles, Trust
from sfumato.release.opened import parameters_of
from sfumato.stats.gamma import posterior

COUNTS = np.array([900, 800, 700, 650, 600, 500, 450, 400, 300, 250, 200, 150, 100, 60, 40, 20])


def profile_of(counts, labels=None):
    values = tuple((v,) for v in (labels or range(len(counts))))
    codes = np.flatnonzero(counts).astype(np.int32)[:, None]
    histogram = Histogram(codes=codes, true_counts=np.asarray(counts)[codes[:, 0]])
    return Profile(rows=int(np.sum(counts)), domains=(Domain(columns=("s",), values=values),), histograms=(histogram,))


def planned(counts=COUNTS, **options):
    spec = SmallDomain(**({"rho1": "1/6", "rho2": "1/3", "min_size": 500, "report": "value"} | options))
    return small_domain.plan(spec, profile_of(counts), np.random.default_rng(0))


def applied(found, codes, rng, batches=1):
    """(published codes, sub-tables) with the records dealt and perturbed in several batches."""
    dealer = Dealer(found.work.deals[0], rng)
    out = []
    for part in np.array_split(codes, batches):
        labels = dealer.deal(part, rng)
        batch = Batch(rows=len(part), codes=(part,), labels=(labels,))
        released = found.law.apply(found.work, batch, rng)
        out.append((released.codes[0], released.extra["sub_table"]))
    dealer.close()
    return tuple(np.concatenate(column) for column in zip(*out, strict=True))


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"rho1": "0"}, "rho1"),
        ({"rho1": "1/3"}, "rho2"),
        ({"rho2": "1"}, "rho2"),
        ({"rho1": "much"}, "rho1"),
        ({"mode": "lax"}, "mode"),
        ({"objective": "size"}, "objective"),
        ({"min_size": 0}, "min_size"),
    ],
)
def test_bad_parameters_are_named(options, field):
    with pytest.raises(SpecError, match=field) as caught:
        SmallDomain(**({"rho1": "1/6", "rho2": "1/3"} | options))
    assert caught.value.field == field


def test_needs_take_several_sensitive_columns_as_one_value():
    needs = small_domain.needs(SmallDomain(rho1="1/6", rho2="1/3"), Roles(sensitive=("a", "b")))
    assert (needs.units, needs.joints, needs.changed) == ((("a", "b"),), ((0,),), (True,))


@pytest.mark.parametrize("batches", [1, 7, 100])
def test_every_sub_table_gets_exactly_its_counts_in_any_number_of_batches(batches):
    found = planned()
    rng = np.random.default_rng(SEED)
    codes = rng.permutation(np.repeat(np.arange(COUNTS.size), COUNTS)).astype(np.int32)
    dealer = Dealer(found.work.deals[0], rng)
    labels = np.concatenate([dealer.deal(part, rng) for part in np.array_split(codes, batches)])
    dealer.close()
    partition, *_ = found.work.secret
    for i, table in enumerate(partition.sub_tables):
        expected = np.zeros(COUNTS.size, dtype=np.int64)
        expected[table.values] = table.true_counts
        assert np.array_equal(np.bincount(codes[labels == i], minlength=COUNTS.size), expected)
        assert found.law.sizes[i] == table.size
        assert found.law.domains[i] == tuple(table.values.tolist())


def test_published_values_stay_in_their_sub_table_and_input_is_left_alone():
    found = planned()
    codes = np.repeat(np.arange(COUNTS.size), COUNTS).astype(np.int32)
    before = codes.copy()
    shown, part = applied(found, codes, np.random.default_rng(SEED))
    assert np.array_equal(codes, before)
    assert shown.dtype == np.int32
    for i, domain in enumerate(found.law.domains):
        assert set(shown[part == i].tolist()) == set(domain)


def test_same_stream_same_release():
    found = planned()
    codes = np.repeat(np.arange(COUNTS.size), COUNTS).astype(np.int32)
    first, second = (applied(found, codes, np.random.default_rng(7), batches=3) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_public_half_survives_json_and_holds_no_counts():
    found = planned(np.array([917, 811, 701, 653, 601, 503, 457, 401, 307, 251]))
    dumped, law = parameters_of(small_domain, found.public), law_document(found.law)
    read = json.loads(json.dumps(dumped)) | {"law": law_of(json.loads(json.dumps(law)))}
    assert TypeAdapter(SmallDomainPlan).validate_python(read) == found.public
    assert set(dumped) == {"rho1", "rho2", "mode", "sets"}
    assert set(law) == {"name", "values", "domains", "gammas", "sizes"}


@pytest.mark.parametrize(
    "change",
    [
        {"gammas": ["1", "2"]},
        {"gammas": ["2"]},
        {"sizes": [1]},
        {"sizes": [-1, 4]},
        {"domains": [[0, 1], []]},
        {"domains": [[0, 1], [-1, 2]]},
        {"domains": [[0, 1], [2, 2]]},
        {"mode": "lax"},
        {"domains": [], "gammas": [], "sizes": []},
        {"rho1": "2/3"},
    ],
)
def test_a_malformed_plan_is_refused(change):
    law = {"name": "keep-or-redraw", "values": 4, "domains": [[0, 1], [2, 3]], "gammas": ["2", "2"], "sizes": [3, 4]}
    good = {"rho1": "1/6", "rho2": "1/3", "mode": "strict"}

    def made(change):
        own = law | {key: value for key, value in change.items() if key in law}
        others = {key: value for key, value in change.items() if key not in law}
        return TypeAdapter(SmallDomainPlan).validate_python(good | others | {"law": law_of(own)})

    made({})
    with pytest.raises((ValidationError, SpecError)):
        made(change)


def test_strict_guarantee_covers_every_prior_up_to_rho1():
    found = planned()
    guarantee = small_domain.guarantee(found.public)
    assert guarantee.trust == Trust.PROVED
    assert all(posterior(F(1, 6), gamma) <= F(1, 3) for gamma in found.law.gammas)
    assert guarantee.parameters["posterior"] <= 0.333334


def test_paper_guarantee_is_conditional_and_says_why():
    found = planned(np.full(12, 300), mode="paper", objective="bound", min_size=1)
    guarantee = small_domain.guarantee(found.public)
    assert guarantee.trust == Trust.CONDITIONAL
    assert any("exceed gamma(rho1, rho2)" in text for text in guarantee.not_covered)


def test_refusals_reach_the_custodian():
    with pytest.raises(PlanError, match="rho1"):
        planned(np.array([40, 60]))
    with pytest.raises(PlanError, match="two distinct"):
        planned(np.array([40, 0]))


def test_report_shows_sub_tables_uniform_and_errors():
    found = planned(np.append(COUNTS, 3000))
    report = small_domain.report(found.public, found.work, profile_of(np.append(COUNTS, 3000)))
    assert report["protected"] == list(range(16))
    assert sum(t["size"] for t in report["sub_tables"]) == COUNTS.sum() + 3000
    first = report["sub_tables"][0]
    assert set(first) == {"id", "size", "domain", "counts", "rho1", "gamma", "keep", "retention"}
    assert first["keep"] == pytest.approx(first["retention"] + (1 - first["retention"]) / len(first["domain"]))
    assert report["retention"] > report["uniform_retention"]
    error = report["expected_error"]
    assert len(error["total"]) == len(error["values"]) == COUNTS.size + 1
    assert error["among_1_percent"][0] == pytest.approx(error["total"][0] / 10)
    partition, *_ = found.work.secret
    assert sum(e**2 for e in error["total"]) == pytest.approx(partition.total_variance, rel=1e-12)
    json.dumps(report)
