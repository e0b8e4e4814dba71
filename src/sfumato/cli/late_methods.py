"""Methods of dataclasses that hardly any command calls are compiled when one is called, not when code is loaded.

A frozen dataclass brings six methods, each compiled by itself where Python is older than 3.13; a command loads some two
hundred such classes, makes objects of a few of them, and seldom prints, compares or hashes one. Only for a process of
our own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

LATE = frozenset({"__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"})
MAKES = "__init__"  # also late, but its signature is told by the compiled one only, for which nobody asks in ...
KNOWN = frozenset({"sfumato", "duckdb", "pydantic", "annotated_types"})  # ... these packages


def compile_late() -> None:
    """Nothing; from now on these methods of new dataclasses are compiled at the first call. Others are as ever."""
    compiled: Callable[..., Any] | None = vars(dataclasses).get("_create_fn")
    if compiled is None or compiled.__module__ != dataclasses.__name__:  # another Python, or done already
        return

    def create(name: str, *how: Any, **more: Any) -> Any:
        package = (more.get("globals") or {}).get("__name__", "").partition(".")[0]
        late = name in LATE or (name == MAKES and package in KNOWN)
        return _late(name, lambda: compiled(name, *how, **more)) if late else compiled(name, *how, **more)

    dataclasses._create_fn = create  # type: ignore[attr-defined]  # the one place where all methods are made


def _late(name: str, compiled: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that puts the compiled one in its place, or, where others hold it, calls it."""
    made: Callable[..., Any] | None = None

    def method(self: Any, /, *more: Any, **named: Any) -> Any:
        nonlocal made
        if made is None:
            made = compiled()
            made.__qualname__ = method.__qualname__
            for owner in type(self).__mro__:
                if vars(owner).get(name) is method:
                    setattr(owner, name, made)
        return made(self, *more, **named)

    method.__name__ = name
    return method
