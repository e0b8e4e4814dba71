"""What `import sfumato` offers at the top: the verbs of a custodian and of an analyst, loaded when they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import sfumato
from tables import people

ROLES = sf.Roles(sensitive="disease", quasi=("age", "sex"), rest="drop")
METHOD = sf.UniformPerturbation(rho1="1/3", rho2="1/2")
VERBS = ("compare", "look", "open_release", "plan", "publish", "recommend", "verify")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("names") / "t.parquet"
    pq.write_table(people(), path)
    return path


def test_every_name_is_there_and_none_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, sfumato; before = len([m for m in sys.modules if m.startswith('sfumato.')]);"
        "from sfumato import *; print(before, *sorted(n for n in sfumato.__all__ if n in globals()))"
    )
    before, *names = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert int(before) == 0
    assert names == sorted(sf.__all__)
    assert set(VERBS) <= set(names)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="guess"):
        _ = sf.guess  # type: ignore[attr-defined]


def test_plan_says_what_the_command_says(table: Path) -> None:
    found = sf.plan(table, roles=ROLES, method=METHOD)
    line = (
        "--sa",
        "disease",
        "--qi",
        "age,sex",
        "--rest",
        "drop",
        "--method",
        "uniform",
        "--rho1",
        "1/3",
        "--rho2",
        "1/2",
    )
    assert str(found) == sfumato("plan", table, *line).out.rstrip("\n")
    assert found.to_dict()["rows"] == people().num_rows
    assert repr(found) == "<plan of uniform for 1,246 rows>"
    assert any("one row per person is assumed" in note for note in found.notes)


def test_verify_says_what_the_command_says_and_refuses_what_it_refuses(table: Path) -> None:
    out = table.parent / "out"
    sf.publish(table, out, roles=ROLES, method=METHOD, seed=1)
    told = sf.verify(out, test=True)
    shown = [
        line.removeprefix("ok  ") for line in sfumato("verify", out, "--test").out.splitlines() if line.startswith("ok")
    ]
    assert list(told) == shown
    with pytest.raises(sf.errors.VerificationError, match="made with a seed"):
        sf.verify(out)
    with pytest.raises(sf.errors.ReleaseError):
        sf.verify(table.parent / "nowhere")


def test_recommend_and_compare_speak_of_the_same_methods(table: Path) -> None:
    asked = {
        "roles": ROLES,
        "bound": "1/3",
        "seed": 1,
        "workload": "SELECT COUNT(*) FROM release WHERE disease = 'flu'",
    }
    best = sf.recommend(table, **asked)
    others = sf.compare(table, releases=1, methods=["uniform", best["method"]], **asked)
    named = {entry["method"]: entry for entry in others["methods"]}
    assert named[best["method"]]["expected_error"] == best["expected_error"]
