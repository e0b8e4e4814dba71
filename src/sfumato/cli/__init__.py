"""The command line: arguments in, rendering out; no arithmetic."""

from __future__ import annotations

import gc
import os

OBJECTS = 50_000  # new ones before Python looks for unreachable ones: loading code makes ten thousands that all stay


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would read what every installed package offers
    usual = gc.get_threshold()
    gc.set_threshold(OBJECTS, *usual[1:])
    try:
        from .application import main as run

        run(arguments)
    finally:
        gc.set_threshold(*usual)


__all__ = ["main"]
