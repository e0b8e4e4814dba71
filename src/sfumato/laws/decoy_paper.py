"""The SPLU paper's own reconstruction and answers, for comparison: labelled biased, without an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..model.public import Asked, Estimated, Floats, Observed
from .decoy_channel import DecoyChannel
from .decoy_covariance import DecoyRows, observations

# --- two state --------------------------------------------------------------------------------------------------------
# The SPLU paper's own reconstruction, for comparison: one average rate a for all other values. Biased.
#
# A record without s publishes s at a rate that depends on its true value; these formulas use the average. When P leans
# to some values the answer is off and its interval does not know it (docs/explanation/splu.md, section 8).
# States are the bits (P, s_1 .. s_w), P the highest.


Variant = Literal["paper", "corrected"]

PAPER_STOP = 0.01
CORRECTED_STOP = 1e-6
LEAST_CELL = 1e-3  # records; smaller cells may decay for ever and do not delay the stop
ROUNDS = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Estimated records per state (last axis), and the rounds each question took."""

    states: Floats
    rounds: NDArray[np.int64]


def rate(total: Floats, rows: Floats, size: int, variant: Variant) -> Floats:
    """a: the chance that a record without s publishes s; the paper's f / N forgets that the record lacks s.

    Corrected: (size - 1) f / (size (N - f)), so that f / size + (N - f) a = f.
    """
    return total / rows if variant == "paper" else (size - 1) * total / (size * (rows - total))


def two_state(published: Floats, inside: Floats, rows_inside: Floats, rows: Floats, size: int) -> tuple[Floats, Floats]:
    """The closed form for one value and its variance: est = (y3 - a n_P) / (1/size - a)."""
    a = rate(published, rows, size, "corrected")
    value = (inside - a * rows_inside) / (1 / size - a)
    x3 = np.clip(value, 0.0, np.minimum(rows_inside, published))
    x1, x2 = published - x3, rows_inside - x3
    x0 = rows - rows_inside - x1
    c = x2 * (size - 1) * rows / (size * (rows - published) ** 2)
    keep, enter = (1 / size) * (1 - 1 / size), a * (1 - a)
    v3, v1 = x3 * keep + x2 * enter, x1 * keep + x0 * enter
    return value, ((1 - c) ** 2 * v3 + c**2 * v1) / (1 / size - a) ** 2


def iterate(
    observed: Floats, sizes: tuple[int, ...], variant: Variant, *, stop: float | None = None, rounds: int = ROUNDS
) -> Reconstruction:
    """Iterative Bayesian reconstruction, [SPLU, eq. 13], from x = y; the rates are rebuilt from x each round.

    `observed[..., i]` counts the published rows in state i; leading axes are questions, solved side by side. A state
    that starts at 0 stays 0. `paper` stops at 1 % relative change of every state, `corrected` at 1e-6 of those above
    0.001 records.
    """
    limit = stop if stop is not None else (PAPER_STOP if variant == "paper" else CORRECTED_STOP)
    least = LEAST_CELL if variant == "corrected" else 0.0
    flat = np.asarray(observed, np.float64).reshape(-1, np.shape(observed)[-1])
    states, taken = flat.copy(), np.full(len(flat), rounds)
    running = np.arange(len(flat))
    for done in range(1, rounds + 1):
        x, y = states[running], flat[running]
        M = _transitions(x, sizes, variant)
        reached = np.einsum("qi,qij->qj", x, M)
        share = np.divide(y, reached, out=np.zeros_like(y), where=reached > 0)
        new = x * np.einsum("qij,qj->qi", M, share)
        change = np.divide(np.abs(new - x), x, out=np.zeros_like(x), where=x > least).max(axis=1)
        states[running] = new
        taken[running[change <= limit]] = done
        running = running[change > limit]
        if not len(running):
            break
    shape = np.shape(observed)
    return Reconstruction(states=states.reshape(shape), rounds=taken.reshape(shape[:-1]))


def _transitions(states: Floats, sizes: tuple[int, ...], variant: Variant) -> Floats:
    """I (x) M_1 (x) ... (x) M_w for each question; M_j has rows without / with s_j, columns published other / s_j."""
    questions, count = states.shape
    rows = states.sum(axis=1)
    found = np.broadcast_to(np.eye(2), (questions, 2, 2))
    for j, size in enumerate(sizes):
        has = (np.arange(count) >> (len(sizes) - 1 - j)) & 1 == 1
        a = rate(states[:, has].sum(axis=1), rows, size, variant)
        keep = np.full(questions, 1 / size)
        step = np.stack([np.stack([1 - a, a], axis=1), np.stack([1 - keep, keep], axis=1)], axis=1)
        width = 2 * found.shape[1]
        found = np.einsum("qab,qcd->qacbd", found, step).reshape(questions, width, width)
    return found


# --- decoy comparison -------------------------------------------------------------------------------------------------
# The SPLU paper's own answers to the same questions, for comparison: labelled biased, without an interval.


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
