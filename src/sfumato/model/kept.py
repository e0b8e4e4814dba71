"""A property that is worked out once and kept with its object."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self, TypeVar, overload

T = TypeVar("T")


class kept(cached_property[T]):  # noqa: N801 - it is written as a decorator
    """Python 3.11 holds a lock of the whole class meanwhile: objects wait for each other, and in a process that is
    forked off at that moment they wait for ever. Later versions hold none, as here."""

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        found = vars(instance)
        if self.attrname not in found:
            found[str(self.attrname)] = self.func(instance)
        return found[str(self.attrname)]
