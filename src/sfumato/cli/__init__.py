"""The command line: arguments in, rendering out; no arithmetic."""

from __future__ import annotations

import gc
import os
import sys

# New objects before Python looks for unreachable ones. Loading code makes some hundred thousand, which all stay:
SHORT, OF_SHORT = ("look", "publish", "plan", "query", "inspect", "verify"), 1_000_000  # ... and little follows
OBJECTS = 50_000  # of commands that may run for long


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would read what every installed package offers
    usual = gc.get_threshold()
    short = (sys.argv[1:] if arguments is None else arguments)[:1]
    gc.set_threshold(OF_SHORT if short and short[0] in SHORT else OBJECTS, *usual[1:])
    try:
        from .application import main as run

        run(arguments)
    finally:
        gc.set_threshold(*usual)


__all__ = ["main"]
