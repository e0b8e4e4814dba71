"""Set-valued reports answer every question of the golden file that `uniform` answers, and refuse what it refuses.

An answer has the same kind, columns and number of rows, a refusal the same words but for the method's name.
"""

from __future__ import annotations

import functools
import re

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.methods.registry import build
from sql.test_golden import cases

SPECS = {  # at this gamma sets hold more than one value
    "subset-response": {"rho1": "1/5", "rho2": "1/3"},
    "small-domain": {"rho1": "1/5", "rho2": "1/3", "report": "set"},
}
BY_ESTIMATE = "HAVING INTERVAL_LOW"  # the rows that stay depend on what was drawn
ONE_VALUE = "uniform"


@functools.cache
def release(method: str) -> sf.Release:
    roles = sf.Roles(sensitive="occupation", rest="quasi")
    spec = build(method, SPECS[method])
    return sf.publish(sf.datasets.adult(), roles=roles, method=spec, null_as_value=True, seed=7)


def outcome(method: str, sql: str) -> list[str]:
    """The answer's shape, or the refusal, as the golden file's last lines have it."""
    try:
        answer = release(method).sql(sql)
    except SfumatoError as error:
        return f"{type(error).__name__}: {error}".splitlines()
    return [f"{answer.kind}: {answer.table.num_rows} rows of {', '.join(answer.table.column_names)}"]


def plain(lines: list[str], method: str, sql: str) -> list[str]:
    """Without the method's name; without the number of rows where estimates decide it."""
    named = [re.sub(rf"\b{method}\b", "METHOD", line.rstrip()) for line in lines]
    return [re.sub(r": \d+ rows", ": rows", line) for line in named] if BY_ESTIMATE in sql else named


@pytest.mark.parametrize("method", SPECS)
def test_what_uniform_answers_and_refuses(method: str) -> None:
    sets = pq.read_table(release(method).path / "sets.parquet")
    members = sets.filter(sets["member"]).group_by("occupation_set").aggregate([([], "count_all")])
    assert max(members["count_all"].to_pylist()) > 1
    asked = [case for case in cases() if case["method"] == ONE_VALUE]
    assert len(asked) > 100
    differ = {}
    for case in asked:
        found = plain(outcome(method, case["sql"]), method, case["sql"])
        stated = [line.removeprefix("-->").removeprefix(" ") for line in case["expected"].splitlines()]
        if plain(stated, ONE_VALUE, case["sql"])[-len(found) :] != found:
            differ[case["title"]] = (found, stated[-len(found) :])
    assert not differ
