"""An option is honoured or refused by name, whatever the method."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import METHODS, sfumato
from sfumato.methods import REGISTRY
from tables import ROLES, people

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
    known = REGISTRY[name].estimators
    plain = sfumato("query", releases / name, QUESTION, "--format", "json")
    assert plain.code == 0
    for estimator in ("paper", "corrected", "two-state", "plain", "population", "no such estimator"):
        done = sfumato("query", releases / name, QUESTION, "--estimator", estimator, "--format", "json")
        if estimator in known:
            assert done.code == 0, done.text
            assert done.out != plain.out, "the estimator changes nothing"
        else:
            assert done.code == 2, done.text
            assert name in done.err
            assert "population" in done.err if estimator == "population" else f'"{estimator}"' in done.err


@pytest.mark.parametrize("name", list(REGISTRY))
def test_population_is_honoured_or_refused(name: str, releases: Path) -> None:
    done = sfumato("query", releases / name, QUESTION, "--population")
    if "population" in REGISTRY[name].estimators:
        assert done.code == 0
        assert "population" in done.out
    else:
        assert done.code == 2
        assert "--population" in done.err


@pytest.mark.parametrize(
    "options",
    [("--format", "json"), ("--level", "0.9"), ("--simultaneous",), ("--population",), ("--estimator", "paper")],
)
def test_explain_refuses_what_it_would_ignore(options: tuple[str, ...], releases: Path) -> None:
    done = sfumato("query", releases / "uniform", QUESTION, "--explain", *options)
    assert done.code == 2
    assert options[0] in done.err


def test_the_prompt_refuses_what_it_would_ignore(releases: Path) -> None:
    done = sfumato("query", releases / "uniform", "--format", "json")
    assert done.code == 2
    assert "--format" in done.err


def test_full_without_json_is_refused(releases: Path) -> None:
    done = sfumato("plan", releases / "people.parquet", *ROLES, "--method", "splu", *METHODS["splu"], "--full")
    assert done.code == 2
    assert "--full" in done.err
