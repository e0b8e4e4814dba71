"""How far readers of a subset-response release get: one set channel over the whole domain."""

from __future__ import annotations

from ...model.private import Known
from ...model.public import Claim, ReaderBound
from ..shared.set_channel import SetChannel
from ..shared.set_readers import channelled_sets


def readers(channel: SetChannel, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder."""
    return channelled_sets(claim, channel, known)
