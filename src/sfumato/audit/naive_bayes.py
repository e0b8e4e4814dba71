"""Naive Bayes learnt from a release alone: how quasi-identifiers go with the sensitive value.

Expectation maximisation over rows whose true value is hidden: each row's belief is prior times the columns' likelihood
times what the row shows; the tables are recounted from the beliefs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..model.public import Floats, Integers
from .view import ReleaseView

MOST_ROWS, MOST_VALUES, ROUNDS, SMOOTH = 60_000, 200, 12, 1.0

Constrain = Callable[[Integers, Floats], Floats]  # (rows, beliefs) -> beliefs that fit what the release says jointly


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """log P(published code of a column | value), for the columns that are used."""

    columns: tuple[int, ...]  # positions in `ReleaseView.quasi`
    tables: tuple[Floats, ...]  # (codes, values)
    prior: Floats

    def log_prior(self, codes: Integers) -> Floats:
        """(rows, values): log prior times likelihood for rows of codes of all quasi-identifiers; -1 is not known."""
        found = np.tile(np.log(np.maximum(self.prior, 1e-12)), (len(codes), 1))
        for j, table in zip(self.columns, self.tables, strict=True):
            known = codes[:, j] >= 0
            found[known] += table[codes[known, j]]
        return found


def published_cells(view: ReleaseView, rows: Integers) -> Integers:
    """(rows, quasi-identifiers): their published codes."""
    if not view.quasi:
        return np.zeros((len(rows), 0), dtype=np.int64)
    return np.stack([f.codes[rows] for f in view.quasi], axis=1)


def normalised(logs: Floats) -> Floats:
    """Rows of probabilities."""
    raised = np.exp(logs - logs.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def adder(codes: Integers, size: int) -> Callable[[Floats], Floats]:
    """A function that adds the rows of a table up by their codes: (rows, values) to (size, values)."""
    ones = np.ones(len(codes))
    table = sparse.csr_matrix((ones, (codes, np.arange(len(codes)))), shape=(size, len(codes)))
    return lambda rows: np.asarray(table @ rows)


def learn(
    view: ReleaseView, rng: np.random.Generator, constrain: Constrain | None = None, *, whole: bool = False
) -> Model:
    """The model that a few rounds of expectation maximisation find on at most 60,000 rows."""
    rows = np.arange(view.rows)
    if view.rows > MOST_ROWS and not whole:
        rows = np.sort(rng.choice(view.rows, MOST_ROWS, replace=False))
    used = tuple(j for j, f in enumerate(view.quasi) if f.size <= MOST_VALUES)
    codes = published_cells(view, rows)
    with np.errstate(divide="ignore"):
        evidence = np.log(np.maximum(view.likelihood(rows), 1e-12))
    adders = {j: adder(codes[:, j], view.quasi[j].size) for j in used}
    model = Model(columns=(), tables=(), prior=view.prior)
    for _ in range(ROUNDS):
        belief = normalised(model.log_prior(codes) + evidence)
        if constrain is not None:
            belief = constrain(rows, belief)
        total = belief.sum(axis=0)
        tables = []
        for j in used:
            size = view.quasi[j].size
            tables.append(np.log((adders[j](belief) + SMOOTH) / (total + SMOOTH * size)))
        model = Model(columns=used, tables=tuple(tables), prior=total / total.sum())
    return model
