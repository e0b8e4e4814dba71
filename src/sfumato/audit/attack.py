"""What an attack is: a guess for every target, from the release and the background knowledge that it states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from ..model.public import Codes, Integers
from . import ATTACKS
from .view import ReleaseView


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Background knowledge about T targets. A reader uses no more of it than the attack says she has."""

    rows: Integers  # (T,) the target's row of the release
    cells: Integers  # (T, quasi-identifiers) the target's true quasi-identifiers, coded as `ReleaseView.quasi` says
    persons: Integers  # (T, k) rows of one person, who has one sensitive value; the target's row first
    others: Codes  # (rows of the release,) true values of all records, -1 where not known; the target's own included
    second: ReleaseView | None  # another release of the same table
    second_rows: Integers | None  # (T,) the target's row there


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack. `run` gives the guessed codes, or a sentence why it does not apply."""

    name: str
    reader: str  # of the ladder in docs/explanation/threats.md
    knows: str  # her background knowledge, one phrase
    covered: bool  # whether the method's promise speaks about this reader
    run: Callable[[ReleaseView, Background], Codes | str]


def attacks() -> tuple[Attack, ...]:
    """All attacks, in the order of the registry."""
    return tuple(import_module(f".{name}", __package__).ATTACK for name in ATTACKS)
