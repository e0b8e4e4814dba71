"""A release that `sfumato query` opens, and counts, before the command line and the parser of questions are loaded.

Which columns a question is about is told by the names in its text. Rows are counted by them on the core that loading
code leaves idle; the question, once it is understood, finds its cells counted. What the text seems to name and does
not costs time, and changes no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..engines.contract import Engine
    from ..release.digests_first import Opening
    from ..release.opened import OpenedRelease

OTHERWISE = ("--engine", "--master", "--remote", "--help", "--explain")  # by others, or not at all

_begun: dict[str, Opening[OpenedRelease]] = {}  # until the command has taken it


def begin(arguments: Sequence[str]) -> None:
    """Nothing; the release is open if these are the arguments of a question to one, and its rows are being counted."""
    given = arguments[1] if len(arguments) > 1 else ""
    if given.startswith("-") or not given or any(a.startswith(OTHERWISE) for a in arguments):
        return
    with suppress(Exception):  # whatever it is: it is told by who opens the release next
        from ..engines.duckdb import begun_connection
        from .early_rows import prepare

        prepare(begun_connection.begin)
        from ..release.opened import begin_path

        _begun[given] = begin_path(given)


def begin_path(path: str, engine: Engine) -> Opening[OpenedRelease]:
    """The release while its digests are being compared; the one that is open already, if it is."""
    from ..engines.directory import LOCAL
    from ..release import opened

    found = _begun.pop(path, None)
    return found if found is not None and engine.name == LOCAL else opened.begin_path(path, engine=engine)


def end() -> None:
    """No release is held any more that no command took."""
    _begun.clear()
