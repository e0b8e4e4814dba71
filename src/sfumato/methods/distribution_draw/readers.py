"""How far readers of values drawn from the overall distribution get: nowhere, but for who knows all other records."""

from __future__ import annotations

from fractions import Fraction

from ...model.private import Known
from ...model.public import Claim, ReaderBound
from ..shared.readers import Found, ValueChannel, channelled

NOTHING = ValueChannel(keep=(Fraction(1),), other=(Fraction(1),))  # an output is as likely for every true value
LAST = Found(
    posterior=Fraction(1), why="values are drawn from the true counts: one that is shown and that no other record has"
)


def readers(claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder: every posterior is the prior."""
    return channelled(claim, NOTHING, known, corruption=LAST)
