"""Counts for drawing: no cell below 0, every cell's total kept, and no errors.

Expectation-maximisation inside each cell of untouched columns: a published state is shared among the true values in
proportion to what they are estimated to send there. docs/explanation/inference.md, section 8.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import UnsupportedQuery
from ..methods.anatomy.functionals import GroupFunctionals
from ..methods.shared.linear_functionals import Functionals, IndependentRows, KroneckerWeights, PartWeights
from ..methods.splu.functionals import DecoyFunctionals
from ..model.public import Floats

ROUNDS = 2_000
STOP = 1e-6  # of the largest cell, the largest change of a count in one round
CAPTION = "drawn from a smoothed estimate; not for counting"


def smoothed(functionals: Functionals) -> Floats:
    """(cells, values): counts that are 0 or more and add up to every cell's rows."""
    if isinstance(functionals, DecoyFunctionals):
        return smooth(functionals.published(), functionals.channel)
    if isinstance(functionals, GroupFunctionals):
        return _by_group(functionals)
    if isinstance(functionals, IndependentRows) and isinstance(functionals.weights, KroneckerWeights):
        weights = functionals.weights
        axes = tuple(None if B is None else _channel(B) for B in weights.axes)
        there = KroneckerWeights(axes=axes, shape=weights.shape)
        return _maximise(functionals.published(), weights.values, there.back, there.forward)
    if isinstance(functionals, IndependentRows) and isinstance(functionals.weights, PartWeights):
        found = np.zeros((len(functionals.published()), functionals.values))
        at = 0
        for held, B in functionals.weights.blocks:  # a record's sub-table is published
            found[:, held] += smooth(functionals.published()[:, at : at + len(held)], _channel(B))
            at += len(held)
        return found
    raise UnsupportedQuery("this method has no channel to draw a smoothed table from")


def _channel(B: Floats) -> Floats:
    """Pr(state k | value v) at [v, k], from B."""
    return np.asarray(np.linalg.inv(B), dtype=np.float64)


def smooth(published: Floats, channel: Floats) -> Floats:
    """(cells, values) counts of greatest likelihood; `channel[v, k]` = Pr(state k | value v), published (cells, K)."""
    return _maximise(published, len(channel), lambda n: n @ channel, lambda share: share @ channel.T)


def _maximise(
    published: Floats, values: int, sent: Callable[[Floats], Floats], back: Callable[[Floats], Floats]
) -> Floats:
    total = published.sum(axis=1, keepdims=True)
    counts = np.repeat(total / values, values, axis=1)
    for _ in range(ROUNDS):
        reached = sent(counts)
        share = np.divide(published, reached, out=np.zeros_like(published), where=reached > 0)
        new = counts * back(share)
        done = _settled(new, counts, total)
        counts = new
        if done:
            break
    return counts


def _by_group(functionals: GroupFunctionals) -> Floats:
    """Where values are published by group: Pr(group g | value v) = 1 / F_v for the groups that hold v."""
    cells, groups = functionals.cells, functionals.groups
    V, size, rows = groups.values, groups.true_counts, cells.moments[:, 0, 0]
    held = groups.members[:, cells.part]  # (largest size, entries)
    sent = np.append(np.where(size > 0, 1 / np.maximum(size, 1), 0.0), 0.0)[held]
    total = np.bincount(cells.cell, weights=rows, minlength=cells.cells).astype(np.float64)
    counts = np.repeat(total[:, None] / V, V, axis=1)
    places = (cells.cell * (V + 1) + held).ravel()
    for _ in range(ROUNDS):
        weight = np.column_stack([counts, np.zeros(cells.cells)])[cells.cell, held] * sent
        reached = weight.sum(axis=0)
        share = weight * np.divide(rows, reached, out=np.zeros_like(rows), where=reached > 0)
        flat = np.bincount(places, weights=share.ravel(), minlength=cells.cells * (V + 1)).astype(np.float64)
        new = flat.reshape(cells.cells, V + 1)[:, :V]
        done = _settled(new, counts, total)
        counts = new
        if done:
            break
    return counts


def _settled(new: Floats, old: Floats, total: Floats) -> bool:
    return bool(np.abs(new - old).max(initial=0.0) <= STOP * max(1.0, float(total.max(initial=0.0))))
