"""How the files of an open release were when it was opened: what is read later must be what was looked at then."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import VerificationError
from .digests import State, state
from .manifest import Manifest

STATEMENT = "release.json"
PACKAGE = "datapackage.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStates:
    """Files of a folder in the state that they had: taken before their digests are computed, and compared whenever
    something was read of them. To look takes a few microseconds."""

    folder: str
    states: tuple[tuple[str, State | None], ...]  # name in the folder -> its state; None: not there

    @classmethod
    def of(cls, folder: Path, names: Iterable[str]) -> FileStates:
        """Of these files, as they are now."""
        place = str(folder.absolute())  # links stay: another folder behind one is another release
        return cls(folder=place, states=tuple((str(name), _now(place, name)) for name in names))

    def beside(self, manifest: Manifest) -> FileStates:
        """With those of all files that the manifest lists, as they are now."""
        names = (PACKAGE, *manifest.files, *(manifest.documents or ()))
        more = FileStates.of(Path(self.folder), names)
        return FileStates(folder=self.folder, states=(*self.states, *more.states))

    def check(self) -> None:
        """Nothing; VerificationError where a file is not the one that was there, whatever it holds."""
        for name, before in self.states:
            now = _now(self.folder, name)
            if now != before:
                done = "is gone" if now is None else "changed"
                raise VerificationError(f"{name} {done} since the release was opened; open it again")


def _now(folder: str, name: str) -> State | None:
    try:
        return state(f"{folder}{os.sep}{name}")
    except (OSError, ValueError):
        return None
