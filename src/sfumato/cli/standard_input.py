"""`-`: a table that comes through a pipe, kept in the private folder because publishing reads it twice."""

from __future__ import annotations

import sys

from ..errors import DataError

# First bytes of the files that are read, and the ending that stands for them; anything else is CSV or JSON lines.
SIGNS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"ORC": ".orc",
    b"\x1f\x8b": ".csv.gz",
    b"\x28\xb5\x2f\xfd": ".csv.zst",
    b"$FL2": ".sav",
    b"$FL3": ".zsav",
}

_kept: list[object] = []  # the copy stays until the process ends


def standard_input() -> str:
    """A private file of everything on standard input, named after what its first bytes say."""
    from ..engines.private_copy import PrivateCopy

    if sys.stdin.isatty():
        raise DataError("- reads the table from a pipe, and there is none")
    copy = PrivateCopy()
    _kept.append(copy)
    path = copy.bytes("input", sys.stdin.buffer)
    with path.open("rb") as handle:
        start = handle.read(64)
    if not start:
        raise DataError("standard input is empty")
    ending = next((e for sign, e in SIGNS.items() if start.startswith(sign)), None)
    if ending is None:
        ending = ".jsonl" if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"{", b"["} else ".csv"
    return str(path.rename(path.with_name(f"standard input{ending}")))
