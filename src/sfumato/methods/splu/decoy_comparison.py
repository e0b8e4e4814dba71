"""The SPLU paper's own answers to the same questions, for comparison: labelled biased, without an interval."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...model.public import Asked, Estimated, Floats, Observed
from .decoy_channel import DecoyChannel
from .published_tables import DecoyRows, observations
from .two_state import Variant, iterate, two_state

ESTIMATORS = ("paper", "corrected", "two-state")
CAVEAT = (
    "{name} estimator: one average rate for all other values, so the answer is biased when the condition goes with the "
    "sensitive value, and no interval knows it"
)
LIMITED = "{name} estimator: answers counts of one value of each sensitive column only"


def estimate(
    channels: tuple[DecoyChannel, ...], joint: Floats, observed: Observed, asked: Asked, name: str
) -> Estimated:
    """Counts of one value (of each column) by the published iteration; NaN for other questions.

    `joint` is the published table of the asked columns over the whole release, one axis per column.
    """
    shape = (observed.keys, asked.functionals)
    value, variance = np.full(shape, np.nan), np.full(shape, np.nan)
    parts = observations(channels, observed, asked)
    uncertain = np.array([part.uncertain for part in parts], dtype=bool).reshape(len(parts), asked.functionals)
    alone = (uncertain.sum(axis=0) == 1) & (asked.measure == 0)
    for part, mine in zip(parts, uncertain, strict=True):
        single = (np.diff(part.coefficients.indptr) == 1) & mine & alone & ~part.unseen
        at = np.flatnonzero(single)
        if len(at) and asked.binary:
            value[:, at], variance[:, at] = _answers(channels, joint, part, at, name)
    caveats = [CAVEAT.format(name=name)]
    if np.isnan(value).any():
        caveats.append(LIMITED.format(name=name))
    half = asked.z * np.sqrt(variance) if name == "two-state" else np.full(shape, np.inf)
    blank = np.isnan(value)
    return Estimated(
        value=value,
        variance=variance,
        low=np.where(blank, np.nan, value - half),
        high=np.where(blank, np.nan, value + half),
        covariance=np.full((observed.keys, len(asked.pairs)), np.nan),
        caveats=tuple(caveats),
    )


def _answers(
    channels: tuple[DecoyChannel, ...], joint: Floats, part: DecoyRows, at: NDArray[np.intp], name: str
) -> tuple[Floats, Floats]:
    """(K, questions) values and variances."""
    inside = part.moments[0].toarray().T.reshape(*joint.shape, -1)
    outside = joint[..., None] - inside
    codes = np.unravel_index(part.coefficients[at].indices, joint.shape)
    sizes = tuple(channel.size for channel in channels)
    # (questions, K, states): the bit of P is the highest
    states = np.stack(
        [np.stack([*_states(outside, code), *_states(inside, code)], axis=-1) for code in zip(*codes, strict=True)]
    )
    if name == "two-state" and len(channels) == 1:
        rows = states.sum(axis=-1)
        published, n = states[..., 1] + states[..., 3], states[..., 2] + states[..., 3]
        value, variance = two_state(published, states[..., 3], n, rows, sizes[0])
        return value.T, variance.T
    variant: Variant = "paper" if name == "paper" else "corrected"
    found = iterate(states, sizes, variant).states[..., -1]
    return found.T, np.full(found.T.shape, np.nan)


def _states(table: Floats, codes: tuple[int, ...]) -> list[Floats]:
    """Counts of every combination of "has / lacks the asked value" over the leading axes; lacking first."""
    if not codes:
        return [table]
    has = table[codes[0]]
    return [*_states(table.sum(axis=0) - has, codes[1:]), *_states(has, codes[1:])]
