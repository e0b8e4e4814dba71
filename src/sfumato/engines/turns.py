"""Threads that share a reader, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar


class Shared(Protocol):
    """What threads share; `turn` is held by the one whose statement runs."""

    @property
    def turn(self) -> AbstractContextManager[Any]:
        """A lock that its thread may take again."""


Owner = TypeVar("Owner", bound=Shared)
Given = ParamSpec("Given")
Found = TypeVar("Found")


def in_turn(asked: Callable[Concatenate[Owner, Given], Found]) -> Callable[Concatenate[Owner, Given], Found]:
    """The same, for one thread at a time.

    A connection refuses a second one, and the small tables of two questions have the same names.
    """

    @wraps(asked)
    def waiting(owner: Owner, /, *given: Given.args, **named: Given.kwargs) -> Found:
        with owner.turn:
            return asked(owner, *given, **named)

    return waiting
