"""docs/choosing.md: the picture's commands can be run, and the table is the one that was measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from benchmarks import choosing
from tools.draw_choosing import FIGURE, LEAVES, Leaf, drawing

from commands import sfumato
from sfumato.methods.registry import BUILT_IN, REGISTRY
from sfumato.model.public import Trust
from tables import people


def test_the_picture_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(FIGURE, drawing())


def test_the_table_is_the_one_measured(golden: Callable[[Path, str], None]) -> None:
    golden(choosing.PAGE, choosing.rewritten())
    assert list(choosing.figures()) == list(choosing.CASES)


def test_every_method_is_in_the_table_and_all_but_two_in_the_picture() -> None:
    """`uniform` is never better than `subset-response`, and a baseline promises nothing."""
    for name in choosing.CASES:
        assert set(BUILT_IN) <= set(choosing.figures()[name]["methods"])
    promising = {name for name in BUILT_IN if REGISTRY[name].trust is not Trust.BASELINE}
    assert {leaf.method for leaf in LEAVES} == promising - {"uniform"}


def test_the_default_errs_less_than_uniform_wherever_it_was_measured() -> None:
    for table in choosing.figures().values():
        methods = table["methods"]
        assert methods["subset-response"]["held"] == methods["uniform"]["held"]
        assert methods["subset-response"]["error"] <= methods["uniform"]["error"]


def test_what_the_page_says_about_the_baseline() -> None:
    errors = {m: e["error"] for m, e in choosing.figures()["diabetes130"]["methods"].items() if e["error"] is not None}
    assert [m for m, error in errors.items() if error < errors["distribution-draw"]] == ["anatomy"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("choosing") / "t.parquet"
    pq.write_table(people(), path)
    return path


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.method)
def test_every_command_of_the_picture_can_be_run(leaf: Leaf, table: Path) -> None:
    done = sfumato("plan", table, "--sa", "disease", "--qi", "sex", "--rest", "drop", *leaf.options())
    assert done.code == 0, done.text
    assert done.out.startswith(f"{leaf.method} ({REGISTRY[leaf.method].trust})")
