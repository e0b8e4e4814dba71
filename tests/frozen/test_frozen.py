"""Releases, answers, analyses and plans are what they were when recorded; see releases.py.

`pytest tests/frozen --update-golden` records anew; read the diff. Rows are compared exactly, numbers by a relative
tolerance, so that processors agree.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import sfumato as sf
from frozen.questions import analyses, answers
from frozen.recording import SETS_SHOWN, compare, decoded_rows, decoded_sets, differences, side_rows, summary
from frozen.releases import CASES, PEOPLE, SEED, release

ALIKE = 1e-6  # relative
FITTED_ALIKE = 1e-5  # of what is found by iteration


@pytest.mark.parametrize("name", CASES)
def test_rows(name: str, update_golden: bool) -> None:
    """The published rows in their order, the values apart from them, the weights of sets, and what is promised."""
    folder = release(name).path
    stated = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    sets = decoded_sets(folder)
    found: dict[str, Any] = {
        "data": summary(decoded_rows(folder)),
        "side": summary(side_rows(folder)),
        "sets": len(sets),
        "first sets": sets[:SETS_SHOWN],
        "people": stated["people"],
        **{f"guarantee, {key}": value for key, value in stated["guarantee"].items()},
    }
    compare(f"rows/{name}", found, ALIKE, update=update_golden)


@pytest.mark.parametrize("name", CASES)
def test_answers(name: str, update_golden: bool) -> None:
    compare(f"answers/{name}", answers(release(name), CASES[name].data), ALIKE, update=update_golden)


@pytest.mark.parametrize("name", CASES)
def test_analyses(name: str, update_golden: bool) -> None:
    compare(f"analyses/{name}", analyses(release(name), CASES[name].data), FITTED_ALIKE, update=update_golden)


@pytest.mark.parametrize("name", CASES)
def test_plans(name: str, update_golden: bool) -> None:
    given = CASES[name].arguments()
    found = sf.plan(given.pop("source"), **given).to_dict()
    compare(f"plans/{name}", found, ALIKE, update=update_golden)


def test_compared_methods(update_golden: bool) -> None:
    found = sf.compare(PEOPLE.table(), roles=PEOPLE.roles, bound="1/2", releases=2, seed=SEED)
    compare("compared", found, ALIKE, update=update_golden)


def test_recommended_method(update_golden: bool) -> None:
    found = sf.recommend(PEOPLE.table(), roles=PEOPLE.roles, bound="1/2", seed=SEED)
    compare("recommended", found, ALIKE, update=update_golden)


def test_differences_are_seen() -> None:
    """The comparison rejects another number, row, name, kind or length."""
    kept = {"rows": [["a", 1.0, None, 3]], "kind": "exact"}
    assert not list(differences({"rows": [["a", 1.0 + 1e-9, None, 3.0]], "kind": "exact"}, kept, ALIKE))
    for wrong in (
        {"rows": [["a", 1.00001, None, 3]], "kind": "exact"},
        {"rows": [["b", 1.0, None, 3]], "kind": "exact"},
        {"rows": [["a", 1.0, 0, 3]], "kind": "exact"},
        {"rows": [["a", 1.0, None, True]], "kind": "exact"},
        {"rows": [], "kind": "exact"},
        {"rows": [["a", 1.0, None, 3]]},
        {**kept, "more": 1},
    ):
        assert list(differences(wrong, kept, ALIKE))
