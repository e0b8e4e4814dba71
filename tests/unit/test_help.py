"""Help that teaches: a walk over all commands and options, the first page, and what shells complete."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any

import pytest
import typer

from commands import process, sfumato
from sfumato.cli.application import COMMANDS, START, TASKS, application, heading, sentence

OWN = {"help", "install_completion", "show_completion"}  # typer's


@cache
def command(name: str) -> Any:
    """A command with all its options, those of methods included."""
    return typer.main.get_command(application(name)).commands[name]


def faults(parameter: Any, context: Any) -> Iterator[str]:
    """What an option does not say."""
    _, said = parameter.get_help_record(context)
    if not parameter.help:
        yield "no help"
    if parameter.param_type_name == "argument" or parameter.is_flag:
        return
    if not re.search(rf"; e\.g\. {parameter.opts[0]} \S", parameter.help):
        yield "no example"
    if "[default: " not in said and "required" not in said:
        yield "no default"
    if parameter.metavar is None:
        yield "no name for its value"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_does_an_example_and_its_default(name: str) -> None:
    found = command(name)
    context = found.make_context(name, [], resilient_parsing=True)
    assert re.search(rf"Example: sfumato {name}\b", found.help)
    told = {p.name: list(faults(p, context)) for p in found.get_params(context) if p.name not in OWN}
    assert {parameter: lacks for parameter, lacks in told.items() if lacks} == {}


def test_a_wordless_option_is_found() -> None:
    """The walk itself."""
    app = typer.Typer()

    @app.command("one")
    def one(
        at: Annotated[str | None, typer.Option("--at")] = None,
        by: Annotated[int, typer.Option("--by", help="steps; e.g. --by 4")] = 3,
    ) -> None:
        """One."""

    found = typer.main.get_command(app)
    context = found.make_context("one", [], resilient_parsing=True)
    at, by = (p for p in found.get_params(context) if p.name in {"at", "by"})
    assert list(faults(by, context)) == ["no name for its value"]
    at.help = ""
    assert list(faults(at, context)) == ["no help", "no example", "no default", "no name for its value"]


@pytest.mark.parametrize("name", ["publish", "plan", "compare", "serve"])
def test_long_commands_have_headings(name: str) -> None:
    found = command(name)
    context = found.make_context(name, [], resilient_parsing=True)
    headings = {heading(p) for p in found.get_params(context)}
    assert len(headings) > 4
    shown = sfumato(name, "--help").out
    assert all(f"\n{title}:\n" in shown for title in headings)


def test_every_command_has_its_task_and_its_whole_sentence() -> None:
    assert sorted(name for names in TASKS.values() for name in names) == sorted(COMMANDS)
    shown = " ".join(sfumato("--help").out.split())
    assert all(sentence(command(name)) in shown for name in COMMANDS)
    assert all(f" {task}: " in shown for task in TASKS)


def test_a_bare_command_shows_the_few_that_people_need() -> None:
    done = sfumato()
    assert (done.code, done.out) == (0, START + "\n")
    named = re.findall(r"^  sfumato (\w+)", START, re.MULTILINE)
    assert set(named) <= set(COMMANDS)
    assert len(named) < len(COMMANDS) / 2
    assert max(map(len, START.splitlines())) <= 84


@pytest.mark.parametrize(
    ("words", "completed"),
    [("sfumato pu", "publish"), ("sfumato publish --rho", "--rho1"), ("sfumato query --sim", "--simultaneous")],
)
def test_shells_complete_commands_and_options_of_methods_too(
    words: str, completed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_SFUMATO_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert completed in process().out.split()


def test_the_scripts_of_completion_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # the shell is then named
    assert "_SFUMATO_COMPLETE=complete_bash" in process("--show-completion", "bash").out
