"""The registry of mechanisms: one line each. The order is the one people see."""

from __future__ import annotations

from typing import cast

from ..errors import SpecError
from . import anatomy, randomized_response, uniform
from .base import Mechanism

REGISTRY: dict[str, Mechanism] = {m.NAME: cast(Mechanism, m) for m in (uniform, anatomy, randomized_response)}


def mechanism(name: str) -> Mechanism:
    """The mechanism of that name, or SpecError with the names there are."""
    if name not in REGISTRY:
        raise SpecError(f'there is no method "{name}"; methods: {", ".join(REGISTRY)}', field="method")
    return REGISTRY[name]


def mechanism_of(spec: object) -> Mechanism:
    """The mechanism whose Spec this is."""
    for found in REGISTRY.values():
        if isinstance(spec, found.Spec):
            return found
    raise SpecError(f"{type(spec).__name__} is not the specification of a method")
