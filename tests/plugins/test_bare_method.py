"""A method of another package that has the abstract members and nothing else: every command takes it, none lies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest

from commands import Done, sfumato
from sfumato.laws.channel import Channel
from sfumato.laws.expected import Foresight
from sfumato.methods import REGISTRY
from sfumato.methods.contract import Method, Specification
from sfumato.methods.registry import GROUP
from tables import ROLES, people

NAME = "kept-share"
OPTIONS = ("--method", NAME, "--share", "0.3", "--open-values", "flu,gout", "--open-share", "0.6")
CHOICE = ("--sa", "disease", "--qi", "age,sex", "--rest", "drop", "--bound", "1/3", "--seed", "1", "--json")


@pytest.fixture(scope="module", autouse=True)
def _installed() -> Iterator[None]:
    """The method is found as if a package with this entry point were installed."""
    point = EntryPoint(name=NAME, value="bare_method:METHOD", group=GROUP)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        patch.setitem(vars(REGISTRY), "_plugins", {NAME: point})
        patch.setattr(REGISTRY, "_loaded", {})
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("bare")
    pq.write_table(people(), here / "t.parquet")
    done = sfumato("publish", "t.parquet", "out", *ROLES, *OPTIONS, "--seed", 1, cwd=here)
    assert done.code == 0, done.text
    return here


def run(folder: Path, *arguments: object) -> Done:
    done = sfumato(*arguments, cwd=folder)
    assert done.code == 0, done.text
    return done


def test_it_has_the_abstract_members_and_nothing_else() -> None:
    own = {name for name in vars(type(REGISTRY[NAME])) if not name.startswith("_")}
    assert own == Method.__abstractmethods__


@pytest.mark.parametrize(
    ("command", "shows"),
    [
        (("plan", "t.parquet", *ROLES, *OPTIONS), "moves the odds"),
        (("inspect", "out"), NAME),
        (("verify", "out", "--test"), "what is published is what the parameters allow"),
        (("publish", "--help"), "--open-share"),
        (("query", "out", "SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex"), "95% interval"),
        (("query", "out", "SELECT AVG(age) FROM release WHERE disease > 'cold'", "--explain"), NAME),
        (("export", "out", "rows.csv"), "rows written"),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else "",
)
def test_every_command_takes_it(command: tuple[str, ...], shows: str, folder: Path) -> None:
    assert shows in run(folder, *command).text


def test_the_plan_is_drawn_without_gaps(folder: Path) -> None:
    assert "\n\n\n" not in run(folder, "plan", "t.parquet", *ROLES, *OPTIONS).out


def test_its_law_answers_models_and_foresees_errors(folder: Path) -> None:
    """What the method does not write, the law that its plan names does."""
    assert "release by kept-share" in run(folder, "fit", "out", "age ~ C(disease)").text
    assert "chi2(" in run(folder, "test", "out", "disease", "sex").text
    done = run(folder, "compare", "t.parquet", *CHOICE, "--methods", NAME, "--releases", 2)
    entry = next(e for e in json.loads(done.out)["methods"] if e["method"] == NAME)
    assert entry["applicable"], entry["reason"]
    assert all(error > 0 for error in entry["expected_error"].values())
    document = json.loads(run(folder, "recommend", "t.parquet", *CHOICE).out)
    assert [e["method"] for e in document["refused"] if e["method"] == NAME] == []


def test_a_model_that_is_not_foreseen_is_not_called_unknown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release by such a method may well be fitted: only its plan does not tell the errors."""

    def foresee(*_: Any) -> Foresight:
        return Foresight(lump=False, answer=lambda observed, asked: pytest.fail("no question was asked"))

    monkeypatch.setattr(Channel, "foresee", foresee)
    done = sfumato("plan", "t.parquet", *ROLES, *OPTIONS, "--fit", "age ~ C(disease)", cwd=folder)
    assert done.code != 0
    assert "foresees no errors of models" in done.err


def test_a_field_that_is_typed_like_an_option_of_every_method_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the option would be read by the command, and never reach the method."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Seeded(Specification):
        method: ClassVar[str] = NAME
        share: float
        seed: int | None = None

    monkeypatch.setattr(type(REGISTRY[NAME]), "spec", Seeded)
    done = sfumato("plan", "t.parquet", *ROLES, "--method", NAME, "--share", "0.5", "--seed", "1", cwd=folder)
    assert done.code == 2
    assert "rename the field" in done.err
    assert sfumato("publish", "--help").code == 0


def test_the_readme_of_its_release_says_what_to_install(folder: Path) -> None:
    text = (folder / "out" / "README.md").read_text(encoding="utf-8")
    assert f"`{NAME}` comes from a package of its own" in text
