"""How far readers of published sets get: closed forms for one set channel.

For a reader whose prior is a table's counts n_x, n in all, the set Z leaves for a value x of Z

    n_x gamma / (n + (gamma - 1) n(Z)),      n(Z) = sum of n_y over y in Z,

so that the worst set for x is the listed one that holds x and the fewest records (docs/explanation/set-channels.md, 2).
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from ...model.private import Known
from ...model.public import Claim, Codes, Floats, ReaderBound
from .readers import Found, whole_domain
from .set_channel import SetChannel

MOST_NUMBERS = 4_000_000  # of one dense block of cells times sets


def channelled_sets(
    claim: Claim, channel: SetChannel, known: Known | None, corruption: Found | None = None
) -> tuple[ReaderBound, ...]:
    """The ladder of one set channel over the whole domain; `channel` is over the profile's domain."""
    everything = np.arange(channel.size, dtype=np.int32)
    return whole_domain(
        claim,
        channel.gamma_run,
        known,
        lambda k, cells: set_seen(k, channel, everything, cells=cells),
        worst="the largest posterior of a covered value, over the sets that hold it",
        corruption=corruption,
    )


def set_seen(known: Known, channel: SetChannel, values: Codes, *, cells: bool, weight: Floats | None = None) -> float:
    """The largest posterior of a looked-at value after a published set, with the prior n_x / n of its cell.

    `values` are the domain codes that the channel is over, ascending; `weight` is the share of each value's records
    that the part looked at holds.
    """
    joint, gamma = known.joint, float(channel.gamma_run)
    code = joint.codes[:, 0]
    place = np.minimum(np.searchsorted(values, code), len(values) - 1)
    held = values[place] == code
    count: Floats = joint.true_counts.astype(np.float64)
    if weight is not None:
        count = count * weight[joint.value]
    inside = (count > 0) & held[joint.value]
    cell = joint.cell[inside] if cells else np.zeros(int(inside.sum()), dtype=np.int64)
    table = csr_array(
        (count[inside], (cell, place[joint.value[inside]])), shape=(int(cell.max(initial=0)) + 1, len(values))
    )
    looked = np.unique(place[held & known.looked])
    step = max(1, MOST_NUMBERS // len(channel.members))
    return max(
        (_largest(table[at : at + step].toarray(), channel, looked, gamma) for at in range(0, table.shape[0], step)),
        default=0.0,
    )


def _largest(counts: Floats, channel: SetChannel, looked: Codes, gamma: float) -> float:
    """The same for a block of cells, (cells, m)."""
    shown = counts @ channel.members.T  # n(Z)
    rows, found = counts.sum(axis=1), 0.0
    for x in looked.tolist():
        at = np.flatnonzero(counts[:, x])
        if len(at):
            fewest = shown[np.ix_(at, np.flatnonzero(channel.members[:, x]))].min(axis=1)
            found = max(found, float((counts[at, x] * gamma / (rows[at] + (gamma - 1) * fewest)).max()))
    return found
