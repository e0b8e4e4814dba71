"""Writes the table of forgeries: kinds by methods, tried on fresh releases.

python tools/build_forgery_table.py > docs/forgeries.md
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
    """The page."""
    caught = sum(mark == "+" for _, marks in found for mark in marks)
    unseen = sum(mark == "." for _, marks in found for mark in marks)
    head = f"""# Forgeries

{len(found)} kinds of forgery, each tried on a release of every method of 20,000 rows. This page is what
`python tools/build_forgery_table.py` prints. Whoever forges is competent: digests, row counts and `datapackage.json`
are made anew unless the kind is about them. Nothing is signed; a signature would show any change of what it covers.

- `+` caught by `sfumato verify` from the bundle alone ({caught})
- `.` cannot be seen from the bundle, and `verify` says so ({unseen}); `verify --truth` is for the custodian
- blank: does not apply to the method, or chance decides
"""
    lines = ["| kind | " + " | ".join(RELEASES) + " |", "|---|" + "---|" * len(RELEASES)]
    lines += [f"| {name} | " + " | ".join(marks) + " |" for name, marks in found]
    return head + "\n" + "\n".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        table = rows(Path(scratch))
    sys.stdout.write(markdown(table) + "\n")
    sys.exit(any("!" in mark for _, marks in table for mark in marks))
