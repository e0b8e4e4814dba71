"""Names of the bins that a column of numbers may be published as."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def bin_labels(edges: Sequence[float]) -> list[str]:
    """Names of the half-open bins from each edge to the next; the last has no upper end."""
    return [f"[{a:g}, {b:g})" for a, b in pairwise(edges)] + [f"[{edges[-1]:g}, inf)"]
