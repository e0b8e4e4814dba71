"""Commands and options that a page names but does not run are those of the command line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

import sfumato as sf
from sfumato.choosing import DEFAULT
from sfumato.cli.application import COMMANDS, application
from sfumato.release.documents import readme
from tables import people

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
OPTION = re.compile(r"--[a-z][a-z0-9-]+")
OTHERS = re.compile(r"\b(make|python|pip|pytest|openssl|curl|spark-submit|venv-pack|BENCH|AUDIT|export)\b")
# options of the benchmarks and of pytest, which pages name without their command
NOT_OURS = {"--repeat", "--rows", "--only", "--update-golden", "--record", "--seconds", "--full", "--clients"}


@cache
def options(command: str) -> frozenset[str]:
    """All options of a command, those of methods included."""
    found = typer.main.get_command(application(command))
    if command:
        found = found.commands[command]  # type: ignore[attr-defined] # a group has them
    return frozenset(name for p in found.params for name in (*p.opts, *p.secondary_opts)) | {"--help"}


@cache
def all_options() -> frozenset[str]:
    return frozenset().union(options(""), *(options(name) for name in COMMANDS), {"--install-completion"})


def commands(text: str) -> Iterator[str]:
    """The lines `sfumato ...` of a page's `sh` blocks and of its running text."""
    for block in BLOCK.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        yield from (line for line in lines if line.startswith("sfumato"))
    yield from (code for code in INLINE.findall(FENCED.sub("", text)) if code.startswith("sfumato "))


def faults(line: str) -> Iterator[str]:
    """What of a shown command the command line does not have."""
    words = shlex.split(line, comments=True)[1:]
    named = next((word for word in words if not word.startswith("-")), "")
    if named and named not in COMMANDS and named != "COMMAND":
        yield f"no command {named}"
        return
    known = options(named) if named in COMMANDS else all_options()
    yield from (f"{named} has no {word}" for word in words if OPTION.match(word) and word.split("=")[0] not in known)


def loose(text: str) -> Iterator[str]:
    """Options in the running text, apart from those of other programs."""
    for code in INLINE.findall(FENCED.sub("", text)):
        if not OTHERS.search(code):
            yield from OPTION.findall(code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_are_shown_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert {line: found for line in commands(text) if (found := list(faults(line)))} == {}
    if page.name != "CHANGELOG.md":  # it also names what is gone
        assert set(loose(text)) - all_options() - NOT_OURS == set()


def test_a_command_that_does_not_exist_is_found() -> None:
    """The checker itself."""
    page = (
        "```sh\nsfumato publish t.csv out \\\n  --qi age --quasi sex  # words\nls\n```\n"
        "and `sfumato verif out`, `--sensitive`"
    )
    assert [list(faults(line)) for line in commands(page)] == [["publish has no --quasi"], ["no command verif"]]
    assert list(loose(page)) == ["--sensitive"]
    assert list(faults("sfumato query out 'SELECT COUNT(*) FROM release' --level 0.9")) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_every_help_text_exists(command: str) -> None:
    found = typer.main.get_command(application(command)).commands[command]  # type: ignore[attr-defined]
    (example,) = re.findall(r"Example: (sfumato .*)", " ".join((found.help or "").split()))
    assert list(faults(example)) == []
    context = found.make_context(command, [], resilient_parsing=True)
    assert "docs/" not in found.get_help(context)  # an installed package has no such folder


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> sf.Release:
    method = sf.SubsetResponse(rho1="1/2", rho2="3/4")
    roles = sf.Roles(sensitive="disease", quasi=("sex",), rest="drop")
    return sf.publish(people(), tmp_path_factory.mktemp("release") / "out", roles=roles, method=method, seed=1)


def test_the_commands_in_the_readme_of_a_release_exist(release: sf.Release) -> None:
    lines = list(commands(readme(release.manifest)))
    assert len(lines) >= 3
    assert [list(faults(line)) for line in lines] == [[]] * len(lines)


def test_the_answer_on_the_page_of_serve_has_the_fields_of_an_answer(release: sf.Release) -> None:
    """Its figures are left out: a release without a seed has others each time. The demo's method is the default."""
    text = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    shown = json.loads(re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0].replace("...", "null"))
    answer = release.sql("SELECT sex, COUNT(*) AS n FROM release WHERE disease = 'flu' GROUP BY sex").to_dict()
    assert list(shown) == list(answer)
    assert list(shown["rows"][0]) == list(answer["rows"][0])
    assert (shown["method"], shown["kind"]) == (DEFAULT, answer["kind"])
