"""What the terminal shows: answers on stdout, notes and bars on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import typer

from ..errors import EngineError
from ..reports.text import json_text, visible

NEWLINE = "\n"  # a question has a caret under it


class ReaderGone(Exception):  # noqa: N818 - not an error of ours
    """Whoever read our output has closed the pipe."""


def say(text: str) -> None:
    """A line of the answer."""
    _print(visible(text, keep="\n\t"))


def say_json(document: Any) -> None:
    """One JSON document, and nothing else."""
    _print(json_text(document))


def _print(text: str) -> None:
    try:
        typer.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError:
        raise EngineError("what is to be said cannot be written to standard output; is a disk full?") from None


def note(text: str) -> None:
    """A line beside the answer."""
    typer.echo(f"note: {visible(text)}", err=True)


def complain(text: str) -> None:
    """Why nothing was done."""
    typer.echo(f"error: {visible(text, keep=NEWLINE)}", err=True)


class ProgressBar:
    """A bar on stderr while a terminal is there to show it; silence otherwise."""

    def __enter__(self) -> Callable[[str, int, int], None]:
        if not sys.stderr.isatty():
            self._bar = None
            return lambda _stage, _done, _rows: None
        from rich.console import Console
        from rich.progress import Progress

        self._bar = Progress(console=Console(stderr=True), transient=True)
        self._bar.start()
        tasks: dict[str, Any] = {}

        def show(stage: str, done: int, rows: int) -> None:
            assert self._bar is not None
            name = stage.partition(",")[0]  # what follows changes while the stage goes on
            if name not in tasks:
                tasks[name] = self._bar.add_task(stage, total=rows)
            self._bar.update(tasks[name], completed=done, description=stage)

        return show

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
