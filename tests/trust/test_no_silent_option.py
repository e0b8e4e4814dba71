"""An option is honoured or refused by name, whatever the method."""

from __future__ import annotations

import io
import json
import shlex
import sys
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from commands import METHODS, sfumato
from sfumato.choosing.setting import spec_of
from sfumato.methods import REGISTRY
from sfumato.model.private import Facts
from sfumato.publish import prepare
from sfumato.publishing.randomness import Secret
from tables import COUNTS, ROLES, people

QUESTION = "SELECT COUNT(*) AS n FROM release WHERE disease = 'flu' AND sex = 'f'"


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one release of every method."""
    folder = tmp_path_factory.mktemp("releases")
    pq.write_table(people(), folder / "people.parquet")
    for name, options in METHODS.items():
        done = sfumato("publish", folder / "people.parquet", folder / name, *ROLES, "--method", name, *options)
        assert done.code == 0, done.text
    return folder


@pytest.mark.parametrize("name", list(REGISTRY))
def test_an_estimator_is_the_methods_own_or_refused(name: str, releases: Path) -> None:
    known = sf.open_release(releases / name).plan.law.estimators
    plain = sfumato("query", releases / name, QUESTION, "--format", "json")
    assert plain.code == 0
    for estimator in ("paper", "corrected", "two-state", "plain", "no such estimator"):
        done = sfumato("query", releases / name, QUESTION, "--estimator", estimator, "--format", "json")
        if estimator in known:
            assert done.code == 0, done.text
            assert done.out != plain.out, "the estimator changes nothing"
        else:
            assert done.code == 2, done.text
            assert name in done.err
            assert f'"{estimator}"' in done.err


@pytest.mark.parametrize("name", list(REGISTRY))
def test_questions_are_about_the_table_by_every_method(name: str, releases: Path) -> None:
    """A population is what `fit`, `test`, `compare` and `quantile` may be about; one method's SQL knew it, and half."""
    for option in (("--population",), ("--estimator", "population")):
        assert sfumato("query", releases / name, QUESTION, *option).code == 2


@pytest.mark.parametrize(
    "options",
    [("--format", "json"), ("--level", "0.9"), ("--simultaneous",), ("--estimator", "paper")],
)
def test_explain_refuses_what_it_would_ignore(options: tuple[str, ...], releases: Path) -> None:
    done = sfumato("query", releases / "uniform", QUESTION, "--explain", *options)
    assert done.code == 2
    assert options[0] in done.err


class Keyboard(io.StringIO):
    """A standard input with somebody at it: without SQL a prompt opens."""

    def isatty(self) -> bool:
        return True


def test_the_prompt_refuses_what_it_would_ignore(releases: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Keyboard())
    done = sfumato("query", releases / "uniform", "--format", "json")
    assert done.code == 2
    assert "--format" in done.err


def test_full_without_json_is_refused(releases: Path) -> None:
    done = sfumato("plan", releases / "people.parquet", *ROLES, "--method", "splu", *METHODS["splu"], "--full")
    assert done.code == 2
    assert "--full" in done.err


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("plan", ("--rho1", "1/5", "--rho2", "1/3", "--family", "binomial")),
        ("plan", ("--rho1", "1/5", "--rho2", "1/3", "--recode", "groups.json")),
        ("compare", ("--bound", "1/3", "--methods", "no-such-method")),
        ("compare", ("--bound", "1/3", "--methods", "uniform,no-such-method")),
        ("compare", ("--bound", "1/3", "--methods", "")),
        ("compare", ("--bound", "1/3", "--methods", "uniform", "--hierarchies", "age=interval:5")),
        ("compare", ("--bound", "1/3", "--methods", "uniform", "--rho1", "1/2")),
        ("recommend", ("--bound", "1/3", "--hierarchies", "age=interval:5")),
        ("recommend", ("--bound", "1/3", "--rho1", "1/3")),
        ("recommend", ("--bound", "1/3", "--rho1", "0")),
    ],
)
def test_what_would_be_ignored_is_refused(command: str, options: tuple[str, ...], tmp_path: Path) -> None:
    pq.write_table(people(), tmp_path / "people.parquet")
    done = sfumato(command, tmp_path / "people.parquet", *ROLES, *options)
    assert done.code == 2, done.text
    assert options[-2].lstrip("-") in done.err


@pytest.mark.parametrize("name", list(REGISTRY))
def test_a_recommended_command_can_be_typed(name: str, tmp_path: Path) -> None:
    """The options that `recommend` prints, copied to a shell, make the plan that was recommended; awkward names too."""
    names = ["it's a sex", "disease"]
    table = people().select(["sex", "disease"]).rename_columns(names)
    pq.write_table(table, tmp_path / "people.parquet")
    facts = Facts(rows=table.num_rows, true_counts=COUNTS, sizes={names[0]: 2}, integers=frozenset(), hierarchies=None)
    for candidate in REGISTRY[name].at_bound(facts, Fraction(1, 3), Fraction(1, 5)):
        given = shlex.split(candidate.options())
        done = sfumato("plan", tmp_path / "people.parquet", "--sa", "disease", "--qi", names[0], *given, "--json")
        assert done.code == 0, done.text
        chosen = sf.Roles(sensitive="disease", quasi=[names[0]])
        found = prepare(table, roles=chosen, method=spec_of(candidate), secret=Secret.from_seed(1))
        assert json.loads(done.out)["guarantee"]["statement"] == found.guarantee.statement
