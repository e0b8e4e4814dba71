"""Writes docs/man/sfumato.1 from the commands themselves; the wheel puts it where `man sfumato` looks.

    python -m tools.build_man_page

tests/docs/test_man_page.py compares; `make golden` rewrites it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from sfumato.cli.application import COMMANDS, LAST, TASKS, application, heading
from sfumato.version import __version__

PAGE = Path(__file__).parents[1] / "docs" / "man" / "sfumato.1"
CODES = {
    "0": "done",
    "1": "our fault, or the machine's",
    "2": "the request is wrong: parameters, roles, table, question, release",
    "3": "the guarantee cannot be reached with these parameters",
    "4": "verification failed",
}


def quoted(text: str) -> str:
    """A line of text as roff takes it: backslashes, dashes and a leading dot or quote have no meaning."""
    safe = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def section(name: str, command: Any) -> Iterator[str]:
    """One command: what it does, its example, its options by heading."""
    context = command.make_context(name, [], resilient_parsing=True)
    pieces = " ".join(command.collect_usage_pieces(context))
    yield f".SS {quoted(f'sfumato {name} {pieces}')}"
    for paragraph in (command.help or "").split("\n\n"):
        yield ".P"
        yield quoted(paragraph)
    titles: dict[str, list[Any]] = {}
    for parameter in command.get_params(context):
        if parameter.name != "help":
            titles.setdefault(heading(parameter), []).append(parameter)
    late = {title: titles.pop(title) for title in LAST if title in titles}
    for title, parameters in (titles | late).items():
        yield ".P"
        yield f".I {quoted(title)}"
        for parameter in parameters:
            shown, says = parameter.get_help_record(context)
            yield ".TP"
            yield f".B {quoted(shown)}"
            yield quoted(says)


def lines() -> Iterator[str]:
    """The lines of the page."""
    group: Any = typer.main.get_command(application(None))
    yield f'.TH SFUMATO 1 "" "sfumato {__version__}" "User Commands"'
    yield ".SH NAME"
    yield "sfumato \\- publish a table of people with a stated privacy guarantee, and ask it SQL"
    yield ".SH SYNOPSIS"
    yield ".B sfumato"
    yield "[\\-\\-version] [\\-\\-debug] [\\-\\-help]"
    yield ".I command"
    yield "[options]"
    yield ".SH DESCRIPTION"
    yield quoted(group.help)
    yield "Options that take no value are off unless they are said."
    for task, names in TASKS.items():
        yield f".SH {quoted(task.upper())}"
        for name in names:
            yield from section(name, typer.main.get_command(application(name)).commands[name])  # type: ignore[attr-defined]
    yield ".SH EXIT STATUS"
    for code, meaning in CODES.items():
        yield ".TP"
        yield f".B {code}"
        yield quoted(meaning)


def page() -> str:
    """The whole page; KeyError where a command has no task."""
    left = set(COMMANDS) - {name for names in TASKS.values() for name in names}
    if left:
        raise KeyError(f"no task for {sorted(left)}")
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
