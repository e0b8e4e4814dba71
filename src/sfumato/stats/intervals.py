"""Normal quantiles."""

from __future__ import annotations

from ..errors import SpecError


def normal_quantile(level: float, comparisons: int = 1) -> float:
    """z such that a two-sided normal interval has the level; Bonferroni over `comparisons`."""
    if not 0 < level < 1:
        raise SpecError(f"level must lie between 0 and 1, got {level!r}", field="level")
    from statistics import NormalDist  # which loads fractions, decimals and random numbers

    return -NormalDist().inv_cdf((1 - level) / (2 * comparisons))
