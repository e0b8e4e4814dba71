"""The registry of mechanisms: one line each. The order is the one people see."""

from __future__ import annotations

from typing import cast

from ..errors import SpecError
from . import (
    anatomy,
    distribution_draw,
    l_diversity,
    randomized_response,
    small_domain,
    splu,
    target_distribution,
    uniform,
)
from .base import Mechanism

REGISTRY: dict[str, Mechanism] = {
    module.NAME: cast(Mechanism, module)
    for module in (
        uniform,
        small_domain,
        splu,
        target_distribution,
        randomized_response,
        anatomy,
        l_diversity,
        distribution_draw,
    )
}


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
