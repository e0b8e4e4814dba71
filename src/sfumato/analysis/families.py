"""Families of models with their canonical links: mean and slope of the outcome at a linear predictor.

Every family has J equations (one, or the levels of a multinomial outcome but the first): eta is (..., J).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

from ..errors import SpecError
from ..model.public import Floats

FAMILIES = ("gaussian", "binomial", "poisson", "multinomial")


class Family(Protocol):
    """What Newton asks of a family."""

    @property
    def name(self) -> str:
        """As typed."""

    @property
    def bounded(self) -> bool:
        """Whether no coefficient can run away to infinity."""

    def mean(self, eta: Floats) -> Floats:
        """(..., J) expected outcome."""

    def slope(self, eta: Floats) -> Floats:
        """(..., J, J) its derivative; symmetric, because links are canonical."""

    def link(self, mean: float) -> float:
        """The predictor at an overall mean, where to start."""


@dataclass(frozen=True, slots=True)
class Gaussian:
    name: str = "gaussian"
    bounded: bool = True

    def mean(self, eta: Floats) -> Floats:
        return eta

    def slope(self, eta: Floats) -> Floats:
        return np.ones((*eta.shape, 1))

    def link(self, mean: float) -> float:
        return mean


@dataclass(frozen=True, slots=True)
class Binomial:
    name: str = "binomial"
    bounded: bool = False

    def mean(self, eta: Floats) -> Floats:
        return expit(eta)

    def slope(self, eta: Floats) -> Floats:
        p = expit(eta)
        return (p * (1 - p))[..., None]

    def link(self, mean: float) -> float:  # noqa: ARG002 - probabilities start at a predictor of 0
        return 0.0


@dataclass(frozen=True, slots=True)
class Poisson:
    name: str = "poisson"
    bounded: bool = False

    def mean(self, eta: Floats) -> Floats:
        return np.exp(eta)

    def slope(self, eta: Floats) -> Floats:
        return np.exp(eta)[..., None]

    def link(self, mean: float) -> float:
        return float(np.log(mean)) if mean > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Multinomial:
    name: str = "multinomial"
    bounded: bool = False

    def mean(self, eta: Floats) -> Floats:
        top = np.maximum(eta.max(axis=-1, keepdims=True), 0.0)
        e = np.exp(eta - top)
        return e / (np.exp(-top) + e.sum(axis=-1, keepdims=True))

    def slope(self, eta: Floats) -> Floats:
        p = self.mean(eta)
        return p[..., :, None] * np.eye(eta.shape[-1]) - p[..., :, None] * p[..., None, :]

    def link(self, mean: float) -> float:  # noqa: ARG002 - probabilities start at a predictor of 0
        return 0.0


def family_of(name: str) -> Family:
    """The family of this name."""
    made: dict[str, Family] = {f.name: f for f in (Gaussian(), Binomial(), Poisson(), Multinomial())}
    if name not in made:
        raise SpecError(f'family must be one of {", ".join(FAMILIES)}, got "{name}"', field="family")
    return made[name]
