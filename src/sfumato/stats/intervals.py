"""Normal quantiles and the two interval rules that channel methods share (docs/explanation/uniform.md, section 6)."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ..errors import SpecError
from ..model.public import Floats


def normal_quantile(level: float, comparisons: int = 1) -> float:
    """z such that a two-sided normal interval has the level; Bonferroni over `comparisons`."""
    if not 0 < level < 1:
        raise SpecError(f"level must lie between 0 and 1, got {level!r}", field="level")
    return float(-ndtri((1 - level) / (2 * comparisons)))


def score_interval(value: Floats, v0: Floats, slope: Floats, z: float) -> tuple[Floats, Floats]:
    """The set {f : (value - f)^2 <= z^2 (v0 + slope f)}, as its two ends."""
    centre = value + z**2 * slope / 2
    half = np.sqrt(np.maximum(z**2 * (slope * value + v0) + (z**2 * slope / 2) ** 2, 0.0))
    return centre - half, centre + half
