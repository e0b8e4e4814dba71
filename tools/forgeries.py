"""Prints the table of forgeries: kinds by methods, tried on fresh releases.

    python tools/forgeries.py

+ caught by `sfumato verify`; . cannot be seen from the bundle (and `verify` says so); blank: does not apply.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from forgeries import CAUGHT, KINDS, RELEASES, honest
from forging import verified
from sfumato.errors import ReleaseError, VerificationError


def rows(folder: Path) -> list[tuple[str, list[str]]]:
    """(kind, one mark for each method); a mark with ! differs from what is expected."""
    releases = honest(folder)
    found = []
    for k, kind in enumerate(KINDS):
        marks = []
        for name in RELEASES:
            wanted = kind.of(name)
            if wanted is None:
                marks.append("")
                continue
            try:
                verified(kind.forge(releases[name], folder / f"{k}-{name}"))
                mark = "."
            except (VerificationError, ReleaseError):
                mark = "+"
            marks.append(mark if (mark == "+") == (wanted == CAUGHT) else f"{mark}!")
        found.append((kind.name, marks))
    return found


def markdown(found: list[tuple[str, list[str]]]) -> str:
    """The table as Markdown."""
    lines = ["| kind | " + " | ".join(RELEASES) + " |", "|---|" + "---|" * len(RELEASES)]
    lines += [f"| {name} | " + " | ".join(marks) + " |" for name, marks in found]
    return "\n".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        table = rows(Path(scratch))
    sys.stdout.write(markdown(table) + "\n")
    sys.exit(any("!" in mark for _, marks in table for mark in marks))
