"""The registry: built-in methods, one line each in the order people see, then those of installed packages.

A method is loaded when it is first asked for. Another package adds one by an entry point of the group
`sfumato.methods` whose name is the method's and whose value is its object: `my-method = "my_package:METHOD"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import SpecError
from .contract import Method, Specification

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

AnyMethod = Method[Any, Any]
GROUP = "sfumato.methods"
BUILT_IN = {
    "subset-response": "subset_response",
    "uniform": "uniform",
    "small-domain": "small_domain",
    "splu": "splu",
    "target-distribution": "target_distribution",
    "randomized-response": "randomized_response",
    "anatomy": "anatomy",
    "l-diversity": "l_diversity",
    "distribution-draw": "distribution_draw",
}


class Registry(Mapping[str, AnyMethod]):
    """Name -> method, loaded on first use."""

    def __init__(self) -> None:
        self._loaded: dict[str, AnyMethod] = {}

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        """Entry points of other packages; a built-in name is not theirs to take."""
        from importlib.metadata import entry_points  # which reads e-mail and archives

        return {point.name: point for point in entry_points(group=GROUP) if point.name not in BUILT_IN}

    def __getitem__(self, name: str) -> AnyMethod:
        if name not in self._loaded:
            if name in BUILT_IN:
                self._loaded[name] = import_module(f".{BUILT_IN[name]}", __package__).METHOD
            elif name in self._plugins:
                self._loaded[name] = _load(self._plugins[name])
            else:
                raise KeyError(name)
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*BUILT_IN, *sorted(self._plugins)])

    def __len__(self) -> int:
        return len(BUILT_IN) + len(self._plugins)


def _load(point: EntryPoint) -> AnyMethod:
    """The object an entry point names, or one line about what is wrong with it."""
    try:
        found = point.load()
        fits = isinstance(found, Method) and found.name == found.spec.method == point.name
    except Exception as error:
        raise SpecError(
            f'the method "{point.name}" of another package cannot be loaded ({type(error).__name__})', field="method"
        ) from error
    if not fits:
        raise SpecError(f'"{point.value}" is not a method called "{point.name}"', field="method")
    return found


REGISTRY = Registry()


def method_named(name: str) -> AnyMethod:
    """The method of that name, or SpecError with the names there are."""
    try:
        return REGISTRY[name]
    except KeyError:
        raise SpecError(f'there is no method "{name}"; methods: {", ".join(REGISTRY)}', field="method") from None


def method_of(spec: object) -> AnyMethod:
    """The method whose specification this is."""
    if not isinstance(spec, Specification):
        raise SpecError(
            f"a {type(spec).__name__} is not the specification of a method; give one such as "
            'sf.SubsetResponse(rho1="1/5", rho2="1/2")',
            field="method",
        )
    return method_named(spec.method)
