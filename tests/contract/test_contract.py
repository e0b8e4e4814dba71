"""What every registered method must do. The table of examples is in examples.py.

False-alarm probability: each statistical test below uses ALPHA in all, shared among its cells.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.stats import binomtest, chi2

from constants import ALPHA, SEED
from contract.examples import COUNTS, diseases, profile_for, roles, spec
from dealing import Dealer
from sfumato.errors import SpecError
from sfumato.laws import law_document, law_of
from sfumato.methods import REGISTRY
from sfumato.methods.contract import Method, Planned
from sfumato.model.private import Batch, Profile, Released
from sfumato.model.public import READERS, Trust
from sfumato.publishing.randomness import Secret
from sfumato.release.opened import parameters_of

METHODS = list(REGISTRY)


def planned(name: str, seed: int = SEED) -> tuple[Any, Profile, Planned, dict[str, np.ndarray]]:
    method, columns = REGISTRY[name], diseases()
    needs = method.needs(spec(name), roles())
    profile = profile_for(needs, columns)
    codes = {unit: columns[unit[0]] for unit in needs.units}
    return needs, profile, method.plan(spec(name), profile, Secret.from_seed(seed).stream("plan")), codes


def released(name: str, seed: int, batches: int = 1) -> tuple[list[np.ndarray], list[Released]]:
    """(true codes of unit 0, what is published) batch by batch."""
    needs, _, plan, codes = planned(name, seed)
    secret = Secret.from_seed(seed)
    dealers = [Dealer(d, secret.stream(f"shuffle {k}")) for k, d in enumerate(plan.work.deals)]
    arrays = [codes[unit] for unit in needs.units]
    truth, out = [], []
    for number, rows in enumerate(np.array_split(np.arange(len(arrays[0])), batches)):
        here = tuple(a[rows] for a in arrays)
        rng = secret.stream("deal", number)
        labels = tuple(d.deal(here[deal.unit], rng) for d, deal in zip(dealers, plan.work.deals, strict=True))
        batch = Batch(rows=len(rows), codes=here, labels=labels)
        before = copy.deepcopy(here)
        out.append(plan.law.apply(plan.work, batch, secret.stream("apply", number)))
        assert all(np.array_equal(a, b) for a, b in zip(before, here, strict=True)), "apply changed its input"
        truth.append(here[0])
    for dealer in dealers:
        dealer.close()
    return truth, out


def test_a_method_has_at_most_twenty_members() -> None:
    """A method plans; what happens to rows belongs to its law."""
    assert len([name for name in vars(Method) if not name.startswith("_")]) <= 20


@pytest.mark.parametrize("name", METHODS)
def test_plan_survives_json(name: str) -> None:
    _, _, plan, _ = planned(name)
    parameters = json.loads(json.dumps(parameters_of(REGISTRY[name], plan.public)))
    law = law_of(json.loads(json.dumps(law_document(plan.law))))
    assert law == plan.law
    assert TypeAdapter(REGISTRY[name].plan_type).validate_python(parameters | {"law": law}) == plan.public


@pytest.mark.parametrize("name", METHODS)
def test_plan_is_pure(name: str) -> None:
    assert planned(name)[2].public == planned(name)[2].public


@pytest.mark.parametrize("name", METHODS)
def test_public_half_holds_no_true_count(name: str) -> None:
    """Eight distinct counts, none of which the release may state."""
    _, _, plan, _ = planned(name)

    def numbers(value: Any) -> set[int]:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            return set().union(*(numbers(v) for v in value)) if value else set()
        return {value} if isinstance(value, int) and not isinstance(value, bool) else set()

    stated = numbers(TypeAdapter(REGISTRY[name].plan_type).dump_python(plan.public, mode="json"))
    assert not stated & set(COUNTS.tolist())


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("batches", [1, 7])
def test_apply_keeps_shape_type_and_domain(name: str, batches: int) -> None:
    needs, profile, plan, _ = planned(name)
    domains, listed = plan.law.released_domains(profile.domains), plan.law.listed(profile.domains)
    sizes = [len(d if sets is None else sets) for d, sets in zip(domains, listed, strict=True)]
    for truth, out in zip(*released(name, SEED, batches), strict=True):
        assert len(out.codes) == len(needs.units)
        for u, codes in enumerate(out.codes):
            if codes is not None:
                assert codes.shape == truth.shape
                assert codes.dtype == np.int32
                assert codes.min() >= 0
                assert codes.max() < sizes[u]
        for extra in out.extra.values():
            assert extra.shape == truth.shape
        if plan.law.withheld:
            assert all(c is None for c, changed in zip(out.codes, needs.changed, strict=True) if changed)


@pytest.mark.parametrize("name", METHODS)
def test_same_secret_same_output(name: str) -> None:
    for a, b in zip(released(name, SEED, 3)[1], released(name, SEED, 3)[1], strict=True):
        for x, y in zip([*a.codes, *a.extra.values()], [*b.codes, *b.extra.values()], strict=True):
            assert np.array_equal(x, y) if x is not None else y is None


@pytest.mark.parametrize("name", METHODS)
def test_bad_specs_are_refused(name: str) -> None:
    example = REGISTRY[name].example
    assert example.bad or not dataclasses.fields(REGISTRY[name].spec), "name some bad arguments"
    for arguments in example.bad:
        with pytest.raises(SpecError):
            REGISTRY[name].spec(**{**example.spec, **arguments})


@pytest.mark.parametrize("name", METHODS)
def test_guarantee_says_what_it_is(name: str) -> None:
    _, _, plan, _ = planned(name)
    guarantee = REGISTRY[name].guarantee(plan.public)
    assert guarantee.trust == REGISTRY[name].trust
    assert guarantee.statement
    if guarantee.trust is not Trust.BASELINE:
        assert guarantee.assumptions
        assert guarantee.not_covered


@pytest.mark.parametrize("name", METHODS)
def test_readers_follow_from_the_public_plan(name: str) -> None:
    """Six readers in order; whatever is held is known, and at most the bound that the plan claims."""
    _, _, plan, _ = planned(name)
    claim = REGISTRY[name].claim(plan.public)
    found = REGISTRY[name].readers(plan.public, claim, None)
    assert tuple(r.reader for r in found) == READERS
    for bound in found:
        assert bound.why
        assert bound.posterior is None or 0 < bound.posterior <= 1
        assert not bound.held or (bound.posterior is not None and bound.posterior <= float(claim.rho2 or 0))
    more = REGISTRY[name].readers(plan.public, dataclasses.replace(claim, rows_per_person=3), None)
    assert more[-1].rows == 3
    assert (more[-1].posterior or 1) >= (found[-1].posterior or 0)


@pytest.mark.parametrize("name", METHODS)
def test_report_is_json(name: str) -> None:
    _, profile, plan, _ = planned(name)
    report = REGISTRY[name].report(plan.public, plan.work, profile)
    assert "expected_error" in report
    json.loads(json.dumps(report, default=str))


def confusion(name: str, batches: int, releases: int) -> tuple[np.ndarray, np.ndarray] | None:
    """(published code by true code, the declared channel of the releases' plans on average); None without a channel."""
    table, channel = np.zeros(()), np.zeros(())
    for r in range(releases):
        _, profile, plan, _ = planned(name, SEED + r)
        declared = plan.law.channel(plan.work, profile)
        if declared is None:
            return None
        if not r:
            table, channel = np.zeros(declared.shape, dtype=np.int64), np.zeros(declared.shape)
        channel += declared / releases
        for truth, out in zip(*released(name, SEED + r, batches), strict=True):
            np.add.at(table, (truth, out.codes[0]), 1)
    return table, channel


def worst_cell(table: np.ndarray, channel: np.ndarray) -> float:
    """The least p-value of exact binomial tests, one per cell of the channel."""
    return min(
        binomtest(int(table[x, y]), int(table[x].sum()), float(np.clip(channel[x, y], 0, 1))).pvalue
        for x in range(table.shape[0])
        for y in range(table.shape[1])
    )


def misfit(table: np.ndarray, channel: np.ndarray) -> float:
    """The p-value of a chi-square test of the whole table against the channel."""
    expected = table.sum(axis=1, keepdims=True) * channel
    sure = expected > 0
    statistic = ((table - expected)[sure] ** 2 / expected[sure]).sum()
    return float(chi2.sf(statistic, sure.sum() - len(table)))


@pytest.mark.parametrize(("name", "batches"), [(name, (1, 7, 100)[i % 3]) for i, name in enumerate(METHODS)])
def test_every_cell_of_the_channel(name: str, batches: int) -> None:
    """Every cell agrees with the declared channel, the first and the last value included.

    Exact binomial tests at ALPHA / 64 each; dealt methods vary less than binomially, which lowers the alarm rate.
    Channels that keep 30 % less or more, leave the last value alone, or are shifted are rejected by the same test.
    """
    found = confusion(name, batches, releases=40)
    if found is None:
        pytest.skip("values are not published row by row")
    table, channel = found
    assert np.allclose(channel.sum(axis=1), 1)
    assert worst_cell(table, channel) > ALPHA / channel.size
    if channel.shape[0] != channel.shape[1]:  # sets: what tells values apart is a third smaller or larger
        assert misfit(table, channel) > ALPHA
        middle = channel.mean(axis=0)
        for wrong in (0.7, 1.3):
            assert misfit(table, middle + wrong * (channel - middle)) < ALPHA
        return
    for wrong in (0.7, 1.3):
        off = channel * (1 - np.eye(len(channel)))
        kept = np.minimum(np.diag(channel) * wrong, 0.999)
        bent = off * ((1 - kept) / off.sum(axis=1))[:, None] + np.diag(kept)
        assert worst_cell(table, bent) < ALPHA / channel.size
    untouched = channel.copy()
    untouched[-1] = np.eye(len(channel))[-1]
    assert worst_cell(table, untouched) < ALPHA / channel.size
    assert worst_cell(np.roll(table, 1, axis=1), channel) < ALPHA / channel.size
