"""compare: every method once, equal bounds, honest refusals; the command line on top."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import sfumato
from comparing import people, roles
from sfumato.choosing.compare import compare, held
from sfumato.choosing.setting import LAPLACE, choose_rho1
from sfumato.errors import SpecError
from sfumato.methods import REGISTRY
from sfumato.model.private import Facts
from sfumato.model.public import READERS, Roles
from sfumato.reports.documents import render_comparison

TABLE = people(rows=2500)


@pytest.fixture(scope="module")
def document() -> dict:  # type: ignore[type-arg]
    return compare(TABLE, roles=roles(), bound="1/3", releases=2, conditions=12, seed=4, keep_points=20)


def test_one_entry_per_registered_method_and_laplace(document) -> None:  # type: ignore[no-untyped-def]
    assert [m["method"] for m in document["methods"]] == [*REGISTRY, LAPLACE]
    for entry in document["methods"]:
        assert {"method", "trust", "applicable", "reason", "expected_error", "observed_error"} <= set(entry)
        assert entry["applicable"] or entry["reason"]
        assert not entry["applicable"] or [r["reader"] for r in entry["readers"]] == list(READERS)


def test_the_document_is_json(document) -> None:  # type: ignore[no-untyped-def]
    assert json.loads(json.dumps(document))["bound"] == "1/3"
    assert {"bound", "rows", "workload", "methods"} <= set(document)


def test_of_a_larger_table_a_sample_is_compared_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.choosing.compare.MOST_ROWS", 600)
    found = compare(TABLE, roles=roles(), bound="1/3", releases=1, conditions=12, seed=4, methods=["uniform"])
    assert (found["rows"], found["rows_in_all"]) == (600, 2500)
    assert found["methods"][0]["applicable"]
    assert "a random sample of 600 of 2,500 rows" in render_comparison(found)


def test_equal_means_equal(document) -> None:  # type: ignore[no-untyped-def]
    by = {m["method"]: m for m in document["methods"]}
    assert by["uniform"]["parameters"]["rho2"] == by["small-domain"]["parameters"]["rho2"] == "1/3"
    assert by["uniform"]["parameters"]["rho1"] == by["small-domain"]["parameters"]["rho1"]
    assert by["anatomy"]["parameters"]["l"] == by["splu"]["parameters"]["gamma"] == 3
    assert by["randomized-response"]["parameters"]["risk"] == by["randomized-response"]["parameters"]["rho2"] == "1/3"
    for entry in document["methods"]:
        for one in (entry, *entry.get("variants", ())):
            if one["holds_bound"]:
                assert one["readers"][2]["reader"] == "histogram"
                assert one["readers"][2]["posterior"] <= 1 / 3
    if "l-diversity" in by and by["l-diversity"]["applicable"]:
        assert by["l-diversity"]["parameters"]["kind"] == "frequency"
        assert by["l-diversity"]["largest_share"] <= 1 / 3
        assert [v["holds_bound"] for v in by["l-diversity"]["variants"]] == [False, False]


def test_foreseen_and_observed_errors_are_near(document) -> None:  # type: ignore[no-untyped-def]
    """A sanity check on two releases, within a factor of 1.5; tests/statistical/test_expected_errors.py is the test."""
    for entry in document["methods"]:
        if entry["applicable"] and entry["expected_error"] and entry["observed_error"]:
            for band, expected in entry["expected_error"].items():
                assert expected / 1.5 < entry["observed_error"][band] < 1.5 * expected, entry["method"]


def test_ranks_are_within_the_readers_that_are_held(document) -> None:  # type: ignore[no-untyped-def]
    sets = {held(m) for m in document["methods"] if m["rank"]}
    assert len(sets) > 1
    for readers in sets:
        ranked = [m for m in document["methods"] if m["rank"] and held(m) == readers]
        ranked.sort(key=lambda m: m["rank"])
        errors = [next(iter(m["observed_error"].values())) for m in ranked]
        assert [m["rank"] for m in ranked] == list(range(1, len(ranked) + 1))
        assert errors == sorted(errors)


def test_methods_that_only_bound_say_how_wide(document) -> None:  # type: ignore[no-untyped-def]
    by = {m["method"]: m for m in document["methods"]}
    assert by["target-distribution"]["observed_error"] is None
    assert by["target-distribution"]["bound_width"]["0.001"] > 0
    assert by["anatomy"]["bound_width"]["0.001"] > 0


def test_an_unreachable_bound_is_a_reason_not_a_failure() -> None:
    document = compare(TABLE, roles=roles(), bound="1/11", releases=1, conditions=10, methods=["anatomy", "uniform"])
    by = {m["method"]: m for m in document["methods"]}
    assert not by["anatomy"]["applicable"]
    assert "most frequent" in by["anatomy"]["reason"]
    assert "anatomy" in render_comparison(document)


def test_the_prior_is_rounded_up_and_stays_below_the_bound() -> None:
    facts = Facts(rows=1000, true_counts=(76, 70, 50), sizes={}, integers=frozenset())
    assert choose_rho1(facts, Fraction(1, 6)) == Fraction(8, 100)  # a step is ten rows
    assert choose_rho1(facts, Fraction(78, 1000)) == Fraction(1, 13)
    assert choose_rho1(facts, Fraction(1, 15)) == Fraction(1, 20)  # two values are beyond the bound
    assert choose_rho1(facts, Fraction(1, 6), "1/20") == Fraction(1, 20)
    with pytest.raises(SpecError):
        choose_rho1(facts, Fraction(1, 25))
    many = Facts(rows=100_000, true_counts=(12_640, 7_000), sizes={}, integers=frozenset())
    assert choose_rho1(many, Fraction(1, 4)) == Fraction(127, 1000)


@pytest.mark.parametrize("bound", ["1/2", "1/3", "1/4"])
def test_a_method_that_shows_one_value_reaches_the_bound(bound: str) -> None:
    """Who knows the histogram ends at the bound but for the rounding of rho1 and gamma, not far below it."""
    counts = [1264, *[460] * 19]
    table = pa.table({"disease": np.repeat(np.arange(20), counts), "sex": np.arange(sum(counts)) % 2})
    both = Roles(sensitive="disease", quasi=("sex",))
    (found,) = compare(table, roles=both, bound=bound, releases=1, methods=["uniform"], conditions=1)["methods"]
    assert 0.98 * Fraction(bound) < found["readers"][2]["posterior"] <= Fraction(bound)


def test_no_exact_share_becomes_the_prior() -> None:
    """2001 of 10007 rows: 1/4 and 0.2 both reach the bound 1/5, and the share itself would state a true count."""
    facts = Facts(rows=10007, true_counts=(2001, 8006), sizes={}, integers=frozenset())
    assert Fraction(2001, 10007) < Fraction(1, 5)
    with pytest.raises(SpecError, match="--rho1"):
        choose_rho1(facts, Fraction(1, 5))


@pytest.mark.parametrize("bound", ["0", "1", "7/6", "x", None])
def test_a_bad_bound_is_refused(bound: str | None) -> None:
    with pytest.raises(SpecError):
        compare(TABLE, roles=roles(), bound=bound, releases=1)  # type: ignore[arg-type]


def test_the_command_prints_one_json_document(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    (tmp_path / "w.sql").write_text("SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'd01' GROUP BY sex")
    arguments = ["compare", str(tmp_path / "t.parquet"), "--sa", "disease", "--rest", "quasi", "--bound", "1/3"]
    arguments += ["--workload", str(tmp_path / "w.sql"), "--releases", "1", "--methods", "uniform,laplace", "--json"]
    done = sfumato(*arguments)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert [m["method"] for m in found["methods"]] == ["uniform", "laplace"]
    assert found["methods"][0]["observed_error"]["all"] > 0
    assert not found["methods"][1]["applicable"]
