"""Help that teaches: commands and options grouped by task, every sentence whole, and a first page for a bare `sfumato`.

An option says what it does, an example ("e.g. --qi age,sex") and what holds without it ("default: ...");
tests/unit/test_help.py walks all of them.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ..version import __version__

START = f"""\
sfumato {__version__}: publish a table of people with a stated guarantee;
ask it SQL, get every answer with its error.

You hold a table
  sfumato look TABLE --sa COLUMN     its columns, and how far they tell people apart
  sfumato publish TABLE OUT --sa COLUMN --rest quasi --rho1 1/5 --rho2 1/2
                                     a release in the folder OUT
  sfumato studio TABLE               the same, step by step, in your browser

You got a release
  sfumato inspect RELEASE            what it promises, and to whom
  sfumato query RELEASE "SELECT COUNT(*) FROM release WHERE ..."
                                     an answer with its error
  sfumato serve RELEASE              ask it in the browser

You want to see it work
  sfumato demo

All commands: sfumato --help. One, with all its options: sfumato publish --help."""

TASKS = {
    "Before publishing": ("look", "plan", "recommend", "compare"),
    "Publishing": ("publish", "studio", "audit", "clean"),
    "Asking a release": ("query", "fit", "test", "inspect", "verify", "export", "serve"),
    "Seeing it work": ("demo", "reproduce"),
}
OTHERS = "Other options"
LAST = ("Engine", "Output", OTHERS)  # what most people never need stands at the end


def option(name: str, says: str, *, example: str = "", without: str | bool = True, **more: Any) -> Any:
    """An option that says what it does, an example of its value, and what holds without it (True: its default)."""
    shown = f"{says}; e.g. {name} {example}" if example else says
    return typer.Option(name, help=shown, show_default=without, **more)


class GroupedCommand(TyperCommand):
    """A command whose options stand under the headings of their tasks."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments first, then the groups in the order of their first option."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(heading(parameter), []).append(record)
        last = {title: sections.pop(title) for title in LAST if title in sections}
        for title, records in (sections | last).items():
            with formatter.section(title):
                formatter.write_dl(records)


def heading(parameter: Any) -> str:
    """The heading under which a parameter stands."""
    if parameter.param_type_name == "argument":
        return "Arguments"
    return str(parameter.rich_help_panel or OTHERS)


class CommandsByTask(TyperGroup):
    """All commands, by task, each with its whole first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A section for every task."""
        del ctx
        for task, names in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name, sentence(self.commands[name])) for name in names])


def sentence(command: Any) -> str:
    """The first sentence of a command's help."""
    return " ".join((command.help or "").split("\n\n", maxsplit=1)[0].split())
