"""`sfumato audit`: attacks on releases whose outcome is known, planted leaks that must be found, and the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

import sfumato as sf
from commands import sfumato
from constants import ALPHA
from forging import forged
from sfumato.audit.attacks import ATTACKS, Background
from sfumato.audit.score import audit, interval, knowledge, read_truth
from sfumato.audit.view import ReleaseView, look
from sfumato.errors import DataError
from sfumato.methods import REGISTRY
from sfumato.methods.registry import build
from sfumato.query import open_release
from tables import DISEASES, people

NUMBERED = sf.Roles(sensitive="disease", quasi=["age", "sex"], insensitive=["number"], rest="drop")
OPTIONS = {"randomized-response": {"keep": "disease=1/5"}}  # the example leaves the disease as it is
LINE = {"attack", "reader", "knows", "success", "low", "high", "blind", "bound", "breaks"}
NAMES = [attack.name for attack in ATTACKS]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A table and two releases of it with every method."""

    source: Path
    folder: Path

    def release(self, method: str, seed: int = 1) -> Path:
        out = self.folder / f"{method}-{seed}"
        if not out.exists():
            spec = build(method, OPTIONS.get(method, REGISTRY[method].example.options))
            sf.publish(self.source, out, roles=NUMBERED, method=spec, seed=seed)
        return out


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Diseases that nothing else tells anything about."""
    folder = tmp_path_factory.mktemp("audit")
    pq.write_table(people(), folder / "t.parquet")
    return World(source=folder / "t.parquet", folder=folder)


@pytest.fixture(scope="module")
def told_by_age(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Diseases that follow from the age, but for one in ten."""
    folder = tmp_path_factory.mktemp("told")
    table = people()
    rng = np.random.default_rng(2)
    number = np.array([DISEASES.index(d) for d in table["disease"].to_pylist()])
    age = np.where(rng.random(len(number)) < 0.9, 20 + 8 * number, rng.integers(18, 90, len(number)))
    table = table.set_column(table.column_names.index("age"), "age", pa.array(age, pa.int16()))
    pq.write_table(table, folder / "t.parquet")
    return World(source=folder / "t.parquet", folder=folder)


@cache
def document(world: World, method: str) -> dict[str, Any]:
    """The audit of a method, with a second release."""
    first, second = (open_release(world.release(method, seed)).opened for seed in (1, 2))
    return audit(first, world.source, second=second, targets=600)


def line(world: World, method: str, attack: str) -> dict[str, Any]:
    return next(found for found in document(world, method)["attacks"] if found["attack"] == attack)


@pytest.mark.parametrize("method", REGISTRY)
def test_every_attack_is_scored_or_says_why_not(world: World, method: str) -> None:
    found = document(world, method)
    assert found["method"] == method
    assert (found["rows"], found["targets"]) == (people().num_rows, 600)
    scored = [entry["attack"] for entry in found["attacks"]]
    left = [entry["attack"] for entry in found["left_out"]]
    assert sorted(scored + left) == sorted(NAMES)
    assert len(NAMES) == 9
    assert [name for name in NAMES if name in scored] == scored
    for entry in found["attacks"]:
        assert set(entry) == LINE
        assert 0 <= entry["low"] <= entry["success"] <= entry["high"] <= 1
        assert entry["blind"] == pytest.approx(211 / 1246)
    assert all(set(entry) == {"attack", "why"} and entry["why"] for entry in found["left_out"])
    json.dumps(found)


@pytest.mark.parametrize("method", REGISTRY)
def test_no_attack_breaks_a_promise(world: World, method: str) -> None:
    """A line is above its bound by chance in less than 1 of 200 audits; seeds are fixed."""
    assert [entry["attack"] for entry in document(world, method)["attacks"] if entry["breaks"]] == []


def test_promises_are_those_of_the_methods(world: World) -> None:
    assert line(world, "uniform", "record posterior")["bound"] == pytest.approx(1 / 3)
    assert line(world, "uniform", "corruption")["bound"] == pytest.approx(1 / 3)
    assert line(world, "subset-response", "corruption")["bound"] == pytest.approx(1 / 3)
    assert line(world, "anatomy", "record posterior")["bound"] == pytest.approx(1 / 3)
    assert line(world, "anatomy", "corruption")["bound"] is None
    assert line(world, "l-diversity", "linking")["bound"] == pytest.approx(1 / 3)
    assert line(world, "splu", "two releases")["bound"] is None


def test_corruption_breaks_what_shows_groups_and_nothing_else(world: World) -> None:
    for method in ("anatomy", "l-diversity"):
        assert line(world, method, "corruption")["success"] == 1
    for method in ("uniform", "subset-response", "randomized-response"):
        assert line(world, method, "corruption") == line(world, method, "record posterior") | {
            name: line(world, method, "corruption")[name] for name in ("attack", "reader", "knows")
        }


@cache
def targets(world: World, method: str, seed: int) -> tuple[ReleaseView, Background, Any]:
    """All records of the table as targets in a release, with another beside it, and their true values."""
    first, second = (look(open_release(world.release(method, s)).opened) for s in (seed, seed + 1))
    return first, *knowledge(first, read_truth(first, world.source), second, 1246, np.random.default_rng(1))


def more_and_less(world: World, method: str, attack: str) -> tuple[int, int]:
    """Targets that an attack gets right and the record posterior does not, and the reverse; two pairs of releases."""
    by_name, found = {a.name: a for a in ATTACKS}, np.zeros(2, dtype=int)
    for seed in (1, 3):
        view, known, true = targets(world, method, seed)
        put_together, alone = (by_name[name].run(view, known) == true for name in (attack, "record posterior"))
        found += (put_together & ~alone).sum(), (alone & ~put_together).sum()
    return int(found[0]), int(found[1])


@pytest.mark.parametrize("attack", ["two releases", "several rows of a person"])
@pytest.mark.parametrize("method", ["anatomy", "small-domain"])
def test_what_is_put_together_adds_up(world: World, method: str, attack: str) -> None:
    """Two releases, or three rows of a person: better than one, by the sign test of the same targets.

    An attack that gains nothing passes with a chance of 1e-9. The record posterior against itself does not.
    """
    more, less = more_and_less(world, method, attack)
    assert binom.sf(more - 1, more + less, 0.5) < ALPHA
    assert more_and_less(world, method, "record posterior") == (0, 0)


def test_without_a_second_release_composition_is_left_out(world: World) -> None:
    found = audit(open_release(world.release("uniform")).opened, world.source, targets=100)
    assert [entry for entry in found["left_out"] if entry["attack"] == "two releases"] == [
        {"attack": "two releases", "why": "needs another release of the table (--second)"}
    ]


def test_draws_that_ignore_the_record_tell_nothing(world: World) -> None:
    for entry in document(world, "distribution-draw")["attacks"]:
        if entry["attack"] != "linking":  # which has 600 guesses of its own, by noise that it learnt
            assert entry["low"] <= entry["blind"]


def test_the_order_of_honest_rows_tells_nothing(world: World) -> None:
    for method in REGISTRY:
        found = line(world, method, "order of the rows")
        assert found["low"] <= found["blind"]


@pytest.mark.slow
def test_columns_that_tell_the_value_are_learnt(told_by_age: World, world: World) -> None:
    """Linking with a sharpened prior, and the groups of anatomy by de Finetti; not where columns tell nothing."""
    for method in ("anatomy", "splu", "randomized-response"):
        assert line(told_by_age, method, "linking")["low"] > line(world, method, "linking")["high"]
    resolved, honest = (line(w, "anatomy", "group structure (de Finetti)") for w in (told_by_age, world))
    assert resolved["low"] > 0.6 > honest["high"]


def test_methods_have_the_attacks_made_for_them(world: World) -> None:
    special = {
        "joint posterior of a sub-table": {"small-domain"},
        "algorithm-aware": {"target-distribution"},
        "group structure (de Finetti)": {"anatomy", "target-distribution"},
    }
    for attack, methods in special.items():
        scored = {m for m in REGISTRY if attack in [entry["attack"] for entry in document(world, m)["attacks"]]}
        assert methods <= scored


def _planted(world: World, out: Path, method: str, change: Callable[[pa.Table, list[str]], pa.Table]) -> dict[str, Any]:
    """The audit of a release whose rows were changed by somebody who knows the truth."""
    source = pq.read_table(world.source)
    truth = dict(zip(source["number"].to_pylist(), source["disease"].to_pylist(), strict=True))

    def changed(table: pa.Table) -> pa.Table:
        return change(table, [truth[number] for number in table["number"].to_pylist()])

    release = forged(world.release(method), out, data=changed)
    return audit(open_release(release).opened, world.source, targets=400)


def _broken(found: dict[str, Any]) -> list[str]:
    return [entry["attack"] for entry in found["attacks"] if entry["breaks"]]


@pytest.mark.parametrize("method", ["subset-response", "uniform", "randomized-response", "splu"])
def test_rows_in_the_order_of_the_truth_are_found(world: World, method: str, tmp_path: Path) -> None:
    found = _planted(world, tmp_path / "sorted", method, lambda t, true: t.take(pa.array(np.argsort(true))))
    assert _broken(found) == ["order of the rows"]


@pytest.mark.parametrize("method", ["uniform", "randomized-response"])
def test_true_values_put_back_are_found(world: World, method: str, tmp_path: Path) -> None:
    def reveal(table: pa.Table, true: list[str]) -> pa.Table:
        at = table.column_names.index("disease")
        return table.set_column(at, "disease", pa.array(true).cast(table.schema.field(at).type))

    assert "record posterior" in _broken(_planted(world, tmp_path / "true", method, reveal))


def test_intervals_are_clopper_and_pearsons() -> None:
    """No hit of n: the upper end is 1 - tail^(1/n); and the reverse."""
    low, high = interval(0, 100)
    assert (low, high) == (0, pytest.approx(1 - 0.005 ** (1 / 100)))
    assert interval(100, 100) == (pytest.approx(0.005 ** (1 / 100)), 1)


def test_records_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    table = people().select(["sex", "disease"])
    pq.write_table(table, tmp_path / "t.parquet")
    spec = build("uniform", {"rho1": "1/5", "rho2": "1/3"})
    release = sf.publish(table, roles=sf.Roles(sensitive="disease", quasi=["sex"]), method=spec)
    with pytest.raises(DataError, match="only 0 records"):
        audit(release.opened, tmp_path / "t.parquet")


def test_the_command_prints_a_table_and_json(world: World, tmp_path: Path) -> None:
    first, second = world.release("anatomy"), world.release("anatomy", 2)
    asked = ("audit", first, "--truth", world.source, "--second", second, "--targets", 600)
    shown = sfumato(*asked)
    assert shown.code == 0, shown.text
    assert all(name in shown.out for name in NAMES if name not in _left_out(world))
    stated = sfumato(*asked, "--json", "--report", tmp_path / "page.html")
    assert json.loads(stated.out) == json.loads(json.dumps(document(world, "anatomy")))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "corruption" in page
    again = sfumato(*asked, "--report", world.source, "--force")
    assert (again.code, pq.read_table(world.source)) == (2, people())


def _left_out(world: World) -> set[str]:
    return {entry["attack"] for entry in document(world, "anatomy")["left_out"]}


def test_the_command_refuses_in_one_line(world: World, tmp_path: Path) -> None:
    release = world.release("uniform")
    pq.write_table(people().drop_columns(["age"]), tmp_path / "less.parquet")
    wrong: list[tuple[object, ...]] = [
        (release, "--truth", tmp_path / "nowhere.parquet"),
        (release, "--truth", tmp_path / "less.parquet"),
        (release, "--truth", world.source, "--second", tmp_path),
        (release, "--truth", world.source, "--targets", 3),
        (tmp_path, "--truth", world.source),
    ]
    for arguments in wrong:
        done = sfumato("audit", *arguments)
        assert done.code in {2, 4}, done.text
        assert "Traceback" not in done.text
        assert not any(disease in done.err for disease in DISEASES)
