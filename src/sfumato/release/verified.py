"""`sfumato.verify`: a release in a folder or an archive, checked by whoever received it."""

from __future__ import annotations

from pathlib import Path

from .opened import begin_path
from .verify import verify as check


def verify(path: str | Path, *, test: bool = False, key: str | Path | None = None) -> tuple[str, ...]:
    """What holds of a release, line by line, recomputed from the bundle alone; VerificationError where something fails.

    `path` is a folder or a zip archive. `test` accepts a release that was made with a seed. `key` is a file with the
    custodian's public key in PEM: the signature is checked with it.
    """
    opening = begin_path(path)
    opening.checked()
    with opening.beside() as opened:
        lines = tuple(check(opened, test=test))
        if key is None:
            return lines
        from .signing import check_signature, read_public

        check_signature(opened.path, read_public(key))
        return (*lines, "signed with the private half of this key")
