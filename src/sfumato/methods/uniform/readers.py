"""How far readers of a uniform release get: one value channel over the whole domain."""

from __future__ import annotations

from fractions import Fraction

from ...model.private import Known
from ...model.public import Claim, ReaderBound
from ..shared.readers import ValueChannel, channelled


def readers(p: Fraction, q: Fraction, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder; a value shows unchanged with chance p + q."""
    return channelled(claim, ValueChannel(keep=(p + q,), other=(q,)), known)
