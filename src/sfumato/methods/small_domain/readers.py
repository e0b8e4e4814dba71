"""How far readers of a small-domain release get: published sub-tables, a value channel in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from ...model.private import Known, Profile, Work
from ...model.public import Claim, Floats, ReaderBound
from ..shared.readers import Found, ValueChannel, amplified, in_parts, independent, linked, seen_as_it_is
from ..shared.set_readers import set_seen
from ..shared.set_tables import SetTables

HISTOGRAM = "the sub-tables are planned from the true counts: whoever knows all records but one knows the last"


def shares(work: Work, profile: Profile) -> Floats:
    """(sub-tables, values): share of a value's records that go to a sub-table."""
    deal, true_counts = work.deals[0], profile.true_counts()
    assert deal.counts is not None
    owner = np.repeat(np.arange(len(true_counts)), np.diff(deal.start))
    share = np.zeros((int(deal.labels.max()) + 1, len(true_counts)))
    share[deal.labels, owner] = deal.counts / np.maximum(true_counts[owner], 1)
    return share


def readers(
    channels: Sequence[tuple[Fraction, Fraction]], claim: Claim, known: Known | None
) -> tuple[ReaderBound, ...]:
    """The ladder where values are published; `channels` are (p, q) of every sub-table."""
    largest = partial(_largest_value, channels)
    return _in_sub_tables([(p + q) / q for p, q in channels], "value", claim, known, largest)


def set_readers(tables: SetTables, claim: Claim, known: Known | None) -> tuple[ReaderBound, ...]:
    """The ladder where sets are published."""
    return _in_sub_tables([c.gamma_run for c in tables.channels], "set", claim, known, partial(_largest_set, tables))


def _in_sub_tables(
    gammas: Sequence[Fraction], shown: str, claim: Claim, known: Known | None, largest: Callable[[Known, bool], float]
) -> tuple[ReaderBound, ...]:
    """`largest(known, cells)` is the posterior reached. One sub-table alone is a channel over the whole domain."""
    if known is None:
        mine = Found(posterior=claim.rho2, why="every sub-table's channel is limited for the counts that it holds")
    else:
        mine = Found(
            posterior=largest(known, False),
            why=f"prior: the true histogram; she sees the sub-table and the {shown} it shows",
        )
    linking = linked(
        known,
        "prior: the share among the rows with the same quasi-identifiers; she sees the sub-table too",
        lambda k: largest(k, True),
    )
    if len(gammas) > 1:
        return in_parts(claim, histogram=mine, linking=linking, corruption=HISTOGRAM)
    (gamma,) = gammas
    if known is None and claim.rho1 is not None:
        mine = Found(posterior=amplified(claim.rho1, gamma), why=mine.why)
    last = Found(posterior=Fraction(1), why=HISTOGRAM)
    return independent(claim, gamma, histogram=mine, linking=linking, corruption=last)


def _largest_set(tables: SetTables, known: Known, cells: bool) -> float:
    """max over sub-tables, their sets, and the values in them."""
    share = shares(known.work, known.profile)[:, known.joint.codes[:, 0]]
    return max(
        set_seen(known, channel, tables.values[i], cells=cells, weight=share[i])
        for i, channel in enumerate(tables.channels)
    )


def _largest_value(channels: Sequence[tuple[Fraction, Fraction]], known: Known, cells: bool) -> float:
    """max over sub-tables i and values x of f_x a_i(x) (p_i + q_i) / sum_y f_y a_i(y) P_i(x|y)."""
    share = shares(known.work, known.profile)[:, known.joint.codes[:, 0]]
    return max(
        seen_as_it_is(known, ValueChannel(keep=(p + q,), other=(q,)), cells=cells, weight=share[i])
        for i, (p, q) in enumerate(channels)
    )
