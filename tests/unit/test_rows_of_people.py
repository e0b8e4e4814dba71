"""Errors of a population take rows for people: where people may have several rows, every such answer says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from analysed_methods import METHODS, SILENT
from constants import SEED
from sfumato.errors import SfumatoError

NOTE = "people may have 2 rows: errors of a population take rows for people, and may be too small"
ASKED: dict[str, Callable[[sf.Release, Any], Any]] = {
    "fit": lambda release, target: release.fit("y ~ C(g)", target=target),
    "fit of s": lambda release, target: release.fit("{s == 'a'} ~ C(g)", family="binomial", target=target),
    "compare": lambda release, target: release.compare(mean="y", by="g", target=target),
    "correlation": lambda release, target: release.correlation("y", "x", target=target),
    "quantile": lambda release, target: release.quantile("y", 0.5, where="s = 'a'", target=target),
}


@cache
def release(method: str, most: int) -> sf.Release | None:
    """600 people of `most` rows each; None where the method takes one row only."""
    rng = np.random.default_rng(SEED)
    who = np.repeat(np.arange(600), most)
    s, g = rng.choice(list("abcd"), len(who)), rng.choice(["f", "m"], len(who))
    table = pa.table({"who": who, "s": s, "g": g, "y": rng.integers(0, 9, len(who)), "x": rng.integers(0, 9, len(who))})
    roles = sf.Roles(sensitive="s", quasi=["g", "y", "x"], person="who", max_rows_per_person=most)
    try:
        return sf.publish(table, roles=roles, method=METHODS[method], seed=1)
    except SfumatoError:
        return None


@pytest.mark.parametrize("method", sorted(METHODS.keys() - SILENT - {"l-diversity"}))
def test_populations_of_people_with_several_rows_carry_a_note(method: str) -> None:
    answered = 0
    for most in (1, 2):
        made = release(method, most)
        for ask in ASKED.values() if made is not None else ():
            for target in ("population", "table"):
                try:
                    answer = ask(made, target)
                except SfumatoError:  # too little is known of s, or nothing of its errors
                    continue
                answered += 1
                assert (NOTE in answer.caveats) == (target == "population" and most == 2)
    assert answered


def test_a_test_of_independence_is_about_a_population() -> None:
    made = release("uniform", 2)
    assert made is not None
    assert NOTE in made.test("g", "s", target="table").caveats


def test_sql_is_about_the_table() -> None:
    made = release("randomized-response", 2)
    assert made is not None
    assert NOTE not in made.sql("SELECT COUNT(*) AS n FROM release WHERE s = 'a'").caveats
