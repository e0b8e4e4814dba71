"""Values in so many groups that the channel is hardly known: what their answers must say.

A value in every group, f = N / size records, leaves a channel that tells nothing of who has which value. Estimates
divide by the distance from there, which is known as well as the published total: with the variance f (1 - 1 / size).
docs/explanation/splu.md, section 7.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...model.public import Domain
from ..shared.restricted import value_label
from .decoy_channel import DecoyChannel

LEAST_MARGIN = 3.0  # standard errors of a total between it and every group; below, dividing by the distance is rough
LONGEST = 80  # characters of a value


def margins(channel: DecoyChannel) -> NDArray[np.float64]:
    """How many standard errors of its own every published total lies below one record in every group."""
    f, e = channel.published, 1.0 / channel.size
    return (f.sum() * e - f) / np.sqrt(f * (1.0 - e))


def crowded_caveats(channels: Sequence[DecoyChannel], domains: Sequence[Domain]) -> tuple[str, ...]:
    """A caveat for every value that is nearly in every group; one beyond that is not identifiable, and refused."""
    found = []
    for channel, domain in zip(channels, domains, strict=True):
        margin = margins(channel)
        for at in np.flatnonzero(channel.identifiable & (margin < LEAST_MARGIN)):
            label = repr(value_label(domain.values[channel.active[at]]))[:LONGEST]
            found.append(
                f"{domain.columns[0]} {label} is in nearly every group: its total is {margin[at]:.1f} standard errors "
                f"below 1 in {channel.size} rows, where nothing tells who has which value; intervals may be too narrow"
            )
    return tuple(found)
