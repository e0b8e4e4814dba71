"""Every method whose promise on rho1 and rho2 is proved says in its plan how far its errors are from the best."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods import REGISTRY
from sfumato.model.public import Trust
from sfumato.publish import Prepared, prepare
from sfumato.publishing.randomness import Secret
from sfumato.reports.documents import render_plan

PROVED = [
    name
    for name, method in REGISTRY.items()
    if method.trust is Trust.PROVED and "rho1" in {field.name for field in fields(method.spec)}
]
ROWS, RHO1, RHO2 = 4_000, "1/8", "1/4"
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "subset-response": ({}, {"workload": "sum"}),
    "small-domain": ({}, {"report": "value"}, {"report": "set", "min_size": 300}, {"workload": "sum"}),
}


def tables() -> dict[str, tuple[pa.Table, dict[str, Any]]]:
    """Values all protected; one above rho1; values that nobody has; people with several rows; few values; one table."""
    rng = np.random.default_rng(7)
    age, even = rng.integers(20, 40, ROWS), rng.integers(0, 24, ROWS)

    def made(pay: Any, **columns: Any) -> pa.Table:
        return pa.table({"pay": pay, "age": age[: len(pay)], **columns})

    return {
        "protected": (made(even), {}),
        "unprotected": (made(np.where(rng.random(ROWS) < 0.3, 0, even)), {}),
        "declared": (made(even), {"domains": {"pay": list(range(40))}}),
        "people": (made(even, who=np.arange(ROWS) // 2), {"person": "who", "max_rows_per_person": 2}),
        "few": (made(np.where(rng.random(ROWS) < 0.1, 1, 0)), {}),
        "small": (made(even[:600]), {}),
    }


TABLES = tables()


def planned(name: str, table: str, options: dict[str, Any]) -> Prepared:
    source, given = TABLES[table]
    people = {key: given[key] for key in given if key != "domains"}
    return prepare(
        source,
        roles=sf.Roles(sensitive="pay", quasi=["age"], **people),
        method=REGISTRY[name].spec(rho1=RHO1, rho2=RHO2, **options),
        secret=Secret.from_seed(1),
        domains=given.get("domains"),
    )


CASES = [
    (name, options, table)
    for name in PROVED
    for options in VARIANTS.get(name, ({},))
    for table in TABLES
    if "workload" not in options or table in {"protected", "unprotected"}  # searched: a second each
    if table != "people" or REGISTRY[name].several_rows
]


@pytest.mark.parametrize(("name", "options", "table"), CASES)
def test_a_proved_plan_states_its_distance_from_the_best(name: str, options: dict[str, Any], table: str) -> None:
    report = planned(name, table, options).report()
    assert 1 - 1e-6 <= report["times_least"] < 10
    (line,) = [note for note in report["notes"] if note.startswith("the standard errors of counts")]
    assert f"{report['times_least']:.3f} times the least possible" in line
    assert line in render_plan(report)


def test_where_values_are_not_protected_the_distance_is_that_of_the_sub_tables() -> None:
    """Sets reach the best of every sub-table up to their short lists; one value does not."""
    sets, value = (planned("small-domain", "unprotected", {"report": r, "min_size": 300}) for r in ("set", "value"))
    assert sets.report()["times_least"] == pytest.approx(1, abs=0.02)
    assert value.report()["times_least"] > 1.05
    assert any("in these sub-tables" in note for note in sets.report()["notes"])
