"""The first table of docs/compare.md is the one that was measured, of the methods as they are now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks import compared

import sfumato as sf
from sfumato.methods.registry import BUILT_IN, build
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret


def test_the_table_is_the_one_measured(golden: Callable[[Path, str], None]) -> None:
    golden(compared.PAGE, compared.rewritten())


def test_every_method_was_measured_as_the_page_says() -> None:
    found = compared.figures()
    assert set(BUILT_IN) <= {entry["method"] for entry in found["methods"]}
    text = compared.PAGE.read_text(encoding="utf-8")
    assert f"{found['rows']:,} rows, {found['questions']} questions" in text
    assert f"--qi {compared.QUASI}" in text
    assert f"--bound {found['bound']} --seed {compared.SEED}" in text


@pytest.mark.parametrize("method", ["subset-response", "uniform", "small-domain"])
def test_the_figures_are_those_of_the_plans_of_today(method: str) -> None:
    """How far each reader gets follows from the plan alone: a plan that changed since the measurement is seen."""
    (entry,) = [e for e in compared.figures()["methods"] if e["method"] == method and not e["variant"]]
    spec = build(method, entry["parameters"])
    table = sf.datasets.adult()
    found = prepare(table, roles=compared.ROLES, method=spec, secret=Secret.from_seed(1), null_as_value=True)
    readers = found.readers(found.claim())["readers"]
    assert [(r["reader"], r["posterior"]) for r in readers] == [(r["reader"], r["posterior"]) for r in entry["readers"]]
