"""What the terminal shows: answers on stdout, notes and bars on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from ..errors import EngineError
from ..reports.text import json_text, visible


class ReaderGone(Exception):  # noqa: N818 - not an error of ours
    """Whoever read our output has closed the pipe."""


def say(text: str) -> None:
    """A line of the answer."""
    try:
        typer.echo(visible(text, keep="\n\t"))
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError:
        raise EngineError("what is to be said cannot be written to standard output; is a disk full?") from None


def say_json(document: Any) -> None:
    """One JSON document, and nothing else."""
    say(json_text(document))


def note(text: str) -> None:
    """A line beside the answer."""
    typer.echo(f"note: {visible(text)}", err=True)


def complain(text: str) -> None:
    """Why nothing was done."""
    typer.echo("error: " + visible(text, keep="\n"), err=True)  # a question has a caret under it


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr while a terminal is there to show it; silence otherwise."""
    if not sys.stderr.isatty():
        yield lambda _stage, _done, _rows: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(stage: str, done: int, rows: int) -> None:
            name = stage.partition(",")[0]  # what follows changes while the stage goes on
            if name not in tasks:
                tasks[name] = bar.add_task(stage, total=rows)
            bar.update(tasks[name], completed=done, description=stage)

        yield show
