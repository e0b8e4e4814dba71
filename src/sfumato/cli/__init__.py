"""The command line: arguments in, rendering out; no arithmetic."""

from __future__ import annotations

import os
import sys

INTERRUPTED = 130  # as shells count an end by Ctrl-C


def program() -> None:
    """Run the command line as the process `sfumato`."""
    _open_streams()
    main()


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from .application import main as run
    except KeyboardInterrupt:  # while it is loaded; from then on it answers by itself
        sys.stderr.write(f"error: {stopped(arguments)}\n")
        raise SystemExit(INTERRUPTED) from None
    run(arguments)


def stopped(arguments: list[str]) -> str:
    """What is said after Ctrl-C. A release takes its place as a whole, at the end: until then there is none."""
    return "stopped; nothing was published" if arguments[:1] == ["publish"] else "stopped"


def _open_streams() -> None:
    """Let streams that the caller has closed lead nowhere; else the next file opened would take their place."""
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115 - for as long as we run
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - the same
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - the same


__all__ = ["main", "program"]
