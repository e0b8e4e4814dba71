"""How far readers of randomised columns get: value channels of the sensitive columns, taken together."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ...model.private import Known
from ...model.public import Claim, ReaderBound
from ..shared.readers import Found, ValueChannel, channelled

SEARCHED = Found(
    posterior=None, why="the keep probabilities were chosen by looking at all records, and no bound on that is known"
)


def readers(
    channels: Mapping[str, tuple[float, int]], claim: Claim, known: Known | None, *, searched: bool
) -> tuple[ReaderBound, ...]:
    """The ladder; `channels` are keep probability and size of every sensitive column, keep 1 where it is untouched.

    A reader who knows the quasi-identifiers and the record learns nothing from how they were randomised.
    """
    if known is not None:  # in the order of the units
        names = [known.profile.domains[u].columns[0] for u in sorted(known.profile.sensitive)]
        channels = {name: channels[name] for name in names}
    keep = tuple(Fraction(repr(p)) if d > 1 else Fraction(1) for p, d in channels.values())
    other = tuple(
        (1 - p) / (d - 1) if d > 1 else Fraction(1) for p, (_, d) in zip(keep, channels.values(), strict=True)
    )
    channel = ValueChannel(keep=keep, other=other)
    return channelled(claim, channel, known, corruption=SEARCHED if searched and channel.gamma is not None else None)
